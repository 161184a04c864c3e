#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The plugin on a real Slurm: what tasks find in their environment however they are started, what is refused on the
# login side, and that nobody else feels any of it. The library has a part only where the plugin is missing.
#
# shellcheck disable=SC2016 # what is quoted is for the tasks' shells
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

# A task prints where it is: rank/size local/local cross/cross host.
h=HOROVOD
where="echo \$${h}_RANK/\$${h}_SIZE \$${h}_LOCAL_RANK/\$${h}_LOCAL_SIZE \$${h}_CROSS_RANK/\$${h}_CROSS_SIZE"
where+=" \$(/bin/hostname) \$${h}_HOSTNAME"
# A task prints what it has of Horovod and PMIx, and nothing if that is nothing.
traces='/usr/bin/env | /bin/grep -E "^(HOROVOD_|PMIX_)" || true'

four_nodes_of_two='0/8 0/2 0/4 node0 node0
1/8 1/2 0/4 node0 node0
2/8 0/2 1/4 node1 node1
3/8 1/2 1/4 node1 node1
4/8 0/2 2/4 node2 node2
5/8 1/2 2/4 node2 node2
6/8 0/2 3/4 node3 node3
7/8 1/2 3/4 node3 node3'

two_and_one_and_one='0/4 0/2 0/3 node0 node0
1/4 1/2 0/1 node0 node0
2/4 0/1 1/3 node1 node1
3/4 0/1 2/3 node2 node2'

plugstack=$cluster_dir/etc/slurm/plugstack.conf

setup() {
  [[ ! -e $plugstack.kept ]] || mv "$plugstack.kept" "$plugstack" # of a run that was ended
}

teardown() {
  [[ ! -e $plugstack.kept ]] || mv "$plugstack.kept" "$plugstack"
  [[ -z ${changed_node:-} ]] || node_exec "$changed_node" umount "$plugstack"
  rm -rf "$HOME_OF_ALICE"/plugin.*
  assert_cluster_as_it_was
}

# site ARGUMENT...: what the site writes behind the plugin in plugstack.conf.
site() {
  cp "$plugstack" "$plugstack.kept"
  sed "s|spank_horovod.so.*|& $*|" "$plugstack.kept" >"$plugstack"
}

# node_has NODE FILE: the node sees this plugstack.conf, the others and the login side do not.
node_has() {
  node_exec "$1" mount --bind "$2" "$plugstack"
  changed_node=$1
}

sorted() { sort <<<"$output"; }

# same WANTED: the output's lines, whatever their order.
same() {
  diff <(echo "$1") <(sorted) >&2
}

# batch LINE...: runs a job script of these lines, waits for it, and leaves what it wrote in $output.
batch() {
  local script=$HOME_OF_ALICE/plugin.sh out=$HOME_OF_ALICE/plugin.out
  printf '%s\n' '#!/bin/bash' "$@" >"$script"
  batch_job --output="$out" "$script"
  cat "$out"
}

# asks COMMAND OPTION...: srun, sbatch or salloc with these options and nothing to do.
asks() {
  local program=(true)
  [[ $1 != sbatch ]] || program=(--wrap true)
  on_cluster "$@" "${program[@]}"
}

# ---- where a task is ----------------------------------------------------------------------------

@test "2 tasks on each of 4 nodes find their rank, local rank and cross rank" {
  run -0 on_cluster srun --horovod -N4 -n8 --ntasks-per-node=2 bash -c "$where"
  same "$four_nodes_of_two"
}

@test "so do 8 tasks that Slurm lays out 5, 1, 1, 1" {
  run -0 on_cluster srun --horovod -N4 -n8 bash -c "$where"
  same '0/8 0/5 0/4 node0 node0
1/8 1/5 0/1 node0 node0
2/8 2/5 0/1 node0 node0
3/8 3/5 0/1 node0 node0
4/8 4/5 0/1 node0 node0
5/8 0/1 1/4 node1 node1
6/8 0/1 2/4 node2 node2
7/8 0/1 3/4 node3 node3'
}

