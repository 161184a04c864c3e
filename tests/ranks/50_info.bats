#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# hvd-info as a user runs it: alone, as a rank of a job that it does not join, and asking a rank that runs.
#
# shellcheck disable=SC2154 # variables of bats

load helpers

setup() {
  info=${HVD_PREFIX:-$(build_dir)/prefix}/bin/hvd-info
  worker=$(build_dir)/tests/ranks/worker
  export WORKER_GO=$BATS_TEST_TMPDIR/go
  said=$BATS_TEST_TMPDIR/said
}

teardown() {
  if [[ -n ${job:-} ]]; then
    touch "$WORKER_GO"
    [[ -z ${stopped:-} ]] || kill -CONT "$stopped" 2>/dev/null || true
    kill "$job" 2>/dev/null || true
    wait "$job" || true
  fi
}

# start N COMMAND...: the command in the background, until N ranks hold.
start() {
  local n=$1 deadline=$((SECONDS + 30))
  shift
  "$@" >"$said" 2>&1 3>&- &
  job=$!
  until [[ $(grep -c '^holding ' "$said") == "$n" ]]; do
    ((SECONDS < deadline)) || { cat "$said" && return 1; }
    sleep 0.05
  done
}

# pid_of RANK
pid_of() {
  awk -v rank="$1" '$1 == "holding" && $3 == rank { print $2 }' "$said"
}

# let_go: what was started ends, and well.
let_go() {
  touch "$WORKER_GO"
  wait "$job"
  job=
}

# in_json EXPRESSION: true of the object in $output, which is d.
in_json() {
  python3 - "$1" "$output" <<'END'
import json, sys
d = json.loads(sys.argv[2])
if not eval(sys.argv[1]):
    sys.exit("not so: %s\nin: %s" % (sys.argv[1], d))
END
}

@test "hvd-info alone says what is built, what is loaded, and every setting with its origin; it exits 0" {
  HOROVOD_FUSION_THRESHOLD=1M run -0 --separate-stderr "$info"
  expect_lines 1 '^hvd-info [0-9]+\.[0-9]+\.[0-9]+$'
  expect_lines 1 '^  no launcher: a program here is a job of one rank$'
  expect_lines 1 '^  fusion-threshold      1M            environment$'
  expect_lines 1 '^  cycle-time            0s            built-in$'
  expect_lines 1 '^  libhvd            [0-9.]+, /.*/libhvd\.so\.[0-9.]+$'
  expect_lines 1 '^  CUDA              (not found|[0-9]+\.[0-9]+, /.*libcuda.*)$'
  expect_lines 1 '^  NCCL              (not found|[0-9.]+, /.*libnccl.*)$'
  expect_lines 1 '^  sanitizer         '
  [ "$stderr" = "" ]
}

# gpu_library FILE FUNCTION VERSION: a library that tells its version and can nothing else.
gpu_library() {
  cc -shared -fPIC -x c -o "$1" - <<<"int $2(int *version) { *version = $3; return 0; }"
}

@test "hvd-info: a machine without CUDA has one line about GPUs, and all is well" {
  run -0 --separate-stderr "$info" --json
  in_json 'd["gpu"]["nccl"] is None or d["gpu"]["cuda"]["path"]' # other machines have CUDA
  run -0 --separate-stderr "$info"
  expect_lines 1 '^gpu \(this release reduces tensors on the CPU and uses none of it\)$'
  expect_lines 1 '^  CUDA              (libcuda\.so\.1: cannot open shared object file: No such file or directory|could be used)$'
  [ "$stderr" = "" ]
}

