#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# How ranks begin, live and end under `srun --horovod`, on one node and on two: what 30_lifecycle.bats shows under
# mpirun, with Slurm's PMIx, its own numbers and its own way to end a step.
#
# shellcheck disable=SC2154 # variables of bats
# shellcheck disable=SC2016 # what is quoted is for the tasks' shells

load helpers
load ../ranks/helpers

setup() {
  lifecycle=$(build_dir)/tests/ranks/lifecycle
}

teardown() {
  rm -rf "$HOME_OF_ALICE"/lifecycle.*
  assert_cluster_as_it_was
}

# A step whose survivors decide: on one node no launcher ends it.
lenient() {
  on_cluster srun --horovod --kill-on-bad-exit=0 "$@"
}

two_nodes=(-w 'node0,node1' -N2 -n4 --ntasks-per-node=2) # a node that still completes another step would be passed over

# ---- disagreements ------------------------------------------------------------------------------

@test "what the script sets against Slurm and the plugin is told to the ranks of all nodes, with all numbers" {
  run -2 lenient "${two_nodes[@]}" bash -c '[[ $SLURM_PROCID != 3 ]] || export HOROVOD_RANK=0; exec "$0" init' "$lifecycle"
  expect_lines 4 '^rank [0-3]: init: 3 rank 3 on node1: PMIx says that this is rank 3 of 4, but the Slurm plugin said rank 0 of 4 \(HOROVOD_RANK, HOROVOD_SIZE\)\. Does the script set one of these variables\?$'
  run -2 lenient "${two_nodes[@]}" bash -c '[[ $SLURM_PROCID != 1 ]] || export SLURM_NTASKS=3; exec "$0" init' "$lifecycle"
  expect_lines 4 '^rank [0-3]: init: 3 rank 1 on node0: PMIx says that this is rank 1 of 4, but Slurm says rank 1 of 3 \(SLURM_PROCID, SLURM_NTASKS\)\. '
}

@test "a spawned child of a rank is told so, also with an environment from before hvd_init" {
  run -0 on_cluster srun --horovod -N2 -n2 "$lifecycle" init spawn spawn-clean sum
  expect_lines 4 '^rank [01]: init: 2 process [0-9]+ of this rank has initialised horovod already, '
  expect_lines 2 '^rank [01]: the sum is right$'
}

@test "behind wrappers a rank may be any process, and one program after the other" {
  run -0 on_cluster srun --horovod -N1 -n2 bash -c '"$0" init sum; "$0" init sum & wait' "$lifecycle"
  expect_lines 4 '^rank [01]: the sum is right$'
}

# ---- late ranks ---------------------------------------------------------------------------------

@test "ranks that never come are named with their nodes by the ranks of all nodes" {
  HOROVOD_START_TIMEOUT=1s run -2 lenient -N3 -n6 --ntasks-per-node=2 \
    bash -c 'case $SLURM_PROCID in 1 | 4) sleep 4; exit 2 ;; esac; exec "$0" init' "$lifecycle"
  expect_lines 4 '^rank [0235]: init: 6 rank 1 on node0, rank 4 on node2 did not come to hvd_init in time\. '
}

# ---- the program's own MPI ----------------------------------------------------------------------

@test "the program's own MPI before hvd_init: any level on one node, THREAD_MULTIPLE on two" {
  run -0 on_cluster srun --horovod -N1 -n2 "$lifecycle" mpi=single init sum mpi-sum mpi-end
  expect_lines 2 "^rank [01]: MPI's sum is right$"
  run -0 on_cluster srun --horovod "${two_nodes[@]}" "$lifecycle" mpi=multiple init sum mpi-sum mpi-end
  expect_lines 4 "^rank [0-3]: MPI's sum is right$"
  run on_cluster srun --horovod -w node0,node1 -N2 -n2 env LIFE_LINGER_MS=500 "$lifecycle" mpi=single init
  [[ $status != 0 ]]
  expect_lines 2 '^rank [01]: init: 2 the program has initialised MPI for too few threads: rank 0 on node0 with MPI_THREAD_SINGLE, rank 1 on node1 with MPI_THREAD_SINGLE\. '
}

# ---- ends ---------------------------------------------------------------------------------------

