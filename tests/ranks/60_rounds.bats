#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Ranks that disagree, rounds that a model checks, and sums that have the same bits in any order, with processes under
# mpirun on simulated nodes (HOROVOD_HOSTNAME).
#
# shellcheck disable=SC2154 # variables of bats

load helpers

setup() {
  rounds=$(build_dir)/tests/ranks/rounds
  seed=${HVD_SEED:-$((RANDOM * 32768 + RANDOM))}
  make_on_nodes
}

@test "CONTRACT 3.3: ranks that differ in anything are told who and how, and names work again: 1 and 2 nodes" {
  run -0 ranks 3 "$rounds" mismatch
  expect_lines 3 '^rank [0-2]: all were told$'
  expect_lines 1 '^allreduce "grad": ranks disagree about the operation: allreduce on rank 0, 1; broadcast on rank 2$'
  expect_lines 1 '^broadcast "grad": ranks disagree about the root: 0 on rank 0, 1; [12] on rank 2$'
  expect_lines 1 '^allreduce "grad": ranks disagree about the reduction: sum on rank 0, 1; average on rank 2$'
  run -0 ranks 4 "$on_nodes" "0 0 1 1" "$rounds" mismatch
  expect_lines 4 '^rank [0-3]: all were told$'
  expect_lines 1 '^allreduce "grad": ranks disagree about the type: float32 on rank 0-2; [a-z0-9]+ on rank 3$'
}

@test "one, some and all ranks change a description that has a ticket: 1 and 2 nodes" {
  run -0 ranks 3 "$rounds" retire
  expect_lines 3 '^rank [0-2]: retired and in use again$'
  run -0 ranks 4 "$on_nodes" "0 0 1 1" "$rounds" retire
  expect_lines 4 '^rank [0-3]: retired and in use again$'
}

@test "CONTRACT 3.2: a tensor on a GPU is refused with what to do, and the name is free" {
  run -0 ranks 2 "$rounds" gpu
  expect_lines 2 '^1 the tensor is on GPU 2, and this release reads host memory only; copy it to host memory and submit that$'
  expect_lines 2 '^1 device is -1, neither HVD_HOST nor HVD_GPU\(i\)$'
}

@test "500 rounds of 20 names by 8 ranks on 4 nodes, some changed, end as the model says" {
  count=${HVD_ROUNDS:-500} # fewer where a sanitizer makes each of them slow
  RANKS_SECONDS=240 run -0 ranks 8 "$on_nodes" "0 0 1 1 2 2 3 3" "$rounds" rounds "$count" "$seed"
  expect_lines 8 "^rank [0-7]: $count rounds of seed $seed, [1-9][0-9]* disagreements, all as they must be$"
}

@test "rounds with fewer tickets than names, and with none, end as the model says" {
  for capacity in 0 3; do
    HOROVOD_CACHE_CAPACITY=$capacity run -0 ranks 4 "$on_nodes" "0 1 2 0" "$rounds" rounds 60 "$seed"
    expect_lines 4 "^rank [0-3]: 60 rounds of seed $seed, [1-9][0-9]* disagreements, all as they must be$"
  done
}

@test "CONTRACT 3.10: 20 submission orders and 3 fusion thresholds give the same bits on 1 to 4 nodes, cyclic and uneven too" {
  local list first threshold n
  for list in "0 0 0" "0 1 0 1" "0 0 1 1 2" "0 1 2 3 0"; do
    first=
    n=$(wc -w <<<"$list")
    for threshold in 0 64K 128M; do
      HOROVOD_BLOCK_SIZE=64K HOROVOD_FUSION_THRESHOLD=$threshold run -0 ranks "$n" "$on_nodes" "$list" "$rounds" bits
      : "${first:=${lines[0]}}"
      expect_lines "$n" "^bits [0-9a-f]{16}$"
      expect_lines "$n" "^$first$"
    done
  done
}
