#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A training that is cut off and queued again, by a signal, a requeue and its time limit, ends with the weights of one
# that was not, bit for bit.
#
# shellcheck disable=SC2154 # variables of bats and of helpers

load helpers
load ../ranks/helpers

work=$HOME_OF_ALICE/requeue
python=/usr/bin/python3
export ON_CLUSTER_SECONDS=120

setup() {
  install -d -m 777 "$work"
  install -m 644 "$BATS_TEST_DIRNAME/../../examples/train.py" "$BATS_TEST_DIRNAME/../../examples/job_requeue.sbatch" "$work"
  export PYTHON=$python TRAIN=$work/train.py CHECKPOINT=$work/model.pt OMP_NUM_THREADS=1
  job=
}

teardown() {
  [[ -z $job ]] || on_cluster scancel "$job" 2>/dev/null || true
  rm -rf "$work"
  assert_cluster_as_it_was
}

# whole ARGUMENT...: the training, not cut off; its checkpoint is whole.pt.
whole() {
  run -0 on_cluster srun --horovod=stop-margin=0 -N2 -n2 "$python" "$TRAIN" --checkpoint "$work/whole.pt" "$@"
  expect_lines 0 'cut off'
}

# start ARGUMENT...: as a batch job, $job, in two ranks.
start() {
  job=$(on_cluster sbatch --parsable --output="$work/out" --ntasks-per-node=1 "$@")
}

# lines COUNT PATTERN: are there so many in the job's output?
lines() {
  local count
  count=$(grep -cE "$2" "$work/out" 2>/dev/null) || return # none
  ((count >= $1))
}

# is_queued_again: the job has been cut off, and waits for the two minutes to pass that Slurm gives to what it requeues.
# To start it before (StartTime=now) may fail: the nodes remember that its credential was revoked.
is_queued_again() {
  on_cluster scontrol show job "$job" | grep -q ' Restarts=1 ' && is PENDING
}

is() {
  on_cluster scontrol show job "$job" | grep -q "JobState=$1 "
}

# ends_as_whole: the job ends well, with the weights and the state of the optimizer that whole has.
ends_as_whole() {
  wait_until "${ENDS_SECONDS:-120}" job_has_ended "$job"
  output=$(<"$work/out")
  is COMPLETED || { echo "$output" && return 1; }
  run -0 "$python" - "$work/whole.pt" "$CHECKPOINT" <<'END'
import sys, torch
whole, cut = (torch.load(name) for name in sys.argv[1:])
assert whole["epochs"] == cut["epochs"] and whole["images"] == cut["images"] == 0
weights = [(whole["model"][name], cut["model"][name]) for name in whole["model"]]
momentum = [(state["momentum_buffer"], cut["optimizer"]["state"][key]["momentum_buffer"])
            for key, state in whole["optimizer"]["state"].items()]
assert len(weights) == len(momentum) == 8
assert all(torch.equal(a, b) for a, b in weights + momentum)
END
}

# bats test_tags=long
@test "cut off by a signal, and then by a requeue, it is queued again, and ends with the same weights" {
  local learn=(--images 1600 --batch-size 8 --epochs 2)
  whole "${learn[@]}"
  start "$work/job_requeue.sbatch" "${learn[@]}"
  wait_until 60 lines 1 '^2 ranks, '
  on_cluster scancel --signal=USR1 "$job"
  wait_until 60 is_queued_again
  on_cluster scancel "$job"
  start "$work/job_requeue.sbatch" "${learn[@]}"
  wait_until 60 lines 2 '^2 ranks, '
  on_cluster scontrol requeue "$job"
  wait_until 60 is_queued_again
  on_cluster scancel "$job"
  start "$work/job_requeue.sbatch" "${learn[@]}"
  ends_as_whole
  output=$(<"$work/out")
  expect_lines 2 "^epoch [12]/2  step [0-9]+/100  cut off; start again to go on from $CHECKPOINT\$"
  expect_lines 1 '^epoch 1/2  test loss '
  expect_lines 1 '^epoch 2/2  test loss '
}

# Several minutes. The end is known from squeue or SLURM_JOB_END_TIME alone: no signal comes.
# bats test_tags=long
@test "cut off twice by its time limit of a minute it ends with the same weights" {
  local learn=(--images 60000 --batch-size 8 --epochs 2)
  start --time=1 --horovod=stop-margin=45s "$work/job_requeue.sbatch" "${learn[@]}"
  wait_until 60 lines 1 'cut off'
  ON_CLUSTER_SECONDS=400 whole "${learn[@]}" # while the job waits
  wait_until 240 lines 2 'cut off'
  # On a busy machine a piece may be as short as a step: the rest in one.
  wait_until 60 is PENDING
  timeout 60 "$cluster" exec --user root -- scontrol update "JobId=$job" TimeLimit=30
  ENDS_SECONDS=1200 ends_as_whole
}