@test "a rank that ends by return or exit(0) has shut down; the others are told, and srun ends with 0" {
  run -0 on_cluster srun --horovod -w node0 -N1 -n2 "$lifecycle" init sum end=return
  expect_lines 1 '^rank 0: wait: 5 rank 1 on node0 has shut down$'
  LIFE_RANK=2 run -0 on_cluster srun --horovod "${two_nodes[@]}" "$lifecycle" init sum end=exit0
  expect_lines 3 '^rank [013]: wait: 5 rank 2 on node1 has shut down$'
}

@test "exit(3) and _exit(0) are deaths: one line, every wait says who, srun does not end with 0" {
  local how
  for how in exit3 _exit0; do
    run lenient -w node0 -N1 -n3 "$lifecycle" init sum end=$how
    [[ $status != 0 ]]
    expect_lines 1 '^horovod: rank 1 on node0 is gone \((connection closed|process ended)\); 2 ranks stop$'
    expect_lines 2 '^rank [02]: wait: 4 rank 1 on node0 is gone '
  done
  run on_cluster srun --horovod "${two_nodes[@]}" "$lifecycle" init sum end=_exit0
  [[ $status != 0 ]]
  expect_lines 1 '^horovod: rank 1 on node0 is gone \((connection closed|process ended)\); 3 ranks stop$'
}

@test "shutdown with operations outstanding, and 8 threads at once, on two nodes" {
  run -0 on_cluster srun --horovod -N2 -n2 "$lifecycle" init threads outstanding
  expect_lines 2 '^rank [01]: 8 threads of 100 sums$'
  expect_lines 2 '^rank [01]: outstanding: 5 (rank [01] on node[0-3] has )?shut down$'
}

@test "forked workers do not disturb; one that outlives its rank does not hide the rank's death" {
  run -0 on_cluster srun --horovod "${two_nodes[@]}" "$lifecycle" init child sum
  expect_lines 4 '^rank [0-3]: child ended with 0$'
  expect_lines 4 '^rank [0-3]: the sum is right$'
  for place in '-N1 -n2' '-N2 -n2'; do
    # shellcheck disable=SC2086 # words
    LIFE_WORKER_MS=1500 run on_cluster srun --horovod $place "$lifecycle" init outlived
    [[ $status != 0 ]]
    expect_lines 1 '^worker holds nothing: yes$'
    expect_lines 1 '^horovod: rank 1 on node[0-3] is gone '
    awk '/^died at/ {died = $3} /heard at/ {heard = $5} END {exit heard && heard - died > 1000}' <<<"$output"
  done
}

# ---- signals ------------------------------------------------------------------------------------

waiting() { grep -q '^waiting' "$HOME_OF_ALICE/lifecycle.out"; }

@test "Ctrl-C twice ends the job, whatever its ranks wait for, and leaves nothing" {
  run on_cluster bash -c 'set -m
    srun --horovod -N2 -n4 "$0" init wait=default >~/lifecycle.out 2>&1 &
    until grep -q ^waiting ~/lifecycle.out || ((SECONDS > 20)); do sleep 0.05; done
    kill -INT $! && sleep 0.3 && kill -INT $!
    wait $!; echo "srun: $?, in time: $((SECONDS < 30))"' "$lifecycle"
  expect_lines 1 '^srun: [1-9][0-9]*, in time: 1$'
  waiting
}

@test "Python on two nodes: KeyboardInterrupt during a wait, then the program leaves in order" {
  local job status=0
  HVD_LIBRARY=$(build_dir)/libhvd/.libs/libhvd.so on_cluster srun --horovod -N2 -n2 -w node0,node1 \
    /usr/bin/python3 "$BATS_TEST_DIRNAME/../ranks/lifecycle.py" interrupt >"$HOME_OF_ALICE/lifecycle.out" 2>&1 &
  job=$!
  wait_until 20 waiting
  node_exec node1 kill -INT "$(sed -n 's/^waiting 1 //p' "$HOME_OF_ALICE/lifecycle.out")"
  wait "$job" || status=$?
  output=$(<"$HOME_OF_ALICE/lifecycle.out")
  expect_lines 1 '^rank 1 KeyboardInterrupt, shutdown 0$'
  expect_lines 1 '^rank 0 wait: 5 rank 1 on node1 has shut down$'
  [[ $status == 0 ]]
}
