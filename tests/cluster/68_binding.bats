#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Binding in steps of a real Slurm with four fake GPUs a node: what tasks see for each way to ask for GPUs, what is
# reported, and that it is what `hvd-info bind` says. The distances come from a file (the site's key topology): GPUs 0 and
# 1 are at CPU 1, 2 and 3 at CPU 0. The nodes of the test run have one CPU each: node0 CPU 0, node1 CPU 1.
#
# shellcheck disable=SC2016 # what is quoted is for the tasks' shells
# shellcheck disable=SC2034,SC2154 # variables of bats and for binding.bash

load helpers
load ../ranks/helpers
load binding

plugstack=$cluster_dir/etc/slurm/plugstack.conf
xml=$cluster_dir/four_gpus.xml
show='echo "$SLURM_PROCID ${CUDA_VISIBLE_DEVICES-none} ${CUDA_DEVICE_ORDER-none}"'

setup_file() {
  cp "${BATS_TEST_FILENAME%/*}/four_gpus.xml" "$cluster_dir/"
  chmod a+r "$cluster_dir/four_gpus.xml"
}

setup() {
  said=$BATS_TEST_TMPDIR/said
  [[ ! -e $plugstack.kept ]] || mv "$plugstack.kept" "$plugstack" # of a run that was ended
  [[ $(on_cluster srun -N2 -w node0,node1 nproc | sort -u) == 1 ]] || skip "not a cluster of --cores 1"
  site
}

teardown() {
  [[ ! -e $plugstack.kept ]] || mv "$plugstack.kept" "$plugstack"
  [[ -z ${job:-} ]] || wait "$job" || true
  assert_cluster_as_it_was
}

# site ARGUMENT...: what the site writes, besides the topology.
site() {
  [[ -e $plugstack.kept ]] || cp "$plugstack" "$plugstack.kept"
  sed "s|spank_horovod.so.*|& topology=$xml $*|" "$plugstack.kept" >"$plugstack"
}

@test "a step without GPUs has nothing of them, and is bound to nothing" {
  run -0 tasks --horovod -w node0 -n2
  same '0 none none
1 none none'
  [[ ! -s $said ]]
}

@test "GPUs of a step: all of them for all tasks, the nearest first, in the order of local ranks" {
  run -0 tasks --horovod -w node0 -n2 --gres=gpu:4
  same '0 2,3,0,1 PCI_BUS_ID
1 2,3,0,1 PCI_BUS_ID'
  run -0 tasks --horovod -w node1 -n2 --gpus-per-node=4
  same '0 0,1,2,3 PCI_BUS_ID
1 0,1,2,3 PCI_BUS_ID'
  run -0 tasks --horovod -w node0 -n2 --gpus=3
  same '0 0,2,1 PCI_BUS_ID
1 0,2,1 PCI_BUS_ID'
  CUDA_DEVICE_ORDER=FASTEST_FIRST run -0 tasks --horovod -w node0 -n1 --gres=gpu:4
  same '0 2,0,1,3 FASTEST_FIRST'
}

@test "GPUs beside another job are found by the node's numbers" {
  on_cluster srun -w node0 --gres=gpu:1 sleep 20 3>&- &
  job=$!
  wait_until 20 bash -c "[[ \$(timeout 10 $cluster exec -- squeue --noheader --states=running --format=%i) ]]"
  run -0 tasks --horovod -w node0 -n1 --gres=gpu:3
  local free=$output placed
  # Slurm binds to the first of its own what a map wants of the other job's.
  run tasks --horovod -w node0 -n2 --gres=gpu:3 --gpu-bind=map_gpu:0,0
  local mapped=$output
  placed=$(placed -w node0 -n2 --gres=gpu:3 --gpu-bind=map_gpu:0,0)
  on_cluster squeue --noheader --format=%i | xargs -r -n1 "$cluster" exec -- scancel
  wait "$job" || true
  job=
  diff <(echo '0 2,1,3 PCI_BUS_ID') <(echo "$free") >&2
  diff <(printf '%s\n' '0 1 none' '1 1 none') <(echo "$mapped") >&2
  diff <(printf '%s\n' '0 0 1 0000:02:00.0' '1 1 1 0000:02:00.0') <(echo "$placed") >&2
}

