#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# How Python scripts end in jobs of the plugin, and what reaches them while they wait: exceptions, dead ranks, signals.
#
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

setup() {
  ends=$HVD_ROOT/tests/python/programs/ends.py
  said=$BATS_TEST_TMPDIR/said
}

teardown() {
  [[ -z ${job:-} ]] || wait "$job" || true
  assert_cluster_as_it_was
}

# python ARGUMENT-OF-SRUN... PROGRAM ARGUMENT...: Debian's, without files beside its sources, one thread a rank.
python_on_cluster() {
  local options=()
  while [[ $1 == -* ]]; do options+=("$1") && shift; done
  OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 on_cluster srun "${options[@]}" /usr/bin/python3 "$@"
}

# gone_once HOST STOPS: one line, whichever survivor wrote it.
gone_once() { expect_lines 1 "^horovod: rank 1 on $1 is gone \(.*\); $2\$" && expect_lines 1 '^horovod: '; }

traceback_is_whole() {
  local whole
  # Those of the others, whose operation has failed, stand beside it.
  whole=$(sed -n "/^Traceback/h; /^Traceback/!H; /^KeyError: 'no image 7'\$/{x; p}" <<<"$output")
  output=$whole expect_lines 1 '^Traceback \(most recent call last\):$'
  output=$whole expect_lines 1 ', in die$'
  output=$whole expect_lines 1 ', in train_step$'
  output=$whole expect_lines 1 ', in load$'
  output=$whole expect_lines 1 '^    raise KeyError\(f"no image \{batch\}"\)$'
}

@test "a script that dies of an exception: its whole traceback, one line of horovod, and srun ends within 5 s" {
  local layout options host stops start
  # A node that is still completing another step would be passed over.
  for layout in '--nodelist=node0 -N1 -n2|node0|1 rank stops' '--nodelist=node0,node1 -N2 --ntasks-per-node=2|node0|3 ranks stop'; do
    IFS='|' read -r options host stops <<<"$layout"
    read -ra options <<<"$options"
    # From the death on: a start of Python with PyTorch may take longer than that on a busy machine.
    python_on_cluster --horovod "${options[@]}" "$ends" raise >"$said" 2>&1 3>&- &
    job=$!
    wait_until 40 grep -q '^horovod: rank 1' "$said"
    start=$SECONDS
    run ! wait "$job"
    job=
    ((SECONDS - start <= 5))
    output=$(<"$said")
    traceback_is_whole
    gone_once "$host" "$stops"
    expect_lines 0 'goes on$'
  done
}

@test "with --kill-on-bad-exit=0 the others catch an error that names rank and host, and end in order" {
  run -1 python_on_cluster --horovod=mpi=off --nodelist=node0 -N1 -n4 --kill-on-bad-exit=0 "$ends" catch
  traceback_is_whole
  gone_once node0 '3 ranks stop'
  expect_lines 3 '^rank [023] caught: .*rank 1 on node0 is gone'
}

# told SIGNAL: all tasks of the step get it.
told() { on_cluster scancel --signal="$1" "$(on_cluster squeue --noheader --name=blocked --format=%i)"; }

both_said() { [[ $(grep -Ec "^rank [01] $1" "$said") == 2 ]]; }

@test "handlers of SIGUSR1 and SIGTERM run while a rank is blocked in synchronize, and Ctrl-C ends the wait" {
  python_on_cluster --horovod -N2 -n2 --job-name=blocked "$ends" signals >"$said" 2>&1 3>&- &
  job=$!
  wait_until 40 both_said 'waits$'
  told USR1
  wait_until 5 both_said 'handles SIGUSR1$'
  told TERM
  wait_until 5 both_said 'handles SIGTERM$'
  told INT
  wait_until 5 both_said 'is interrupted after 2 signals$'
  # The operations that were outstanding fail with the shutdown; nobody waits for them.
  wait "$job"
  job=
}
