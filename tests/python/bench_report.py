# SPDX-License-Identifier: Apache-2.0
"""Prints what tests/python/bench has measured. Status 1 if a bound is not kept."""

import json
import statistics
import sys
from pathlib import Path


def median(found, key):
    return statistics.median(one[key] for one in found)


def main(folder):
    c_steps = [json.loads(Path(folder, f"c.{i}").read_text())["results"][0]["time_us"] for i in (1, 2, 3)]
    python = [json.loads(Path(folder, f"python.{i}").read_text()) for i in (1, 2, 3)]
    c_step, step = statistics.median(c_steps), median(python, "step_us")
    c_call, call = median(python, "c_call_us"), median(python, "python_call_us")
    blocked = max(one["blocked_percent"] for one in python)
    print(f"{python[0]['tensors']} allreduces of ResNet-50's gradients: {step / 1000:.1f} ms from Python, "
          f"{c_step / 1000:.1f} ms by hvd-perf: {step / c_step:.2f} times (at most 1.3)")
    print(f"one allreduce_ of 64 floats: {call:.1f} us from Python, {c_call:.1f} us by the C calls: "
          f"{call - c_call:.1f} us more")
    print(f"a rank blocked in synchronize: {blocked:.2f} % of a core (less than 2)")
    return 0 if step <= 1.3 * c_step and blocked < 2 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