@test "hvd-info: CUDA and NCCL that will not do are told with the reason, from HOROVOD_NCCL_LIB too" {
  gpu_library "$BATS_TEST_TMPDIR/libcuda.so.1" cuDriverGetVersion 10020
  gpu_library "$BATS_TEST_TMPDIR/mine.so" ncclGetVersion 22501
  export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} HOROVOD_NCCL_LIB=$BATS_TEST_TMPDIR/mine.so
  run -0 --separate-stderr "$info"
  expect_lines 1 '^  CUDA              10\.2, /.*/libcuda\.so\.1$'
  expect_lines 1 '^  NCCL              2\.25\.1, /.*/mine\.so$'
  expect_lines 1 '^  CUDA              the CUDA driver "/.*/libcuda\.so\.1" is for CUDA 10\.2; 11\.0 is the oldest that will do$'
  expect_lines 1 '^  NCCL              NCCL 2\.25\.1 may hang for ever in ncclCommAbort; 2\.26\.2 does not\. Install 2\.28\.9'
  expect_lines 1 '^  nccl-lib              /.*/mine\.so +environment$'
  [ "$stderr" = "" ]
  HOROVOD_NCCL_LIB=/nowhere.so run -0 "$info" --json
  in_json 'd["gpu"]["nccl"]["reason"].startswith("HOROVOD_NCCL_LIB is \"/nowhere.so\", which cannot be opened: ")'
  in_json 'd["gpu"]["cuda"]["version"] == "10.2" and d["gpu"]["cuda"]["usable"] is False'
}

@test "hvd-info --json says the same in one object with the promised keys" {
  HOROVOD_SLOTS=8 HOROVOD_FUSION_TRESHOLD=1 run -0 "$info" --json
  in_json 'sorted(d) == sorted("version layout settings remarks errors libraries gpu python built".split())'
  in_json 'sorted(d["built"]) == sorted("Slurm PMIx MPI hwloc CUDA sanitizer".split())'
  in_json '[l["name"] for l in d["libraries"]] == "libhvd PMIx MPI CUDA NCCL".split()'
  in_json 'all(sorted(l) == ["name", "path", "version"] for l in d["libraries"])'
  in_json 'd["libraries"][0]["version"] == d["version"]'
  in_json 'all(ord(c) >= 32 for l in d["libraries"] for c in l["version"] or "")'
  in_json 'all(sorted(s) == ["key", "origin", "value", "variable"] for s in d["settings"])'
  in_json '[(s["value"], s["origin"]) for s in d["settings"] if s["key"] == "slots"] == [("8", "environment")]'
  in_json 'd["layout"] == {"source": "none", "rank": 0, "size": 1, "host": __import__("socket").gethostname()}'
  in_json 'd["errors"] == [] and len(d["remarks"]) == 1'
  in_json '"did you mean HOROVOD_FUSION_THRESHOLD?" in d["remarks"][0]'
}

@test "hvd-info shows bad values as errors, exits 1, and says the rest all the same" {
  HOROVOD_CYCLE_TIME=soon HOROVOD_SLOTS=99 HOROVOD_MPI=eager run -1 "$info"
  expect_lines 1 '^  HOROVOD_CYCLE_TIME is "soon", not a duration; write a number of milliseconds, or 2ms$'
  expect_lines 1 '^  HOROVOD_SLOTS is "99", more than 16, the most$'
  expect_lines 1 '^  mpi                   eager         environment$'
  expect_lines 1 '^  libhvd '
}

@test "hvd-info as several ranks under mpirun: rank 0 alone speaks, all with --all-ranks, and none joins" {
  run -0 --separate-stderr ranks 3 "$info"
  expect_lines 1 '^hvd-info '
  expect_lines 1 '^  rank 0 of 3 on [^ ]+; hvd_init will find the rest$'
  [ "$stderr" = "" ]
  # mpirun passes a line of more than 4 KB on in pieces, perhaps with another rank's between them.
  run -0 bash -c 'grep -o "\"source\": \"launcher\", \"rank\": [0-2], \"size\": 3"' \
    <<<"$(ranks 3 "$info" --all-ranks --json)"
  expect_lines 3 .
  run -0 sort -u <<<"$output"
  expect_lines 3 .
}

