#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The bootstrap through Slurm's PMIx, with ranks on several nodes. Without the plugin: --mpi=pmix is what it selects.
#
# shellcheck disable=SC2154 # variables of bats and of helpers

load helpers
load ../ranks/helpers

probe=$HOME_OF_ALICE/pmix_probe

setup_file() {
  install -m 755 "$(build_dir)/tests/ranks/pmix_probe" "$probe"
}

teardown_file() {
  rm -f "$probe"
}

teardown() {
  assert_cluster_as_it_was
}

@test "8 ranks on 4 nodes learn who they are and get each other's records, of any size" {
  for bytes in 1 1000 100000; do
    run -0 on_cluster srun --mpi=pmix -N4 -n8 --ntasks-per-node=2 "$probe" exchange $bytes
    for rank in {0..7}; do
      expect_lines 1 "^rank $rank of 8 in its step: records right$"
    done
  done
}

@test "so they do on uneven nodes, cyclic ones, without the user's environment, and in a heterogeneous step" {
  run -0 on_cluster srun --mpi=pmix -N4 -n8 "$probe" exchange
  expect_lines 8 "of 8 in its step: records right$"
  run -0 on_cluster srun --mpi=pmix -N2 -n5 --distribution=cyclic "$probe" exchange
  expect_lines 5 "of 5 in its step: records right$"
  run -0 on_cluster srun --mpi=pmix -N2 -n4 --export=NONE "$probe" exchange
  expect_lines 4 "of 4 in its step: records right$"
  run -0 heterogeneous srun --mpi=pmix -N1 -n1 "$probe" exchange : -N1 -n2 "$probe" exchange
  expect_lines 3 "of 3 in its step: records right$"
}

@test "a rank that does not come is named with its node, by everybody on all nodes, at the deadline" {
  local late node
  while read -r -u 4 late node; do
    run -1 on_cluster srun --mpi=pmix --kill-on-bad-exit=0 -N3 -n6 --ntasks-per-node=2 "$probe" late "$late" 1000
    expect_lines 5 "^error: rank $late on $node did not come to hvd_init in time\. "
  done 4<<<$'0 node0\n3 node1\n4 node2'
}

# Slurm's own race (see pmix_client.cc): 8 of 100 such starts hung before ranks waited for each other's nodes.
@test "20 starts in a row, the node with most ranks the last to be ready" {
  for _ in {1..20}; do
    run -0 --separate-stderr on_cluster srun --mpi=pmix -N4 -n8 "$probe" exchange
    expect_lines 8 "of 8 in its step: records right$"
    [ "$stderr" = "" ]
  done
}

@test "tasks of a step without PMIx are an error, not many jobs; one task is a job of its own" {
  run -1 on_cluster srun -N1 -n2 "$probe" exchange
  expect_lines 2 '^error: this Slurm step has 2 tasks but no PMIx, so they cannot find each other\. Start it with "srun --horovod" or "srun --mpi=pmix"$'
  run -0 on_cluster srun -N1 -n1 "$probe" exchange
  expect_lines 1 "^rank 0 of 1 alone: records right$"
}

@test "a step inside a step does not take the outer one's PMIx for its own" {
  run -1 on_cluster srun --mpi=pmix -N1 -n1 srun --mpi=none --overlap -n2 -O "$probe" exchange
  expect_lines 2 '^error: this Slurm step has 2 tasks but no PMIx, so they cannot find each other; what it has was inherited from step [0-9]+\.[0-9]+\. '
  run -0 on_cluster srun --mpi=pmix -N1 -n1 srun --mpi=none --overlap -n1 "$probe" exchange
  expect_lines 1 "^rank 0 of 1 alone: records right$"
}

@test "mpirun inside an allocation gives its own ranks, on all nodes" {
  run -0 on_cluster salloc -Q -N2 -n4 --ntasks-per-node=2 mpirun "$probe" exchange
  expect_lines 4 "of 4 by a launcher: records right$"
}

@test "CONTRACT 3.12: a batch script alone is a job of one rank" {
  run -0 batch_job -N1 -n4 -o "$HOME_OF_ALICE/out" --wrap "$probe exchange"
  run -0 on_cluster cat "$HOME_OF_ALICE/out"
  rm "$HOME_OF_ALICE/out"
  [ "$output" = "rank 0 of 1 alone: records right" ]
}

@test "CONTRACT 3.11: numbers of Slurm that are not PMIx's are fatal, and both are told" {
  run -1 on_cluster srun --mpi=pmix -N1 -n2 env SLURM_NTASKS=3 "$probe" exchange
  expect_lines '[12]' '^error: PMIx says that this is rank [01] of 2, but Slurm says rank [01] of 3 \(SLURM_PROCID, SLURM_NTASKS\)\. '
}

@test "the program may use MPI before and after, on several nodes" {
  for when in mpi-after mpi-before; do
    run -0 on_cluster srun --mpi=pmix -N2 -n4 --ntasks-per-node=2 "$probe" $when
    expect_lines 4 "^MPI rank [0-3], PMIx rank [0-3], sum 4$"
  done
}

@test "a rank with MPI up may leave without ending the step" {
  run -0 on_cluster srun --mpi=pmix -N2 -n4 --ntasks-per-node=2 "$probe" leave
  expect_lines 3 "^rank [1-3] lives$"
}
