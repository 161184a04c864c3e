#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The library under Open MPI's mpirun, and alone: who the ranks are, sums, ends. Nodes are simulated by HOROVOD_HOSTNAME.
#
# shellcheck disable=SC2154 # variables of bats

load helpers

setup() {
  worker=$(build_dir)/tests/ranks/worker
  on_nodes=$BATS_TEST_TMPDIR/on-nodes
  # on-nodes PER_NODE PROGRAM...: ranks 0 .. PER_NODE-1 on the first node, and so on.
  # shellcheck disable=SC2016 # for the rank's shell
  printf '%s\n' '#!/bin/bash' 'export HOROVOD_HOSTNAME=sim$((OMPI_COMM_WORLD_RANK / $1))' 'shift' 'exec "$@"' \
    >"$on_nodes"
  chmod +x "$on_nodes"
}

@test "CONTRACT 3.12: 1 node, 3 ranks under mpirun: places and sums are right" {
  run -0 ranks 3 "$worker" place sum
  expect_lines 1 '^0/3 0/3 0/1$'
  expect_lines 1 '^1/3 1/3 0/1$'
  expect_lines 1 '^2/3 2/3 0/1$'
  expect_lines 3 '^rank [0-2]: sums are right$'
}

@test "2 simulated nodes, 4 ranks under mpirun: places and sums are right" {
  run -0 ranks 4 "$on_nodes" 2 "$worker" place sum
  expect_lines 1 '^0/4 0/2 0/2$'
  expect_lines 1 '^3/4 1/2 1/2$'
  expect_lines 4 '^rank [0-3]: sums are right$'
}

@test "uneven simulated nodes, 5 ranks under mpirun: places and sums are right" {
  run -0 ranks 5 "$on_nodes" 2 "$worker" place sum
  expect_lines 1 '^4/5 0/1 2/3$'
  expect_lines 1 '^3/5 1/2 1/2$'
  expect_lines 5 '^rank [0-4]: sums are right$'
}

@test "CONTRACT 3.12: a program without a launcher is a job of one rank, and says so once" {
  run -0 "$worker" place sum
  expect_lines 1 '^0/1 0/1 0/1$'
  expect_lines 1 '^rank 0: sums are right$'
  expect_lines 1 '^horovod: no launcher: this is a job of one rank'
}

@test "CONTRACT 3.7: the program's own MPI after hvd_init on one node, and 20 times shutdown and init" {
  run -0 ranks_twice_connected 2 "$worker" mpi cycles mpi-end
  expect_lines 2 '^rank [01]: MPI works$'
  expect_lines 2 '^rank [01]: 20 cycles$'
}

@test "CONTRACT 3.7: 20 times shutdown and init on two nodes" {
  run -0 ranks 4 "$on_nodes" 2 "$worker" cycles
  expect_lines 4 '^rank [0-3]: 20 cycles$'
}

@test "a rank that returns from main while others go on: they are told, and all end with 0" {
  run -0 ranks 2 "$worker" first-leaves
  expect_lines 1 '^rank 0: wait: 5 rank 1 on [^ ]+ has shut down$'
  run -0 ranks 4 "$on_nodes" 2 "$worker" sum first-leaves
  expect_lines 3 '^rank [023]: wait: 5 rank 1 on sim0 has shut down$'
}

@test "a name in flight is refused, and a wait with a timeout says what is not done" {
  run -0 ranks 2 "$worker" name-taken late-rank
  expect_lines 1 '^rank 0: 1 allreduce "twice" is in flight already; wait for it, or give each operation a name of its own$'
  expect_lines 1 '^rank 0: 6 allreduce "late" is not done after 50 ms$'
}

@test "a bad value in the environment is a sentence from hvd_init" {
  HOROVOD_FUSION_THRESHOLD=12X run -2 "$worker" place
  expect_lines 1 '^worker: HOROVOD_FUSION_THRESHOLD is "12X", not a size'
}

@test "an unknown HOROVOD_ variable is one warning with the nearest name" {
  HOROVOD_FUSION_TRESHOLD=1 run -0 ranks 2 "$worker" place
  expect_lines 1 'HOROVOD_FUSION_TRESHOLD.*HOROVOD_FUSION_THRESHOLD'
}

@test "HOROVOD_MPI=off is refused where nodes need it" {
  HOROVOD_MPI=off run ranks 2 "$on_nodes" 1 "$worker" place
  [[ $status != 0 ]]
  expect_lines 2 '^worker: the job spans 2 nodes and HOROVOD_MPI is "off"; tensors travel between nodes by MPI: leave it at "auto"$'
}