@test "so do tasks dealt out cyclically, evenly and unevenly" {
  run -0 on_cluster srun --horovod -N4 -n8 --ntasks-per-node=2 --distribution=cyclic bash -c "$where"
  same '0/8 0/2 0/4 node0 node0
1/8 0/2 1/4 node1 node1
2/8 0/2 2/4 node2 node2
3/8 0/2 3/4 node3 node3
4/8 1/2 0/4 node0 node0
5/8 1/2 1/4 node1 node1
6/8 1/2 2/4 node2 node2
7/8 1/2 3/4 node3 node3'
  run -0 on_cluster srun --horovod -N2 -n5 --distribution=cyclic bash -c "$where"
  same '0/5 0/4 0/2 node0 node0
1/5 0/1 1/2 node1 node1
2/5 1/4 0/1 node0 node0
3/5 2/4 0/1 node0 node0
4/5 3/4 0/1 node0 node0'
}

@test "so do tasks that get nothing of the user's environment" {
  run -0 on_cluster srun --export=NONE --horovod -N4 -n8 --ntasks-per-node=2 /bin/bash -c "$where"
  same "$four_nodes_of_two"
}

@test "so do tasks of several programs, and overcommitted ones" {
  printf '%s\n' "0-3 /bin/bash -c '$where'" "4-7 /bin/bash -c '$where'" >"$HOME_OF_ALICE/plugin.multi"
  run -0 on_cluster srun --horovod -N4 -n8 --ntasks-per-node=2 --multi-prog "$HOME_OF_ALICE/plugin.multi"
  same "$four_nodes_of_two"
  run -0 on_cluster srun --horovod -N1 -n12 --overcommit bash -c 'echo $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE'
  same "$(for rank in {0..11}; do echo "$rank/12"; done | sort)"
}

@test "so do the components of a heterogeneous step and of a heterogeneous job, whichever has the option" {
  run -0 heterogeneous salloc -Q -N3 -n5 srun --horovod -N1 -n2 bash -c "$where" : -N2 -n2 bash -c "$where"
  same "$two_and_one_and_one"
  run -0 heterogeneous srun -Q --horovod -N1 -n2 bash -c "$where" : -N2 -n2 bash -c "$where"
  same "$two_and_one_and_one"
  run -0 heterogeneous srun -Q -N1 -n2 bash -c "$where" : --horovod -N2 -n2 bash -c "$where"
  same "$two_and_one_and_one"
}

@test "the option may be abbreviated as any of srun's" {
  run -0 on_cluster srun --horo -N4 -n8 --ntasks-per-node=2 bash -c "$where"
  same "$four_nodes_of_two"
}

# ---- inside a job -------------------------------------------------------------------------------

@test "in a script with #SBATCH --horovod a plain srun is enough, also without the environment" {
  run -0 batch '#SBATCH --horovod -N4 -n8 --ntasks-per-node=2' "srun bash -c '$where'"
  same "$four_nodes_of_two"
  run -0 batch '#SBATCH --horovod -N4 -n8 --ntasks-per-node=2' "srun --export=NONE /bin/bash -c '$where'"
  same "$four_nodes_of_two"
}

@test "the batch script itself is no rank" {
  run -0 batch '#SBATCH --horovod' "$traces"
  [ -z "$output" ]
}

@test "a step's own option wins over the script's, also when it is off" {
  run -0 batch '#SBATCH --horovod=slots=8' "srun bash -c 'echo \$HOROVOD_SLOTS:\$HOROVOD_CYCLE_TIME'" \
    "srun --horovod=cycle-time=2ms bash -c 'echo \$HOROVOD_SLOTS:\$HOROVOD_CYCLE_TIME'" \
    "srun --horovod=off bash -c '$traces'"
  [ "$output" = $'8:\n:2' ]
}

