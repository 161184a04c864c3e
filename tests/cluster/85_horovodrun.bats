#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Job scripts as people have them for Horovod, with horovodrun and with mpirun, and a program that uses the Python
# package: the right ranks are on the right hosts. What each flag comes to is tested in tests/horovodrun.
#
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

setup() {
  program=$HOME_OF_ALICE/launch.py
  # Without "places" also a sum, if PyTorch is there; to load it takes seconds.
  cat >"$program" <<'PYTHON'
import os
import sys
try:
    if sys.argv[1:] == ["places"]:
        raise ModuleNotFoundError
    import torch
    import horovod.torch as hvd
except ModuleNotFoundError:
    from horovod.common.basics import HorovodBasics
    hvd, torch = HorovodBasics(), None
hvd.init()
total = hvd.size() * (hvd.size() + 1) // 2
if torch is not None:
    total = int(hvd.allreduce(torch.ones(1) * (hvd.rank() + 1), op=hvd.Sum).item())
place = f"{hvd.rank()}/{hvd.size()} {hvd.local_rank()}/{hvd.local_size()} {hvd.cross_rank()}/{hvd.cross_size()}"
os.write(1, f"{place} {os.environ.get('SLURMD_NODENAME', os.uname().nodename)} sum {total}\n".encode())
PYTHON
}

teardown() {
  rm -rf "$HOME_OF_ALICE"/launch.*
  assert_cluster_as_it_was
}

# batch STATUS LINE...: a job on two nodes with two tasks on each, of these lines; $output is what it printed.
batch() {
  local status=$1 script=$HOME_OF_ALICE/launch.sbatch
  shift
  printf '%s\n' '#!/bin/bash' '#SBATCH -N2 --ntasks-per-node=2' "#SBATCH -o $HOME_OF_ALICE/launch.out" \
    'export HOROVOD_START_TIMEOUT=120' "$@" >"$script"
  chmod 755 "$script" "$program"
  # A busy machine takes long to load PyTorch four times.
  ON_CLUSTER_SECONDS=150 run "-$status" batch_job "$script"
  run -0 cat "$HOME_OF_ALICE/launch.out"
}

# in_job STATUS COMMAND [SALLOC-ARGUMENT...]: in a shell of such a job.
in_job() {
  run "-$1" on_cluster salloc -Q -N2 --ntasks-per-node=2 "${@:3}" bash -c "$2"
}

expect_two_nodes_of_two() {
  expect_lines 1 '^0/4 0/2 0/2 node0 sum 10$'
  expect_lines 1 '^1/4 1/2 0/2 node0 sum 10$'
  expect_lines 1 '^2/4 0/2 1/2 node1 sum 10$'
  expect_lines 1 '^3/4 1/2 1/2 node1 sum 10$'
  expect_lines 4 ''
}

@test "a job script that says horovodrun -np 4 -H with the job's hosts: four ranks on two nodes" {
  # shellcheck disable=SC2016 # for the script's shell
  batch 0 'horovodrun -np 4 -H $(scontrol show hostnames | sed "s/$/:2/" | paste -sd,) /usr/bin/python3 '"$program"
  expect_two_nodes_of_two
}

@test "a job script that says mpirun -n 4: four ranks on two nodes" {
  batch 0 "export PATH=$HVD_PREFIX/bin:\$PATH PYTHONPATH=$HVD_PREFIX/lib/horovod/python" \
    "mpirun -n 4 /usr/bin/python3 $program"
  expect_lines 4 ' sum 10$'
  # Ranks write to one pipe, and mpirun passes on what it reads.
  for rank in 0 1 2 3; do expect_lines 1 "^$rank/4 $((rank % 2))/2 $((rank / 2))/2 node$((rank / 2)) sum 10\$"; done
}

@test "horovodrun without hosts: the job's tasks, and fewer or unevenly many ranks" {
  in_job 0 "horovodrun -np 4 /usr/bin/python3 $program places"
  expect_two_nodes_of_two
  in_job 0 "horovodrun -np 3 /usr/bin/python3 $program places"
  expect_lines 1 '^1/3 1/2 0/1 node0 sum 6$'
  expect_lines 1 '^2/3 0/1 1/2 node1 sum 6$'
  expect_lines 3 ''
}

@test "horovodrun: hosts in the user's order, of a host file, and one of the job's hosts alone" {
  printf '%s\n' 'node1 slots=2' 'node0 slots=1' >"$HOME_OF_ALICE/launch.hosts"
  in_job 0 "horovodrun -np 3 --hostfile $HOME_OF_ALICE/launch.hosts /usr/bin/python3 $program places"
  expect_lines 1 '^0/3 0/2 1/2 node1 sum 6$' # cross ranks are in Slurm's order
  expect_lines 1 '^1/3 1/2 0/1 node1 sum 6$'
  expect_lines 1 '^2/3 0/1 0/2 node0 sum 6$'
  expect_lines 3 ''
  batch 0 "horovodrun -np 2 -H localhost:2 /usr/bin/python3 $program places"
  expect_lines 2 '^[01]/2 [01]/2 0/1 node0 sum 3$'
  expect_lines 2 ''
}

