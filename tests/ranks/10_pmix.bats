#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The bootstrap through the PMIx of Open MPI's mpirun, and without any launcher.

load helpers

setup() {
  probe=$(build_dir)/tests/ranks/pmix_probe
}

@test "3 ranks learn who they are and get each other's records, of any size" {
  for bytes in 1 1000 100000; do
    run -0 ranks 3 "$probe" exchange $bytes
    for rank in 0 1 2; do
      expect_lines 1 "^rank $rank of 3 by a launcher: records right$"
    done
  done
}

@test "what Slurm's variables say does not matter under mpirun" {
  run -0 ranks 2 -x SLURM_JOB_ID=7 -x SLURM_STEP_ID=0 -x SLURM_STEP_NUM_TASKS=4 -x SLURM_NTASKS=4 -x SLURM_PROCID=1 \
    "$probe" exchange
  expect_lines 1 "^rank 0 of 2 by a launcher: records right$"
  expect_lines 1 "^rank 1 of 2 by a launcher: records right$"
}

@test "a rank that does not come is named by rank and host at the deadline" {
  run -1 ranks 3 "$probe" late 1 500
  # mpirun ends the job with the first rank that gives up.
  expect_lines '[12]' "^error: rank 1 on $(hostname) did not come to hvd_init in time\. Look at what they do; if they are only slow, raise HOROVOD_START_TIMEOUT$"
}

@test "the program may use MPI before and after" {
  for when in mpi-after mpi-before; do
    run -0 ranks_twice_connected 3 "$probe" $when
    for rank in 0 1 2; do
      expect_lines 1 "^MPI rank $rank, PMIx rank $rank, sum 3$"
    done
  done
}

@test "a child of a rank that has initialised is told so, and does not hang" {
  run -0 ranks 2 "$probe" twice
  expect_lines 2 "^error: process [0-9]+ of this rank has initialised horovod already, and a rank is one process\."
  expect_lines 2 "^child: exit status 1$"
}

@test "without a launcher it is a job of one rank" {
  run -0 "$probe" exchange
  [ "$output" = "rank 0 of 1 alone: records right" ]
}

@test "PMIx variables without a server are an error that says what to do" {
  run -1 env PMIX_NAMESPACE=1234 PMIX_RANK=0 "$probe" exchange
  expect_lines 1 "^error: connecting to the launcher: PMIx says .*\. If PMIX_NAMESPACE and PMIX_RANK are left over from another launcher, unset them$"
}

@test "tasks of a Slurm step without PMIx are an error, not many jobs" {
  run -1 env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 "$probe" exchange
  [ "$output" = 'error: this Slurm step has 2 tasks but no PMIx, so they cannot find each other. Start it with "srun --horovod" or "srun --mpi=pmix"' ]
}
