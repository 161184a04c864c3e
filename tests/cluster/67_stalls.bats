#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Operations that one rank does not submit, and timelines of ranks that are killed, as steps of a real Slurm.
#
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

setup() {
  stalls=$(build_dir)/tests/ranks/stalls
}

teardown() {
  assert_cluster_as_it_was
}

@test "a job of 4 ranks in which one skips a tensor: the warning names it, its node and what it waits in, once" {
  run -0 on_cluster srun --horovod=stall-warn=1 -N2 -n4 --ntasks-per-node=2 "$stalls" waits
  expect_lines 1 'warning: allreduce "grad" is not submitted by all ranks after 1 s: missing rank 3 on node1 \(waits in allreduce "other"\); submitted by rank 0 on node0, rank 1 on node0, rank 2 on node1$'
  expect_lines 4 '^rank [0-3]: 0 $'
}

@test "stall-abort: all ranks fail with the text of the stall, and srun does not end with 0" {
  run on_cluster srun --horovod=stall-abort=1 -N4 -n4 --ntasks-per-node=1 "$stalls" never
  [[ $status != 0 ]]
  expect_lines '[1-4]' '^rank [0-3]: 9 allreduce "(grad|other)" is not submitted by all ranks after 1 s: missing rank'
}

@test "timeline: every rank's file of a step that was killed parses, and shows what it waited for" {
  local folder rank
  folder=$BATS_TEST_TMPDIR/traces
  mkdir -m 777 "$folder"
  # Slurm ends the tasks that are left when the first has failed.
  run on_cluster srun --horovod="timeline=/tmp/trace-%j-%r.json,stall-abort=2" -N2 -n2 --ntasks-per-node=1 "$stalls" never
  [[ $status != 0 ]]
  for rank in 0 1; do
    node_exec "node$rank" sh -c "cat /tmp/trace-*-$rank.json; rm /tmp/trace-*-$rank.json" >"$folder/$rank.json"
    /usr/bin/python3 - "$folder/$rank.json" <<'P'
import json
import sys

events = json.load(open(sys.argv[1], encoding="utf-8"))
assert any(e["name"] == "NEGOTIATE_ALLREDUCE" and e["ph"] == "B" for e in events), events
P
  done
}
