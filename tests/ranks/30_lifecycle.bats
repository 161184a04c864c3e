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

# heard_within MS: all survivors heard of the death so soon.
heard_within() {
  # shellcheck disable=SC2031 # bats's
  awk -v limit="$1" '/^died at/ {died = $3} / heard at / {heard[NR] = $5}
    END {for (i in heard) {n++; if (heard[i] - died > limit) exit 1} exit !n}' <<<"$output"
}

# dying N PROGRAM...: like ranks, and the survivors of a death have a second to say what they hear.
dying() {
  OMPI_MCA_odls_base_sigkill_timeout=1 ranks "$@"
}

# signalled SIGNAL COMMAND...: the command, in the background, with a signal sent to the rank that says "waiting"; leaves
# output and status.
signalled() {
  local signal=$1 out=$BATS_TEST_TMPDIR/out pid job deadline=$((SECONDS + 20))
  shift
  : >"$out" # the last one's
  "$@" >"$out" 2>&1 &
  job=$!
  until pid=$(sed -n 's/^waiting [0-9]* //p' "$out") && [[ -n $pid ]]; do
    ((SECONDS < deadline)) || return 1
    sleep 0.05
  done
  kill "-$signal" "$pid"
  status=0
  wait "$job" || status=$?
  output=$(<"$out")
}

# all_say COUNT TEXT: so many ranks end with this timeout of hvd_init.
all_say() {
  expect_lines "$1" "^rank [0-9]: init: 6 $2\. If it is only slow, raise HOROVOD_START_TIMEOUT\$"
}

# ---- disagreements ------------------------------------------------------------------------------

how_mpi='Is this MPI built with the launcher.s PMIx\? srun --mpi=list and ompi_info tell$'

@test "CONTRACT 3.11: the program's MPI that sees other ranks than PMIx is fatal on all ranks, with all the numbers" {
  LIFE_MPI=0/1 run -2 ranks 2 "$lifecycle" mpi=multiple init
  expect_lines 2 "^rank [01]: init: 3 rank 0 on $host is rank 0 of 2 for PMIx and rank 0 of 1 for MPI, rank 1 on $host is rank 1 of 2 for PMIx and rank 0 of 1 for MPI\. $how_mpi"
}

@test "CONTRACT 3.11: so is libhvd's own MPI between nodes" {
  LIFE_MPI=0/1 run -2 ranks 2 "$on_nodes" 1 "$lifecycle" init
  expect_lines 1 "^rank 0: init: 3 PMIx says that this is rank 0 of 2, but MPI says rank 0 of 1\. $how_mpi"
  expect_lines 1 "^rank 1: init: 3 PMIx says that this is rank 1 of 2, but MPI says rank 0 of 1\. $how_mpi"
}

@test "CONTRACT 3.11: different versions of the library: every rank is told both, with ranks and hosts" {
  local version runtime other=$BATS_TEST_TMPDIR/libhvd.so.0
  version=$(sed -n 's/^#define PACKAGE_VERSION "\(.*\)"/\1/p' "$(build_dir)/config.h")
  sed "s/$version/${version//[0-9]/9}/g" "$(build_dir)/libhvd/.libs/libhvd.so.0" >"$other"
  # A sanitizer's runtime has to come first, and must not look into the shells that start the program.
  runtime=$(ldd "$(build_dir)/tests/ranks/.libs/lifecycle" | awk '$1 ~ /^lib[a-z]+san\./ {printf "%s:", $3}')
  # shellcheck disable=SC2016 # for the rank's shell
  printf '%s\n' '#!/bin/bash' 'if [[ $OMPI_COMM_WORLD_RANK == 1 ]]; then' \
    "  export LD_PRELOAD=$runtime$other ASAN_OPTIONS=\${ASAN_OPTIONS:-}:detect_leaks=0" 'fi' 'exec "$@"' \
    >"$BATS_TEST_TMPDIR/run"
  chmod +x "$BATS_TEST_TMPDIR/run"
  run -2 ranks 3 "$BATS_TEST_TMPDIR/run" "$lifecycle" init
  expect_lines 3 "^rank [012]: init: 3 rank 0 on $host, rank 2 on $host have libhvd $version; rank 1 on $host has libhvd ${version//[0-9]/9}\. All ranks must load the same$"
}

# ---- the program's own MPI ----------------------------------------------------------------------

@test "CONTRACT 3.7: on one node the program's own MPI before hvd_init may have any level of threads" {
  for level in single funneled multiple; do
    run -0 ranks 2 "$lifecycle" mpi=$level init sum mpi-sum mpi-end
    expect_lines 2 "^rank [01]: the sum is right$"
    expect_lines 2 "^rank [01]: MPI's sum is right$"
  done
  run -0 ranks_twice_connected 2 "$lifecycle" mpi=single mpi-end init sum
  expect_lines 2 "^rank [01]: the sum is right$"
}

