#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The timeline of ranks under mpirun, as a strict JSON parser reads it. Nodes are simulated by HOROVOD_HOSTNAME.
#
# shellcheck disable=SC2154 # variables of bats

load helpers

setup() {
  worker=$(build_dir)/tests/ranks/worker
  trace=$BATS_TEST_TMPDIR/trace
  on_nodes=$BATS_TEST_TMPDIR/on-nodes
  # on-nodes PER_NODE PROGRAM...: ranks 0 .. PER_NODE-1 on the first node, and so on.
  # shellcheck disable=SC2016 # for the rank's shell
  printf '%s\n' '#!/bin/bash' 'export HOROVOD_HOSTNAME=sim$((OMPI_COMM_WORLD_RANK / $1))' 'shift' 'exec "$@"' \
    >"$on_nodes"
  chmod +x "$on_nodes"
}

teardown() {
  [[ -z ${job:-} ]] || kill "$job" 2>/dev/null || true
}

# in_trace FILE EXPRESSION...: all true of the file. There: `head`, what it says of itself; `tensors`, names; `of(tensor)`,
# its events as "ph name"; `args(tensor, name)`, those of its events of that name with any.
in_trace() {
  python3 - "$@" <<'END'
import json, sys
events = json.load(open(sys.argv[1]))
head = events[0]["args"]
pids = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name" and e["pid"]}
tensors = list(pids)
def of(tensor):
    return [e["ph"] + " " + e["name"] for e in events if e["ph"] != "M" and e["pid"] == pids[tensor]]
def args(tensor, name):
    return [e["args"] for e in events if e["pid"] == pids[tensor] and e["name"] == name and "args" in e]
for expression in sys.argv[2:]:
    if not eval(expression):
        sys.exit("not so: %s\nin: %s" % (expression, events[:40]))
END
}

@test "HOROVOD_TIMELINE: rank 0 alone writes, every phase of every operation, and says nothing" {
  HOROVOD_TIMELINE=$trace.json run -0 --separate-stderr ranks 3 "$worker" sum
  expect_lines 3 '^rank [0-2]: sums are right$'
  [ "$stderr" = "" ]
  [ "$(ls "$BATS_TEST_TMPDIR"/trace*)" = "$trace.json" ]
  in_trace "$trace.json" 'head["rank"] == 0 and head["size"] == 3 and head["host"]' \
    '{"f32.3", "i64.700003", "f64.1000.bcast"} <= set(tensors)' \
    'of("f32.1000")[0] == "B NEGOTIATE_ALLREDUCE" and of("f32.1000")[-1] == "E ALLREDUCE"' \
    '{"E NEGOTIATE_ALLREDUCE", "B QUEUE", "E QUEUE", "B ALLREDUCE", "X pack", "X reduce"} <= set(of("f32.1000"))' \
    '{"B NEGOTIATE_BROADCAST", "B BROADCAST", "E BROADCAST"} <= set(of("f32.1000.bcast"))' \
    'all(sum(x[0] == "B" for x in of(t)) == sum(x[0] == "E" for x in of(t)) for t in tensors)' \
    'all(e["dur"] >= 0 for e in events if e["ph"] == "X")' \
    'not any(e["name"] == "CYCLE_START" for e in events)'
}

@test "with %r every rank writes its own, and between nodes there is a stage more" {
  HOROVOD_TIMELINE=$trace.%h.%r HOROVOD_TIMELINE_MARK_CYCLES=1 run -0 ranks 4 "$on_nodes" 2 "$worker" sum
  local rank
  for rank in 0 1 2 3; do
    in_trace "$trace.sim$((rank / 2)).$rank" "head['rank'] == $rank and head['host'] == 'sim$((rank / 2))'" \
      '{"B ALLREDUCE", "X pack", "X reduce", "X cross", "X unpack", "E ALLREDUCE"} <= set(of("f64.700003"))' \
      'any(e["name"] == "CYCLE_START" for e in events)'
  done
  [ "$(find "$BATS_TEST_TMPDIR" -name 'trace*' | wc -l)" = 4 ]
}

@test "the rank that all waited for is in the trace" {
  HOROVOD_TIMELINE=$trace.json run -0 ranks 2 "$worker" late-rank
  in_trace "$trace.json" '{"last_rank": 1} in args("late", "NEGOTIATE_ALLREDUCE")'
}

@test "a trace that is copied while it is written parses, and so does one that kill -9 leaves" {
  HOROVOD_TIMELINE=$trace.json ranks 2 "$worker" stream >"$trace.said" 2>&1 3>&- &
  job=$!
  local deadline=$((SECONDS + 30)) pid
  until [[ $(grep -c '^streaming ' "$trace.said") == 2 && -e $trace.json ]]; do
    ((SECONDS < deadline)) || { cat "$trace.said" && return 1; }
    sleep 0.05
  done
  local copies
  for ((copies = 0; copies < 40; ++copies)); do
    cp "$trace.json" "$trace.copy"
    in_trace "$trace.copy" True
    sleep 0.02
  done
  until in_trace "$trace.json" 'of("stream").count("E ALLREDUCE") > 3'; do
    ((SECONDS < deadline)) || return 1
    sleep 0.05
  done
  pid=$(awk '$1 == "streaming" && $3 == 0 { print $2 }' "$trace.said")
  kill -KILL "$pid"
  wait "$job" || true
  job=
  in_trace "$trace.json" 'of("stream").count("E ALLREDUCE") > 3'
}

@test "the program starts and stops a trace; each has what happened meanwhile" {
  HOROVOD_TIMELINE=DYNAMIC run -0 ranks 2 "$worker" "timeline-on=$trace.1.%r" sum "timeline-on=$trace.2.json" late-rank \
    timeline-off name-taken
  in_trace "$trace.1.0" '"f32.3" in tensors and "late" not in tensors' 'head["rank"] == 0'
  in_trace "$trace.1.1" '"f32.3" in tensors and "late" not in tensors' 'head["rank"] == 1'
  # Without %r it is rank 0's.
  in_trace "$trace.2.json" '"late" in tensors and "twice" not in tensors and "f32.3" not in tensors' 'head["rank"] == 0'
  [ ! -e DYNAMIC ]
}

@test "a file name that says nothing and a file that cannot be are sentences from hvd_init" {
  HOROVOD_TIMELINE=t.%x.json run -2 "$worker" place
  expect_lines 1 '^worker: HOROVOD_TIMELINE: the timeline.s file name is "t.%x.json", and %x stands for nothing; there are %r'
  HOROVOD_TIMELINE=$BATS_TEST_TMPDIR/none/t.json run -2 "$worker" place
  expect_lines 1 '^worker: HOROVOD_TIMELINE: timeline file ".*/none/t.json": No such file or directory$'
}

@test "a trace for which there is no room is a sentence from hvd_init" {
  # What a limit on the size of files refuses is like what a full disk refuses.
  # shellcheck disable=SC2016 # for that shell
  HOROVOD_TIMELINE=$trace.json run -2 bash -c 'ulimit -f 100; exec "$0" place' "$worker"
  expect_lines 1 '^worker: HOROVOD_TIMELINE: timeline file ".*/trace.json": File too large$'
  [ "$(find "$BATS_TEST_TMPDIR" -name 'trace*' | wc -l)" = 0 ]
}
