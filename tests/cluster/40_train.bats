#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A model is trained on real Slurm nodes: it learns, all ranks have the same weights, and they are those that one rank
# alone would have.
#
# shellcheck disable=SC2154 # variables of bats and of helpers

load helpers
load ../ranks/helpers

train=$HOME_OF_ALICE/train
export ON_CLUSTER_SECONDS=240

setup_file() {
  install -m 755 "$(build_dir)/examples/train" "$train"
}

teardown_file() {
  rm -f "$train" "$HOME_OF_ALICE"/weights.*
}

# The library that is installed, not the one in the build tree: alice can read that one.
setup() {
  export LD_LIBRARY_PATH=${HVD_PREFIX:-$(build_dir)/prefix}/lib
}

teardown() {
  assert_cluster_as_it_was
}

# equal_hashes EPOCH RANKS: that many ranks have printed one hash.
equal_hashes() {
  expect_lines "$2" "^epoch $1 rank [0-9]+ weights sha256 [0-9a-f]{64}$"
  [ "$(sed -nE "s/^epoch $1 rank [0-9]+ weights sha256 //p" <<<"$output" | sort -u | wc -l)" = 1 ]
}

@test "2 nodes x 2 ranks learn to 0.85, with the same weights on every rank after every epoch" {
  run -0 --separate-stderr on_cluster srun --horovod -N2 --ntasks-per-node=2 "$train"
  [ -z "$stderr" ]
  expect_lines 1 "^4 ranks on 2 nodes, batches of 128, 1404 steps$"
  for epoch in 1 2 3; do equal_hashes $epoch 4; done
  local accuracy
  accuracy=$(sed -nE 's/^epoch 3\/3 test accuracy ([0-9.]+) after .*/\1/p' <<<"$output")
  echo "accuracy $accuracy"
  awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy >= 0.85) }'
}

@test "50 steps of one batch give the same weights on 2 x 2 ranks as on 1, to 1e-5 of the largest" {
  run -0 on_cluster srun --horovod -N1 -n1 "$train" --steps 50 --batch 64 --save "$HOME_OF_ALICE/weights.1"
  run -0 on_cluster srun --horovod -N2 --ntasks-per-node=2 "$train" --steps 50 --batch 64 \
    --save "$HOME_OF_ALICE/weights.4"
  equal_hashes 1 4
  run -0 python3 - "$HOME_OF_ALICE"/weights.[14] <<'END'
import array, sys
one, four = (array.array("f", open(name, "rb").read()) for name in sys.argv[1:])
difference = max(abs(a - b) for a, b in zip(one, four)) / max(map(abs, one))
print("%d weights differ by up to %.1e of the largest" % (len(one), difference))
sys.exit(not (len(one) == len(four) == 109386 and difference <= 1e-5))
END
  echo "$output"
}

@test "the batch job runs with the option from its #SBATCH line" {
  local out=$HOME_OF_ALICE/job.out script=$HOME_OF_ALICE/job.sbatch
  install -m 644 "$BATS_TEST_DIRNAME/../../examples/job.sbatch" "$script"
  TRAIN=$train run -0 batch_job --output="$out" "$script" --steps 20
  output=$(<"$out")
  rm "$out" "$script"
  expect_lines 1 "^4 ranks on 2 nodes, batches of 128, 20 steps$"
  equal_hashes 1 4
}

@test "what cannot work is a sentence with the way out" {
  run -2 "$train" --batch many
  [ "$output" = 'train: --batch is "many", not a number from 1 to 60000' ]
  run -1 "$train" --data /nowhere
  [ "$output" = "train: /nowhere/train-images-idx3-ubyte.gz: No such file or directory. \
Debian has the data in the package dataset-fashion-mnist; --data names another place" ]
  run -2 on_cluster srun --horovod -N1 -n3 "$train" --batch 64
  expect_lines 1 "^train: a batch of 64 cannot be shared evenly \(3 ranks\); take --batch 63$"
}
