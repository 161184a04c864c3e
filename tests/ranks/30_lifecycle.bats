#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# How ranks begin, live and end, under Open MPI's mpirun: who disagrees or is late is named by everybody, every way to
# end is told from the others, and nothing is left. Nodes are simulated by HOROVOD_HOSTNAME.
#
# shellcheck disable=SC2154 # variables of bats

load helpers

export RANKS_SECONDS=30
# mpirun ends the others of a job that has failed at once, not after two seconds.
export OMPI_MCA_odls_base_sigkill_timeout=0
export LIFE_LINGER_MS=300 LIFE_WORKER_MS=1500

setup() {
  lifecycle=$(build_dir)/tests/ranks/lifecycle
  host=$(hostname)
  on_nodes=$BATS_TEST_TMPDIR/on-nodes
  # shellcheck disable=SC2016 # for the rank's shell
  printf '%s\n' '#!/bin/bash' 'export HOROVOD_HOSTNAME=sim$((OMPI_COMM_WORLD_RANK / $1))' 'shift' 'exec "$@"' \
    >"$on_nodes"
  chmod +x "$on_nodes"
  export LIFE_TEST=$BATS_TEST_TMPDIR # marks the processes of this test
}

teardown() {
  assert_nothing_left
}

# ---- disagreements ------------------------------------------------------------------------------

how_mpi='Is this MPI built with the launcher.s PMIx\? srun --mpi=list and ompi_info tell$'

@test "the program's MPI that sees other ranks than PMIx is fatal on all ranks, with all the numbers" {
  LIFE_MPI=0/1 run -2 ranks 2 "$lifecycle" mpi=multiple init
  expect_lines 2 "^rank [01]: init: 3 rank 0 on $host is rank 0 of 2 for PMIx and rank 0 of 1 for MPI, rank 1 on $host is rank 1 of 2 for PMIx and rank 0 of 1 for MPI\. $how_mpi"
}

@test "so is libhvd's own MPI between nodes" {
  LIFE_MPI=0/1 run -2 ranks 2 "$on_nodes" 1 "$lifecycle" init
  expect_lines 1 "^rank 0: init: 3 PMIx says that this is rank 0 of 2, but MPI says rank 0 of 1\. $how_mpi"
  expect_lines 1 "^rank 1: init: 3 PMIx says that this is rank 1 of 2, but MPI says rank 0 of 1\. $how_mpi"
}

@test "different versions of the library: every rank is told both, with ranks and hosts" {
  local version other=$BATS_TEST_TMPDIR/libhvd.so.0
  version=$(sed -n 's/^#define PACKAGE_VERSION "\(.*\)"/\1/p' "$(build_dir)/config.h")
  sed "s/$version/${version//[0-9]/9}/g" "$(build_dir)/libhvd/.libs/libhvd.so.0" >"$other"
  printf '%s\n' '#!/bin/bash' "[[ \$OMPI_COMM_WORLD_RANK != 1 ]] || export LD_PRELOAD=$other" 'exec "$@"' >"$BATS_TEST_TMPDIR/run"
  chmod +x "$BATS_TEST_TMPDIR/run"
  run -2 ranks 3 "$BATS_TEST_TMPDIR/run" "$lifecycle" init
  expect_lines 3 "^rank [012]: init: 3 rank 0 on $host, rank 2 on $host have libhvd $version; rank 1 on $host has libhvd ${version//[0-9]/9}\. All ranks must load the same$"
}

# ---- the program's own MPI ----------------------------------------------------------------------

@test "on one node the program's own MPI before hvd_init may have any level of threads" {
  for level in single funneled multiple; do
    run -0 ranks 2 "$lifecycle" mpi=$level init sum mpi-sum mpi-end
    expect_lines 2 "^rank [01]: the sum is right$"
    expect_lines 2 "^rank [01]: MPI's sum is right$"
  done
  run -0 ranks 2 "$lifecycle" mpi=single mpi-end init sum
  expect_lines 2 "^rank [01]: the sum is right$"
}

@test "on one node the program's own MPI may come after hvd_init and go before the end" {
  run -0 ranks 2 "$lifecycle" init sum mpi=single mpi-sum mpi-end sum
  expect_lines 4 "^rank [01]: the sum is right$"
  expect_lines 2 "^rank [01]: MPI's sum is right$"
}

