/* SPDX-License-Identifier: Apache-2.0
 *
 * Slurm's way in: the plugin's symbols, the option, and which callback works in which context.
 * A callback that is not defined here is not called; one that has nothing to do in a context
 * returns 0 at once. The name "horovod" is part of the variable in which jobs inherit the option
 * and never changes.
 *
 * On a node the option callback keeps quiet (slurmstepd calls it as root, up to twice): the task
 * asks Slurm for the option when it needs it.
 */
#include "spank/entry.h"

SPANK_PLUGIN(horovod, 1)

static int option_callback(int value, const char *argument, int remote) {
  (void)value;
  return remote ? 0 : hvd_local_option(argument);
}

static struct spank_option horovod_option = {
    .name = (char *)"horovod",
    .arginfo = (char *)"[key=value,...]",
    .usage = (char *)"[horovod] run the tasks as the ranks of one Horovod job "
                     "(--horovod=help lists the keys)",
    .has_arg = 2, /* optional */
    .val = 0,
    .cb = option_callback,
};

int slurm_spank_init(spank_t spank, int argc, char *argv[]) {
  switch (spank_context()) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
      /* Not by a table: sbatch and salloc do not see tables. */
      spank_option_register(spank, &horovod_option);
      hvd_local_init(argc, argv);
      break;
    case S_CTX_REMOTE:
      spank_option_register(spank, &horovod_option);
      break;
    default:
      break;
  }
  return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char *argv[]) {
  const spank_context_t context = spank_context();
  (void)spank;
  (void)argc;
  (void)argv;
  if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR) hvd_local_options_done();
  return 0;
}

int slurm_spank_local_user_init(spank_t spank, int argc, char *argv[]) {
  (void)argc;
  (void)argv;
  hvd_local_before_launch(spank);
  return 0;
}

int slurm_spank_task_init_privileged(spank_t spank, int argc, char *argv[]) {
  (void)argc;
  (void)argv;
  if (spank_context() == S_CTX_REMOTE) hvd_node_privileged(spank, &horovod_option);
  return 0;
}

int slurm_spank_task_init(spank_t spank, int argc, char *argv[]) {
  if (spank_context() == S_CTX_REMOTE) hvd_node_task(spank, &horovod_option, argc, argv);
  return 0;
}
