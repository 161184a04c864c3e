# SPDX-License-Identifier: Apache-2.0
"""The flags of horovodrun 0.28.1, one row each, and what each is here.

A new flag is a new row: parsing, --help, the configuration file and the tests are made from the table. What the flags
mean together, and for an allocation, is launch.py's.
"""

import difflib
import math
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple


class Refusal(Exception):
    """Why nothing is started; `status` is the exit status."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status


# What becomes of a flag.
OWN = "own"                # launch.py reads it
SETTING = "setting"        # a key of --horovod, which also is a variable
NO_EFFECT = "no effect"    # Horovod's variable is set as Horovod sets it; the library does nothing with it
NOT_NEEDED = "not needed"  # accepted; one line says why it is not needed
ELASTIC = "elastic"        # refused

# What follows a flag. A NOTHING that is one of a pair has its `truth`: what the configuration file says for it.
NOTHING, WHOLE, POSITIVE, NUMBER, SHARE, LEVEL, TEXT = (
    "nothing", "whole", "positive", "number", "share", "level", "text")

_SHOWN = {WHOLE: "N", POSITIVE: "N", NUMBER: "N", SHARE: "N", LEVEL: "LEVEL", TEXT: "TEXT"}
_LEVELS = ("trace", "debug", "info", "warning", "error", "fatal")


class Flag(NamedTuple):
    """A row.

    Attributes:
        names: as they are written; the first one is told in messages.
        effect, kind: see above.
        meaning: for --help; of a flag that is not needed: why.
        key: the key of --horovod, or the name under which launch.py finds it.
        unit: what the key's number counts, as a suffix: "M".
        variable: the variable of the same setting, and
        scale: what one of the flag's units is in the variable's.
        text: the value of a flag that nothing follows, for key and variable.
        config, truth: "section.name" in the configuration file.
    """

    names: Tuple[str, ...]
    effect: str
    kind: str
    meaning: str = ""
    key: str = ""
    unit: str = ""
    variable: str = ""
    scale: int = 1
    text: str = ""
    config: str = ""
    truth: Optional[bool] = None


def _pair(name: str, effect: str, variable: str, config: str, meaning: str, key: str = "") -> Tuple[Flag, Flag]:
    """--name and --no-name."""
    return (Flag((f"--{name}",), effect, NOTHING, meaning, key, "", variable, 1, "1", config, True),
            Flag((f"--no-{name}",), effect, NOTHING, "", key, "", variable, 1, "0", config, False))


_HIERARCHY = "sums over nodes always are hierarchical"
_NO_TUNING = "nothing is tuned while a program runs"
_PEERS = "ranks find each other through PMIx"
_NO_SSH = "srun starts ranks without ssh"

FLAGS: Tuple[Flag, ...] = (
    Flag(("-np", "--num-proc"), OWN, POSITIVE, "number of ranks", "num_proc"),
    Flag(("-H", "--hosts"), OWN, TEXT, "hosts and the ranks that each may have, as node0:2,node1:2", "hosts"),
    Flag(("-hostfile", "--hostfile"), OWN, TEXT, "a file with a line for each host, as node0 slots=2", "hostfile"),
    Flag(("--output-filename",), OWN, TEXT, "folder for the output of rank N: rank.N/stdout and rank.N/stderr",
         "output_filename"),
    Flag(("--config-file",), OWN, TEXT, "a file of settings, in YAML; flags win over it", "config_file"),
    Flag(("--verbose",), OWN, NOTHING, "print the command that is run", "verbose"),
    Flag(("-prefix-timestamp", "--prefix-output-with-timestamp"), OWN, NOTHING,
         "put the time before each line of output; mpirun can, srun cannot", "timestamps"),
    Flag(("-cb", "--check-build"), OWN, NOTHING, "run hvd-info, which tells what was built, and nothing else",
         "check_build"),
    Flag(("-v", "--version"), OWN, NOTHING, "print the version", "version"),
    Flag(("-h", "--help"), OWN, NOTHING, "print this", "help"),

    Flag(("--fusion-threshold-mb",), SETTING, WHOLE, "most MB that are reduced together; 0: nothing is fused",
         "fusion-threshold", "M", "HOROVOD_FUSION_THRESHOLD", 1 << 20, config="params.fusion_threshold_mb"),
    Flag(("--cycle-time-ms",), SETTING, NUMBER, "ms to wait for more tensors to fuse",
         "cycle-time", "ms", "HOROVOD_CYCLE_TIME", config="params.cycle_time_ms"),
    Flag(("--cache-capacity",), SETTING, WHOLE, "tensor names that are remembered between steps",
         "cache-capacity", "", "HOROVOD_CACHE_CAPACITY", config="params.cache_capacity"),
    Flag(("--start-timeout",), SETTING, POSITIVE, "seconds that all ranks have to come to hvd.init()",
         "start-timeout", "s", "HOROVOD_START_TIMEOUT"),
    Flag(("--timeline-filename",), SETTING, TEXT, "file for a trace of every tensor", "timeline", "",
         "HOROVOD_TIMELINE", config="timeline.filename"),
    *_pair("timeline-mark-cycles", SETTING, "HOROVOD_TIMELINE_MARK_CYCLES", "timeline.mark_cycles",
           "mark in the trace when batches are formed", "timeline-mark-cycles"),
    Flag(("--no-stall-check",), SETTING, NOTHING, "do not watch for operations that some ranks do not submit",
         "stall-check-disable", "", "HOROVOD_STALL_CHECK_DISABLE", 1, "1", "stall_check.enabled", False),
    Flag(("--stall-check",), SETTING, NOTHING, "",
         "stall-check-disable", "", "HOROVOD_STALL_CHECK_DISABLE", 1, "0", "stall_check.enabled", True),
    Flag(("--stall-check-warning-time-seconds",), SETTING, WHOLE,
         "seconds to wait for ranks that do not submit an operation before a warning; 0: never warn",
         "stall-warn", "s", "HOROVOD_STALL_CHECK_TIME_SECONDS", config="stall_check.warning_time_seconds"),
    Flag(("--stall-check-shutdown-time-seconds",), SETTING, WHOLE,
         "seconds to wait for such ranks before all fail; 0: never",
         "stall-abort", "s", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", config="stall_check.shutdown_time_seconds"),
    Flag(("--log-level",), SETTING, LEVEL, "how much is said on stderr: " + ", ".join(_LEVELS).upper(),
         "log", "", "HOROVOD_LOG_LEVEL", config="logging.level"),
    Flag(("--log-without-timestamp", "--log-hide-timestamp"), SETTING, NOTHING, "leave the time out of log lines",
         "log-hide-time", "", "HOROVOD_LOG_HIDE_TIME", 1, "1", "logging.with_timestamp", False),
    Flag(("--log-with-timestamp", "--no-log-hide-timestamp"), SETTING, NOTHING, "",
         "log-hide-time", "", "HOROVOD_LOG_HIDE_TIME", 1, "0", "logging.with_timestamp", True),

    *_pair("hierarchical-allreduce", NO_EFFECT, "HOROVOD_HIERARCHICAL_ALLREDUCE", "params.hierarchical_allreduce",
           _HIERARCHY),
    *_pair("hierarchical-allgather", NO_EFFECT, "HOROVOD_HIERARCHICAL_ALLGATHER", "params.hierarchical_allgather",
           _HIERARCHY),
    *_pair("autotune", NO_EFFECT, "HOROVOD_AUTOTUNE", "autotune.enabled", _NO_TUNING),
    Flag(("--autotune-log-file",), NO_EFFECT, TEXT, _NO_TUNING,
         variable="HOROVOD_AUTOTUNE_LOG", config="autotune.log_file"),
    Flag(("--autotune-warmup-samples",), NO_EFFECT, WHOLE, _NO_TUNING,
         variable="HOROVOD_AUTOTUNE_WARMUP_SAMPLES", config="autotune.warmup_samples"),
    Flag(("--autotune-steps-per-sample",), NO_EFFECT, WHOLE, _NO_TUNING,
         variable="HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", config="autotune.steps_per_sample"),
    Flag(("--autotune-bayes-opt-max-samples",), NO_EFFECT, WHOLE, _NO_TUNING,
         variable="HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", config="autotune.bayes_opt_max_samples"),
    Flag(("--autotune-gaussian-process-noise",), NO_EFFECT, SHARE, _NO_TUNING,
         variable="HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", config="autotune.gaussian_process_noise"),
    Flag(("--thread-affinity",), NO_EFFECT, WHOLE, "the thread of a rank runs where the rank runs",
         variable="HOROVOD_THREAD_AFFINITY", config="library_options.thread_affinity"),
    Flag(("--num-nccl-streams",), NO_EFFECT, WHOLE, "there is one stream",
         variable="HOROVOD_NUM_NCCL_STREAMS", config="library_options.num_nccl_streams"),
    *_pair("mpi-threads-disable", NO_EFFECT, "HOROVOD_MPI_THREADS_DISABLE", "library_options.mpi_threads_disable",
           "one thread calls MPI in any case"),
    Flag(("--gloo-timeout-seconds",), NO_EFFECT, WHOLE, "there is no Gloo; --start-timeout is like it",
         variable="HOROVOD_GLOO_TIMEOUT_SECONDS", config="library_options.gloo_timeout_seconds"),
    Flag(("--ccl-bgt-affinity",), NO_EFFECT, WHOLE, "there is no oneCCL",
         variable="HOROVOD_CCL_BGT_AFFINITY", config="library_options.ccl_bgt_affinity"),

    Flag(("--gloo",), NOT_NEEDED, NOTHING, _PEERS),
    Flag(("--mpi",), NOT_NEEDED, NOTHING, _PEERS),
    Flag(("--jsrun",), NOT_NEEDED, NOTHING, _PEERS),
    Flag(("--mpi-args",), NOT_NEEDED, TEXT, "OMPI_MCA_* variables reach the ranks"),
    Flag(("--binding-args",), NOT_NEEDED, TEXT, "srun binds ranks; it reads SLURM_CPU_BIND"),
    Flag(("--tcp",), NOT_NEEDED, NOTHING, "MPI chooses how tensors travel"),
    Flag(("--network-interfaces", "--nics"), NOT_NEEDED, TEXT,
         "all networks that connect are used; HOROVOD_INTERFACES=eth0:eth1 restricts them"),
    Flag(("--network-interface",), NOT_NEEDED, TEXT,
         "all networks that connect are used; HOROVOD_INTERFACES=eth0:eth1 restricts them"),
    Flag(("-p", "--ssh-port"), NOT_NEEDED, WHOLE, _NO_SSH),
    Flag(("-i", "--ssh-identity-file"), NOT_NEEDED, TEXT, _NO_SSH),
    Flag(("--disable-cache",), NOT_NEEDED, NOTHING, "nothing is checked over ssh, so nothing is remembered"),

    Flag(("--min-np", "--min-num-proc"), ELASTIC, WHOLE),
    Flag(("--max-np", "--max-num-proc"), ELASTIC, WHOLE),
    Flag(("--slots-per-host",), ELASTIC, WHOLE),
    Flag(("--elastic-timeout",), ELASTIC, WHOLE),
    Flag(("--reset-limit",), ELASTIC, WHOLE),
    Flag(("--blacklist-cooldown-range",), ELASTIC, WHOLE),
    Flag(("--host-discovery-script",), ELASTIC, TEXT),
)

_BY_NAME = {name: flag for flag in FLAGS for name in flag.names}


class Setting(NamedTuple):
    """A key of --horovod and the variable that is the same."""

    value: str
    variable: str
    variable_value: str


class Request:
    """What a command line asks for.

    Attributes:
        own: what launch.py reads, by the key of its row; numbers are int, flags without a value True.
        settings: by the key of --horovod.
        variables: those without effect.
        notes: what the user is told, a line each.
        program: with its arguments.
    """

    def __init__(self) -> None:
        self.own: Dict[str, object] = {}
        self.settings: Dict[str, Setting] = {}
        self.variables: Dict[str, str] = {}
        self.notes: List[str] = []
        self.program: List[str] = []

    def take(self, flag: Flag, name: str, text: str) -> None:
        """What `flag`, written as `name`, says; Refusal if its value is bad."""
        text = flag.text if flag.kind == NOTHING else checked(flag.kind, name, text)
        if flag.effect == ELASTIC:
            raise Refusal(f"{name}: there are no jobs here that grow and shrink. A job keeps its size, and "
                          "hvd.elastic works within it; #SBATCH --requeue starts a job anew after a node is lost")
        if flag.effect == OWN:
            self.own[flag.key] = True if flag.kind == NOTHING else int(text) if flag.kind == POSITIVE else text
        elif flag.effect == SETTING:
            scaled = str(int(text) * flag.scale) if flag.scale != 1 else text
            self.settings[flag.key] = Setting(text + flag.unit, flag.variable, scaled)
        else:
            if flag.effect == NO_EFFECT:
                self.variables[flag.variable] = text
            if flag.truth is not False:
                said = "has no effect" if flag.effect == NO_EFFECT else "is not needed"
                note = f"{name} {said}: {flag.meaning}"
                if note not in self.notes:
                    self.notes.append(note)


def checked(kind: str, name: str, text: str) -> str:
    """A value as it is passed on; Refusal if it is none of its kind."""
    text = text.strip()
    number = _number(text)
    if kind in (WHOLE, POSITIVE):
        least = 1 if kind == POSITIVE else 0
        if not (text.isascii() and text.isdigit()) or int(text) < least:
            raise Refusal(f'{name} is "{text}"; it is a whole number, at least {least}')
        return str(int(text))
    if kind == NUMBER and (number is None or number < 0):
        raise Refusal(f'{name} is "{text}"; it is a number, at least 0')
    if kind == SHARE and (number is None or not 0 <= number <= 1):
        raise Refusal(f'{name} is "{text}"; it is a number from 0 to 1')
    if kind == LEVEL:
        if text.lower() not in _LEVELS:
            raise Refusal(f'{name} is "{text}"; it is one of {", ".join(_LEVELS).upper()}')
        return text.lower()
    if kind == TEXT and not text:
        raise Refusal(f"{name} is empty")
    if "\n" in text or "\r" in text:
        raise Refusal(f"{name} has a line break in it")
    return text


def _number(text: str) -> Optional[float]:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and not set(text) & set("_eE+") else None


def parse(arguments: Sequence[str], read_config: Callable[[str], Sequence[Tuple[str, str, Optional[str]]]]) -> Request:
    """A command line, without the program's name.

    Args:
        arguments: flags, then a program and its arguments.
        read_config: for the name of a configuration file its entries: where it is said, as "x.yaml:3";
            "section.name"; and its value, or None for none.

    Raises:
        Refusal: a flag is unknown, or its value bad.
    """
    taken: List[Tuple[Flag, str, str]] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        argument = rest.pop(0)
        if argument == "--":
            break
        flag, name, value = _split(argument)
        if flag.kind == NOTHING:
            if value is not None:
                raise Refusal(f"{name} takes no value")
        elif value is None:
            if not rest:
                raise Refusal(f"{name} needs a value")
            value = rest.pop(0)
        taken.append((flag, name, value or ""))
    request = Request()
    request.program = rest
    for flag, name, value in taken:
        if flag.key == "config_file":
            for place, entry, said in read_config(value):
                _configure(request, place, entry, said)
    for flag, name, value in taken:
        request.take(flag, name, value)
    return request


def _split(argument: str) -> Tuple[Flag, str, Optional[str]]:
    """The row of an argument, its name as written, and the value that is in the same word."""
    name, equals, value = argument.partition("=")
    if name in _BY_NAME:
        return _BY_NAME[name], name, value if equals else None
    if argument[:2] in _BY_NAME and _BY_NAME[argument[:2]].kind != NOTHING:  # -Hnode0:2, -p22
        return _BY_NAME[argument[:2]], argument[:2], argument[2:]
    begun = [known for known in _BY_NAME if name.startswith("--") and len(name) > 3 and known.startswith(name)]
    if len({_BY_NAME[known] for known in begun}) == 1:
        return _BY_NAME[begun[0]], begun[0], value if equals else None
    if begun:
        raise Refusal(f'unknown flag "{name}"; it may be {" or ".join(begun)}')
    near = difflib.get_close_matches(name, _BY_NAME, 1, 0.6)
    raise Refusal(f'unknown flag "{name}"' + (f"; did you mean {near[0]}?" if near else "; --help lists the flags"))


def _configure(request: Request, place: str, entry: str, value: Optional[str]) -> None:
    """Takes an entry of a configuration file as the flag that says the same."""
    if entry == "controller":
        flag = _BY_NAME.get(f"--{(value or '').lower()}")
        if value is not None and flag not in (_BY_NAME["--gloo"], _BY_NAME["--mpi"]):
            raise Refusal(f'{place}: controller is "{value}"; it is gloo or mpi')
        rows = [flag] if flag else []
    else:
        rows = [flag for flag in FLAGS if flag.config == entry]
        if not rows:
            near = difflib.get_close_matches(entry, [flag.config for flag in FLAGS if flag.config] + ["controller"], 1)
            raise Refusal(f'{place}: unknown key "{entry}"' + (f'; did you mean "{near[0]}"?' if near else ""))
        if value is not None and rows[0].kind == NOTHING:
            rows = [flag for flag in rows if flag.truth == _truth(f"{place}: {entry}", value)]
    if value is not None:
        request.take(rows[0], f"{place}: {entry}", value)


def _truth(name: str, value: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if value.lower() not in words:
        raise Refusal(f'{name} is "{value}"; it is true or false')
    return words[value.lower()]


_HELP_GROUPS = (
    ("", OWN), ("Settings:", SETTING), ("Without effect here, and accepted:", NO_EFFECT),
    ("Not needed here, and accepted:", NOT_NEEDED), ("Elastic jobs, which are refused:", ELASTIC))


def help_text() -> str:
    """What --help prints."""
    lines = ["usage: horovodrun -np N [-H HOST:SLOTS,...] [flag ...] program [argument ...]", "",
             "In a Slurm allocation: srun --horovod with what the flags say. Elsewhere: ranks on this machine,",
             "started by Open MPI's mpirun."]
    for title, effect in _HELP_GROUPS:
        lines += ["", title] if title else [""]
        for flag in (flag for flag in FLAGS if flag.effect == effect):
            names = ", ".join(flag.names) + ("" if flag.kind == NOTHING else f" {_SHOWN[flag.kind]}")
            if not flag.meaning or effect == NOT_NEEDED:
                lines.append(f"  {names}")
            elif len(names) < 36:
                lines.append(f"  {names:<36} {flag.meaning}")
            else:
                lines += [f"  {names}", f"  {'':<36} {flag.meaning}"]
    return "\n".join(lines) + "\n"
