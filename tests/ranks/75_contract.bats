#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The numbered lines of the contract about the runtime (CONTRACT section 3), one or more tests for each, whose names
# have the number. Lines 3.7, 3.11 and 3.12 have more of them in 20_worker.bats and 30_lifecycle.bats, which are about
# beginnings and ends. With processes under mpirun, on one node and on three or four (HOROVOD_HOSTNAME).
#
# shellcheck disable=SC2154 # variables of bats

load helpers

setup() {
  contract=$(build_dir)/tests/ranks/contract
  operations=$(build_dir)/tests/ranks/operations
  rounds=$(build_dir)/tests/ranks/rounds
  make_on_nodes
}

# holds_on LIST ACTION...: all of it is so; rank i is on the node that is item i of the list.
holds_on() {
  local list=$1 ranks action
  shift
  ranks=$(wc -w <<<"$list")
  run -0 ranks "$ranks" "$on_nodes" "$list" "$contract" "$@"
  for action; do expect_lines "$ranks" "^rank [0-9]: $action is so$"; done
}

@test "CONTRACT 3.1: operations meet by process set and name in any order; only successful unnamed ones count" {
  holds_on "0 0 0" pairs
  holds_on "0 0 1 2" pairs
}

@test "CONTRACT 3.2: a name in flight, bad splits, roots, sets and tensors are refused at submit, with nothing touched" {
  holds_on "0 0 0" refusals
  holds_on "0 1 2" refusals
}

@test "CONTRACT 3.3: all ranks are told at wait which ranks differ and how, and the name can be used again" {
  holds_on "0 0 0" mismatches
  holds_on "0 0 1 2" mismatches
}

@test "CONTRACT 3.4: poll right after submit is normally false" {
  holds_on "0 0" poll
  holds_on "0 1" poll
}

@test "CONTRACT 3.5: a barrier passes what is outstanding, nobody waits for strangers, and all run in one order" {
  HOROVOD_FUSION_THRESHOLD=0 holds_on "0 0 0" barrier
  HOROVOD_FUSION_THRESHOLD=0 holds_on "0 0 1 2" barrier
}

@test "CONTRACT 3.6: a joined rank counts as zeros, averages are of all ranks, all know the last, other operations fail" {
  holds_on "0 0 0" join
  holds_on "0 1 2" join
  # Cached and not, fused and single, groups.
  for capacity in 0 1024; do
    for threshold in 0 64M; do
      HOROVOD_CACHE_CAPACITY=$capacity HOROVOD_FUSION_THRESHOLD=$threshold \
        run -0 ranks 4 "$on_nodes" "0 0 1 2" "$operations" join
      expect_lines 1 '^88 combinations$'
    done
  done
}

@test "CONTRACT 3.7: init again is nobody else's affair, shutdown and init come in turns, what is outstanding fails" {
  holds_on "0 0 0" init leave
  holds_on "0 0 1 2" init leave
}

@test "CONTRACT 3.8: integers are scaled in double and truncated, 16-bit floats added in float32 in a node; rows, roots" {
  holds_on "0 0 0" arithmetic
  holds_on "0 1 2" arithmetic
}

@test "CONTRACT 3.9: no member of a group runs before all ranks have it, and all of it fails with one" {
  holds_on "0 0 0" group
  holds_on "0 0 1 2" group
  HOROVOD_DISABLE_GROUP_FUSION=1 holds_on "0 0 1 2" group
}

@test "CONTRACT 3.10: another run of the same inputs, in other orders, has the same bits" {
  local first=
  for _ in 1 2; do
    run -0 ranks 4 "$on_nodes" "0 0 1 2" "$rounds" bits
    : "${first:=${lines[0]}}"
    expect_lines 4 "^$first$"
  done
}
