#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Operations that one rank does not submit: who is told, what, and how often. 4 ranks on 2 simulated nodes.
#
# shellcheck disable=SC2154 # variables of bats

load helpers

setup() {
  stalls=$(build_dir)/tests/ranks/stalls
  on_nodes=$BATS_TEST_TMPDIR/on-nodes
  # shellcheck disable=SC2016 # for the rank's shell
  printf '%s\n' '#!/bin/bash' 'export HOROVOD_HOSTNAME=sim$((OMPI_COMM_WORLD_RANK / 2))' 'exec "$@"' >"$on_nodes"
  chmod +x "$on_nodes"
  export HOROVOD_STALL_CHECK_TIME_SECONDS=1 HOROVOD_LOG_HIDE_TIME=1
  submitted='submitted by rank 0 on sim0, rank 1 on sim0, rank 2 on sim1'
}

@test "a rank that skips a tensor is named once, with its host and what it waits in, and all ends well when it comes" {
  run -0 ranks 4 "$on_nodes" "$stalls" waits
  expect_lines 1 "^horovod: rank 0: warning: allreduce \"grad\" is not submitted by all ranks after 1 s: \
missing rank 3 on sim1 \(waits in allreduce \"other\"\); $submitted\$"
  expect_lines 1 'allreduce "other" is not submitted by all ranks after 1 s: missing rank 0 on sim0 \(waits in allreduce "grad"\), rank 1'
  expect_lines 2 'is not submitted'
  expect_lines 4 '^rank [0-3]: 0 $'
}

@test "a rank that waits in no operation is said to do so" {
  run -0 ranks 4 "$on_nodes" "$stalls" computes
  expect_lines 1 "\"grad\" is not submitted by all ranks after 1 s: missing rank 3 on sim1 \(waits in no operation\); $submitted\$"
  expect_lines 4 '^rank [0-3]: 0 $'
}

@test "in a process set its members are asked, and nobody else" {
  run -0 ranks 4 "$on_nodes" "$stalls" set
  expect_lines 1 '"grad" of process set 1 is not submitted by all ranks after 1 s: missing rank 3 on sim1 \(waits in allreduce "other"\); submitted by rank 1 on sim0, rank 2 on sim1$'
  expect_lines 4 '^rank [0-3]: 0 $'
}

@test "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS: all ranks fail with the text of the stall" {
  HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=2 run ranks 4 "$on_nodes" "$stalls" never
  [[ $status != 0 ]]
  expect_lines '[34]' "^rank [0-3]: 9 allreduce \"(grad|other)\" is not submitted by all ranks after 2 s: missing rank"
}

@test "a rank that is stopped is said not to answer" {
  ranks 4 "$on_nodes" "$stalls" stopped >"$BATS_TEST_TMPDIR/out" 2>&1 &
  local job=$! deadline=$((SECONDS + 30))
  until grep -q 'does not answer' "$BATS_TEST_TMPDIR/out"; do
    ((SECONDS < deadline))
    sleep 0.1
  done
  kill -CONT "$(awk '/^stopped/ { print $2 }' "$BATS_TEST_TMPDIR/out")"
  wait "$job"
  output=$(<"$BATS_TEST_TMPDIR/out")
  expect_lines 1 "\"grad\" is not submitted by all ranks after 1 s: missing rank 3 on sim1 \(does not answer: is it stopped\?\); $submitted\$"
  expect_lines 4 '^rank [0-3]: 0 $'
}

@test "HOROVOD_STALL_CHECK_DISABLE, and a time of 0: nothing is said" {
  HOROVOD_STALL_CHECK_DISABLE=1 run -0 ranks 4 "$on_nodes" "$stalls" waits
  expect_lines 0 'is not submitted'
  HOROVOD_STALL_CHECK_TIME_SECONDS=0 run -0 ranks 2 "$stalls" waits
  expect_lines 0 'is not submitted'
}