@test "horovodrun where the script asked for one task a node and many CPUs: a rank for each share of them" {
  in_job 0 "horovodrun -np 4 -H node0:2,node1:2 bash -c 'echo \$SLURMD_NODENAME \$SLURM_CPUS_PER_TASK'" \
    --ntasks-per-node=1 --cpus-per-task=4
  expect_lines 2 '^node0 2$'
  expect_lines 2 '^node1 2$'
  expect_lines 4 ''
}

@test "horovodrun: settings of flags, of the script and of the environment" {
  in_job 0 "export HOROVOD_CACHE_CAPACITY=77 HOROVOD_CYCLE_TIME=8
    horovodrun -np 1 --gloo --cycle-time-ms 2 --fusion-threshold-mb 1 bash -c 'env | grep ^HOROVOD_[SC].*[SYE]='" \
    --horovod=slots=8,cycle-time=9
  expect_lines 1 '^horovodrun: --gloo is not needed: '
  expect_lines 1 '^HOROVOD_SLOTS=8$'
  expect_lines 1 '^HOROVOD_CYCLE_TIME=2$'
  expect_lines 1 '^HOROVOD_CACHE_CAPACITY=77$'
}

@test "horovodrun --output-filename: a folder for each rank, and rank 0 reads the standard input" {
  in_job 0 "cd $HOME_OF_ALICE
    echo text | horovodrun -np 4 --output-filename launch.d bash -c 'cat; echo err \$HOROVOD_RANK >&2'"
  [ -z "$output" ]
  run -0 bash -c "cd $HOME_OF_ALICE/launch.d && head -n 9 */*"
  [ "$output" = '==> rank.0/stderr <==
err 0

==> rank.0/stdout <==
text

==> rank.1/stderr <==
err 1

==> rank.1/stdout <==

==> rank.2/stderr <==
err 2

==> rank.2/stdout <==

==> rank.3/stderr <==
err 3

==> rank.3/stdout <==' ]
}

@test "horovodrun: what the job does not have, and where there are ranks already, is refused before anything starts" {
  in_job 2 'horovodrun -np 2 -H node0:1,node7:1 true'
  [ "$output" = 'horovodrun: host "node7" is not in this allocation, which has node0, node1' ]
  in_job 2 'horovodrun -np 5 true'
  expect_lines 1 '^horovodrun: -np 5 is more than the 4 CPUs of this job \(2 on node0, 2 on node1\)\. Ask Slurm '
  in_job 1 'srun --horovod -n2 --kill-on-bad-exit=0 horovodrun -np 2 true'
  expect_lines 2 '^horovodrun: this process is task [01] of step [0-9]+\.0 already\. '
}

@test "horovodrun: a value that srun refuses, and the exit status of a rank, are srun's" {
  in_job 255 'horovodrun -np 2 --fusion-threshold-mb 99999999 true'
  expect_lines 1 '^srun: error: horovod: fusion-threshold is "99999999M", more than 1T, the most'
  in_job 3 "horovodrun -np 1 bash -c 'exit 3'"
}

@test "horovodrun in the shell of srun --pty: the ranks share the nodes with it" {
  run -0 on_cluster script -qec "salloc -Q -N2 --ntasks-per-node=2 srun -N1 -n1 --pty \
    horovodrun -np 2 -H node0:1,node1:1 /usr/bin/python3 $program places" /dev/null
  output=${output//$'\r'/}; output=${output#^@}
  expect_lines 1 '0/2 0/1 0/2 node0 sum 3$'
  expect_lines 1 '^1/2 0/1 1/2 node1 sum 3$'
}

@test "horovodrun --check-build tells what was built, in a job and outside" {
  in_job 0 'horovodrun -np 4 --check-build'
  expect_lines 1 '^hvd-info [0-9]'
  expect_lines 1 '^built'
  run -0 on_cluster horovodrun --check-build
  expect_lines 1 '^hvd-info [0-9]'
}

@test "horovodrun outside of a job: ranks on this machine; other machines are refused" {
  run -0 on_cluster horovodrun -np 2 -H localhost:2 /usr/bin/python3 "$program" places
  expect_lines 2 '^[01]/2 [01]/2 0/1 ctl sum 3$'
  run -2 on_cluster horovodrun -np 2 -H node0:1,node1:1 /usr/bin/python3 "$program" places
  expect_lines 1 '^horovodrun: "node0" is another machine, and this is no Slurm job; '
}
