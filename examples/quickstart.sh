#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# From a bare Debian 12 to a model trained by `srun --horovod` on two nodes, in a few minutes. The nodes are namespaces
# of this machine: a throwaway Slurm (tests/cluster/cluster) that is gone when this ends.
#
# It installs Debian packages, writes into build/ of the checkout (or a directory in /var/tmp, if others cannot read the
# checkout), and changes nothing else.
set -euo pipefail
umask 022 # what is built is run by the cluster's users

usage() {
  cat <<'END'
usage: examples/quickstart.sh [--torch] [--keep] [-- OPTION OF train...]

--torch  trains examples/train.py, with PyTorch, instead of the program in C++
--keep   leaves the cluster up and says how to use it

Run it as root, or as a user who may use sudo: packages and namespaces need root.
END
}

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=build-aux/open-to-all.bash
. "$root/build-aux/open-to-all.bash"
cluster=$root/tests/cluster/cluster
nodes=2 ranks_per_node=2 user=alice # the cluster's ordinary user
keep=no
python=/usr/bin/python3 # the one that has Debian's PyTorch
with_torch=no
train_options=()
as_root=()
cluster_up=no
export HVD_CLUSTER_DIR=${HVD_CLUSTER_DIR:-/var/tmp/hvd-quickstart}

main() {
  while (($#)); do
    case $1 in
      --torch) with_torch=yes ;;
      --keep) keep=yes ;;
      --) shift && train_options=("$@") && break ;;
      -h | --help) usage && exit 0 ;;
      *) usage >&2 && exit 2 ;;
    esac
    shift
  done
  choose_build
  train=("$build/examples/train")
  [[ $with_torch == no ]] || train=("$python" "$build/examples/train.py")
  become_root_when_needed
  cd "$root"
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  trap clean_up EXIT

  step 1 'the packages that are missing: compilers, Slurm, PMIx, Open MPI, the data set'
  local groups=(build cluster example)
  [[ $with_torch == no ]] || groups+=(torch)
  build-aux/install-deps "${groups[@]}"
  took

  step 2 "configure, make, make install, into ${build#"$root/"}/ (minutes; quickstart-build.log there tells)"
  quietly build.log tests/run.sh --build-only
  cp examples/*.sbatch examples/*.py "$build/examples/" # the cluster's users may be unable to read the checkout
  took

  step 3 "a throwaway Slurm of $nodes nodes, each with its own network, host name and /tmp"
  cluster_up=yes
  quietly cluster.log on_root "$cluster" up --nodes "$nodes" --prefix "$build/prefix" --bind "$build"
  took

  step 4 "training on $nodes nodes, $ranks_per_node ranks on each, as $user"
  local command=(srun --horovod -N"$nodes" --ntasks-per-node="$ranks_per_node" "${train[@]}" "${train_options[@]}")
  printf '      $ %s\n' "${command[*]}"
  on_cluster "${command[@]}" 2>&1 | sed -u 's/^/      /'
  took

  [[ $keep == no ]] || how_to_go_on
  printf 'done in %d s\n' "$SECONDS"
}

# ---- steps --------------------------------------------------------------------------------------

step() {
  step_start=$SECONDS
  printf '[%d/4] %s\n' "$1" "$2"
}

took() { printf '      %d s\n' $((SECONDS - step_start)); }

# quietly LOG COMMAND...: output goes to a file, and to the terminal if the command fails.
quietly() {
  local log=$build/quickstart-$1
  shift
  mkdir -p "$build"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 40 "$log" >&2
    printf 'quickstart: "%s" did not work; all it said is in %s\n' "$*" "$log" >&2
    exit 1
  fi
}

# ---- where to build -----------------------------------------------------------------------------

# Where the cluster's users can read it.
choose_build() {
  build=${HVD_BUILD:-$root/build}
  [[ $build == /* ]] || build=$PWD/$build
  if [[ -z ${HVD_BUILD:-} ]] && ! open_to_all "$root"; then
    build=/var/tmp/hvd-quickstart-build-$EUID
    mkdir -p "$build"
    if [[ ! -O $build || -L $build ]]; then
      printf 'quickstart: %s belongs to somebody else. Name another directory in HVD_BUILD\n' "$build" >&2
      exit 1
    fi
  fi
  export HVD_BUILD=$build
}

# ---- root ---------------------------------------------------------------------------------------

become_root_when_needed() {
  [[ $EUID != 0 ]] || return 0
  if ! command -v sudo >/dev/null; then
    printf 'quickstart: packages and namespaces need root, and there is no sudo. Run this as root\n' >&2
    exit 1
  fi
  as_root=(sudo env "HVD_CLUSTER_DIR=$HVD_CLUSTER_DIR")
  sudo -v
}

on_root() { "${as_root[@]}" "$@"; }

on_cluster() { on_root "$cluster" exec --user "$user" -- "$@"; }

# ---- the end ------------------------------------------------------------------------------------

how_to_go_on() {
  local cluster_command="${as_root[*]:-env HVD_CLUSTER_DIR=$HVD_CLUSTER_DIR} $cluster"
  local on="$cluster_command exec --user $user --" out=$HVD_CLUSTER_DIR/home/alice/job.out
  local job="TRAIN=${train[0]} $build/examples/job.sbatch"
  [[ $with_torch == no ]] || job="PYTHON=$python,TRAIN=${train[1]} $build/examples/job_torch.sbatch"
  cat <<END

The cluster is still up. To train again; as a batch job; what --horovod takes; a benchmark:
  $on srun --horovod -N$nodes --ntasks-per-node=$ranks_per_node ${train[*]}
  $on sbatch --wait -o $out --export=ALL,$job; cat $out
  $on srun --horovod=help true
  $on srun --horovod -N$nodes --ntasks-per-node=$ranks_per_node hvd-perf allreduce
To take it down:
  $cluster_command down

END
}

clean_up() {
  local status=$?
  trap - EXIT
  if [[ $cluster_up == yes && ($keep == no || $status != 0) ]]; then
    on_root "$cluster" down || status=1
  fi
  exit "$status"
}

main "$@"