@test "gpu-bind: closest narrows, none and all leave the list, rank its order, map is as it is written" {
  run -0 tasks --horovod=gpu-bind=closest -w node0 -n4 --gres=gpu:4
  [[ $(awk '{print $2}' <<<"$output" | sort | xargs) == '0 1 2 3' ]]
  run -0 tasks --horovod=gpu-bind=closest -w node0 -n1 --gres=gpu:1
  same '0 0 PCI_BUS_ID'
  for policy in none all; do
    run -0 tasks --horovod=gpu-bind=$policy -w node0 -n2 --gres=gpu:4
    same '0 0,1,2,3 none
1 0,1,2,3 none'
  done
  run -0 tasks --horovod=gpu-bind=rank -w node0 -n2 --gres=gpu:4
  [[ ${lines[0]} == '0 0,1,2,3 '* ]]
  run -0 tasks --horovod=gpu-bind=map:3:1 -w node0 -n2 --gres=gpu:4
  [[ ${lines[0]} == '0 3,1'* && ${lines[1]} == '1 3,1'* ]]
  run tasks --horovod=gpu-bind=map:7 -w node0 -n2 --gres=gpu:4
  same '0 0,1,2,3 none
1 0,1,2,3 none'
  grep -q '^horovod: node0: nothing is bound: ' "$said"
}

@test "what the user has bound with srun stays as it is" {
  run -0 tasks --horovod -w node0 -n2 --gres=gpu:4 --gpu-bind=map_gpu:3,1
  same '0 3 none
1 1 none'
  run -0 tasks --horovod -w node0 -n2 --gres=gpu:4 --gpu-bind=mask_gpu:0x3,0xc
  same '0 0,1 none
1 2,3 none'
  run -0 tasks --horovod -w node0 -n2 --gres=gpu:4 --gpu-bind=per_task:1
  same '0 0 none
1 1 none'
  run -0 tasks --horovod -w node0 -n2 --gres=gpu:4 --gpu-bind=closest
  same '0 0,1,2,3 none
1 0,1,2,3 none'
  run -0 tasks --horovod -w node0 -n2 --gpus-per-task=1
  same '0 0 none
1 1 none'
  run -0 tasks --horovod -w node0 -n2 --gpus-per-task=2
  same '0 0,1 none
1 2,3 none'
  run -0 tasks --horovod -w node0 -n2 --ntasks-per-gpu=1
  same '0 0 none
1 1 none'
  run -0 tasks --horovod -w node0 -n2 --gres=gpu:4 --gpu-bind=single:1
  [[ $(awk '{print $2}' <<<"$output" | sort -u | wc -l) == 2 ]]
  run -0 tasks --horovod -w node0 -n2 --gres=gpu:4 --gpu-bind=none
  same '0 none none
1 none none'
}

@test "the report says which GPU each rank has, however it was asked for" {
  local asked want rows=0
  # srun would read the rows from its standard input.
  while IFS='|' read -r -u 4 asked want; do
    # shellcheck disable=SC2086 # several arguments
    run -0 placed -w node0 -n2 $asked
    diff <(tr ';' '\n' <<<"$want") <(echo "$output") >&2 || { echo "$asked" >&2 && return 1; }
    rows=$((rows + 1))
  done 4<<'END'
|0 0 - -;1 1 - -
--gres=gpu:4|0 0 2 0000:81:00.0;1 1 3 0000:82:00.0
--gpus=3|0 0 0 0000:01:00.0;1 1 2 0000:81:00.0
--gpus-per-task=1|0 0 0 0000:01:00.0;1 1 1 0000:02:00.0
--gpus-per-task=2|0 0 0 0000:01:00.0;1 1 3 0000:82:00.0
--ntasks-per-gpu=1|0 0 0 0000:01:00.0;1 1 1 0000:02:00.0
--gres=gpu:4 --gpu-bind=map_gpu:3,1|0 0 3 0000:82:00.0;1 1 1 0000:02:00.0
--gres=gpu:4 --gpu-bind=mask_gpu:0x3,0xc|0 0 0 0000:01:00.0;1 1 3 0000:82:00.0
--gres=gpu:4 --gpu-bind=per_task:1|0 0 0 0000:01:00.0;1 1 1 0000:02:00.0
--gres=gpu:4 --gpu-bind=closest|0 0 0 0000:01:00.0;1 1 1 0000:02:00.0
--gres=gpu:4 --gpu-bind=none|0 0 - -;1 1 - -
END
  ((rows == 11))
}

