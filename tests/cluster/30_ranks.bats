#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# `srun --horovod` from the option to the last byte: the library finds the places that the plugin gave, on every
# layout, and its sums are right.
#
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

setup() {
  worker=$(build_dir)/tests/ranks/worker
}

teardown() {
  rm -rf "$HOME_OF_ALICE"/ranks.*
  assert_cluster_as_it_was
}

# in_step SRUN-ARGUMENT...: a step whose tasks compare what the environment says with what the library says.
in_step() {
  # shellcheck disable=SC2016 # for the task's shell
  run -0 on_cluster srun --horovod "$@" /bin/bash -c 'PATH=/usr/bin:/bin
    h="$HOROVOD_RANK/$HOROVOD_SIZE $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE $HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE"
    out=$("$0" place sum) || { echo "$out"; exit 1; }
    grep -qxF "$h" <<<"$out" && echo "same: $h" || echo "environment $h, library $out"
    grep "sums are right" <<<"$out"' "$worker"
}

@test "1 node, 2 ranks: places and sums are right" {
  in_step -N1 -n2
  expect_lines 1 '^same: 0/2 0/2 0/1$'
  expect_lines 1 '^same: 1/2 1/2 0/1$'
  expect_lines 2 'sums are right$'
}

@test "4 nodes, 8 ranks: places and sums are right" {
  in_step -N4 -n8 --ntasks-per-node=2
  expect_lines 8 '^same: [0-7]/8 [01]/2 [0-3]/4$'
  expect_lines 8 'sums are right$'
}

@test "4 nodes, 8 ranks as Slurm puts them (5, 1, 1, 1): places and sums are right" {
  in_step -N4 -n8
  expect_lines 5 '^same: [0-4]/8 [0-4]/5 0/[14]$'
  expect_lines 3 '^same: [5-7]/8 0/1 [1-3]/4$'
  expect_lines 8 'sums are right$'
}

@test "4 nodes, 8 ranks, cyclic: places and sums are right" {
  in_step -N4 -n8 --ntasks-per-node=2 --distribution=cyclic
  expect_lines 1 '^same: 5/8 1/2 1/4$'
  expect_lines 8 'sums are right$'
}

@test "3 nodes, 3 ranks, --export=NONE: places and sums are right" {
  in_step -N3 -n3 --export=NONE
  expect_lines 3 '^same: [0-2]/3 0/1 [0-2]/3$'
  expect_lines 3 'sums are right$'
}

@test "sbatch with #SBATCH --horovod and a plain srun: places and sums are right" {
  local script=$HOME_OF_ALICE/ranks.sbatch
  printf '%s\n' '#!/bin/bash' '#SBATCH --horovod' '#SBATCH -N2 --ntasks-per-node=2' \
    "#SBATCH -o $HOME_OF_ALICE/ranks.out" "srun $worker place sum" >"$script"
  chmod 755 "$script"
  run -0 batch_job "$script"
  run -0 cat "$HOME_OF_ALICE/ranks.out"
  expect_lines 1 '^3/4 1/2 1/2$'
  expect_lines 4 'sums are right$'
}

@test "mpirun in an allocation with --horovod: the library takes its ranks from mpirun" {
  run -0 on_cluster salloc --horovod -N2 --ntasks-per-node=2 mpirun -n 4 "$worker" place sum
  expect_lines 1 '^3/4 1/2 1/2$'
  expect_lines 4 'sums are right$'
}

@test "the program's own MPI after hvd_init on one node, and 20 times shutdown and init" {
  run -0 on_cluster srun --horovod -N1 -n2 "$worker" mpi cycles mpi-end
  expect_lines 2 '^rank [01]: MPI works$'
  expect_lines 2 '^rank [01]: 20 cycles$'
}

@test "a rank that returns from main while others go on: exit 0, with and without MPI" {
  run -0 on_cluster srun --horovod -N1 -n2 "$worker" first-leaves
  expect_lines 1 '^rank 0: wait: 5 rank 1 on node[0-9] has shut down$'
  run -0 on_cluster srun --horovod -N2 -n4 --ntasks-per-node=2 "$worker" sum first-leaves
  expect_lines 3 '^rank [023]: wait: 5 rank 1 on node[0-9] has shut down$'
}

@test "two programs after each other in one task: fine on one node, a sentence at once on several" {
  # shellcheck disable=SC2016 # for the task's shell
  run -0 on_cluster srun --horovod -N1 -n2 /bin/bash -c '"$0" sum && "$0" sum' "$worker"
  expect_lines 4 '^rank [01]: sums are right$'
  # shellcheck disable=SC2016 # for the task's shell
  run on_cluster srun --horovod=start-timeout=60 --kill-on-bad-exit=0 -N2 -n4 --ntasks-per-node=2 \
    /bin/bash -c '"$0" sum && exec timeout 20 "$0" sum' "$worker"
  expect_lines 4 '^rank [0-3]: sums are right$'
  expect_lines 4 'rank 0 on node0, rank 1 on node0, rank 2 on node1, rank 3 on node1: another program of this step has run there before, and MPI, by which tensors travel between nodes, starts once in a task\. Start each program with an srun of its own$'
  [[ $status != 0 ]]
}

@test "a bad value in the environment is a sentence from hvd_init" {
  run on_cluster env HOROVOD_CYCLE_TIME=soon srun --horovod -N1 -n1 "$worker" place
  [[ $status != 0 ]]
  expect_lines 1 'HOROVOD_CYCLE_TIME is "soon"'
}