# It crashed: libhvd looked after its messages while the program finalised MPI.
@test "between nodes the program's own MPI of THREAD_MULTIPLE is shared, and may be finalised before or after shutdown" {
  run -0 ranks 2 "$on_nodes" 1 "$lifecycle" mpi=multiple init sum mpi-sum mpi-end
  expect_lines 2 "^rank [01]: the sum is right$"
  expect_lines 2 "^rank [01]: MPI's sum is right$"
  run -0 ranks 2 "$on_nodes" 1 "$lifecycle" mpi=multiple init sum shutdown mpi-sum mpi-end
  expect_lines 2 "^rank [01]: MPI's sum is right$"
}

@test "between nodes less is refused by a sentence that says what to call, on every rank; so is MPI that was finalised" {
  local level name
  for level in single serialized; do
    name=MPI_THREAD_${level^^}
    run -2 ranks 2 "$on_nodes" 1 "$lifecycle" mpi=$level init
    expect_lines 2 "^rank [01]: init: 2 the program has initialised MPI for too few threads: rank 0 on sim0 with $name, rank 1 on sim1 with $name\. Two users of MPI in a process need MPI_THREAD_MULTIPLE: call MPI_Init_thread with it, or leave MPI to hvd_init$"
  done
  HOROVOD_MPI=eager run -2 ranks 2 "$lifecycle" mpi=single init
  expect_lines 2 "^rank [01]: init: 2 the program has initialised MPI for too few threads: "
  run -2 ranks 2 "$on_nodes" 1 "$lifecycle" mpi=multiple mpi-end init
  expect_lines 2 "^rank [01]: init: 2 rank 0 on sim0, rank 1 on sim1: the program has finalised MPI before hvd_init, and tensors travel between nodes by it\. Finalise it after hvd_shutdown, or leave MPI to hvd_init$"
}

# ---- processes of one rank ----------------------------------------------------------------------

@test "a spawned child of a rank is told so, also with an environment from before hvd_init; the rank goes on" {
  run -0 ranks 2 "$lifecycle" init spawn spawn-clean sum
  expect_lines 4 "^rank [01]: init: 2 process [0-9]+ of this rank has initialised horovod already, and a rank is one process\. Initialise in one of them only \(data loaders and other helpers need no init\)$"
  expect_lines 4 "^rank [01]: spawned child ended with 2$"
  expect_lines 2 "^rank [01]: the sum is right$"
}

@test "behind wrappers a rank may be any process, and one program after the other" {
  run -0 ranks 2 bash -c "$lifecycle init sum; $lifecycle init sum & wait"
  expect_lines 4 "^rank [01]: the sum is right$"
}

@test "a forked child is told that it is no rank, and its end by exit(0) disturbs nobody" {
  run -0 ranks 2 "$lifecycle" init child sum
  for call in sum init wait; do
    expect_lines 2 "^rank [01]: child's $call: 2 this process was forked from a rank and is none itself; use spawn instead of fork, or call the operation in the parent$"
  done
  expect_lines 2 "^rank [01]: child ended with 0$"
  expect_lines 2 "^rank [01]: the sum is right$"
}

# heard_within MS: all survivors heard of the death so soon.
heard_within() {
  local died heard
  died=$(sed -n 's/^died at //p' <<<"$output")
  for heard in $(sed -n 's/^rank .: heard at //p' <<<"$output"); do
    ((heard - died <= $1)) || return 1
  done
}

@test "a worker that outlives its rank holds nothing of ours, and the rank's death is seen within a second" {
  run ranks 2 "$lifecycle" init outlived
  [[ $status != 0 ]]
  expect_lines 1 "^worker holds nothing: yes$"
  expect_lines 1 "^rank 0: wait: 4 rank 1 on $host is gone \(connection closed\); 1 rank stops$"
  heard_within 1000
  LIFE_RANK=0 run ranks 4 "$on_nodes" 2 "$lifecycle" init outlived
  expect_lines 1 "^worker holds nothing: yes$"
  expect_lines 1 "^horovod: rank 0 on sim0 is gone \((connection closed|process ended)\); 3 ranks stop$"
  heard_within 1000
}
