#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# When a job is told to stop: all ranks hear it at the same step, whoever has the reason. 3 ranks on 2 simulated nodes.
#
# shellcheck disable=SC2154 # variables of bats

load helpers

setup() {
  stop=$(build_dir)/tests/ranks/stop
  make_on_nodes
  unset "${!SLURM_@}"
}

# stops RANKS: so many ranks have stopped, all at the same step.
stops() {
  expect_lines "$1" '^rank [0-9]+: stops at step [0-9]+$'
  [ "$(sed -nE 's/^rank [0-9]+: stops at step //p' <<<"$output" | sort -u | wc -l)" = 1 ]
}

# squeue_says SHELL: what rank 0 hears if it asks Slurm about its job, 12.
squeue_says() {
  mkdir -p "$BATS_TEST_TMPDIR/bin"
  # shellcheck disable=SC2016 # for its own shell
  printf '%s\n' '#!/bin/bash' "echo \"\$@\" >>$BATS_TEST_TMPDIR/asked" "$1" >"$BATS_TEST_TMPDIR/bin/squeue"
  chmod +x "$BATS_TEST_TMPDIR/bin/squeue"
  export PATH=$BATS_TEST_TMPDIR/bin:$PATH SLURM_JOB_ID=12
}

@test "a signal to one of 3 ranks stops all of them in that step" {
  run -0 ranks 3 "$on_nodes" '0 0 1' "$stop" raise
  expect_lines 3 '^rank [0-2]: stops at step 7$'
}

@test "a signal that comes at any time stops all ranks at one step" {
  run -0 ranks 3 "$on_nodes" '0 0 1' "$stop" later
  stops 3
}

@test "a signal from outside stops all ranks at one step, and says so at level info only" {
  HOROVOD_LOG_LEVEL=info HOROVOD_LOG_HIDE_TIME=1 ranks 3 "$stop" wait >"$BATS_TEST_TMPDIR/out" 2>&1 &
  local job=$! deadline=$((SECONDS + 30)) pid=
  while [[ -z $pid ]]; do
    ((SECONDS < deadline))
    sleep 0.1
    pid=$(sed -n 's/^pid 1 //p' "$BATS_TEST_TMPDIR/out")
  done
  # The first question puts the handlers in place.
  until grep -q 'SigCgt:.*[2367abef]..$' "/proc/$pid/status"; do
    ((SECONDS < deadline))
    sleep 0.1
  done
  kill -USR1 "$pid"
  wait "$job"
  output=$(<"$BATS_TEST_TMPDIR/out")
  stops 3
  expect_lines 1 '^horovod: rank 1: info: SIGUSR1 has come: the program is told to stop$'
}

@test "a rank that has joined does not count, and hears of it when it asks" {
  run -0 ranks 3 "$stop" joins
  expect_lines 2 '^rank [01]: stops at step 7$'
  expect_lines 1 '^rank 2: stops at step 0$'
}

@test "the end of the job stops all ranks at one step: as Slurm's variable has it, and as squeue says" {
  local end
  end=$(($(date +%s) + 4))
  SLURM_JOB_ID=12 SLURM_JOB_END_TIME=$end HOROVOD_STOP_MARGIN=3 HOROVOD_LOG_LEVEL=info run -0 ranks 3 "$stop" wait
  stops 3
  expect_lines 1 'rank 0: info: the job ends in [0-3] s: the program is told to stop$'
  squeue_says "echo $(($(date +%s) + 2))"
  HOROVOD_STOP_MARGIN=1m run -0 ranks 3 "$stop" 1000
  expect_lines 3 '^rank [0-2]: stops at step 0$'
  [ "$(<"$BATS_TEST_TMPDIR/asked")" = '--noheader --jobs=12 --format=%e' ]
}

@test "without an end that is known ranks go on: no job, no limit, no squeue, a margin of 0" {
  run -0 ranks 3 "$stop" 20
  expect_lines 3 '^rank [0-2]: 20 steps$'
  squeue_says 'echo NONE'
  run -0 ranks 3 "$stop" 20
  expect_lines 3 '^rank [0-2]: 20 steps$'
  [ "$(wc -l <"$BATS_TEST_TMPDIR/asked")" = 1 ]
  squeue_says 'echo "slurm_load_jobs error" >&2; exit 1'
  run -0 ranks 3 "$stop" 20
  [ "$(sort <<<"$output")" = "$(printf 'rank %s: 20 steps\n' 0 1 2)" ]
  squeue_says 'echo 17'
  HOROVOD_STOP_MARGIN=0 run -0 ranks 3 "$stop" 20
  expect_lines 3 '^rank [0-2]: 20 steps$'
}