@test "a step with --mpi=none in such a script is none of the plugin's, and mpirun starts" {
  run -0 batch '#SBATCH --horovod' "srun --mpi=none bash -c '$traces'"
  [ -z "$output" ]
  run -0 on_cluster salloc -Q --horovod -N2 -n4 --ntasks-per-node=2 mpirun hostname
  same $'node0\nnode0\nnode1\nnode1'
}

@test "salloc hands the option on" {
  run -0 on_cluster salloc -Q --horovod=slots=3 -N4 -n8 --ntasks-per-node=2 srun bash -c "$where"
  same "$four_nodes_of_two"
}

@test "a step inside a step has ranks of its own, or none" {
  run -0 on_cluster srun --horovod -N1 -n2 srun --horovod --overlap -N1 -n1 bash -c "$where"
  [ "$output" = $'0/1 0/1 0/1 node0 node0\n0/1 0/1 0/1 node0 node0' ]
  for option in --horovod=off --mpi=none; do
    run -0 batch '#SBATCH --horovod' "srun srun $option --overlap -n1 bash -c 'env | grep ^HOROVOD_ || true'"
    [ -z "$output" ]
  done
}

# ---- settings -----------------------------------------------------------------------------------

@test "settings reach the tasks in Horovod's units: --horovod over the environment over the site" {
  site peer-timeout=30s slots=8 cycle-time=1ms
  HOROVOD_SLOTS=16 HOROVOD_FUSION_THRESHOLD=1M run -0 on_cluster srun --horovod=fusion-threshold=64M,log-hide-time \
    bash -c 'env | grep -E "^HOROVOD_(FUSION|CYCLE|PEER|SLOTS|LOG|CACHE|INTERNAL)"'
  [[ $output == *",site=cycle-time:peer-timeout,option=fusion-threshold:log-hide-time"* ]]
  output=$(grep -v INTERNAL <<<"$output")
  same 'HOROVOD_CYCLE_TIME=1
HOROVOD_FUSION_THRESHOLD=67108864
HOROVOD_LOG_HIDE_TIME=1
HOROVOD_PEER_TIMEOUT=30
HOROVOD_SLOTS=16'
}

@test "a task imports this release's package; python=off and the site's python-dir have their way" {
  local package=$HVD_PREFIX/lib/horovod/python say='echo "${PYTHONPATH-none}"'
  run -0 on_cluster srun --horovod bash -c "$say"
  same "$package"
  PYTHONPATH=/a:/b run -0 on_cluster srun --horovod bash -c "$say"
  same "$package:/a:/b"
  PYTHONPATH=/a run -0 on_cluster srun --horovod=python=off bash -c "$say"
  same /a
  PYTHONPATH=/a HOROVOD_PYTHON=off run -0 on_cluster srun --horovod bash -c "$say"
  same /a
  run -0 on_cluster srun bash -c "$say"
  same none
  run -0 on_cluster srun --horovod -n2 /usr/bin/python3 -c 'import horovod; print(horovod.__file__)'
  same "$package/horovod/__init__.py
$package/horovod/__init__.py"
  site python-dir=/nowhere
  PYTHONPATH=/a run -0 on_cluster srun --horovod bash -c "$say"
  same /a
}

@test "help lists the keys with the site's values and is a success, for srun, sbatch and salloc" {
  site slots=8
  for command in srun sbatch salloc; do
    run -0 --separate-stderr asks $command --horovod=help --nodes=99
    [ -z "$stderr" ]
    grep -qE '^  fusion-threshold +128M +[a-z]' <<<"$output"
    grep -qE '^  slots +8\* +[a-z]' <<<"$output"
    [ "$(awk 'length > 80' <<<"$output")" = "" ]
  done
  run -0 on_cluster srun --help
  grep -q -- '--horovod=\[key=value' <<<"$output"
}