@test "CONTRACT 3.7: on one node the program's own MPI may come after hvd_init and go before the end" {
  run -0 ranks_twice_connected 2 "$lifecycle" init sum mpi=single mpi-sum mpi-end sum
  expect_lines 4 "^rank [01]: the sum is right$"
  expect_lines 2 "^rank [01]: MPI's sum is right$"
}

# It crashed: libhvd looked after its messages while the program finalised MPI.
@test "CONTRACT 3.7: between nodes the program's own MPI of THREAD_MULTIPLE is shared, and may be finalised before or after shutdown" {
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
  # A rank that comes to hvd_init while another is still in MPI_Finalize must not take it for gone.
  run -2 ranks 2 "$on_nodes" 1 "$lifecycle" mpi=multiple mpi-end-late init
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

@test "a child forked while a thread is in hvd_init is told that it is no rank; the job starts" {
  run -0 ranks 2 "$lifecycle" child-of-init sum
  expect_lines 1 "^rank 0: child's init: 2 this process was forked from a rank and is none itself"
  expect_lines 1 "^rank 0: child ended with 0, init with 0$"
  expect_lines 2 "^rank [01]: the sum is right$"
}

@test "a worker that outlives its rank holds nothing of ours, and the rank's death is seen within a second" {
  run dying 2 "$lifecycle" init outlived
  [[ $status != 0 ]]
  expect_lines 1 "^worker holds nothing: yes$"
  expect_lines 1 "^rank 0: wait: 4 rank 1 on $host is gone \(connection closed\); 1 rank stops$"
  heard_within 1000
  LIFE_RANK=0 run dying 4 "$on_nodes" 2 "$lifecycle" init outlived
  expect_lines 1 "^worker holds nothing: yes$"
  expect_lines 1 "^horovod: rank 0 on sim0 is gone \((connection closed|process ended)\); 3 ranks stop$"
  heard_within 1000
}

# ---- ends -----------------------------------------------------------------------------------------

@test "a rank that ends by return or exit(0) without shutdown has shut down; the others are told and go on" {
  local how
  for how in return exit0; do
    run -0 ranks 2 "$lifecycle" init sum end=$how
    expect_lines 1 "^rank 0: wait: 5 rank 1 on $host has shut down$"
    expect_lines 0 'is gone'
  done
  run -0 ranks 4 "$on_nodes" 2 "$lifecycle" init sum end=exit0
  expect_lines 3 "^rank [023]: wait: 5 rank 1 on sim0 has shut down$"
  LIFE_RANK=2 run -0 ranks 4 "$on_nodes" 2 "$lifecycle" init sum end=return
  expect_lines 3 "^rank [013]: wait: 5 rank 2 on sim1 has shut down$"
}

@test "exit(3), _exit(0) and abort are deaths: one line, and every wait says who" {
  local how
  for how in exit3 abort; do
    run dying 3 "$lifecycle" init sum end=$how
    [[ $status != 0 ]]
    expect_lines 1 "^horovod: rank 1 on $host is gone \((connection closed|process ended)\); 2 ranks stop$"
    expect_lines 2 "^rank [02]: wait: 4 rank 1 on $host is gone \((connection closed|process ended)\); 2 ranks stop$"
  done
  run dying 4 "$on_nodes" 2 "$lifecycle" init sum end=_exit0
  [[ $status != 0 ]]
  expect_lines 1 "^horovod: rank 1 on sim0 is gone \((connection closed|process ended)\); 3 ranks stop$"
  expect_lines 3 "^rank [023]: wait: 4 rank 1 on sim0 is gone "
}

@test "CONTRACT 3.7: shutdown with operations outstanding: they fail with \"shut down\", memory is left alone, the process ends well" {
  run -0 ranks 3 "$lifecycle" init outstanding
  expect_lines 3 "^rank [0-2]: outstanding: 5 (rank [0-3] on [^ ]+ has )?shut down$"
  run -0 ranks 4 "$on_nodes" 2 "$lifecycle" init outstanding
  expect_lines 4 "^rank [0-3]: outstanding: 5 (rank [0-3] on [^ ]+ has )?shut down$"
}

@test "8 threads of a rank submit and wait at once, on one node and on two" {
  run -0 ranks 2 "$lifecycle" init threads
  expect_lines 2 "^rank [01]: 8 threads of 100 sums$"
  run -0 ranks 2 "$on_nodes" 1 "$lifecycle" init threads
  expect_lines 2 "^rank [01]: 8 threads of 100 sums$"
}

# ---- signals ------------------------------------------------------------------------------------

@test "SIGINT and SIGTERM during a wait end the process by default, and the others hear of it" {
  for signal in INT TERM; do
    signalled $signal dying 2 "$lifecycle" init wait=default
    [[ $status != 0 ]]
    expect_lines 1 "^horovod: rank 1 on $host is gone \((connection closed|process ended)\); 1 rank stops$"
    expect_lines 1 "^rank 0: wait: 4 rank 1 on $host is gone "
  done
}

@test "a handler runs between slices of a wait, and the program leaves in order" {
  signalled INT ranks 2 "$lifecycle" init wait=flag
  [[ $status == 0 ]]
  expect_lines 1 "^rank 1: leaves after a signal$"
  expect_lines 1 "^rank 0: wait: 5 rank 1 on $host has shut down$"
  signalled TERM ranks 4 "$on_nodes" 2 "$lifecycle" init wait=flag
  [[ $status == 0 ]]
  expect_lines 3 "^rank [023]: wait: 5 rank 1 on sim0 has shut down$"
}

@test "exit() in a handler that interrupted a wait does not hang; the rank is gone" {
  for how in exit0 exit3; do
    signalled TERM dying 2 "$lifecycle" init wait=$how
    expect_lines 1 "^rank 0: wait: 4 rank 1 on $host is gone \((connection closed|process ended)\); 1 rank stops$"
  done
}

# ---- Python, on libhvd alone --------------------------------------------------------------------

# A library with sanitizers needs their runtimes in the program from the beginning (libtool links none to it); what
# Python leaves allocated is not ours.
in_python() {
  local library sanitizers=()
  library=$(build_dir)/libhvd/.libs/libhvd.so
  if nm --dynamic "$library" | grep -q __asan_init; then
    sanitizers=("LD_PRELOAD=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so):${LD_PRELOAD:-}"
      "ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0")
  fi
  HVD_LIBRARY=$library "$1" 2 env "${sanitizers[@]}" /usr/bin/python3 "$BATS_TEST_DIRNAME/lifecycle.py" "${@:2}"
}

@test "Python: KeyboardInterrupt comes during a wait in slices, and the program leaves in order" {
  signalled INT in_python ranks interrupt
  [[ $status == 0 ]]
  expect_lines 1 "^rank 1 KeyboardInterrupt, shutdown 0$"
  expect_lines 1 "^rank 0 wait: 5 rank 1 on $host has shut down$"
}

@test "Python: forked workers are told that they are no ranks, and do not disturb; a spawned child, too" {
  run -0 in_python ranks workers
  expect_lines 6 "^rank [01] worker's sum: 2 this process was forked from a rank and is none itself; "
  expect_lines 2 "^rank [01] workers \[0, 0, 0\]$"
  expect_lines 4 "^rank [01] sum 2\.0$"
  run -0 in_python ranks spawn
  expect_lines 2 "^rank [01] child's init: 2 process [0-9]+ of this rank has initialised horovod already, "
  expect_lines 2 "^rank [01] sum 2\.0$"
}

@test "Python: sys.exit(0) has shut down, sys.exit(3) is a death" {
  run -0 in_python ranks exit 0
  expect_lines 1 "^rank 0 wait: 5 rank 1 on $host has shut down$"
  run in_python dying exit 3
  [[ $status != 0 ]]
  expect_lines 1 "^horovod: rank 1 on $host is gone "
}

# ---- late ranks ---------------------------------------------------------------------------------

@test "ranks that never come are named with their host by everybody, at the start timeout" {
  HOROVOD_START_TIMEOUT=1s run -2 ranks 3 "$lifecycle" late init
  expect_lines 2 "^rank [02]: init: 6 rank 1 on $host did not come to hvd_init in time\. Look at what they do; if they are only slow, raise HOROVOD_START_TIMEOUT$"
  HOROVOD_START_TIMEOUT=1s run -2 ranks 4 "$on_nodes" 2 bash -c \
    "LIFE_RANK=\$((OMPI_COMM_WORLD_RANK == 1 || OMPI_COMM_WORLD_RANK == 2 ? OMPI_COMM_WORLD_RANK : 9)) exec $lifecycle late init"
  expect_lines 2 "^rank [03]: init: 6 rank 1 on $host, rank 2 on $host did not come to hvd_init in time\. "
}

@test "on one node a rank that stops before it has connected is named by everybody" {
  LIFE_STOP=join HOROVOD_START_TIMEOUT=500ms run -2 ranks 3 "$lifecycle" init
  all_say 2 "rank 1 on $host did not connect to rank 0 on $host in time"
}

# Its own node knew, or nobody; the others took those that gave up for dead.
@test "on several nodes a rank that stops before it has connected is named by the ranks of all nodes" {
  local point late text
  while read -r -u 4 point late text; do
    LIFE_STOP=$point LIFE_RANK=$late HOROVOD_START_TIMEOUT=500ms \
      run -2 ranks 4 "$on_nodes" 2 "$lifecycle" init
    all_say 3 "$text"
    expect_lines 0 'is gone'
  done 4<<'END'
join 3 rank 3 on sim1 did not connect to rank 2 on sim1 in time
engine 3 rank 3 on sim1 did not come to the start in time
END
}
