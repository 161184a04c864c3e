#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Ranks that disagree, rounds that a model checks, and sums that have the same bits in any order, as steps of a real
# Slurm on real nodes.
#
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

setup() {
  rounds=$(build_dir)/tests/ranks/rounds
  seed=${HVD_SEED:-$((RANDOM * 32768 + RANDOM))}
}

teardown() {
  assert_cluster_as_it_was
}

@test "ranks that differ are told who and how, and descriptions are retired: 4 nodes, 4 ranks" {
  run -0 on_cluster srun --horovod -N4 -n4 --ntasks-per-node=1 "$rounds" mismatch retire
  expect_lines 4 '^rank [0-3]: all were told$'
  expect_lines 4 '^rank [0-3]: retired and in use again$'
}

@test "500 rounds of 20 names by 8 ranks on 4 nodes, some changed, end as the model says" {
  ON_CLUSTER_SECONDS=240 run -0 on_cluster srun --horovod -N4 -n8 --ntasks-per-node=2 "$rounds" rounds 500 "$seed"
  expect_lines 8 "^rank [0-7]: 500 rounds of seed $seed, [1-9][0-9]* disagreements, all as they must be$"
}

@test "100 rounds with fewer tickets than names end as the model says" {
  run -0 on_cluster srun --horovod=cache-capacity=3 -N4 -n8 --ntasks-per-node=2 "$rounds" rounds 100 "$seed"
  expect_lines 8 "^rank [0-7]: 100 rounds of seed $seed, [1-9][0-9]* disagreements, all as they must be$"
}

# bats test_tags=long
@test "20 submission orders and 3 fusion thresholds give the same bits on 1 to 4 nodes, cyclic and uneven too" {
  local place first threshold n
  for place in "-N1 -n3" "-N2 -n4 --distribution=cyclic --ntasks-per-node=2" "-N3 -n5" "-N4 -n4 --ntasks-per-node=1"; do
    first=
    n=$(sed -E 's/.*-n([0-9]+).*/\1/' <<<"$place")
    for threshold in 0 64K 128M; do
      # shellcheck disable=SC2086 # words
      run -0 on_cluster env HOROVOD_BLOCK_SIZE=64K srun --horovod=fusion-threshold=$threshold $place "$rounds" bits
      : "${first:=${lines[0]}}"
      expect_lines "$n" "^bits [0-9a-f]{16}$"
      expect_lines "$n" "^$first$"
    done
  done
}
