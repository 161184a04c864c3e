#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What the option costs a step that does nothing. Both kinds of steps in turn on the same nodes, so that what else the
# machine does falls on both.
#
# shellcheck disable=SC2154 # variables of bats

load helpers

teardown() {
  assert_cluster_as_it_was
}

# pairs COUNT ARGUMENT-OF-SRUN...: the microseconds of a step with --mpi=pmix and of one with --horovod, a pair a line.
pairs() {
  # shellcheck disable=SC2016 # for the shell over there
  ON_CLUSTER_SECONDS=120 on_cluster bash -c '
    count=$1 arguments=("${@:2}")
    took() {
      local begin=${EPOCHREALTIME/./}
      srun "$@" -N1 -n2 "${arguments[@]}" true 2>/dev/null || exit 1
      took=$((${EPOCHREALTIME/./} - begin))
    }
    for ((i = 0; i < count; i++)); do
      took --mpi=pmix; pmix=$took
      took --horovod; echo "$pmix $took"
    done' pairs "$@"
}

# median COLUMN: of an even number of lines.
median() { cut -d ' ' -f "$1" <<<"$output" | sort -n | awk '{v[NR] = $1} END {print int((v[NR/2] + v[NR/2+1]) / 2)}'; }

# cheap ARGUMENT-OF-SRUN...: at most 1.5 times, told.
cheap() {
  local try pmix horovod
  # A machine that others use has bad minutes; a plugin that is slow is so twice.
  for try in 1 2; do
    run -0 pairs 20 "$@"
    [[ ${#lines[@]} == 20 ]]
    pmix=$(median 1) horovod=$(median 2)
    printf '# median of 20 steps: --mpi=pmix %d us, --horovod %d us, ratio %d.%02d (try %d) %s\n' \
      "$pmix" "$horovod" $((horovod / pmix)) $((horovod * 100 / pmix % 100)) "$try" "$*" | tee -a /dev/fd/3
    ((horovod * 2 > pmix * 3)) || return 0
  done
  return 1
}

@test "starting a step with --horovod takes at most 1.5 times what it takes with --mpi=pmix" {
  cheap
}

# bats test_tags=long
@test "so it does where hwloc is asked and four GPUs are bound" {
  cheap --gres=gpu:4
}
