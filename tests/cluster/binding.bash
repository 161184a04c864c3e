# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What the tests of binding share: what tasks see, and where the report says they are.
#
# shellcheck disable=SC2154 # show and said are the test file's, output is bats's

same() { diff <(echo "$1") <(echo "$output") >&2; }

# tasks ARGUMENT-OF-SRUN...: what each task prints by the script $show, in order; the plugin's lines are in $said.
tasks() { on_cluster srun "$@" bash -c "$show" 2>"$said" | sort; }

# placed ARGUMENT-OF-SRUN...: rank, local rank, token and PCI address (or "-") of each rank, from the job's report.
placed() {
  on_cluster srun --horovod=report=json "$@" "$(build_dir)/tests/ranks/worker" place 2>&1 >/dev/null | grep '^{' |
    python3 -c '
import json, sys
found = [rank for node in json.load(sys.stdin)["nodes"] for rank in node["ranks"]]
for rank in sorted(found, key=lambda one: one["rank"]):
    gpu = rank["gpu"] or {"token": None, "pci": None}
    print(rank["rank"], rank["local_rank"], gpu["token"] or "-", gpu["pci"] or "-")'
}
