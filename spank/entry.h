/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugin.c calls: one function for each moment at which the plugin works. plugin.c is C
 * because SPANK_PLUGIN() declares nothing visible in C++; everything behind these functions is
 * C++, and no exception leaves them.
 *
 * local_*: in srun, sbatch and salloc, as the user. node_*: in the process that becomes a task,
 * as the user, but for one function that says so. Nothing else of the plugin runs anywhere, above
 * all not in slurmd and slurmstepd: an error or a crash there drains nodes or kills slurmd.
 */
#ifndef HVD_SPANK_ENTRY_H
#define HVD_SPANK_ENTRY_H

#ifdef __cplusplus
extern "C" {
#define HVD_NOEXCEPT noexcept
#else
#define HVD_NOEXCEPT
#endif

#include <slurm/spank.h>

/* srun, sbatch or salloc has loaded the plugin; its options are not read yet. `arguments` are
 * those of the plugstack.conf line and outlive the process's use of the plugin. */
void hvd_local_init(int argc, char **arguments) HVD_NOEXCEPT;

/* --horovod with `value`: typed, from #SBATCH, or inherited from the environment. NULL, "" and
 * "(null)" are all "no value". Not 0: the value is bad and srun is to stop. */
int hvd_local_option(const char *value) HVD_NOEXCEPT;

/* All options are read. Ends the process if plugstack.conf's own arguments are bad. */
void hvd_local_options_done(void) HVD_NOEXCEPT;

/* srun only: the MPI type is final and the step exists. Ends srun if the type cannot be right. */
void hvd_local_before_launch(spank_t spank) HVD_NOEXCEPT;

/* In the same child, still as root: remembers whether the user has bound CPUs, which Slurm's own
 * binding is about to hide. Reads one variable if the option was given; does nothing else. */
void hvd_node_privileged(spank_t spank, struct spank_option *option) HVD_NOEXCEPT;

/* In the child of slurmstepd just before it executes the task's program. Ends the task if the
 * option was given and cannot be honoured. */
void hvd_node_task(spank_t spank, struct spank_option *option, int argc,
                   char **arguments) HVD_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