# ---- what is refused ----------------------------------------------------------------------------

next_job() { on_cluster srun bash -c 'echo $SLURM_JOB_ID'; }

@test "a bad key or value is refused before a job exists, with the nearest key" {
  local before
  before=$(next_job)
  for command in srun sbatch salloc; do
    run -255 asks $command --horovod=fusion-treshold=1M
    [ "${lines[0]}" = "$command: error: horovod: unknown key \"fusion-treshold\"; did you mean \"fusion-threshold\"?" ]
    run -255 asks $command --horovod=fusion-threshold=12X
    [ "${lines[0]}" = "$command: error: horovod: fusion-threshold is \"12X\", not a size; write a number of bytes, or 64M" ]
  done
  [ "$(next_job)" = $((before + 1)) ]
}

@test "--mpi=none with the option is one line and exit status 1, typed or from the environment" {
  local line='srun: error: horovod: --horovod needs PMIx, and this step has --mpi=none; leave --mpi out or use --mpi=pmix'
  run -1 on_cluster srun --horovod --mpi=none true
  [ "$output" = "$line" ]
  run -1 on_cluster srun --mpi=none --horovod -N2 true
  [ "$output" = "$line" ]
  run -1 on_cluster env SLURM_MPI_TYPE=none srun --horovod true
  [ "$output" = "$line" ]
  run -0 on_cluster env SLURM_MPI_TYPE=none srun --horovod --mpi=pmix true
}

@test "a bad line in plugstack.conf is said to those who ask for horovod and nobody else notices" {
  site slots=99
  for command in srun sbatch salloc; do
    run -1 asks $command --horovod
    [ "$output" = "$command: error: horovod: plugstack.conf: slots is \"99\", more than 16, the most; please tell the administrators of this machine" ]
  done
  run -0 on_cluster srun -N4 true
  [ -z "$output" ]
}

@test "a bad line on one node ends the step there with one line; the node stays in service" {
  sed 's|spank_horovod.so.*|& sluts=3|' "$plugstack" >"$HOME_OF_ALICE/plugin.conf"
  node_has node1 "$HOME_OF_ALICE/plugin.conf"
  run -2 --separate-stderr on_cluster srun --horovod --kill-on-bad-exit=0 -N2 -n4 --ntasks-per-node=2 bash -c "$where"
  same $'0/4 0/2 0/2 node0 node0\n1/4 1/2 0/2 node0 node0'
  [ "$(grep -c horovod: <<<"$stderr")" = 1 ]
  [[ $stderr == *'horovod: on node1: plugstack.conf: unknown key "sluts"; did you mean "slots"?; please tell the administrators of this machine'* ]]
  run -0 on_cluster srun -N2 -n4 true
  [ -z "$output" ]
}

# ---- what is left alone -------------------------------------------------------------------------

@test "without the option a task has nothing of Horovod or PMIx, whatever its own arguments are" {
  run -0 on_cluster srun -N4 bash -c "$traces"
  [ -z "$output" ]
  run -0 on_cluster srun -N4 bash -c "$traces" --horovod
  [ -z "$output" ]
  run -0 on_cluster srun --horovod=off -N4 bash -c "$traces"
  [ -z "$output" ]
}

@test "the re-executed srun leaves no trace in the tasks, and standard input still reaches them" {
  run -0 on_cluster srun --horovod bash -c 'env | grep -c AGAIN; cat' <<<word
  [ "$output" = $'0\nword' ]
}

@test "a rank that fails ends the step, unless the user wants otherwise" {
  local ranks='if [[ $HOROVOD_RANK == 1 ]]; then exit 7; fi; sleep 1; echo survived; [[ -z $1 ]] || sleep 50'
  SECONDS=0
  run ! on_cluster srun --horovod -N2 -n2 bash -c "$ranks" - long
  ((SECONDS < 40))
  [[ $output != *survived* ]]
  run -7 on_cluster srun --horovod --kill-on-bad-exit=0 -N2 -n2 bash -c "$ranks"
  grep survived <<<"$output"
  run -7 on_cluster env SLURM_KILL_BAD_EXIT=0 srun --horovod -N2 -n2 bash -c "$ranks"
  grep survived <<<"$output"
}

