#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds horovod(7) and hvd(3), as a reader sees them, against the sources they speak of (TAP output): manual.py PAGE

PAGE is horovod(7) as it was made. The script reads table and header on its own, not as the page was made, and knows
nothing of what the sentences mean.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORDS = {"kNsPerMs": "a bare number is in ms", "kNsPerSecond": "a bare number is in s"}


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def strings(code):
    """The C string literals of some code, adjacent ones joined; other arguments as they stand."""
    joined = re.sub(r'"\s*"', "", code.replace('""', '"\0"')).replace("\0", "")
    return [a.strip().strip('"') for a in re.findall(r'"[^"]*"|[^,"\s][^,"]*', joined)]


def rows(macro):
    """The rows of the table, comments left out, each the list of its arguments."""
    table = re.sub(r"^//.*$", "", read("libhvd/base/settings.def"), flags=re.M)
    return [strings(row) for row in re.findall(r"^%s\(((?:\"[^\"]*\"|[^\")])*)\)$" % macro, table, flags=re.M)]


def rendered(page):
    """What a reader sees."""
    text = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=1000", page], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return re.sub(".\b", "", text)


def sections(page):
    """Section -> {item -> its text}, and under "" the text that is no item."""
    found, section, item = {}, None, ""
    for line in rendered(page).split("\n"):
        heading = re.match(r"[A-Z]", line)
        start = re.match(r" {5}(\S.*?)(?: {2,}(\S.*))?$", line)
        if heading:
            section, item = found.setdefault(line.strip(), {"": ""}), ""
        elif section is not None and start:
            item = start.group(1)
            section[item] = start.group(2) or ""
        elif section is not None:
            section[item] += " " + line.strip()
    return found


def source_text():
    """All string literals of the sources, adjacent ones joined."""
    text = ""
    for top in ("libhvd", "pmix", "spank"):
        for folder, _, files in os.walk(os.path.join(ROOT, top)):
            for name in files:
                if name.endswith((".cc", ".h", ".def")):
                    text += re.sub(r'"\s*\n\s*"', "", read(os.path.join(folder, name)))
    return text.replace('\\"', '"')


def keys_complaints(keys):
    table = rows("HVD_SETTING")
    if len(table) < 10:
        yield "the table has %d rows; this script does not understand it" % len(table)
    items = [item for item in keys if re.match(r"[a-z-]+(\W|$)", item)]
    names = [re.match(r"[a-z-]+", item).group() for item in items]
    wanted = [row[1] for row in table] + re.findall(r'k(?:Help|Off) = "(\w+)"', read("spank/options.cc"))
    if names != wanted:
        yield "keys are %s, the table and the option's words are %s" % (names, wanted)
    for row, item in zip(table, items):
        _, key, variable, kind, unit, default, least, most, choices, meaning = row
        facts = [meaning[0].upper() + meaning[1:] + ".", "Default: %s" % (default or "empty"),
                 "Variable: %s." % variable]
        facts += ["from %s to %s" % (least, most)] if least else []
        facts += ["one of " + choices.replace(" ", ", ")] if choices else []
        facts += [WORDS[unit]] if kind == "kDuration" else []
        for fact in facts:
            if fact not in keys[item]:
                yield "%s does not say \"%s\" but \"%s\"" % (key, fact, keys[item])


def variables_complaints(environment):
    set_by_plugin = {row[0] for row in rows("HVD_PLACEMENT")}
    shown = {item for item in environment if re.fullmatch(r"HOROVOD_[A-Z_]+", item)}
    if shown != set_by_plugin or len(shown) < 7:
        yield "variables of a task are %s, in the table %s" % (sorted(shown), sorted(set_by_plugin))
    text = " ".join([*environment, *environment.values()])
    listed = re.findall(r"HOROVOD_[A-Z0-9_]+\*?(?=[,.])", text)
    wanted = [row[0] for row in rows("HVD_NO_EFFECT")]
    if listed != wanted or len(listed) < 10:
        yield "variables without effect are %s, in the table %s" % (listed, wanted)


def diagnostics_complaints(diagnostics):
    """Every message is made of pieces that the sources have; names and numbers of the example are left out."""
    source = source_text()
    messages = [message for message in diagnostics if message]
    if len(messages) < 5:
        yield "only %d messages" % len(messages)
    for message in messages:
        pieces = re.split(r'"[^"]*"|\d+|\[.*|node0|\([a-z ]*\)|HOROVOD_FUSION_\w+|SLURM_\w+|env=torch: |=none|; did you mean', message)
        if all(len(piece.strip(" ;:?")) < 8 for piece in pieces):
            yield "nothing of \"%s\" can be looked for" % message
        for piece in pieces:
            if len(piece.strip(" ;:?")) >= 8 and not any(
                    part in source for part in (piece.strip(" ;:?"), re.sub(r"ranks stop", "rank%s stop%s", piece).strip())):
                yield "no source says \"%s\"" % piece


