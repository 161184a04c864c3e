#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A rank is killed in the middle of 64 MB allreduces: the job ends within two seconds and says once, and rightly, who
# died; nothing is left. Twenty kills in all: of the root, of leaders, of other ranks, on one node and on two.
#
# shellcheck disable=SC2154 # variables of bats

load ../cluster/helpers
load ../ranks/helpers

setup() {
  worker=$(build_dir)/tests/ranks/worker
  out=$BATS_TEST_TMPDIR/out
}

teardown() {
  [[ -z ${job:-} ]] || kill "$job" 2>/dev/null || true
  assert_cluster_as_it_was
}

all_stream() { (($(grep -c '^streaming' "$out") == $1)); }

# The node of a rank, as the step's own tasks say it.
node_of() { sed -n "s/^rank $1 is on //p" "$out"; }

# kill_in VICTIM RANKS SRUN-ARGUMENT...: leaves status, seconds and output of srun.
kill_in() {
  local victim=$1 ranks=$2 pid node begin
  shift 2
  # shellcheck disable=SC2016 # for the task's shell
  on_cluster srun --horovod -n "$ranks" "$@" bash -c \
    'echo "rank $SLURM_PROCID is on $SLURMD_NODENAME"; exec "$0" stream' "$worker" >"$out" 2>&1 &
  job=$!
  wait_until 40 all_stream "$ranks"
  pid=$(awk -v rank="$victim" '$1 == "streaming" && $3 == rank {print $2}' "$out")
  node=$(node_of "$victim")
  begin=$(date +%s%N)
  node_exec "$node" kill -9 "$pid"
  wait "$job" && status=0 || status=$?
  job=
  milliseconds=$((($(date +%s%N) - begin) / 1000000))
  output=$(<"$out")
  line="rank $victim on $node is gone \((connection closed|process ended)\); $((ranks - 1)) ranks? stops?"
}

expect_one_right_line() {
  printf 'killed rank %s: srun %s after %s ms\n' "$1" "$status" "$milliseconds" >&2
  ((milliseconds <= 2000))
  ((status != 0))
  expect_lines 1 '^horovod: rank [0-9]+ on node[0-9] is gone'
  expect_lines 1 "^horovod: $line\$"
}

@test "1 node, 2 ranks: the root, then the other, is killed (2 of 20)" {
  for victim in 0 1; do
    kill_in $victim 2 -N1
    expect_one_right_line $victim
  done
}

@test "1 node, 4 ranks: each is killed (4 of 20)" {
  for victim in 0 1 2 3; do
    kill_in $victim 4 -N1
    expect_one_right_line $victim
  done
}

@test "2 nodes, 4 ranks: each is killed, twice (8 of 20)" {
  for victim in 0 1 2 3 0 1 2 3; do
    kill_in $victim 4 -N2 --ntasks-per-node=2
    expect_one_right_line $victim
  done
}

@test "2 nodes, 2 ranks: each is killed (2 of 20)" {
  for victim in 0 1; do
    kill_in $victim 2 -N2
    expect_one_right_line $victim
  done
}

@test "1 node, --kill-on-bad-exit=0: every survivor's wait says who is lost (4 of 20)" {
  for victim in 0 1 2 0; do
    kill_in $victim 3 -N1 --kill-on-bad-exit=0
    expect_one_right_line $victim
    expect_lines 2 "^wait: 4 $line\$"
  done
}
