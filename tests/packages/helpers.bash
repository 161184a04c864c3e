# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What the tests of packages share. They run inside `overlay`, install for good, and leave nothing.
#
# shellcheck disable=SC2034,SC2154 # variables of bats and for the tests

load ../cluster/helpers

export packages=$HVD_BUILD/packages
export HVD_CLUSTER_PLUGSTACK='/opt/plugstack/*.conf'
module_systems=(/usr/share/modules/init/bash /usr/share/lmod/lmod/init/profile) # as login shells do

cluster_up() { timeout 120 "$cluster" up --nodes 2 --cores 1 --bind "$HVD_BUILD" "$@"; }

# Hosts of the cluster have an /etc/slurm of their own; they see the machine's folder here.
site_plugstack() {
  mountpoint -q /opt/plugstack && return
  mkdir -p /opt/plugstack && mount --bind /etc/slurm/plugstack.conf.d /opt/plugstack
}

# with_modules INIT COMMAND: in a shell that knows nothing but the system and one of the two.
with_modules() {
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin bash --noprofile --norc -c ". '$1' && $2"
}

# Two ranks on each of two nodes, and all results are right.
four_ranks_reduce() {
  run -0 --separate-stderr on_cluster "$@" srun --horovod -N2 --ntasks-per-node=2 \
    hvd-perf allreduce --min 4K --max 4K --iterations 2 --rounds 1
  echo "$output"
  grep -q '4 ranks on 2 nodes' <<<"$output" && [[ -z $stderr ]]
}
