#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Binding where Slurm keeps devices from tasks (ConstrainDevices): what tasks see for each way to ask for GPUs, beside a
# job that holds GPU 0, and what is reported. In a cluster of its own with task/cgroup, of one node with CPU 0; the
# distances are those of 68_binding.bats: GPUs 0 and 1 are elsewhere, 2 and 3 at CPU 0.
#
# shellcheck disable=SC2016 # what is quoted is for the tasks' shells
# shellcheck disable=SC2034,SC2154 # variables of bats and for binding.bash

# With HVD_CLUSTER_DIR naming it, the helpers are about the cluster of this file.
export HVD_CLUSTER_DIR=${HVD_CLUSTER_DIR:-/var/tmp/hvd-cluster}
[[ $HVD_CLUSTER_DIR == *-devices ]] || HVD_CLUSTER_DIR+=-devices

load helpers
load ../ranks/helpers
load binding

xml=$cluster_dir/four_gpus.xml
# Rank, visible GPUs, and which of the node's devices open (these have no driver, which is another error than "not
# permitted").
show='opens=
for gpu in 0 1 2 3; do
  [[ $( (exec 3</run/gpu$gpu) 2>&1) == *permitted* ]] || opens+=$gpu
done
echo "$SLURM_PROCID ${CUDA_VISIBLE_DEVICES-none} opens $opens"'

device_cgroups() { unshare --mount sh -c 'mount -t cgroup -o devices none /mnt' 2>/dev/null; }

setup_file() {
  device_cgroups || return 0
  HVD_CLUSTER_TASK_PLUGIN=task/cgroup "$cluster" up --nodes 1 --cores 1 --prefix "$HVD_PREFIX" --bind "$(build_dir)" 3>&- >&2
  install -m 644 "${BATS_TEST_FILENAME%/*}/four_gpus.xml" "$xml"
  sed -i "s|spank_horovod.so.*|& topology=$xml|" "$cluster_dir/etc/slurm/plugstack.conf"
  on_cluster sbatch --quiet --output=/dev/null --gres=gpu:1 --wrap 'sleep 600'
  wait_until 20 bash -c "[[ \$(timeout 10 $cluster exec -- squeue --noheader --states=running --format=%i) ]]"
}

teardown_file() {
  device_cgroups || return 0
  "$cluster" down
  run device_folders
  [[ -z $output ]]
}

# The folders that nodes of this cluster have made among the machine's device cgroups.
device_folders() { unshare --mount sh -c 'mount -t cgroup -o devices none /mnt && ls -d /mnt/slurm_*' 2>/dev/null; }

setup() {
  device_cgroups || skip 'no device cgroups of version 1'
  said=$BATS_TEST_TMPDIR/said
}

teardown() {
  assert_no_drain
}

@test "GPUs of a step, renumbered by its cgroup, are found by the node's numbers: the nearest first" {
  run -0 tasks --horovod -n1 --gres=gpu:2
  same '0 1,0 opens 12'
  run -0 placed -n1 --gres=gpu:2
  same '0 0 1 0000:81:00.0'
  run -0 tasks --horovod -n2 --gres=gpu:3
  same '0 1,2,0 opens 123
1 1,2,0 opens 123'
  run -0 placed -n2 --gres=gpu:3
  same '0 0 1 0000:81:00.0
1 1 2 0000:82:00.0'
}

@test "a task that has its own GPU alone keeps it; that it sees no other is said once, with the way out" {
  local asked
  for asked in --gpus-per-task=1 --ntasks-per-gpu=1; do
    run -0 tasks --horovod -n2 $asked
    same '0 0 opens 1
1 0 opens 2'
    output=$(<"$said")
    expect_lines 1 '^horovod: node0: the ranks see GPUs of their own alone, because Slurm keeps the others from them; --gpus-per-node=N, '
    expect_lines 0 'cannot be found'
  done
  run -0 tasks --horovod -n2 --gres=gpu:3 --gpu-bind=map_gpu:1,2
  same '0 0 opens 2
1 0 opens 3'
}

@test "which GPU such a task has cannot be seen from here, and the report does not guess" {
  run -0 placed -n2 --gpus-per-task=1
  same '0 0 0 -
1 1 0 -'
}

@test "--gpu-bind=none leaves all of them to all tasks, and no list" {
  run -0 tasks --horovod -n2 --gpus-per-task=1 --gpu-bind=none
  same '0 none opens 12
1 none opens 12'
  run -0 placed -n2 --gpus-per-task=1 --gpu-bind=none
  same '0 0 - -
1 1 - -'
}

@test "a binding that Slurm drops for a single task binds nothing here either" {
  run -0 tasks --horovod -n1 --gpus-per-task=1 --gpu-bind=single:1
  same '0 0 opens 1'
  run -0 placed -n1 --gpus-per-task=1 --gpu-bind=single:1
  same '0 0 0 0000:02:00.0'
}

@test "a policy changes the list and never the cgroup" {
  run -0 tasks --horovod=gpu-bind=closest -n2 --gres=gpu:3
  [[ $(cut -d ' ' -f 2 <<<"$output" | xargs) == '1 2' && $(cut -d ' ' -f 4 <<<"$output" | sort -u) == 123 ]]
  run -0 tasks --horovod=gpu-bind=map:2:0 -n2 --gres=gpu:3
  [[ $(cut -d ' ' -f 2 <<<"$output" | sort -u) == 2,0,1 ]]
}
