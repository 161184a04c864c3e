#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# hvd-info in steps of the plugin, and asking ranks of a step that runs: by its own user, by others, by root.
#
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

plugstack=$cluster_dir/etc/slurm/plugstack.conf

setup() {
  info=$HVD_PREFIX/bin/hvd-info
  worker=$(build_dir)/tests/ranks/worker
  said=$BATS_TEST_TMPDIR/said
  go=$HOME_OF_ALICE/info.go
  [[ ! -e $plugstack.kept ]] || mv "$plugstack.kept" "$plugstack" # of a run that was ended
}

teardown() {
  [[ ! -e $plugstack.kept ]] || mv "$plugstack.kept" "$plugstack"
  if [[ -n ${job:-} ]]; then
    touch "$go"
    wait "$job" || true
  fi
  rm -f "$HOME_OF_ALICE"/info.*
  assert_cluster_as_it_was
}

# hold SRUN-ARGUMENT...: a step in the background whose ranks hold; sets job_id and pid_of[RANK].
hold() {
  local deadline=$((SECONDS + 30)) pid rank
  rm -f "$go"
  on_cluster env WORKER_GO="$go" srun --horovod "$@" --job-name=hold "$worker" hold >"$said" 2>&1 3>&- &
  job=$!
  until grep -c '^holding ' "$said" | grep -qx 4; do
    ((SECONDS < deadline)) || { cat "$said" >&2 && return 1; }
    sleep 0.05
  done
  declare -gA pid_of=()
  while read -r _ pid rank; do pid_of[$rank]=$pid; done < <(grep '^holding ' "$said")
  job_id=$(on_cluster squeue --noheader --name=hold --format=%i)
}

let_go() {
  touch "$go"
  wait "$job"
  job=
}

@test "hvd-info in a step: its place, and site, environment and --horovod as the origins of settings" {
  cp "$plugstack" "$plugstack.kept"
  sed 's|spank_horovod.so.*|& slots=8|' "$plugstack.kept" >"$plugstack"
  run -0 --separate-stderr on_cluster env HOROVOD_CYCLE_TIME=2 \
    srun --horovod=fusion-threshold=1M -N2 --ntasks-per-node=2 "$info"
  expect_lines 1 '^hvd-info '
  expect_lines 1 '^  rank 0 of 4 on node0, local rank 0 of 2, cross rank 0 of 2 \(srun --horovod\)$'
  expect_lines 1 '^  fusion-threshold      1M            --horovod$'
  expect_lines 1 '^  slots                 8             site$'
  expect_lines 1 "^  import horovod    $HVD_PREFIX/lib/horovod/python$"
  expect_lines 1 '^  cycle-time            2ms           environment$'
  expect_lines 1 '^  peer-timeout          10s           built-in$'
  [ "$stderr" = "" ]
}

# srun mixes long lines of several tasks, so each has a file.
@test "hvd-info --all-ranks in a step: every rank tells its own place, one line of JSON each" {
  run -0 on_cluster srun --horovod -N2 --ntasks-per-node=2 --output="$HOME_OF_ALICE/info.%t" "$info" --all-ranks --json
  local rank
  for rank in {0..3}; do
    run -0 cat "$HOME_OF_ALICE/info.$rank"
    expect_lines 1 "^\{\"version\": \"[0-9.]+\", \"layout\": \{\"source\": \"plugin\", \"rank\": $rank, \"size\": 4, \
\"local_rank\": $((rank % 2)), \"local_size\": 2, \"cross_rank\": $((rank / 2)), \"cross_size\": 2, \
\"host\": \"node$((rank / 2))\"\}.*\}\$"
  done
}

@test "hvd-info says that tasks without PMIx would not find each other, once, and fails as they would" {
  run on_cluster srun --mpi=none -N2 -n2 "$info"
  [ "$status" -ne 0 ]
  expect_lines 1 '^  this Slurm step has 2 tasks but no PMIx, so they cannot find each other'
  expect_lines 1 '^hvd-info '
}

@test "hvd-info --pid in an overlapping step asks a rank of a running one, on each node" {
  hold -N2 --ntasks-per-node=2
  run -0 --separate-stderr on_cluster srun --overlap --jobid "$job_id" -N1 -n1 -w node0 "$info" --pid "${pid_of[0]}"
  expect_lines 1 "^process ${pid_of[0]}: rank 0 of 4 on node0, local rank 0 of 2, cross rank 0 of 2$"
  expect_lines 1 '^  waiting for other ranks  [0-9.]+ s +allreduce "held" float32 \[3,4\]$'
  expect_lines 1 '^  node0             ranks 0, 1$'
  expect_lines 1 '^  node1             ranks 2, 3$'
  [ "$stderr" = "" ]
  run -0 on_cluster srun --overlap --jobid "$job_id" -N1 -n1 -w node1 "$info" --pid "${pid_of[3]}" --json
  expect_lines 1 '"rank": 3, "size": 4, "local_rank": 1'
  expect_lines 1 "\"job\": \"slurm.pmix.$job_id.0\""
  let_go
}

@test "hvd-info --pid: root may ask, another user is refused with a sentence" {
  hold -N2 --ntasks-per-node=2
  run -0 node_exec node0 "$info" --pid "${pid_of[1]}"
  expect_lines 1 "^process ${pid_of[1]}: rank 1 of 4 on node0"
  run -1 "$cluster" exec --user bob --node node0 -- "$info" --pid "${pid_of[1]}"
  [ "$output" = "hvd-info: process ${pid_of[1]} belongs to alice; ask as that user or as root" ]
  let_go
}