@test "what will hurt is a line with the way out, from the node's first task" {
  run -0 tasks --horovod -w node0 -n2 --gres=gpu:1
  output=$(<"$said")
  expect_lines 1 '^horovod: node0: ranks 0, 1 share .*GPU.*; '
  expect_lines 1 '^horovod: node0: ranks 0, 1 have 1 core beside a GPU.*; srun --cpus-per-task=2'
  run -0 tasks --horovod -w node0 -n3 --gres=gpu:4 --gpu-bind=map_gpu:0,3,3
  output=$(<"$said")
  expect_lines 1 '^horovod: node0: ranks 1, 2 share GPU 3; a --gpu-bind that names another for each$'
  expect_lines 1 ' share GPU'
}

@test "the site's lock, its switch, and a topology that cannot be read" {
  site gpu-bind=closest lock=gpu-bind
  HOROVOD_GPU_BIND=none run -0 tasks --horovod -w node0 -n4 --gres=gpu:4
  [[ $(awk '{print $2}' <<<"$output" | sort | xargs) == '0 1 2 3' ]]
  run ! on_cluster srun --horovod=gpu-bind=none -n1 true
  [[ $output == *'horovod: this site does not let users set "gpu-bind"; it is closest here'* ]]
  site enabled=off
  run ! on_cluster srun --horovod -n1 true
  [[ $output == *'horovod: this site has switched --horovod off (enabled=off in plugstack.conf)'* ]]
  run -0 on_cluster srun -n1 true
  site topology=/nowhere.xml
  run -0 tasks --horovod -w node0 -n1 --gres=gpu:4
  same '0 0,1,2,3 none'
  [[ $(<"$said") == 'horovod: node0: nothing is bound: reading a topology: /nowhere.xml: No such file or directory' ]]
}

# where LINE...: rank, GPU and CPUs of the report's or the preview's JSON.
where() {
  python3 -c '
import json, sys
found = json.load(sys.stdin)
for node in found.get("nodes", [found]):
    for rank in node["ranks"]:
        print(rank["local_rank"], rank["gpu"]["token"], rank["cpus"])'
}

@test "--horovod=report: one table for the job, in the order of ranks; hvd-info bind says the same" {
  local worker ranks
  worker=$(build_dir)/tests/ranks/worker
  run -0 on_cluster srun --horovod=report -w node0,node1 -N2 --ntasks-per-node=2 --gres=gpu:4 "$worker" place
  expect_lines 1 '^node +local rank +rank +GPU +PCI id '
  [[ $(grep -Eo '^node[01] +[01] +[0-3] +[0-3] ' <<<"$output" | awk '{print $3}' | xargs) == '0 1 2 3' ]]
  expect_lines 4 '^node[01] +[01] +[0-3] +[0-3] +0000:(01|02|81|82):00\.0 '
  expect_lines 4 '^\+-- package [01] -+\+$'
  expect_lines '[1-9]' '^horovod: node[01]: rank'
  run -0 --separate-stderr on_cluster srun --horovod=report=json -w node0 -n2 --gres=gpu:4 "$worker" place
  ranks=$(grep '^{' <<<"$stderr" | where)
  run -0 on_cluster "$HVD_PREFIX/bin/hvd-info" bind --topology "$xml" --tasks 2 --gpus 0,1,2,3 --cpus 0 --json
  [[ $(where <<<"$output") == "$ranks" ]]
}
