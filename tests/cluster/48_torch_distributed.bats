#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# --horovod=env=torch: scripts for torch.distributed on real Slurm nodes, with Debian's PyTorch and its gloo.
#
# shellcheck disable=SC2016,SC2154 # what is quoted is for the tasks' shells; variables of bats

load helpers
load ../ranks/helpers

script=$BATS_TEST_DIRNAME/../python/programs/distributed.py
show='echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE on $SLURMD_NODENAME $NODE_RANK by $MASTER_ADDR"'

teardown() {
  assert_cluster_as_it_was
}

# ddp OPTION-OF-SRUN... [-- ARGUMENT...]: the script; output in $output, nothing in stderr.
ddp() {
  local options=()
  while (($#)) && [[ $1 != -- ]]; do options+=("$1") && shift; done
  run -0 --separate-stderr on_cluster env OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 srun "${options[@]}" \
    /usr/bin/python3 "$script" "${@:2}"
  [ -z "$stderr" ] || { printf 'stderr: %s\n' "$stderr" && return 1; }
}

# same LINES: what was written, sorted.
same() {
  diff <(echo "$1") <(sort <<<"$output")
}

@test "torch.distributed sums over 2 nodes x 2 ranks, and horovod in the same program" {
  ON_CLUSTER_SECONDS=120 ddp --horovod=env=torch -N2 --ntasks-per-node=2 -- --horovod
  same 'rank 0/4 local 0/2 node 0 by node0: sums are right
rank 1/4 local 1/2 node 0 by node0: sums are right
rank 2/4 local 0/2 node 1 by node0: sums are right
rank 3/4 local 1/2 node 1 by node0: sums are right'
}

@test "in heterogeneous and arbitrary steps the address is that of rank 0's node, which is number 0" {
  run -0 --separate-stderr heterogeneous srun -Q --horovod=env=torch -w node1 -n1 bash -c "$show" : \
    -w node0 -n2 bash -c "$show"
  same '0/3 0/1 on node1 0 by node1
1/3 0/2 on node0 1 by node1
2/3 1/2 on node0 1 by node1'
  printf '%s\n' node1 node0 node1 >"$HOME_OF_ALICE/hosts"
  run -0 --separate-stderr on_cluster env SLURM_HOSTFILE="$HOME_OF_ALICE/hosts" \
    srun --horovod=env=torch -N2 -n3 --distribution=arbitrary bash -c "$show"
  rm "$HOME_OF_ALICE/hosts"
  same '0/3 0/2 on node1 0 by node1
1/3 0/1 on node0 1 by node1
2/3 1/2 on node1 0 by node1'
}

@test "without env=torch there is none of it, also in a step inside one that has it" {
  run -0 on_cluster srun --horovod -n1 bash -c \
    'env | grep -E "^(MASTER|RANK|WORLD|LOCAL_|NODE_RANK|GROUP_RANK)" || echo none'
  [[ $output == none ]]
  run -0 on_cluster srun --horovod=env=torch -n1 --overlap bash -c \
    'srun --horovod=env=off --overlap -n1 bash -c "env | grep -E ^\(MASTER_\|RANK=\) || echo none"'
  [[ $output == none ]]
}

@test "each node prints its own report before the programs start" {
  run -0 --separate-stderr on_cluster srun --horovod=env=torch,report=json -w node0,node1 -N2 -n4 true
  [[ -z $output ]]
  output=$stderr
  expect_lines 1 '^\{"nodes": \[\{"node": "node0",'
  expect_lines 1 '^\{"nodes": \[\{"node": "node1",'
  expect_lines 2 ''
}
