# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What the cluster tests share. Loaded by every tests/cluster/*.bats (`load helpers`), which find the cluster of
# HVD_CLUSTER_DIR up and leave it as clean as it was.

bats_require_minimum_version 1.5.0

cluster=${BASH_SOURCE[0]%/*}/cluster
cluster_dir=${HVD_CLUSTER_DIR:-/var/tmp/hvd-cluster}
export HOME_OF_ALICE=$cluster_dir/home/alice

# on_cluster COMMAND...: as alice on the control host, for 60 s at most (ON_CLUSTER_SECONDS). What bats keeps open for
# itself is not handed on: it would wait for whoever outlives the command.
on_cluster() {
  timeout --kill-after=5 "${ON_CLUSTER_SECONDS:-60}" "$cluster" exec -- "$@" 3>&- 4>&-
}

# batch_job ARGUMENT-OF-SBATCH...: until the job has ended; its exit status. `sbatch --wait` sees that up to ten seconds
# late.
batch_job() {
  local id status
  id=$(on_cluster sbatch --parsable "$@") || return
  wait_until "${ON_CLUSTER_SECONDS:-60}" job_has_ended "$id" || return
  status=$(on_cluster scontrol show job "$id" | sed -n 's/.*ExitCode=\([0-9]*\):.*/\1/p')
  return "${status:-1}"
}

job_has_ended() {
  on_cluster scontrol show job "$1" | grep -Eq 'JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY) '
}

# heterogeneous COMMAND...: on_cluster for what starts a heterogeneous step. srun of Slurm 22.05 does not always end when
# all tasks of one with PMIx have: 2 of 40 to 11 of 60 on a busy machine with --mpi=pmix and no --horovod, where it waits
# for a start of its components that has been. (ranks/helpers.bash has three_tries.)
heterogeneous() {
  three_tries heterogeneous_once "$@"
}

heterogeneous_once() {
  local status
  ON_CLUSTER_SECONDS=20 on_cluster "$@" && return
  status=$?
  if ran_out_of_time "$status"; then
    "$cluster" exec --user root -- bash -c 'squeue --noheader --format=%i | xargs -r -n 1 scancel'
    # srun is the child of a salloc that was killed.
    cluster_processes_of 20001 | xargs -r kill -KILL
  fi
  return "$status"
}

# cluster_processes_of UID: the machine's ids of all processes of that user in this cluster.
cluster_processes_of() {
  find /proc -maxdepth 1 -name '[0-9]*' -uid "$1" 2>/dev/null |
    while read -r dir; do ! grep -qsF " hvd-cluster:$cluster_dir " "$dir/mountinfo" || echo "${dir#/proc/}"; done
}

# node_exec NODE COMMAND...: as root, inside the node.
node_exec() {
  local node=$1
  shift
  timeout --kill-after=5 "${ON_CLUSTER_SECONDS:-60}" "$cluster" exec --user root --node "$node" -- "$@" 3>&- 4>&-
}

# wait_until SECONDS COMMAND...: until the command succeeds.
wait_until() {
  local limit=$1 deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    if ((SECONDS >= deadline)); then
      printf 'not so within %s s: %s\n' "$limit" "$*" >&2
      return 1
    fi
    sleep 0.1
  done
}

cluster_nodes() {
  on_cluster sinfo --noheader --Node --format=%N
}

# Bad launches must not take nodes out of service.
assert_no_drain() {
  local states
  states=$(on_cluster sinfo --noheader --Node --format='%N %T %E') || return 1
  if grep -Evq ' (idle|mixed|allocated|completing|planned) ' <<<"$states"; then
    printf 'nodes are out of service:\n%s\n' "$states" >&2
    return 1
  fi
}

# The end of every teardown, as one command: bats minds the status of a teardown's last one only. `status` wants every
# node in service, too.
assert_cluster_as_it_was() {
  assert_nodes_clean && { "$cluster" status >&2 || assert_no_drain; }
}

# Nothing of any job is left on any node: no queued job, no user's process, no file made since boot. A step that was
# just killed is given ten seconds to go.
assert_nodes_clean() {
  local deadline=$((SECONDS + 10)) left
  while left=$(leftovers) && [[ -n $left ]]; do
    if ((SECONDS >= deadline)); then
      printf 'left on the cluster:\n%s\n' "$left" >&2
      return 1
    fi
    sleep 0.1
  done
}

# processes_on NODE: process id and command of every user's process there.
processes_on() {
  # shellcheck disable=SC2016 # for the node's shell
  node_exec "$1" bash -c '
    find /proc -maxdepth 1 -name "[0-9]*" ! -user root |
      while read -r dir; do echo "${dir#/proc/} $(tr "\0" " " <"$dir/cmdline")"; done' 2>/dev/null
}

# runs_on NODE TEXT: whether a user's process whose command contains the text is there.
runs_on() {
  processes_on "$1" | grep -qF -- "$2"
}

leftovers() {
  on_cluster squeue --noheader --format='job %i %T'
  "$(dirname "$cluster")/leftovers" "$cluster_dir"
}
