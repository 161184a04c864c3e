# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# The hosts of a cluster seen from the machine: starting them, entering them, finding their processes. What a host
# does inside is in `boot`. Sourced by `cluster`, whose variables it reads.
# shellcheck disable=SC2154

# Every process of the cluster, by the machine's process ids.
cluster_pids() {
  grep -lsF -- " $marker " /proc/[0-9]*/mountinfo | cut -d / -f 3
}

# The first process of a host; its namespaces are the host.
host_pid() {
  local pid
  pid=$(cat -- "$state/host/$1" 2>/dev/null) || die "no host \"$1\" is up in $state"
  grep -qsF -- " $marker " "/proc/$pid/mountinfo" || die "host \"$1\" has ended. Run \"cluster up\" again"
  printf '%s' "$pid"
}

# The machine's first sight of the cluster is one process; ctl boots the nodes from inside. All of them live in that
# process's PID namespace and end with it, and the kernel reaps them: nothing is left to the machine's own process 1.
boot_all() {
  local i
  (
    close_descriptors
    exec env -i PATH="$PATH:/usr/sbin:/sbin" setsid unshare --mount --net --uts --ipc --pid --fork --kill-child \
      bash "$here/boot" ctl "$state" "$marker"
  ) </dev/null >"$state/log/boot.ctl.log" 2>&1 &
  disown
  wait_for_host ctl
  for ((i = 0; i < nodes; i++)); do
    wait_for_host "node$i"
    plug_in "node$i"
  done
}

# Whoever reads a pipe that we inherited (a test runner does) would else wait for the daemons to close it.
close_descriptors() {
  local fd
  for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    ((fd <= 2)) || eval "exec $fd>&-"
  done
}

wait_for_host() {
  local deadline=$((SECONDS + 20))
  until [[ -s $state/host/$1 ]]; do
    if ((SECONDS >= deadline)) || [[ -s $state/ended ]]; then
      give_up "host $1 did not start"
    fi
    sleep 0.02
  done
}

# A cable from the bridge, in ctl, to the node's eth0.
plug_in() {
  local pid
  pid=$(host_pid "$1")
  # shellcheck disable=SC2016 # for the inner shell
  nsenter --target "$(host_pid ctl)" --net sh -ec '
    ip link add "$1" type veth peer name eth0 netns "$2"
    ip link set "$1" master br0 up' sh "$1" "$pid" || give_up "the network of $1 could not be made"
}

# Root's own look inside; stays in the machine's PID namespace, so needs no process in between.
in_host() {
  local pid
  pid=$(host_pid "$1") || return
  shift
  SLURM_CONF=$state/etc/slurm/slurm.conf nsenter --target "$pid" --mount --net --uts --ipc -- "$@"
}

# run_as USER HOST COMMAND...: becomes the command. On ctl that is the very process we are, in the machine's PID
# namespace, so signals, terminals and exit statuses need no help. Seeing a node's processes takes its PID namespace,
# and that a process in between; when that one is killed the command is, too.
run_as() {
  local user=$1 host=$2 pid entry gid home shell prefix namespaces=(--mount --net --uts --ipc) privileges
  shift 2
  pid=$(host_pid "$host")
  entry=$(grep -m 1 -- "^$user:" "$state/etc/passwd") || die "user \"$user\" is unknown"
  IFS=: read -r _ _ _ gid _ home shell <<<"$entry"
  privileges=(setpriv --reuid "$user" --regid "$gid" --init-groups)
  if [[ $host != ctl ]]; then
    namespaces+=(--pid)
    privileges+=(--pdeathsig KILL)
  fi
  # shellcheck disable=SC2046 # variable names have no blanks
  unset TMPDIR $(compgen -e | grep -E '^(SLURM_|PMIX_|PMI_|OMPI_[^M]|OMPI_MCA_(orte|ess|pmix))')
  export HOME=$home USER=$user LOGNAME=$user SHELL=$shell SLURM_CONF=$state/etc/slurm/slurm.conf
  # shellcheck source=/dev/null
  source "$state/options"
  PATH=${prefix:+$prefix/bin:}$PATH
  # shellcheck disable=SC2016 # for the inner shell: the working directory if this user may be there
  exec nsenter --target "$pid" "${namespaces[@]}" -- "${privileges[@]}" -- \
    bash -c '{ cd "$1" || cd; } 2>/dev/null; shift; exec "$@"' bash "$PWD" "$@"
}

# One line a daemon that ought to run: host, name, process id or "-".
list_daemons() {
  local host pid namespace name
  local -A found=()
  while read -r pid namespace; do
    read -r name <"/proc/$pid/comm" || continue
    found[$namespace $name]=${found[$namespace $name]:-$pid}
  done 2>/dev/null < <(cluster_pids | sed 's|.*|/proc/&/ns/mnt|' |
    xargs -r sh -c 'find "$@" -maxdepth 0 -printf "%p %l\n"' sh 2>/dev/null | sed 's|^/proc/\([0-9]*\)/ns/mnt|\1|')
  for host in "$state"/host/*; do
    namespace=$(readlink "/proc/$(<"$host")/ns/mnt") || namespace=none
    host=${host##*/}
    for name in munged $([[ $host == ctl ]] && echo slurmctld || echo slurmd); do
      printf '%-8s %-10s %s\n' "$host" "$name" "${found[$namespace $name]:--}"
    done
  done
}
