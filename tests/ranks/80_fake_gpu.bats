#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The fake CUDA driver and the fake NCCL (tests/fakes/gpu) themselves: what must work does, and every rule that a program
# breaks on purpose is held up to it. Ranks are processes that the program starts. FAKE_GPU_* are the fakes' settings.

load helpers

setup() {
  program=$(build_dir)/tests/ranks/fake_gpu
  fakes=$(build_dir)/tests/fakes/gpu
  export FAKE_GPU_DIR=$BATS_TEST_TMPDIR
}

# fake [VARIABLE=VALUE...] CASE [RANKS [NODES [SEEDS]]]
fake() {
  # A host access is no report of a sanitizer.
  local variables=(LD_LIBRARY_PATH="$fakes" ASAN_OPTIONS="${ASAN_OPTIONS:-}:handle_segv=0")
  while [[ $1 == *=* ]]; do
    variables+=("$1")
    shift
  done
  timeout --kill-after=5 60 env "${variables[@]}" "$program" "$@"
}

# breaks CASE [RANKS] SENTENCE: ends with the sentence of a rule, once for each of the ranks that see it (1 or 2).
breaks() {
  local ranks=1
  [[ $# == 2 ]] || { ranks=$2 && set -- "$1" "$3"; }
  run fake "$1" "$ranks"
  [[ $status != 0 ]] || { echo "$1 ended well" >&2 && return 1; }
  expect_lines '[12]' "^fake gpu: rank [01]: $2"
}

@test "every collective of every type is right on 1, 2 and 4 ranks, with 20 seeds of delays" {
  run -0 fake values 1 1 20
  run -0 fake values 2 1 20
  run -0 fake values 4 2 20
  [ -z "$output" ]
}

@test "communicators that are split from one work beside it, and threads can be ranks" {
  run -0 fake split 4 2 5
  run -0 fake threads 1 1 5
}

@test "kernels run their host twins, and events, waits and the NULL stream order work" {
  run -0 fake FAKE_GPU_LEAK_CHECK=1 kernel
  run -0 fake FAKE_GPU_LEAK_CHECK=1 FAKE_GPU_DELAY_US=3000 ordered 1 1 3
}

@test "libhvd's pack kernels run, and what they touch is watched" {
  FAKE_GPU_KERNELS=$fakes/.libs/kernel_twins.so
  export FAKE_GPU_KERNELS
  run -0 fake pack 1 1 3
  breaks pack-missing-wait 'missing wait: hvd_pack_float32_bfloat16 in stream 2 reads 0x[0-9a-f]+, which cuMemsetD8Async in stream 1 writes, '
  breaks packed-missing-wait 'missing wait: cuMemcpyDtoDAsync in stream 2 reads 0x[0-9a-f]+, which hvd_pack_float32_bfloat16 in stream 1 writes, '
  breaks pack-overrun 'device memory: hvd_pack_float32_bfloat16 reads 80004 bytes at '
}

@test "devices and pointers answer for what they are" {
  run -0 fake questions
  run -0 fake FAKE_GPU_DRIVER_VERSION=11020 FAKE_GPU_NCCL_VERSION=21304 versions
  [ "$output" = "driver 11020, nccl 21304" ]
}

@test "device memory is for devices, as long as it is not freed, and no byte further" {
  breaks host-access 'device memory: the host touched 0x[0-9a-f]+, which only a device may; copy it$'
  breaks freed-memory 'freed memory: cuMemcpyDtoH reads 0x[0-9a-f]+, which was freed$'
  breaks freed-twice 'freed memory: device memory 0x[0-9a-f]+ is freed twice$'
  breaks overrun 'device memory: cuMemsetD8Async writes 5 bytes at .*, where an allocation of 64 bytes has 4 left$'
  breaks kernel-overrun 'device memory: probe_add writes 65 bytes at '
  breaks pageable 'device memory: ncclAllReduce reads 0x[0-9a-f]+, which is pageable host memory$'
}

@test "a missing wait between two streams is found, whatever runs first" {
  local end='in stream 1 (reads|writes), and no event or host wait orders the two$'
  for delay in 0 2000; do
    export FAKE_GPU_DELAY_US=$delay
    breaks missing-wait "missing wait: cuMemcpyDtoDAsync in stream 2 reads 0x[0-9a-f]+, which cuMemsetD8Async $end"
    breaks early-event "missing wait: cuMemcpyDtoDAsync in stream 2 reads 0x[0-9a-f]+, which cuMemsetD8Async $end"
    breaks early-reuse "missing wait: cuMemsetD8Async in stream 2 writes 0x[0-9a-f]+, which cuMemcpyDtoDAsync $end"
    breaks pinned-missing-wait "missing wait: cuMemcpyHtoDAsync in stream 2 reads .*, which cuMemcpyDtoHAsync $end"
    breaks kernel-missing-wait "missing wait: probe_add in stream 2 writes 0x[0-9a-f]+, which cuMemsetD8Async $end"
    breaks collective-missing-wait "missing wait: cuMemcpyDtoDAsync in stream 2 reads .*, which ncclAllReduce $end"
  done
}

@test "what was destroyed, or has no context, is not used" {
  breaks destroyed-stream 'destroyed handle: cuStreamSynchronize uses stream 0x[0-9a-f]+, which was destroyed$'
  breaks destroyed-event 'destroyed handle: cuEventQuery uses event 0x[0-9a-f]+, which was destroyed$'
  breaks aborted-comm 'destroyed handle: ncclAllReduce uses communicator 0x[0-9a-f]+, which was destroyed or aborted$'
  breaks no-context 'contexts: cuMemAlloc was called by a thread that has no current context$'
}

@test "neither stream nor communicator is touched while NCCL is in progress" {
  breaks touch-stream 'NCCL in progress: cuEventRecord touches a stream whose ncclAllReduce is in progress; poll ncclCommGetAsyncError until it says ncclSuccess$'
  breaks touch-comm 'NCCL in progress: ncclAllReduce was called while ncclCommInitRank of the same communicator is in progress; '
}

@test "two communicators that ranks launch in different orders are named, and do not hang" {
  breaks launch-order 2 'launch order: comm-[0-9-]+ runs here while launch 0 of comm-[0-9-]+ waits behind it, and rank [01] runs them the other way round: launch communicators of one device in the same order on all ranks$'
}

@test "ranks that ask for different things are told what each of them asked" {
  breaks mismatch-count 2 'mismatch: launch 0 of comm-[0-9-]+ is ncclAllReduce count 4 type 0 op 0 root 0 here, and ncclAllReduce count 5 type 0 op 0 root 0 on rank 1$'
  breaks mismatch-type 2 'mismatch: .* type 1 .* on rank 1$'
  breaks mismatch-op 2 'mismatch: .* op 2 .* on rank 1$'
  breaks mismatch-root 2 'mismatch: .* ncclBroadcast count 4 type 0 op 0 root 1 on rank 1$'
  breaks mismatch-kind 2 'mismatch: .* is ncclAllReduce .* and ncclBroadcast .* on rank 1$'
  breaks mismatch-message 2 'mismatch: rank 1 receives 5 bytes of type 0 from rank 0, which sends 4 of type 0$'
}

@test "what is left at the end is found: communicators, and if asked memory and streams" {
  breaks forgotten-comm 'exit: 1 communicators were neither destroyed nor aborted$'
  run -0 fake left-over
  export FAKE_GPU_LEAK_CHECK=1
  breaks left-over 'exit: 1 device and 0 pinned allocations, 1 streams and 0 events are left$'
}

@test "errors of NCCL come out on every rank, and a group abort ends all" {
  run -0 fake errors 2
  expect_lines 2 "^rank [01]: 0, no error$"
  run -0 fake FAKE_GPU_FAULT=1:nccl-async@5=6 errors 4 2
  expect_lines 1 "^rank 1: 6, planted: asynchronous error$"
  expect_lines 3 "^rank [023]: 6, another rank of comm-[0-9-]+ has met an error$"
  run -0 fake FAKE_GPU_FAULT=1:nccl-sync@3=2 errors 2
  expect_lines 1 "^rank 1: 2, planted: synchronous error$"
}

@test "a silent rank is a hang without an error, and so is one that was killed, unless NCCL detects it" {
  run -0 fake FAKE_GPU_FAULT=1:nccl-silent@3 errors 2
  expect_lines 2 "^rank [01]: -1, no error$"
  run -137 fake FAKE_GPU_FAULT=1:nccl-kill@4 errors 3
  expect_lines 2 "^rank [02]: -1, no error$"
  run -137 fake FAKE_GPU_FAULT=1:nccl-kill@4 FAKE_GPU_DETECTS_DEATH=1 errors 3
  expect_lines 2 "^rank [02]: 6, rank 1 of comm-[0-9-]+ is gone$"
  [ -z "$(find "$FAKE_GPU_DIR" -name 'comm-*')" ]
}

@test "to abort two hung communicators one after the other hangs, as with NCCL, and nothing waits for ever" {
  run fake FAKE_GPU_FAULT=0:nccl-silent@1,0:nccl-silent@2 FAKE_GPU_DEADLINE_MS=1000 one-by-one 2
  expect_lines '[12]' "^fake gpu: rank [01]: deadline: (ncclCommAbort has waited 1000 ms|.*launch 0 of comm-[0-9-]+\\) waits for )"
  run fake FAKE_GPU_FAULT=0:nccl-silent FAKE_GPU_DEADLINE_MS=1000 wait-for-ever 2
  expect_lines '[12]' "^fake gpu: rank [01]: deadline: "
}

@test "communicators can fail or hang when they are made, and two ranks cannot have one GPU" {
  run -0 fake FAKE_GPU_FAULT=1:nccl-init-silent init 2
  expect_lines 2 "^rank [01]: init 7, no error$"
  run -0 fake FAKE_GPU_FAULT=nccl-init=2 init-blocking 2
  expect_lines 2 "^rank [01]: init 2, planted: the communicator cannot be made$"
  run -0 fake same-gpu 2
  expect_lines 2 "^rank [01]: init 5, Duplicate GPU detected : rank [01] and rank [01] both on CUDA device 0000:4a:00.0$"
  run -0 fake same-gpu 2 2
  expect_lines 2 "^rank [01]: init 0, no error$"
}

@test "a kernel that fails breaks its device, and a module may not load" {
  run -0 fake FAKE_GPU_FAULT=kernel=700 broken-device
  [ "$output" = $'kernel 700\nafterwards 700' ]
  run -0 fake FAKE_GPU_FAULT=cuModuleLoadData=209 broken-device
  [ "$output" = "module 209" ]
}

@test "a setting that means nothing is refused" {
  for setting in FAKE_GPU_FAULT=kernl FAKE_GPU_FAULT=kernel@0 FAKE_GPU_COUNT=two; do
    run fake "$setting" questions
    [ "$status" != 0 ]
    expect_lines 1 "^fake gpu: rank 0: settings: ${setting%=*} is \"${setting#*=}\", not "
  done
}

@test "ranks that are killed while a communicator is made leave nothing that stays" {
  run -137 fake killed-at-init 3
  find "$FAKE_GPU_DIR" -name 'comm-*' -exec touch -d '1 minute ago' {} +
  run -0 fake questions
  [ -z "$(find "$FAKE_GPU_DIR" -name 'comm-*' -o -name 'fake-gpu-*')" ]
}
