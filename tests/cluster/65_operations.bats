#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Every operation with every type, reduction and kind of place in memory against a plain reference, as steps of a real
# Slurm on real nodes. One srun for each layout of ranks on nodes.
#
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

setup() {
  operations=$(build_dir)/tests/ranks/operations
  export ON_CLUSTER_SECONDS=120
}

teardown() {
  assert_cluster_as_it_was
}

# on_layout PLACE ACTION...: with blocks so small that some KB are several.
on_layout() {
  local place
  read -ra place <<<"$1"
  shift
  run -0 on_cluster env HOROVOD_BLOCK_SIZE=64K srun --horovod "${place[@]}" "$operations" "$@"
}

# bats test_tags=long
@test "1,500 and more combinations of operation, type, reduction and layout are right: 1 to 8 ranks on 1 to 4 nodes, cyclic and uneven too" {
  local place all=0 here
  for place in "-N1 -n1" "-N1 -n2" "-N1 -n3" "-N1 -n4" "-N2 -n2" "-N2 -n3" "-N2 -n4 --distribution=cyclic" "-N4 -n4" \
    "-N4 -n8 --ntasks-per-node=2" "-N4 -n8" "-N4 -n8 --ntasks-per-node=2 --distribution=cyclic"; do
    on_layout "$place" table
    here=$(combinations)
    printf '%s: %s combinations\n' "$place" "$here"
    all=$((all + here))
  done
  printf '%s combinations\n' "$all"
  ((all >= 1500))
}

@test "the same inputs give the same bits on 4 nodes, and ranks that have joined count as zeros" {
  on_layout "-N4 -n8 --ntasks-per-node=2" repeat join
  expect_lines 1 '^88 combinations$'
  expect_lines 1 '^176 combinations$'
}
