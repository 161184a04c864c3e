// SPDX-License-Identifier: Apache-2.0
//
// The entry points that Slurm looks up, in C: SPANK_PLUGIN() in C++ emits no plugin_name.
#include <slurm/spank.h>

SPANK_PLUGIN(horovod, 1);