@test "a node without the plugin works for everybody else; who asked finds that it is missing" {
  grep -v spank_horovod "$plugstack" >"$HOME_OF_ALICE/plugin.conf"
  node_has node1 "$HOME_OF_ALICE/plugin.conf"
  run -0 on_cluster srun -N2 bash -c "$traces"
  [ -z "$output" ]
  local step='$SLURM_JOB_ID.$SLURM_STEP_ID'
  run -0 on_cluster srun --horovod -N2 \
    bash -c "[[ \${HOROVOD_INTERNAL_REQUESTED-$step} == $step ]]; echo \$? \$(hostname) \${HOROVOD_RANK-none}"
  same $'0 node0 0\n0 node1 none'
}

@test "a program on a node without the plugin says so at hvd_init and ends the step; what it starts may run" {
  local worker
  worker=$(build_dir)/tests/ranks/worker
  grep -v spank_horovod "$plugstack" >"$HOME_OF_ALICE/plugin.conf"
  node_has node1 "$HOME_OF_ALICE/plugin.conf"
  run on_cluster srun --horovod -N2 -n4 --ntasks-per-node=2 "$worker" place
  [[ $status != 0 ]]
  expect_lines '[12]' '^worker: the Slurm plugin "horovod" is not loaded on node1, so this task has nothing of what srun --horovod asked for\. Tell the administrators of this machine: '
  expect_lines 0 '^[0-3]/'
  run -2 on_cluster srun --horovod -w node1 -n1 "$worker" place
  # A step inside such a task, with PMIx and without the option, on a node that has the plugin and on the one that has not.
  for inner in '-w node0 -n1' '-w node1 -n1'; do
    run -0 on_cluster salloc -Q -N2 -w node0,node1 srun --horovod -w node1 -N1 -n1 bash -c "srun --overlap --mpi=pmix -N1 $inner $worker place"
    [ "$output" = '0/1 0/1 0/1' ]
  done
  run -0 on_cluster srun --horovod -w node1 -n1 mpirun --oversubscribe -n 2 "$worker" place
  same $'0/2 0/2 0/1\n1/2 1/2 0/1'
}

@test "sites can select PMIx by the command-line filter instead" {
  [ -e "$(dirname "$(readlink -f "$(command -v srun)")")/../lib/$(uname -m)-linux-gnu/slurm-wlm/cli_filter_lua.so" ] ||
    skip "no cli_filter/lua"
  local dir=$HOME_OF_ALICE/plugin.etc
  mkdir "$dir"
  cp "$BATS_TEST_DIRNAME/../../spank/cli_filter.lua" "$dir"
  sed 's|spank_horovod.so.*|& cli-filter|' "$plugstack" >"$dir/plugstack.conf"
  { cat "$cluster_dir/etc/slurm/slurm.conf" && echo CliFilterPlugins=lua; } |
    sed "s|^PlugStackConfig=.*|PlugStackConfig=$dir/plugstack.conf|" >"$dir/slurm.conf"
  cp "$cluster_dir/etc/slurm/gres.conf" "$dir"
  filtered() { on_cluster env SLURM_CONF="$dir/slurm.conf" "$@"; }
  run -0 filtered srun --horovod -N4 -n8 --ntasks-per-node=2 bash -c "$where"
  same "$four_nodes_of_two"
  run -0 filtered srun bash -c "$traces" --horovod
  [ -z "$output" ]
  run -1 filtered srun --horovod --mpi=none true
  [ "${#lines[@]}" = 1 ]
}
