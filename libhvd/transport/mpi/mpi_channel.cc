// SPDX-License-Identifier: Apache-2.0
//
// See mpi_channel.h. C interface only: the C++ bindings of MPI would tie us to one compiler.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "libhvd/transport/mpi/mpi_channel.h"

#include <limits.h>
#include <mpi.h>

#include <vector>

namespace hvd {
namespace {

Status mpi_error(int code, const char* doing) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return error(Code::kSystem, "%s: %s", doing, text);
}

}  // namespace

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}

struct MpiChannel::State {
  MPI_Comm comm = MPI_COMM_NULL;
  int delete_key = MPI_KEYVAL_INVALID;
  bool owns_mpi = false;
  std::function<void()> program_ends_mpi;
  std::vector<MPI_Request> requests;  // MPI_REQUEST_NULL: done, or free
  std::vector<int> finished;          // for MPI_Testsome
  std::vector<Request> free;
  int outstanding = 0;

  Request slot() {
    if (free.empty()) {
      requests.push_back(MPI_REQUEST_NULL);
      return static_cast<Request>(requests.size() - 1);
    }
    const Request request = free.back();
    free.pop_back();
    return request;
  }
};

namespace {

// MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF: the last moment to stop.
int on_self_deleted(MPI_Comm, int, void* value, void*) {
  auto* ends = static_cast<std::function<void()>*>(value);
  if (*ends) (*ends)();
  return MPI_SUCCESS;
}

Status start_mpi(bool* owns) {
  *owns = MpiChannel::program_mpi().state == ProgramMpi::State::kNone;
  if (!*owns) return ok_status();
  int provided = MPI_THREAD_SINGLE;
  const int rc = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (rc != MPI_SUCCESS) return error(Code::kSystem, "MPI_Init_thread returned %d", rc);
  if (provided < MPI_THREAD_SERIALIZED) {
    return error(Code::kSystem,
                 "this MPI offers thread level %d only; one built with threads is needed",
                 provided);
  }
  return ok_status();
}

}  // namespace

ProgramMpi MpiChannel::program_mpi() {
  ProgramMpi mpi;
  int up = 0;
  int over = 0;
  MPI_Initialized(&up);
  MPI_Finalized(&over);
  if (over != 0) mpi.state = ProgramMpi::State::kFinalised;
  if (up == 0 || over != 0) return mpi;
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  mpi.state = level == MPI_THREAD_MULTIPLE     ? ProgramMpi::State::kMultiple
              : level == MPI_THREAD_SERIALIZED ? ProgramMpi::State::kSerialized
              : level == MPI_THREAD_FUNNELED   ? ProgramMpi::State::kFunneled
                                               : ProgramMpi::State::kSingle;
  MPI_Comm_rank(MPI_COMM_WORLD, &mpi.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &mpi.size);
  return mpi;
}

Expected<std::unique_ptr<MpiChannel>> MpiChannel::open(int rank, int size,
                                                       std::function<void()> program_ends_mpi) {
  auto state = std::make_unique<State>();
  if (Status s = start_mpi(&state->owns_mpi); !s.ok()) return s;
  int mpi_rank = -1;
  int mpi_size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
  if (mpi_rank != rank || mpi_size != size) {
    return error(Code::kMismatch,
                 "PMIx says that this is rank %d of %d, but MPI says rank %d of %d. Is this MPI "
                 "built with the launcher's PMIx? srun --mpi=list and ompi_info tell",
                 rank, size, mpi_rank, mpi_size);
  }
  if (int rc = MPI_Comm_dup(MPI_COMM_WORLD, &state->comm); rc != MPI_SUCCESS) {
    return mpi_error(rc, "duplicating MPI_COMM_WORLD");
  }
  MPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN);
  state->program_ends_mpi = std::move(program_ends_mpi);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_self_deleted, &state->delete_key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, state->delete_key, &state->program_ends_mpi);
  return std::unique_ptr<MpiChannel>(new MpiChannel(std::move(state)));
}

MpiChannel::MpiChannel(std::unique_ptr<State> state) : state_(std::move(state)) {}

MpiChannel::~MpiChannel() {
  // Only after a failed start: the attribute must not outlive what it points to.
  state_->program_ends_mpi = nullptr;
  int over = 0;
  MPI_Finalized(&over);
  if (over == 0) MPI_Comm_delete_attr(MPI_COMM_SELF, state_->delete_key);
}

Expected<Channel::Request> MpiChannel::send(int rank, int tag, const void* data, size_t bytes) {
  const Request request = state_->slot();
  const int rc = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, rank, tag, state_->comm,
                           &state_->requests[static_cast<size_t>(request)]);
  if (rc != MPI_SUCCESS) return mpi_error(rc, "sending between nodes");
  ++state_->outstanding;
  return request;
}

Expected<Channel::Request> MpiChannel::receive(int rank, int tag, void* data, size_t bytes) {
  const Request request = state_->slot();
  const int rc = MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, rank, tag, state_->comm,
                           &state_->requests[static_cast<size_t>(request)]);
  if (rc != MPI_SUCCESS) return mpi_error(rc, "receiving between nodes");
  ++state_->outstanding;
  return request;
}

Status MpiChannel::progress() {
  if (state_->outstanding == 0) {
    // MPI_Testsome without a request returns at once and moves nothing.
    int there = 0;
    const int rc = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, state_->comm, &there, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS ? ok_status() : mpi_error(rc, "moving messages between nodes");
  }
  int count = 0;
  state_->finished.resize(state_->requests.size());
  const int rc = MPI_Testsome(static_cast<int>(state_->requests.size()), state_->requests.data(),
                              &count, state_->finished.data(), MPI_STATUSES_IGNORE);
  if (rc != MPI_SUCCESS) return mpi_error(rc, "a message between nodes");
  return ok_status();
}

bool MpiChannel::done(Request request) {
  if (state_->requests[static_cast<size_t>(request)] != MPI_REQUEST_NULL) return false;
  state_->free.push_back(request);
  --state_->outstanding;
  return true;
}

int MpiChannel::outstanding() const { return state_->outstanding; }

bool MpiChannel::owns_mpi() const { return state_->owns_mpi; }

void MpiChannel::finalize() {
  if (!state_->owns_mpi) return;
  state_->program_ends_mpi = nullptr;
  int over = 0;
  MPI_Finalized(&over);
  if (over == 0) MPI_Finalize();
}

}  // namespace hvd
