// SPDX-License-Identifier: Apache-2.0
//
// The C ABI of libhvd: the only extern "C", and the only global, one pointer to the runtime.
#include "config.h"
#include "libhvd/hvd.h"

extern "C" HVD_API const char *hvd_version(void) { return PACKAGE_VERSION; }