def prototypes(text):
    """Name of each function -> its prototype, blanks as they may fall."""
    found = {}
    for prototype in re.findall(r"[^;{}]*?\bhvd_\w+\([^;{}()]*\)(?=;)", text):
        name = re.search(r"(hvd_\w+)\(", prototype).group(1)
        found[name] = re.sub(r"\s*([*(),])\s*", r"\1", re.sub(r"\s+", " ", prototype)).strip()
    return found


def header_functions():
    code = re.sub(r"/\*.*?\*/", "", read("libhvd/hvd.h"), flags=re.S)
    return prototypes(";".join(re.findall(r"^HVD_API ([^;]*);", code, flags=re.M)) + ";")


def part(page, section):
    """The lines of a section, as they stand."""
    return re.search(r"^%s\n(.*?)^(?=[A-Z])" % section, rendered(page), flags=re.M | re.S).group(1)


def synopsis_complaints(page):
    wanted, shown = header_functions(), prototypes(part(page, "SYNOPSIS"))
    if len(wanted) < 40:
        yield "hvd.h has %d functions; this script does not understand it" % len(wanted)
    for name in sorted(wanted.keys() | shown.keys()):
        if wanted.get(name) != shown.get(name):
            yield "hvd.h has %s, the page %s" % (wanted.get(name), shown.get(name))


def entries_complaints(page):
    shown = [name for item in sections(page)["DESCRIPTION"] for name in re.findall(r"\b(hvd_\w+)\(\)", item)
             if re.match(r"(hvd_\w+\(\)(, )?)+$", item)]
    for name in sorted(set(shown) ^ set(header_functions())):
        yield "%s is %s" % (name, "no function of hvd.h" if name in shown else "not explained")
    for name in sorted({name for name in shown if shown.count(name) > 1}):
        yield "%s is explained twice" % name


def constants_complaints(page):
    code = re.sub(r"/\*.*?\*/", "", read("libhvd/hvd.h"), flags=re.S)
    wanted = set(re.findall(r"^\s+(HVD_\w+)\b", code, flags=re.M)) | set(re.findall(r"\benum \{ (HVD_\w+)", code))
    shown = set(re.findall(r"HVD_[A-Z0-9_]+", rendered(page)))
    if len(wanted) < 25:
        yield "hvd.h has %d constants; this script does not understand it" % len(wanted)
    for name in sorted((wanted - {"HVD_API"}) ^ (shown - {"HVD_GPU"})):
        yield "%s is %s" % (name, "not on the page" if name in wanted else "not in hvd.h")


def example_complaints(page):
    # To the brace that is as far to the left as the #include: the end of main.
    text = part(page, "EXAMPLES")
    start = text.find("#include")
    left = " " * (start - text.rfind("\n", 0, start) - 1)
    end = text.rfind("\n%s}\n" % left)
    program = text[start:end + len(left) + 3]
    compiler = os.environ.get("CC", "cc").split()
    said = subprocess.run([*compiler, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c",
                           "-I" + os.path.join(ROOT, "libhvd"), "-"], input=program, stderr=subprocess.PIPE, text=True,
                          check=False)
    if "int main(" not in program:
        yield "there is no program"
    for line in said.stderr.split("\n") if said.returncode else []:
        yield line


def main():
    horovod = sections(sys.argv[1])
    hvd = os.path.join(ROOT, "man/hvd.3")
    checks = [
        ("horovod(7): the keys, with meaning, default, limits and unit, are those of the table", keys_complaints,
         horovod["KEYS"]),
        ("horovod(7): the variables, set and without effect, are those of the table", variables_complaints,
         horovod["ENVIRONMENT"]),
        ("horovod(7): every message that is explained is a message of the sources", diagnostics_complaints,
         horovod["DIAGNOSTICS"]),
        ("hvd(3): the synopsis has the functions of hvd.h, all of them, as they are declared", synopsis_complaints, hvd),
        ("hvd(3): every function is explained once", entries_complaints, hvd),
        ("hvd(3): every constant of hvd.h is named, and no other", constants_complaints, hvd),
        ("hvd(3): the example compiles", example_complaints, hvd),
    ]
    bad = 0
    for number, (name, complaints, text) in enumerate(checks, 1):
        said = list(complaints(text))
        bad += bool(said)
        print("%s %d %s" % ("not ok" if said else "ok", number, name))
        for sentence in said:
            print("# " + sentence)
    print("1..%d" % len(checks))
    return bad != 0


sys.exit(main())
