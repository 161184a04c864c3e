#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads every #include and holds the rule that dependencies point one way (TAP output).

It knows rooms and headers, not symbols: what a file does with what it includes is not its business.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Room -> rooms it may include besides itself. The first room whose path a file starts with is the file's room.
BASE = ["libhvd/base"]
TOPO = ["libhvd/topo"] + BASE
DATA = ["libhvd/data"] + TOPO
COLL = ["libhvd/coll", "libhvd/transport/*.h", "libhvd/trace"] + DATA
ENGINE = ["libhvd/engine", "libhvd/control"] + COLL
ROOMS = {
    "libhvd/base/": [],
    "libhvd/topo/": BASE,
    "libhvd/trace/": BASE,
    "libhvd/stop/": BASE,
    "libhvd/data/": TOPO,
    "libhvd/control/": ["libhvd/data/types.h"] + TOPO,  # a ticket names the type of its elements
    "libhvd/transport/": DATA,
    "libhvd/coll/": ["libhvd/control/description.h"] + COLL,  # what an agreed operation is
    "libhvd/engine/": ENGINE,
    "libhvd/record.": ["libhvd/transport/program_mpi.h"] + TOPO,
    "libhvd/runtime.": ["libhvd/record.h", "libhvd/stop", "libhvd/transport", "pmix"] + ENGINE,
    "libhvd/requests.": ["libhvd/hvd.h"] + ENGINE,
    "libhvd/c_api.": ["libhvd/runtime.h", "libhvd/requests.h", "libhvd/hvd.h"] + BASE,
    "libhvd/synchronous.": ["libhvd/hvd.h"],
    "libhvd/hvd.h": [],
    # How a process was started is pure, and hvd-info's answer must be hvd_init's; so with what is opened for GPUs.
    "libhvd/tools/": ["libhvd/hvd.h", "libhvd/transport/gpu/gpu_libraries.h", "pmix/launch.h", "spank/bind.h", "spank/bind_environment.h", "spank/bind_report.h"] + BASE,
    "pmix/": BASE,
    "spank/": TOPO,
}

# Foreign header -> who may include it.
FOREIGN = {
    r"mpi\.h": ["libhvd/transport/mpi/", "libhvd/tools/"],
    r"pmix.*\.h": ["pmix/"],
    r"slurm/.*": ["spank/"],
    r"hwloc.*": ["spank/"],
    r"(cuda|nccl|nvml).*": ["libhvd/transport/gpu/"],
    r"regex|iostream|fstream|sstream": [],
}


def sources():
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "libhvd", "pmix", "spank"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    names = listed.stdout.split("\n") if listed.returncode == 0 else [
        os.path.relpath(os.path.join(folder, name), ROOT)
        for top in ("libhvd", "pmix", "spank")
        for folder, _, files in os.walk(os.path.join(ROOT, top)) for name in files]
    return sorted(n for n in names if re.search(r"\.(c|cc|h|def)$", n) and os.path.exists(os.path.join(ROOT, n)))


def room_of(path):
    return next((room for room in ROOMS if path.startswith(room)), None)


def allowed(target, rules):
    for rule in rules:
        if rule.endswith("/*.h"):
            if os.path.dirname(target) == rule[:-4]:
                return True
        elif target == rule or target.startswith(rule + "/"):
            return True
    return False


def complaints(path):
    """What is wrong with the includes of one file, one sentence each."""
    room = room_of(path)
    if room is None:
        yield "%s is in no room that tests/includes.py knows" % path
        return
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        lines = file.readlines()
    for number, line in enumerate(lines, 1):
        found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not found:
            continue
        where, target = "%s:%d" % (path, number), found.group(2)
        ours = os.path.exists(os.path.join(ROOT, target))
        for pattern, users in FOREIGN.items():
            if not ours and re.fullmatch(pattern, target) and not any(path.startswith(u) for u in users):
                yield "%s: %s belongs to %s" % (where, target, " ".join(users) or "nobody")
        if (found.group(1) == "<" and not ours) or target == "config.h":
            continue
        if not ours:
            yield '%s: "%s" is no path from the repository\'s root' % (where, target)
        elif room_of(target) != room and not allowed(target, ROOMS[room]):
            yield '%s: %s may not include "%s"' % (where, room, target)


def main():
    files = sources()
    rooms = sorted({room_of(f) or f for f in files})
    print("1..%d" % len(rooms))
    failed = 0
    for number, room in enumerate(rooms, 1):
        wrong = [text for f in files if (room_of(f) or f) == room for text in complaints(f)]
        failed += bool(wrong)
        print("%s %d %s includes only what it may" % ("not ok" if wrong else "ok", number, room))
        for text in wrong:
            print("# " + text)
    return 1 if failed or not rooms else 0


if __name__ == "__main__":
    sys.exit(main())
