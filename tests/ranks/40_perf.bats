#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# hvd-perf as a user runs it: what it prints, what it writes, what it refuses. No speed is asserted.

load helpers

setup() {
  perf=${HVD_PREFIX:-$(build_dir)/prefix}/bin/hvd-perf
  json=$BATS_TEST_TMPDIR/result.json
  quick=(--rounds 2 --iterations 3)
}

# in_json EXPRESSION: true of the object in $json, which is d.
in_json() {
  python3 - "$json" "$1" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
if not eval(sys.argv[2]):
    sys.exit("not so: %s\nin: %s" % (sys.argv[2], d))
END
}

# right_on N LINES ARGUMENT...: hvd-perf prints a title and so many rows without a wrong element, and nothing else.
right_on() {
  local n=$1 rows=$2
  shift 2
  run -0 --separate-stderr ranks "$n" "$perf" "$@" --min 1 --max 1M --factor 1024 "${quick[@]}"
  expect_lines 1 "^# hvd-perf [0-9.]+: $1, $n ranks on 1 node"
  expect_lines "$rows" "^ +[0-9]+ +[0-9]+  [a-z0-9-]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +0$"
  # shellcheck disable=SC2154 # bats's
  [ -z "$stderr" ]
}

@test "every operation is right on 3 ranks, alone, as a group, in place and not, and rank 0 alone prints the table" {
  right_on 3 3 allreduce
  right_on 3 3 allreduce --out-of-place --tensors 5
  right_on 3 3 allgather
  right_on 3 3 allgather --tensors 5
  right_on 3 3 broadcast
  right_on 3 3 alltoall
  right_on 3 3 reducescatter
  right_on 3 3 reducescatter --out-of-place --tensors 5
  run -0 ranks 3 "$perf" barrier "${quick[@]}"
  expect_lines 1 "^ +0 +0  - +[0-9.]+ +0.000 +0.000 +0$"
}

@test "every type and every reduction is right on 3 ranks" {
  local type op
  for type in float16 bfloat16 float64 int8 uint8 int16 uint16 int32 int64; do
    right_on 3 3 allreduce --type "$type" --op average
  done
  right_on 3 3 allreduce --type bool --op product
  right_on 3 3 alltoall --type bool
  for op in sum min max product adasum; do
    right_on 3 3 allreduce --type bfloat16 --op "$op"
  done
}

@test "a size counts what all ranks contribute or receive, and is at least an element for each" {
  run -0 ranks 3 "$perf" allgather --min 1 --max 1 "${quick[@]}"
  expect_lines 1 '^ +12 +1  float32 '
  run -0 ranks 3 "$perf" reducescatter --tensors 2 --min 1K --max 1K "${quick[@]}"
  expect_lines 1 '^ +1008 +42  float32 '
}

@test "a step of resnet50 is right, says its batches, and with --compute how much of it is hidden" {
  run -0 --separate-stderr ranks 2 "$perf" step --model resnet50 --rounds 1 --iterations 1 --warmup 0 --compute 5 --json "$json"
  expect_lines 1 '^# hvd-perf [0-9.]+: step, 2 ranks on 1 node, average$'
  expect_lines 1 '^# resnet50: 161 tensors, 25557032 elements of float32, 102.2 MB$'
  [ -z "$stderr" ]
  in_json '(d["op"], d["model"], d["tensors"], d["elements"]) == ("step", "resnet50", 161, 25557032)'
  in_json 'd["results"][0]["wrong"] == 0 and 1 <= d["results"][0]["batches"] <= 161'
  in_json 'd["results"][0]["overlap"] is not None and d["results"][0]["compute_us"] > 0'
  in_json 'd["results"][0]["ratio"] is None'
}

@test "a step beside MPI, one by one and as one copy, is right on both sides" {
  run -0 ranks_twice_connected 2 "$perf" step --model resnet50 --rounds 1 --iterations 1 --warmup 0 --compare mpi --json "$json"
  expect_lines 1 'MPI time +MPI fused +ratio$'
  in_json 'd["results"][0]["peer_time_us"] == min(d["results"][0]["peer_one_by_one_us"], d["results"][0]["peer_fused_us"])'
  in_json 'd["results"][0]["ratio"] > 0 and d["results"][0]["overlap"] is None'
}

