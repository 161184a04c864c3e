# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# The files a cluster is configured by, written once into the state directory and bind-mounted by every host:
# Slurm's own (etc/slurm) and those of the C library (hosts, passwd, group, nsswitch.conf). Sourced by `cluster`.
# It reads that script's variables.
# shellcheck disable=SC2154

readonly network=10.77.0 cgroups=/run/cgroup

# What a cluster test may have to change. CPU binding, for one, needs task/affinity and real CPUs; task/cgroup keeps a
# job's, and with --gpus-per-task a task's, hands off other GPUs than its own.
task_plugin=${HVD_CLUSTER_TASK_PLUGIN:-task/none}

write_config() {
  mkdir -p -- "$state"/{etc/slurm/plugstack.conf.d,host,log,munge,slurmctld}
  install -d -o 20001 -g 20001 -- "$state/home/alice"
  install -d -o 20002 -g 20002 -- "$state/home/bob"
  (umask 077 && head -c 128 /dev/urandom >"$state/munge/munge.key")
  printf '%s\n' "${binds[@]}" "$state" | sort -u >"$state/binds"

  write_names >"$state/etc/hosts"
  write_accounts passwd 'alice:x:20001:20001::HOME/alice:/bin/bash' 'bob:x:20002:20002::HOME/bob:/bin/bash'
  write_accounts group 'alice:x:20001:' 'bob:x:20002:'
  printf '%s: files\n' passwd group shadow hosts >"$state/etc/nsswitch.conf"

  write_slurm_conf >"$state/etc/slurm/slurm.conf"
  write_gres_conf >"$state/etc/slurm/gres.conf"
  ! has_device_cgroups || write_cgroup_conf >"$state/etc/slurm/cgroup.conf"
  write_plugstack_conf >"$state/etc/slurm/plugstack.conf"
  options >"$state/options"
}

write_names() {
  local i
  printf '%s\n' "127.0.0.1 localhost" "$network.254 ctl"
  for ((i = 0; i < nodes; i++)); do
    printf '%s node%d\n' "$network.$((i + 1))" "$i"
  done
}

# The machine's own accounts, after ours: the first match counts.
write_accounts() {
  local table=$1
  shift
  { printf '%s\n' "${@//HOME/$state/home}" && cat "/etc/$table"; } >"$state/etc/$table"
}

# "prefix0" for one, "prefix[0-3]" for four.
range() {
  (($2 == 1)) && printf '%s0' "$1" || printf '%s[0-%d]' "$1" $(($2 - 1))
}

# MpiDefault stays unset: that the plugin selects PMIx is under test. config_overrides: nodes have the CPUs we say,
# whatever the machine has. Only backfill starts heterogeneous jobs, once a bf_interval. Timeouts are such that what
# ends ends soon, and a busy machine is no dead node.
write_slurm_conf() {
  cat <<END
ClusterName=hvd
SlurmctldHost=ctl($network.254)
SlurmUser=root
AuthType=auth/munge
MailProg=/bin/true

StateSaveLocation=$state/slurmctld
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/run/slurmd
SlurmctldDebug=info
SlurmdDebug=info
PlugStackConfig=$state/etc/slurm/plugstack.conf

ProctrackType=proctrack/linuxproc
TaskPlugin=$task_plugin
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,bf_interval=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none

ReturnToService=2
InactiveLimit=0
KillWait=5
MessageTimeout=10
SlurmdTimeout=300

$( ((gpus == 0)) || echo GresTypes=gpu)
NodeName=$(range node "$nodes") CPUs=$cpus Sockets=1 CoresPerSocket=$cpus RealMemory=16000 $( ((gpus == 0)) || echo "Gres=gpu:$gpus")
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE
END
}

write_gres_conf() {
  ((gpus == 0)) || printf 'Name=gpu File=%s\n' "$(range /run/gpu "$gpus")"
}

has_device_cgroups() { [[ $task_plugin == *task/cgroup* ]]; }

write_cgroup_conf() {
  printf '%s\n' CgroupPlugin=cgroup/v1 "CgroupMountpoint=$cgroups" ConstrainDevices=yes ConstrainCores=no \
    ConstrainRAMSpace=no
}

write_plugstack_conf() {
  local plugin=''
  [[ -z $prefix ]] || plugin=$(find "$prefix" -name spank_horovod.so -print -quit)
  [[ -z $plugin ]] || printf 'optional %s\n' "$plugin"
  printf 'include %s\n' "$state/etc/slurm/plugstack.conf.d/*" ${HVD_CLUSTER_PLUGSTACK:+"$HVD_CLUSTER_PLUGSTACK"}
}
