#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Nobody feels the plugin but who asks for it: where its file is missing or of another release, in each of its own
# errors, and whatever an ordinary user puts into the variables that it reads, a task runs or ends with a sentence, and
# nobody else notices: no node out of service, every daemon alive, other users' jobs untouched. (That it is every
# variable, with many more values, is spank_hostile_test's and spank_local_test's part.)
#
# shellcheck disable=SC2016 # what is quoted is for the tasks' shells
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

plugstack=$cluster_dir/etc/slurm/plugstack.conf
ask=$cluster_dir/home/bob/harm.ask
# Both bring an option to the node. The first is what #SBATCH --horovod leaves; srun does not look at the second.
inherited=SLURM_SPANK__SLURM_SPANK_OPTION_horovod_horovod
past_srun=_SLURM_SPANK_OPTION_horovod_horovod

setup() {
  [[ ! -e $plugstack.kept ]] || mv "$plugstack.kept" "$plugstack" # of a run that was ended
  daemons=$(daemons)
  rm -f "$ask"
  "$cluster" exec --user bob -- srun -w node1 bash -c \
    "echo works; until [[ -e $ask ]]; do sleep 0.1; done; echo untouched" >"$BATS_TEST_TMPDIR/bob" 2>&1 3>&- &
  job=$!
  wait_until 20 grep -qs works "$BATS_TEST_TMPDIR/bob"
}

teardown() {
  touch "$ask"
  [[ -z ${job:-} ]] || wait "$job" || true
  [[ ! -e $plugstack.kept ]] || mv "$plugstack.kept" "$plugstack"
  rm -rf "$ask" "$HOME_OF_ALICE"/harm.*
  assert_cluster_as_it_was
}

daemons() {
  "$cluster" status | grep -E 'slurmd|slurmctld|munged'
}

# The end of every test: bob's job, there from the start, goes on and ends well; the daemons are the same.
nobody_felt_it() {
  touch "$ask"
  wait "$job"
  job=
  grep -qx untouched "$BATS_TEST_TMPDIR/bob"
  [[ $(daemons) == "$daemons" ]]
}

# plugin_line SED: changes the plugin's line in plugstack.conf, which all hosts share.
plugin_line() {
  [[ -e $plugstack.kept ]] || cp "$plugstack" "$plugstack.kept"
  sed "/spank_horovod\.so/ {
$1
}" "$plugstack.kept" >"$plugstack"
}

# ---- no plugin ----------------------------------------------------------------------------------

