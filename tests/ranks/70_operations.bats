#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Every operation with every type, reduction and kind of place in memory against a plain reference, with processes
# under mpirun on simulated nodes (HOROVOD_HOSTNAME). One mpirun for each layout of ranks on nodes.
#
# shellcheck disable=SC2154 # variables of bats

bats_require_minimum_version 1.8.0 # tags
load helpers

setup() {
  operations=$(build_dir)/tests/ranks/operations
  make_on_nodes
  export HOROVOD_BLOCK_SIZE=64K # so that some KB are several blocks
  export RANKS_SECONDS=120
  layouts=("0" "0 0 0" "0 1 0 1" "0 0 0 0 0 1 2 3")
  # Fewer where a sanitizer makes each of them slow.
  [[ -n ${HVD_ROUNDS:-} ]] || layouts=("0" "0 0" "0 0 0" "0 0 0 0" "0 0 0 0 0 0 0 0" "0 1" "0 0 1" "0 1 0 1" "0 1 2 3"
    "0 0 1 1 2 2 3 3" "0 0 0 0 0 1 2 3" "0 1 2 3 0 1 2 3")
}

# on_layout LIST ACTION...: rank i is on the node that is item i of the list.
on_layout() {
  local list=$1
  shift
  run -0 ranks "$(wc -w <<<"$list")" "$on_nodes" "$list" "$operations" "$@"
}

@test "1,500 and more combinations of operation, type, reduction and layout are right: 1 to 8 ranks on 1 to 4 nodes, cyclic and uneven too" {
  local list all=0 here
  for list in "${layouts[@]}"; do
    on_layout "$list" table
    here=$(combinations)
    printf 'nodes of ranks %s: %s combinations\n' "$list" "$here"
    all=$((all + here))
  done
  printf '%s combinations\n' "$all"
  ((all >= 1500))
}

@test "the same inputs give the same bits, whatever the order in which they come, and on all ranks" {
  local list
  for list in "0 0 0" "0 0 1 1" "0 1 2 0 1"; do
    on_layout "$list" repeat
    (($(combinations) >= 50))
  done
}

@test "with less precision on the wire errors are within bounds, and all ranks get the same bits" {
  local list type
  for type in bf16 fp16; do
    for list in "0 1" "0 0 1 1" "0 1 2 0 1" "0 1 2 3"; do
      HOROVOD_WIRE=$type on_layout "$list" wire "$type"
      (($(combinations) >= 40))
    done
  done
}

@test "less precision on the wire changes the bits of a sum between nodes, and on one node nothing" {
  HOROVOD_WIRE=bf16 on_layout "0 0 0" repeat
  HOROVOD_WIRE=bf16 run ranks 4 "$on_nodes" "0 0 1 1" "$operations" repeat
  [[ $status != 0 ]]
  expect_lines '[1-4]' ' of 1, times 1.* element [0-9]+ is .*, within '
}

@test "ranks that have joined count as zeros for every type and reduction" {
  local list
  for list in "0" "0 0 0" "0 1 2 0"; do
    on_layout "$list" join
    (($(combinations) >= 22))
  done
}

# bats test_tags=long
@test "more than 2^31 elements are summed" { # 5 GB of memory
  unset HOROVOD_BLOCK_SIZE
  on_layout "0 0" huge
}
