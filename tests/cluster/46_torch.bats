#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Python scripts on real Slurm nodes, with the package that the plugin puts on their path: the examples, and scripts that
# are written as public ones for Horovod are (tests/python/patterns).
#
# shellcheck disable=SC2154 # variables of bats and of helpers

load helpers
load ../ranks/helpers

root=$BATS_TEST_DIRNAME/../..
work=$HOME_OF_ALICE/torch
python=/usr/bin/python3
export ON_CLUSTER_SECONDS=120

setup_file() {
  install -d -m 777 "$work"
  install -m 644 "$root"/examples/*.py "$root"/examples/*.sbatch "$root"/tests/python/patterns/*.py "$work"
}

teardown_file() {
  rm -rf "$work"
}

teardown() {
  assert_cluster_as_it_was
}

# on_ranks NODES TASKS SCRIPT ARGUMENT...: output in $output, nothing in stderr.
on_ranks() {
  local nodes=$1 tasks=$2 script=$3
  shift 3
  run -0 --separate-stderr on_cluster env OMP_NUM_THREADS=1 srun --horovod -N"$nodes" -n"$tasks" "$python" "$work/$script" "$@"
  [ -z "$stderr" ] || { printf 'stderr: %s\n' "$stderr" && return 1; }
}

# alone EXAMPLE ARGUMENT...: on this machine, as one rank.
alone() {
  local script=$1
  shift
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=${HVD_PREFIX:-$(build_dir)/prefix}/lib/horovod/python \
    "$python" "$root/examples/$script" "$@"
}

@test "the example learns on 2 nodes x 2 ranks, and as a batch job goes on from its checkpoint" {
  local learn=(--images 9600 --batch-size 32 --checkpoint "$work/model.pt") out=$work/job.out accuracy
  on_ranks 2 4 train.py --epochs 1 "${learn[@]}"
  expect_lines 1 "^4 ranks, 32 pictures each in a batch, 75 steps an epoch, 1 threads, cpu$"
  expect_lines 1 "^epoch 1/1  step 75/75  loss [0-9.]+  [0-9]+ images/s$"
  PYTHON=$python TRAIN=$work/train.py OMP_NUM_THREADS=1 ON_CLUSTER_SECONDS=100 run -0 batch_job --output="$out" \
    "$work/job_torch.sbatch" --epochs 2 "${learn[@]}"
  output=$(<"$out")
  expect_lines 1 "^$work/model.pt: 1 epoch done$"
  expect_lines 0 "^epoch 1/2 "
  accuracy=$(sed -nE 's/^epoch 2\/2  test loss [0-9.]+  accuracy ([0-9.]+)  after .*/\1/p' <<<"$output")
  echo "accuracy $accuracy"
  awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy >= 0.72) }'
}

@test "the benchmark prints the lines that Horovod's prints" {
  on_ranks 2 2 synthetic_benchmark.py --model tiny --batch-size 2 --num-warmup-batches 1 --num-iters 3 --fp16-allreduce
  expect_lines 1 '^Number of CPUs: 2$'
  expect_lines 3 '^Iter #[0-2]: [0-9]+\.[0-9] img/sec per CPU$'
  expect_lines 1 '^Img/sec per CPU: [0-9]+\.[0-9] \+-[0-9]+\.[0-9]$'
  expect_lines 1 '^Total img/sec on 2 CPU\(s\): [0-9]+\.[0-9] \+-[0-9]+\.[0-9]$'
}

@test "a synthetic benchmark of ResNet-50 runs as it is, with SyncBatchNorm" {
  on_ranks 2 2 synthetic_resnet50.py
  expect_lines 1 '^resnet50: 161 gradients, 2 ranks$'
  expect_lines 1 '^Total img/sec on 2 CPU\(s\): [0-9.]+ \+-0\.0$'
}

@test "ranks with 10, 20 and 30 batches join in each epoch" {
  on_ranks 2 3 mnist_join.py
  expect_lines 1 '^epoch 1: rank 0 did 10 batches, rank 2 was the last$'
  expect_lines 1 '^epoch 2: rank 0 did 10 batches, rank 2 was the last$'
  expect_lines 2 '^test set: average loss 0\.[0-9]+, accuracy (9[5-9]|100)\.[0-9]+ %$'
}

@test "a training that goes on from a checkpoint ends as one that was not interrupted, to the last digit" {
  local whole format="$work/checkpoint-{epoch}.pth.tar"
  on_ranks 2 2 imagenet_resume.py --epochs 3 --checkpoint-format "$format"
  expect_lines 3 '^epoch [1-3]: loss [0-9.]+, accuracy [0-9.]+, lr [0-9.]+$'
  whole=$output
  rm "$work"/checkpoint-3.pth.tar
  on_ranks 2 2 imagenet_resume.py --epochs 3 --checkpoint-format "$format"
  diff <(tail -n 1 <<<"$whole") <(echo "$output")
}

@test "a small model learns with Adasum, and all ranks have the same weights" {
  on_ranks 2 4 adasum.py
  expect_lines 1 '^loss 0\.[3-9][0-9]+ at first, 0\.0[0-9]+ at last, lr 0\.00625$'
  expect_lines 1 '^4 ranks, weights are equal$'
}

@test "what the examples lack is a sentence with the way out" {
  run -1 alone train.py --data /nowhere
  expect_lines 1 "^train.py: /nowhere/train-images-idx3-ubyte.gz is not there. Debian has it: \
apt-get install dataset-fashion-mnist; --data names another place$"
  run -1 alone synthetic_benchmark.py --model resnet5
  expect_lines 1 '^synthetic_benchmark.py: torchvision has no model "resnet5"; did you mean "resnet50"\?$'
}