@test "hvd-info --pid on a live rank: who it is, what it waits for, what it has loaded" {
  HOROVOD_SLOTS=8 start 3 ranks 3 "$worker" sum hold
  run -0 --separate-stderr "$info" --pid "$(pid_of 0)"
  expect_lines 1 "^process $(pid_of 0): rank 0 of 3 on [^ ]+, local rank 0 of 3, cross rank 0 of 1$"
  expect_lines 1 '^  initialised$'
  expect_lines 1 '^  waiting for other ranks  [0-9.]+ s +allreduce "held" float32 \[3,4\]$'
  expect_lines 1 '^  [^ ]+ +ranks 0-2$'
  expect_lines 1 '^  slots                 8             environment$'
  expect_lines 1 '^  libhvd            [0-9.]+, /.*/libhvd\.so\.[0-9.]+$'
  expect_lines 1 '^  PMIx              [^,]+, /.*libpmix'
  expect_lines 1 '^  CUDA              not loaded$'
  [ "$stderr" = "" ]
  run -0 "$info" --pid "$(pid_of 1)" --json
  in_json 'sorted(d) == sorted("pid state reason layout epoch uptime_ms batches bytes operations operations_in_flight job libraries settings".split())'
  in_json "d['pid'] == $(pid_of 1) and d['state'] == 'initialised' and d['reason'] is None"
  in_json '(d["layout"]["rank"], d["layout"]["local_rank"], d["layout"]["size"]) == (1, 1, 3)'
  in_json 'd["layout"]["nodes"] == [{"host": d["layout"]["host"], "ranks": [0, 1, 2]}]'
  in_json 'd["batches"] > 0 and d["bytes"] > 0 and d["uptime_ms"] > 0'
  in_json 'd["operations"] == [] and d["operations_in_flight"] == 0'
  run -0 "$info" --pid "$(pid_of 0)" --json
  in_json 'sorted(d["operations"][0]) == sorted("name process_set kind tensors type shape device age_ms state".split())'
  in_json 'd["operations"][0]["shape"] == [3, 4] and d["operations"][0]["state"] == "waiting"'
  let_go
  run cat "$said"
  expect_lines 3 '^rank [0-2]: sums are right$'
}

@test "hvd-info --pid on a program that runs alone finds it, too" {
  start 1 timeout 60 "$worker" hold
  run -0 "$info" --pid "$(pid_of 0)"
  expect_lines 1 ': rank 0 of 1 on [^ ]+, local rank 0 of 1, cross rank 0 of 1$'
}

@test "hvd-info --pid on a stopped rank says within 5 s that it does not answer" {
  start 2 ranks 2 "$worker" hold
  stopped=$(pid_of 1)
  kill -STOP "$stopped"
  local before=$SECONDS
  run -1 "$info" --pid "$stopped"
  [ "$output" = "hvd-info: process $stopped does not answer; it is stopped, and \"kill -CONT $stopped\" lets it go on" ]
  ((SECONDS - before >= 4 && SECONDS - before <= 30))
  kill -CONT "$stopped"
  run -0 "$info" --pid "$stopped"
  let_go
}

@test "hvd-info --pid on what is no rank is a sentence and exit status 1" {
  run -1 "$info" --pid $$
  [ "$output" = "hvd-info: process $$ (bash) has not loaded libhvd; give the process of the rank itself, not of its shell or launcher" ]
  local gone
  gone=$(bash -c 'echo $$')
  run -1 "$info" --pid "$gone"
  [[ $output == "hvd-info: there is no process $gone on "*'. A rank is asked on its own node: "srun --overlap --jobid JOB -w NODE hvd-info --pid '"$gone\"" ]]
}

@test "hvd-info --pid on a child of a rank names the rank" {
  start 1 timeout 60 "$worker" child hold
  local child
  child=$(awk '$1 == "child" { print $2 }' "$said")
  run -1 "$info" --pid "$child"
  [ "$output" = "hvd-info: process $child is no rank, but was started by one: \"hvd-info --pid $(pid_of 0)\" asks it" ]
}

@test "hvd-info --pid on a rank in another network namespace says how to ask it" {
  unshare --net true 2>/dev/null || skip "this user may not make network namespaces"
  start 1 env SLURM_JOB_ID=12 SLURMD_NODENAME=node7 timeout 60 "$worker" hold
  local pid
  pid=$(pid_of 0)
  run -1 unshare --net "$info" --pid "$pid"
  [ "$output" = "hvd-info: process $pid is in another network namespace (a container). Ask from inside: \"srun --overlap \
--jobid 12 -w node7 hvd-info --pid $pid\", or as root \"nsenter --net --target $pid hvd-info --pid $pid\"" ]
  run -0 nsenter --net --target "$pid" "$info" --pid "$pid"
}

@test "hvd-info says a wrong argument with exit status 2" {
  run -2 "$info" --pidd 1
  [ "$output" = 'hvd-info: unknown argument "--pidd"; did you mean "--pid"?' ]
  run -0 "$info" --version
  [[ $output =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]
  run -0 "$info" --help
  expect_lines 1 '^usage: hvd-info '
}
