// SPDX-License-Identifier: Apache-2.0
//
// Chooses the bootstrap. Compiled with and without PMIx, so that nobody else has to ask.
#include "pmix/pmix_bootstrap.h"

#include <unistd.h>

#include <utility>

#include "config.h"
#include "pmix/launch.h"
#include "pmix/rank_claim.h"
#ifdef HVD_HAVE_PMIX
#include "pmix/pmix_client.h"
#endif

namespace hvd {

std::string pmix_library_version() {
#ifdef HVD_HAVE_PMIX
  return PmixClient::library_version();
#else
  return "";
#endif
}

Expected<std::unique_ptr<Bootstrap>> make_bootstrap(const Getenv& get) {
  const Expected<Launch> launch = find_launch(get);
  if (!launch.ok()) return launch.status();
  if (!launch->pmix) return std::unique_ptr<Bootstrap>(new SoloBootstrap);
  Status status = check_process_mark(get, getpid());
  if (!status.ok()) return status;
#ifdef HVD_HAVE_PMIX
  auto claim = claim_rank(rank_identity(get));
  if (!claim.ok()) return claim.status();
  auto client = PmixClient::connect(launch->slurm_step, std::move(*claim));
  if (!client.ok()) return client.status();
  if (launch->slurm_step) {
    (*client)->object(compare_with_slurm(get, (*client)->rank(), (*client)->size()));
  }
  return std::unique_ptr<Bootstrap>(std::move(*client));
#else
  return error(Code::kSystem,
               "this job was started through PMIx, but this libhvd was built without "
               "it. Configure it --with-pmix");
#endif
}

}  // namespace hvd
