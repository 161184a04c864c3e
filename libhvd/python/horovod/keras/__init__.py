# SPDX-License-Identifier: Apache-2.0
"""Not there yet: importing it says so."""

raise ImportError("horovod.keras is not part of this release, which has horovod.torch; programs in "
                  "other frameworks can call libhvd through hvd.h")
