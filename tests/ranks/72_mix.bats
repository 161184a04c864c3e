#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Random operations of all kinds by 8 ranks on simulated nodes (HOROVOD_HOSTNAME), in different orders from two threads,
# compared with a model: mix.cc. HVD_SEED repeats a run; HVD_ROUNDS scales it.
#
# shellcheck disable=SC2154 # variables of bats

load helpers

setup() {
  mix=$(build_dir)/tests/ranks/mix
  seed=${HVD_SEED:-$((RANDOM * 32768 + RANDOM))}
  seeds=$((${HVD_ROUNDS:-300} / 5)) # fewer where a sanitizer makes each of them slow
}

# mix_on "NODE..." COUNT [VARIABLE=VALUE...]: so many seeds; rank i is on the i-th node.
mix_on() {
  local list=$1 count=$2 n
  shift 2
  n=$(wc -w <<<"$list")
  echo "# seeds: $count from $seed on (HVD_SEED=$seed)" >&3
  for _ in 1 2 3; do
    # shellcheck disable=SC2016 # for the rank's shell
    RANKS_SECONDS=200 run ranks "$n" env "$@" bash -c \
      'node=($1); HOROVOD_HOSTNAME=sim${node[OMPI_COMM_WORLD_RANK]} exec "$2" "$3" "$4"' ranks "$list" "$mix" "$seed" "$count"
    expect_lines "$n" "^rank [0-7]: $count seeds from $seed on, [0-9]+ operations, [1-9][0-9]* errors, all as they must be$"
    leak_search_broke || break
  done
  [[ $status == 0 ]] || { echo "$output" >&2 && return 1; }
}

@test "random operations of 8 ranks on 4 nodes end as the model says" {
  mix_on "0 0 1 1 2 2 3 3" "$seeds"
}

# bats test_tags=long
@test "so they do with few tickets or none, small batches and small blocks" {
  for capacity in 0 4; do
    mix_on "0 0 1 1 2 2 3 3" $((seeds / 5)) HOROVOD_CACHE_CAPACITY=$capacity HOROVOD_FUSION_THRESHOLD=1K \
      HOROVOD_BLOCK_SIZE=4K
  done
}

# bats test_tags=long
@test "so they do on one node, and where ranks are cyclic or uneven" {
  for list in "0 0 0" "0 1 2 3 0 1 2 3" "0 0 0 0 1 2 2"; do
    mix_on "$list" $((seeds / 10)) HOROVOD_CACHE_CAPACITY=20
  done
}
