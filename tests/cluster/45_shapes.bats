#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The ways in which people start steps, all with a program that uses the library: each rank finds its job, the right
# one, and the sums are right; jobs and steps that share a node do not see each other.
#
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

setup() {
  worker=$(build_dir)/tests/ranks/worker
  export worker # for what runs in a step
  # meets ME OTHER PROGRAM...: runs the program once OTHER runs on this node, too.
  meets=$HOME_OF_ALICE/shapes.meets
  # shellcheck disable=SC2016 # for the task's shell
  printf '%s\n' '#!/bin/bash' 'touch "/tmp/shapes.$1"' \
    'for _ in {1..400}; do [[ ! -e /tmp/shapes.$2 ]] || break; sleep 0.05; done' \
    '[[ -e /tmp/shapes.$2 ]] || { echo "$2 has not come to $1" >&2; exit 9; }' \
    'exec "${@:3}"' >"$meets"
  chmod 755 "$meets" "$HOME_OF_ALICE"
}

teardown() {
  local node
  for node in $(cluster_nodes); do node_exec "$node" bash -c 'rm -f /tmp/shapes.*'; done
  rm -f "$HOME_OF_ALICE"/shapes.*
  assert_cluster_as_it_was
}

# expect_ranks SIZE [COUNT]: every rank of a job of this size has said its place once (COUNT times), and right sums.
expect_ranks() {
  local rank
  for ((rank = 0; rank < $1; rank++)); do
    expect_lines "${2:-1}" "^$rank/$1 [0-9]+/[0-9]+ [0-9]+/[0-9]+\$"
    expect_lines "${2:-1}" "^rank $rank: sums are right\$"
  done
  expect_lines $(($1 * ${2:-1})) 'sums are right$'
}

@test "salloc --horovod: every srun in it is a job of its own, of the size it has" {
  # shellcheck disable=SC2016 # for the shell in the allocation
  run -0 on_cluster salloc -Q --horovod -N2 --ntasks-per-node=2 bash -c \
    'srun "$worker" place sum && srun -N1 -n2 "$worker" place sum'
  for rank in 0 1 2 3; do expect_lines 1 "^$rank/4 [01]/2 [01]/2\$"; done
  for rank in 0 1; do expect_lines 1 "^$rank/2 $rank/2 0/1\$"; done
  expect_lines 6 'sums are right$'
}

@test "salloc without the option: srun --horovod in it works alike" {
  # shellcheck disable=SC2016 # for the shell in the allocation
  run -0 on_cluster salloc -Q -N2 --ntasks-per-node=2 bash -c 'srun --horovod "$worker" place sum'
  expect_ranks 4
}

@test "--multi-prog: ranks of several programs are one job" {
  printf '%s\n' "0 /bin/sh -c 'exec $worker place sum'" "1-2 $worker place sum" "* /usr/bin/env $worker place sum" \
    >"$HOME_OF_ALICE/shapes.conf"
  run -0 on_cluster srun --horovod -N2 -n4 --ntasks-per-node=2 --multi-prog "$HOME_OF_ALICE/shapes.conf"
  expect_ranks 4
}

@test "a heterogeneous job: the ranks of its components are one job" {
  run -0 heterogeneous srun -Q --horovod -N1 -n2 "$worker" place sum : -N2 -n2 "$worker" place sum
  expect_ranks 4
  expect_lines 1 '^0/4 0/2 0/3$'
  expect_lines 1 '^3/4 0/1 2/3$'
}

@test "a heterogeneous step in an ordinary allocation: its ranks are one job" {
  # shellcheck disable=SC2016 # for the shell in the allocation
  run -0 heterogeneous salloc -Q -N3 -n6 --ntasks-per-node=2 bash -c \
    'srun --horovod -N1 -n2 "$worker" place sum : -N2 -n2 "$worker" place sum'
  expect_ranks 4
}

@test "--overlap: two steps of a job on the same nodes at the same time are two jobs" {
  # shellcheck disable=SC2016 # for the shell in the allocation
  run -0 on_cluster salloc -Q --horovod -N2 --ntasks-per-node=2 bash -c '
    srun --overlap "$0" one two "$worker" place sum & first=$!
    srun --overlap "$0" two one "$worker" place sum && wait $first' "$meets"
  expect_ranks 4 2
}

@test "several steps of a job on one node, each with CPUs of its own, are as many jobs" {
  # shellcheck disable=SC2016 # for the shell in the allocation
  run -0 on_cluster salloc -Q --horovod -N1 -n6 bash -c '
    srun --exact -n2 "$0" one two "$worker" place sum & first=$!
    srun --exact -n2 "$0" two three "$worker" place sum & second=$!
    srun --exact -n2 "$0" three one "$worker" place sum && wait $first && wait $second' "$meets"
  expect_ranks 2 3
}

@test "two jobs of two users on one node do not meet" {
  on_cluster srun --horovod -w node0 -N1 -n2 "$meets" alice bob "$worker" place sum >"$HOME_OF_ALICE/shapes.out" 2>&1 &
  local alice=$!
  run -0 timeout 60 "$cluster" exec --user bob -- srun --horovod -w node0 -N1 -n3 "$meets" bob alice "$worker" place sum
  expect_ranks 3
  wait "$alice"
  output=$(<"$HOME_OF_ALICE/shapes.out")
  expect_ranks 2
}

@test "--pty: the first rank has a terminal, and all ranks are one job" {
  run -0 on_cluster script -qec "srun --horovod --pty -N1 -n2 '$worker' place sum" /dev/null
  output=${output//$'\r'/}; output=${output#^@} # the echo of script's end of input
  expect_lines 1 '^0/2 0/2 0/1$'
  expect_lines 1 '^rank 0: sums are right$'
  run -0 on_cluster script -qec "srun --horovod --pty -N1 -n1 tty" /dev/null
  expect_lines 1 '/dev/pts/[0-9]+'
}

@test "a step inside a step is a job of its own, and the outer one goes on" {
  # shellcheck disable=SC2016 # for the task's shell
  run -0 on_cluster salloc -Q -N2 --ntasks-per-node=2 srun --horovod -n2 --ntasks-per-node=1 bash -c '
    if [[ $SLURM_PROCID == 0 ]]; then srun --horovod --overlap -n4 --ntasks-per-node=2 "$worker" place sum || exit; fi
    exec "$worker" place sum'
  expect_lines 1 '^3/4 1/2 1/2$'
  expect_lines 1 '^1/2 0/1 1/2$'
  expect_lines 6 'sums are right$'
}

@test "a plain step of one task inside a step is a job of one rank" {
  # shellcheck disable=SC2016 # for the task's shell
  run -0 on_cluster srun --horovod -N1 -n2 bash -c '
    if [[ $SLURM_PROCID == 0 ]]; then srun --overlap -N1 -n1 "$worker" place sum || exit; fi
    exec "$worker" place sum'
  expect_lines 1 '^0/1 0/1 0/1$'
  expect_lines 1 '^1/2 1/2 0/1$'
  expect_lines 3 'sums are right$'
}