@test "one process is a job of one rank" {
  run -0 "$perf" allreduce --max 1K "${quick[@]}"
  expect_lines 1 "^# hvd-perf [0-9.]+: allreduce, 1 rank on 1 node, sum, in place$"
}

@test "beside MPI, which the program starts after hvd_init, both are right and the ratio is MPI's time over ours" {
  run -0 ranks_twice_connected 2 "$perf" allreduce --min 4K --max 1M "${quick[@]}" --compare mpi --json "$json"
  expect_lines 1 "MPI time  ratio$"
  expect_lines 5 "^ +[0-9]+ +[0-9]+  float32 +[0-9.]+ +[0-9.]+ +[0-9.]+ +0 +[0-9.]+ +[0-9.]+$"
  in_json 'len(d["results"]) == 5'
  in_json 'all(abs(r["ratio"] - r["peer_time_us"] / r["time_us"]) < 0.01 * r["ratio"] for r in d["results"])'
}

@test "beside MPI every operation that it has is right" {
  local operation sizes
  for operation in allgather broadcast alltoall reducescatter barrier; do
    sizes=(--max 64K)
    [[ $operation != barrier ]] || sizes=()
    run -0 ranks_twice_connected 3 "$perf" "$operation" "${sizes[@]}" "${quick[@]}" --compare mpi --json "$json"
    in_json 'all(r["wrong"] == 0 and r["peer_time_us"] > 0 for r in d["results"])'
  done
}

@test "the JSON object has the promised keys, null where there is no peer" {
  run -0 ranks 2 "$perf" allreduce --out-of-place --type int64 --min 8 --max 8 "${quick[@]}" --json "$json"
  in_json 'sorted(d) == sorted("version host nodes ranks op reduction type in_place tensors results".split())'
  in_json '(d["host"], d["nodes"], d["ranks"]) == (__import__("socket").gethostname(), 1, 2)'
  in_json '(d["op"], d["type"], d["in_place"]) == ("allreduce", "int64", False) and d["reduction"] == "sum" and d["tensors"] == 1'
  in_json 'sorted(d["results"][0]) == sorted("bytes time_us algbw_gbs busbw_gbs wrong peer_time_us ratio".split())'
  in_json 'd["results"][0]["bytes"] == 8 and d["results"][0]["wrong"] == 0 and d["results"][0]["time_us"] > 0'
  in_json 'd["results"][0]["peer_time_us"] is None and d["results"][0]["ratio"] is None'
}

@test "a rank with nothing to do, or that waits for others, uses under 1 % of a core" {
  run -0 ranks 2 "$perf" idle --seconds 2 --json "$json"
  expect_lines 2 "^ +[01]  it has nothing to do +[0-9.]+$"
  expect_lines 1 "^ +0  in hvd_wait on a barrier +[0-9.]+$"
  in_json '[(r["rank"], r["waiting"]) for r in d["results"]] == [(0, False), (1, False), (0, True)]'
  in_json 'all(0 <= r["cpu_percent"] < 1 for r in d["results"])'
}

@test "a wrong argument is a sentence and exit status 2, before any rank waits" {
  run -2 "$perf"
  [ "$output" = 'hvd-perf: name what to measure: allreduce, allgather, broadcast, alltoall, reducescatter, barrier, step or idle; "hvd-perf --help" says more' ]
  run -2 "$perf" allreduce --mni 1K
  [ "$output" = 'hvd-perf: unknown option "--mni"; did you mean "--min"?' ]
  run -2 ranks 2 -quiet "$perf" broadcast --out-of-place
  expect_lines '[12]' '^hvd-perf: --out-of-place means nothing to broadcast; leave it out$'
}

@test "a file that cannot be written is said once, before anything is measured" {
  run -1 ranks 2 "$perf" allreduce --json /nowhere/result.json
  expect_lines 1 '^hvd-perf: --json "/nowhere/result\.json" cannot be written: No such file or directory$'
  [[ $output != *"# hvd-perf"* ]]
}

@test "help and version need no job" {
  run -0 "$perf" --help
  [[ ${lines[0]} == "usage: hvd-perf OPERATION "* ]]
  run -0 "$perf" --version
  [[ $output =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]
}
