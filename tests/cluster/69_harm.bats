#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Whatever an ordinary user puts into the variables that the plugin reads, the task runs or ends with a sentence, and
# nobody else feels it: no node out of service, every daemon alive, other users' jobs untouched.
#
# shellcheck disable=SC2016 # what is quoted is for the tasks' shells
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

teardown() {
  [[ -z ${job:-} ]] || wait "$job" || true
  assert_cluster_as_it_was
}

long=$(printf 'x%.0s' {1..100000})

# A variable and its value on each line; %L is a hundred thousand characters.
hostile='CUDA_VISIBLE_DEVICES=%L
CUDA_VISIBLE_DEVICES=,,,,
CUDA_VISIBLE_DEVICES=-1,99999999999999999999,MIG-,GPU-
ROCR_VISIBLE_DEVICES=$(reboot)
ZE_AFFINITY_MASK=0.9999999999.1
SLURM_STEP_GPUS=%L
SLURM_STEP_GPUS=4-1,9999999999999
SLURMD_TRES_BIND=gpu:::::
SLURM_CPU_BIND_TYPE=mask_cpu:
SLURM_CPU_BIND_LIST=0x%L
SLURM_CPU_BIND_LIST=99999999999,-1
HOROVOD_GPU_BIND=map:99999999999999999999:-1
HOROVOD_GPU_BIND=map:0
HOROVOD_CPU_BIND=%L
HOROVOD_NIC_BIND=nearest
HOROVOD_REPORT=json
HOROVOD_REPORT=%L
HOROVOD_PYTHON=perhaps
HOROVOD_HOSTNAME=%L
HOROVOD_INTERNAL_HANDOFF=step=1.0,node=99999999999,option=%L
HOROVOD_INTERNAL_REPORT=[[[[[[[[[[{"node":
PYTHONPATH=%L
PYTHONPATH=::::
SLURMD_NODENAME=%L'

@test "hostile values in every variable that the plugin reads: the task runs, and nobody else feels it" {
  local line tried=0 daemons
  daemons=$("$cluster" status | grep -E 'slurmd|slurmctld|munged')
  "$cluster" exec --user bob -- srun -w node1 -n1 sleep 60 >"$BATS_TEST_TMPDIR/bob" 2>&1 3>&- &
  job=$!
  while IFS= read -r -u 4 line; do
    # What the user exports goes past Slurm's own by a wrapper, as a task prolog or a script would set it.
    run -0 on_cluster env "${line//%L/$long}" srun --horovod -w node0 -n2 --gres=gpu:2 bash -c 'echo "runs $HOROVOD_RANK"' 4>&-
    expect_lines 1 '^runs 0$'
    expect_lines 1 '^runs 1$'
    tried=$((tried + 1))
  done 4<<<"$hostile"
  ((tried == 24))
  kill -0 "$job"
  [[ $("$cluster" status | grep -E 'slurmd|slurmctld|munged') == "$daemons" ]]
  "$cluster" exec --user root -- bash -c 'squeue --noheader --user=bob --format=%i | xargs -r -n 1 scancel'
  wait "$job" || true
  job=
}