# The plugin's file as another release of Slurm would have been given it, 1.1.1.
other_release() {
  local plugin at
  plugin=$(find "$HVD_PREFIX" -name spank_horovod.so)
  at=$((16#$(nm -D --defined-only "$plugin" | awk '$3 == "plugin_version" { print $1 }')))
  mkdir "$HOME_OF_ALICE/harm.d"
  cp "$plugin" "$HOME_OF_ALICE/harm.d/"
  printf '\x01\x01\x01\x00' | dd of="$HOME_OF_ALICE/harm.d/spank_horovod.so" bs=1 seek="$at" conv=notrunc status=none
}

slurmd_of() {
  daemons | awk -v node="$1" '$1 == node && $2 == "slurmd" { print $3 }'
}

# restart_slurmd NODE: as an administrator would, on the CPUs that the node has.
restart_slurmd() {
  local old
  old=$(slurmd_of "$1")
  node_exec "$1" bash -c '
    taskset -c "$(sed -n "s/^Cpus_allowed_list:\s*//p" /proc/1/status)" slurmd -N "$1" -L "$2"
  ' - "$1" "$cluster_dir/log/slurmd.$1.again.log"
  wait_until 20 has_ended "$old"
  [[ $(slurmd_of "$1") =~ ^[0-9]+$ ]]
  daemons=$(daemons)
}

has_ended() { [[ ! -e /proc/$1 ]]; }

# Slurm says why there is no plugin, and every host goes on for all who do not ask for horovod, its slurmd started again,
# too; whoever asks is told that there is no such option.
works_without_plugin() {
  local command
  restart_slurmd node3
  run -0 --separate-stderr on_cluster srun -N4 echo runs
  expect_lines 4 '^runs$'
  [[ $stderr == *"$1"* ]]
  for command in srun sbatch salloc; do
    run -255 on_cluster "$command" --horovod true
    expect_lines 1 "^$command: unrecognized option '--horovod'\$"
  done
  printf '#!/bin/bash\nsrun echo runs\n' >"$HOME_OF_ALICE/harm.sh"
  run -0 batch_job --output="$HOME_OF_ALICE/harm.out" "$HOME_OF_ALICE/harm.sh"
  grep -qx runs "$HOME_OF_ALICE/harm.out"
}

@test "the plugin's file is missing, or of another release of Slurm: all but --horovod works, and slurmd starts" {
  plugin_line 's|/[^ ]*/|/nowhere/|'
  works_without_plugin 'cannot open shared object file'
  other_release
  plugin_line "s|/[^ ]*/|$HOME_OF_ALICE/harm.d/|"
  works_without_plugin 'Incompatible plugin version'
  nobody_felt_it
}

# ---- the plugin's own errors --------------------------------------------------------------------

# tell COMMAND...: what a user sees of it: its exit status, and its lines but Slurm's list of the tasks that ended.
tell() {
  local status=0
  on_cluster "$@" >"$BATS_TEST_TMPDIR/told" 2>&1 || status=$?
  grep -v '^srun: error: node0: task' "$BATS_TEST_TMPDIR/told" | sort
  printf '= %d\n' "$status"
}

# errors_as FORM: all of them, with the plugin "optional" or "required".
errors_as() {
  local form="s/^optional/$1/" script=$HOME_OF_ALICE/harm.sh
  plugin_line "$form; s|\$| sluts=3|"
  tell srun --horovod -w node0 true
  tell sbatch --horovod --wrap true
  tell srun -w node0 echo runs
  tell env "$past_srun=slots=2" srun --mpi=pmix -w node0 -n2 true
  plugin_line "$form; s|\$| topology=/nowhere.xml|"
  tell srun --horovod -w node0 --gres=gpu:1 echo runs
  plugin_line "$form"
  tell env "$past_srun=slots=99" srun --mpi=pmix -w node0 -n2 true
  tell env "$past_srun=" srun --mpi=none -w node0 -n2 true
  tell env HOROVOD_GPU_BIND=map:7 srun --horovod -w node0 --gres=gpu:1 echo runs
  printf '%s\n' '#!/bin/bash' "export $past_srun=slots=99" 'srun --mpi=pmix true' 'exit $?' >"$script"
  batch_job --output="$HOME_OF_ALICE/harm.out" -w node0 -n2 "$script" ||
    printf '= %d\n' $? >>"$HOME_OF_ALICE/harm.out"
  grep -v '^srun: error: node0: task' "$HOME_OF_ALICE/harm.out"
}

administrators='please tell the administrators of this machine'
bad_line="plugstack.conf: unknown key \"sluts\"; did you mean \"slots\"?; $administrators"
all_errors="srun: error: horovod: $bad_line
= 1
sbatch: error: horovod: $bad_line
= 1
runs
= 0
horovod: on node0: $bad_line
= 2
horovod: node0: nothing is bound: reading a topology: /nowhere.xml: No such file or directory
runs
= 0
horovod: on node0: --horovod: slots is \"99\", more than 16, the most
= 2
horovod: on node0: --horovod needs PMIx, and Slurm has started no PMIx server for this step; srun --mpi=list shows whether this Slurm has PMIx
= 2
horovod: node0: nothing is bound: gpu-bind=map names GPU 7, but the step has 1 on this node; they count from 0 in the order of its list, whatever their numbers are
runs
= 0
horovod: on node0: --horovod: slots is \"99\", more than 16, the most
= 2"

@test "the plugin's own errors are the same for srun and sbatch, as optional and as required, and nobody else's" {
  local form
  for form in optional required; do
    errors_as "$form" >"$BATS_TEST_TMPDIR/$form"
    diff <(echo "$all_errors") "$BATS_TEST_TMPDIR/$form" >&2
    assert_no_drain
  done
  nobody_felt_it
}

# ---- hostile values -----------------------------------------------------------------------------

long=$(printf 'x%.0s' {1..100000})

# A step's further options, and variables that its tasks are given together; %L is a hundred thousand characters. (With
# --gres Slurm sets some of them itself.)
gpus=--gres=gpu:2
hostile="$gpus HOROVOD_GPU_BIND=map:99999999999999999999:-1 HOROVOD_CPU_BIND=%L HOROVOD_NIC_BIND=nearest
$gpus HOROVOD_GPU_BIND=map:0 HOROVOD_REPORT=%L HOROVOD_HOSTNAME=%L HOROVOD_PYTHON=perhaps PYTHONPATH=%L
$gpus HOROVOD_INTERNAL_HANDOFF=step=1.0,node=99999999999,option=%L HOROVOD_INTERNAL_REPORT=[[[[{\"node\": PYTHONPATH=::::
$gpus SLURMD_TRES_BIND=gpu::::: SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=0x%L SLURMD_NODENAME=%L
-Q HOROVOD_REPORT=json SLURM_GPUS_ON_NODE=%L SLURM_STEP_GPUS=4-1,9999999999999 CUDA_VISIBLE_DEVICES=%L ZE_AFFINITY_MASK=-1"

# On srun's side: variables, exit status, a line that is said.
hostile_to_srun="HOROVOD_INTERNAL_SRUN_AGAIN=%L|1|^srun: error: horovod: --horovod needs PMIx, and this step has --mpi=none;
SLURM_MPI_TYPE=pmix/../%L|1|^srun: error: .*pmix/\.\./x
SLURM_KILL_BAD_EXIT=%L|1|^srun: error: Invalid numeric value
$inherited=%L|1|^srun: error: horovod: unknown key \"x*\$
SLURM_PMIX_FENCE=%L HOROVOD_INTERNAL_REQUESTED=%L $past_srun=%L|0|^runs 0\$"

@test "hostile values in the variables that the plugin reads: the task runs or srun refuses, and nobody else feels it" {
  local line variables wanted text tried=0
  while read -r -u 4 -a line; do
    run -0 on_cluster env "${line[@]:1}" srun --horovod -w node0 -n2 "${line[0]}" bash -c 'echo "runs $HOROVOD_RANK"' 4>&-
    expect_lines 1 '^runs 0$'
    expect_lines 1 '^runs 1$'
    tried=$((tried + 1))
  done 4<<<"${hostile//%L/$long}"
  while IFS='|' read -r -u 4 variables wanted text; do
    IFS=' ' read -r -a variables <<<"$variables"
    run -"$wanted" on_cluster env "${variables[@]//%L/$long}" \
      srun --horovod -w node0 bash -c 'echo "runs $HOROVOD_RANK"' 4>&-
    expect_lines '[1-9]' "$text"
    tried=$((tried + 1))
  done 4<<<"$hostile_to_srun"
  ((tried == 10))
  nobody_felt_it
}
