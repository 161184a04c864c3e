# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What the rank tests share: ranks are processes on this machine, started by Open MPI's mpirun.

bats_require_minimum_version 1.5.0

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# build_dir: where the test programs are (HVD_BUILD, as tests/run.sh sets it, or build/ of the checkout).
build_dir() {
  echo "${HVD_BUILD:-${BASH_SOURCE[0]%/tests/*}/build}"
}

# ranks N PROGRAM...: under mpirun, for 60 s at most (RANKS_SECONDS).
ranks() {
  local n=$1
  shift
  timeout --kill-after=5 "${RANKS_SECONDS:-60}" mpirun --oversubscribe -n "$n" "$@"
}

# make_on_nodes: $on_nodes, a program: on-nodes LIST PROGRAM... is rank i on the node that is item i of the list.
make_on_nodes() {
  on_nodes=$BATS_TEST_TMPDIR/on-nodes
  # shellcheck disable=SC2016 # for the rank's shell
  printf '%s\n' '#!/bin/bash' 'read -ra node <<<"$1"' 'export HOROVOD_HOSTNAME=sim${node[OMPI_COMM_WORLD_RANK]}' \
    'shift' 'exec "$@"' >"$on_nodes"
  chmod +x "$on_nodes"
}

# combinations: how many the program operations says it ran, all actions together.
combinations() {
  # shellcheck disable=SC2154 # bats's
  awk '/^[0-9]+ combinations$/ {n += $1} END {print n + 0}' <<<"$output"
}

# ranks_twice_connected N PROGRAM...: ranks for a program that parts from mpirun's PMIx server and connects to it again,
# as one does that uses MPI and horovod after each other (hvd-perf --compare mpi). The server of OpenPMIx 4.2.2 sometimes
# forgets to tell such a process that a fence is over: 1 of 60, in a program of PMIx and MPI alone, too. Of three such
# ranks one then sleeps in MPI_Init for ever, and the others in the first MPI_Comm_dup.
ranks_twice_connected() {
  RANKS_SECONDS=25 three_tries ranks "$@"
}

# three_tries COMMAND...: for what hangs now and then through no fault of ours. The command has a time limit of its own;
# if it runs into that it is tried again. Output and status are those of the last try.
three_tries() {
  local status out=$BATS_TEST_TMPDIR/three-tries
  for _ in 1 2 3; do
    "$@" >"$out" 2>&1 && status=0 || status=$?
    ran_out_of_time "$status" || break
  done
  cat "$out"
  return "$status"
}

# leak_search_broke: the search for leaks of a rank under a sanitizer has itself ended by a signal. That says nothing about
# the rank ("Tracer caught signal 11", 1 of about 100 processes whose threads end meanwhile). Removes what says so.
leak_search_broke() {
  local report broke=1
  [[ -n ${HVD_REPORTS:-} ]] || return
  while read -r report; do
    rm -f "$report"
    broke=0
  done < <(grep -l 'LeakSanitizer has encountered a fatal error' "$HVD_REPORTS"/* 2>/dev/null)
  return "$broke"
}

# What timeout(1) says.
ran_out_of_time() { [[ $1 == 124 || $1 == 137 ]]; }

# expect_lines COUNT PATTERN: so many lines of the output (a glob, "2" or "[12]") match the regular expression.
expect_lines() {
  local count
  # shellcheck disable=SC2154 # bats's
  count=$(grep -cE -- "$2" <<<"$output") || true # none is an answer
  # shellcheck disable=SC2053 # a glob
  if [[ $count != $1 ]]; then
    printf 'want %s lines, have %s, that match: %s\nin:\n%s\n' "$1" "$count" "$2" "$output" >&2
    return 1
  fi
}

# No process that this test started (LIFE_TEST is in its environment) is left, and nothing of ours in shared memory.
# Those that are just ending get five seconds.
assert_nothing_left() {
  local deadline=$((SECONDS + 5)) left
  while left=$(left_of_test) && [[ -n $left ]]; do
    if ((SECONDS >= deadline)); then
      printf 'left behind:\n%s\n' "$left" >&2
      return 1
    fi
    sleep 0.1
  done
}

left_of_test() {
  local file pid command
  while read -r file; do
    pid=${file//[^0-9]/}
    # bats's own have it as well.
    command=$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)
    [[ $command == *bats-exec* || $command != *lifecycle* ]] || printf 'process %s: %s\n' "$pid" "$command"
  done < <(grep -lazF "LIFE_TEST=$LIFE_TEST" /proc/[0-9]*/environ 2>/dev/null)
  find /dev/shm -maxdepth 1 -iname '*horovod*'
}
