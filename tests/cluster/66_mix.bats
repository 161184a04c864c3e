#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Random operations of all kinds by 8 ranks on 4 nodes of a real Slurm, compared with a model: ranks/mix.cc. HVD_SEED
# repeats a run.
#
# shellcheck disable=SC2154 # variables of bats

load helpers
load ../ranks/helpers

setup() {
  mix=$(build_dir)/tests/ranks/mix
  seed=${HVD_SEED:-$((RANDOM * 32768 + RANDOM))}
}

teardown() {
  assert_cluster_as_it_was
}

# mix_with FIRST COUNT OPTIONS: so many seeds with these options of --horovod.
mix_with() {
  echo "# seeds: $2 from $1 on" >&3
  ON_CLUSTER_SECONDS=200 run on_cluster srun "--horovod=$3" -N4 -n8 --ntasks-per-node=2 "$mix" "$1" "$2"
  expect_lines 8 "^rank [0-7]: $2 seeds from $1 on, [0-9]+ operations, [1-9][0-9]* errors, all as they must be$"
  [[ $status == 0 ]]
}

@test "200 seeds of random operations by 8 ranks on 4 nodes end as the model says" {
  mix_with "$seed" 140 cache-capacity=1024
  mix_with $((seed + 140)) 30 cache-capacity=4,fusion-threshold=1K
  mix_with $((seed + 170)) 30 cache-capacity=0,fusion-threshold=0
}
