# SPDX-License-Identifier: Apache-2.0
"""What every flag comes to: the tables have each name of each flag of horovodrun 0.28.1."""

import fnmatch
import re
from pathlib import Path

import pytest
from horovod.runner import _config, _flags


def parse(*arguments, files=None):
    return _flags.parse(arguments, lambda name: _config.entries(name, (files or {})[name]))


def refused(*arguments, files=None):
    with pytest.raises(_flags.Refusal) as caught:
        parse(*arguments, files=files)
    return str(caught.value)


# A row: the flag as written; key, value; variable, value.
SETTINGS = [
    ("--fusion-threshold-mb 32", "fusion-threshold", "32M", "HOROVOD_FUSION_THRESHOLD", "33554432"),
    ("--fusion-threshold-mb=0", "fusion-threshold", "0M", "HOROVOD_FUSION_THRESHOLD", "0"),
    ("--cycle-time-ms 2.5", "cycle-time", "2.5ms", "HOROVOD_CYCLE_TIME", "2.5"),
    ("--cache-capacity 2048", "cache-capacity", "2048", "HOROVOD_CACHE_CAPACITY", "2048"),
    ("--start-timeout 120", "start-timeout", "120s", "HOROVOD_START_TIMEOUT", "120"),
    ("--timeline-filename /tmp/t.json", "timeline", "/tmp/t.json", "HOROVOD_TIMELINE", "/tmp/t.json"),
    ("--timeline-mark-cycles", "timeline-mark-cycles", "1", "HOROVOD_TIMELINE_MARK_CYCLES", "1"),
    ("--no-timeline-mark-cycles", "timeline-mark-cycles", "0", "HOROVOD_TIMELINE_MARK_CYCLES", "0"),
    ("--no-stall-check", "stall-check-disable", "1", "HOROVOD_STALL_CHECK_DISABLE", "1"),
    ("--stall-check", "stall-check-disable", "0", "HOROVOD_STALL_CHECK_DISABLE", "0"),
    ("--stall-check-warning-time-seconds 90", "stall-warn", "90s", "HOROVOD_STALL_CHECK_TIME_SECONDS", "90"),
    ("--stall-check-shutdown-time-seconds 0", "stall-abort", "0s", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0"),
    ("--log-level INFO", "log", "info", "HOROVOD_LOG_LEVEL", "info"),
    ("--log-level warning", "log", "warning", "HOROVOD_LOG_LEVEL", "warning"),
    ("--log-without-timestamp", "log-hide-time", "1", "HOROVOD_LOG_HIDE_TIME", "1"),
    ("--log-hide-timestamp", "log-hide-time", "1", "HOROVOD_LOG_HIDE_TIME", "1"),
    ("--log-with-timestamp", "log-hide-time", "0", "HOROVOD_LOG_HIDE_TIME", "0"),
    ("--no-log-hide-timestamp", "log-hide-time", "0", "HOROVOD_LOG_HIDE_TIME", "0"),
]

# A row: the flag as written; the variable and its value; whether the user is told.
WITHOUT_EFFECT = [
    ("--hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", "1", True),
    ("--no-hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", "0", False),
    ("--hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", "1", True),
    ("--no-hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", "0", False),
    ("--autotune", "HOROVOD_AUTOTUNE", "1", True),
    ("--no-autotune", "HOROVOD_AUTOTUNE", "0", False),
    ("--autotune-log-file /tmp/a,b.csv", "HOROVOD_AUTOTUNE_LOG", "/tmp/a,b.csv", True),
    ("--autotune-warmup-samples 3", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "3", True),
    ("--autotune-steps-per-sample 10", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "10", True),
    ("--autotune-bayes-opt-max-samples 20", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "20", True),
    ("--autotune-gaussian-process-noise 0.8", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.8", True),
    ("--thread-affinity 3", "HOROVOD_THREAD_AFFINITY", "3", True),
    ("--num-nccl-streams 2", "HOROVOD_NUM_NCCL_STREAMS", "2", True),
    ("--mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE", "1", True),
    ("--no-mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE", "0", False),
    ("--gloo-timeout-seconds 30", "HOROVOD_GLOO_TIMEOUT_SECONDS", "30", True),
    ("--ccl-bgt-affinity 1", "HOROVOD_CCL_BGT_AFFINITY", "1", True),
]

NOT_NEEDED = [
    "--gloo", "--mpi", "--jsrun", "--mpi-args=--map-by ppr:6:node", "--binding-args=--rankfile file", "--tcp",
    "--network-interfaces eth0,eth1", "--nics eth0", "--network-interface eth0", "-p 22", "-p22", "--ssh-port 22",
    "-i key", "--ssh-identity-file key", "--disable-cache",
]

ELASTIC = ["--min-np 2", "--min-num-proc 2", "--max-np 4", "--max-num-proc 4", "--slots-per-host 2",
           "--elastic-timeout 600", "--reset-limit 3", "--blacklist-cooldown-range 60 300",
           "--host-discovery-script ./hosts.sh"]

# A row: the flag as written; how launch.py finds it; its value.
OWN = [
    ("-np 4", "num_proc", 4), ("-np=4", "num_proc", 4), ("--num-proc 4", "num_proc", 4),
    ("-H n0:2,n1:2", "hosts", "n0:2,n1:2"), ("-Hn0:2", "hosts", "n0:2"), ("--hosts=n0:2", "hosts", "n0:2"),
    ("-hostfile h", "hostfile", "h"), ("--hostfile h", "hostfile", "h"),
    ("--output-filename out", "output_filename", "out"), ("--verbose", "verbose", True),
    ("-prefix-timestamp", "timestamps", True), ("--prefix-output-with-timestamp", "timestamps", True),
    ("-cb", "check_build", True), ("--check-build", "check_build", True),
    ("-v", "version", True), ("--version", "version", True), ("-h", "help", True), ("--help", "help", True),
    ("--verb", "verbose", True),
]


def words(written):
    """--mpi-args has a value with blanks, in one word as Horovod wants it."""
    return [written] if "args=" in written else written.split(" ")


@pytest.mark.parametrize("written,key,value,variable,variable_value", SETTINGS)
def test_a_setting(written, key, value, variable, variable_value):
    request = parse(*words(written), "prog")
    assert request.settings == {key: _flags.Setting(value, variable, variable_value)}
    assert request.program == ["prog"] and not request.notes and not request.variables and not request.own


@pytest.mark.parametrize("written,variable,value,told", WITHOUT_EFFECT)
def test_a_flag_without_effect_sets_its_variable_and_says_so(written, variable, value, told):
    request = parse(*words(written), "prog")
    assert request.variables == {variable: value} and not request.settings and request.program == ["prog"]
    assert len(request.notes) == told
    assert all(note.startswith(f"{words(written)[0]} has no effect: ") for note in request.notes)


@pytest.mark.parametrize("written", NOT_NEEDED)
def test_a_flag_that_is_not_needed_is_accepted_with_one_line(written):
    request = parse(*words(written), "prog")
    assert not request.settings and not request.variables and not request.own and request.program == ["prog"]
    name = "-p" if written == "-p22" else words(written)[0].split("=")[0]
    assert len(request.notes) == 1 and request.notes[0].startswith(f"{name} is not needed: ")


@pytest.mark.parametrize("written", ELASTIC)
def test_an_elastic_flag_is_refused_and_says_what_there_is(written):
    assert refused(*words(written), "prog") == (
        f"{words(written)[0]}: there are no jobs here that grow and shrink. A job keeps its size, and hvd.elastic "
        "works within it; #SBATCH --requeue starts a job anew after a node is lost")


@pytest.mark.parametrize("written,key,value", OWN)
def test_a_flag_that_is_about_the_launch(written, key, value):
    assert parse(*words(written), "prog").own == {key: value}


def test_every_name_of_every_flag_is_in_the_tables():
    rows = [row[0] for row in SETTINGS + WITHOUT_EFFECT + OWN] + NOT_NEEDED + ELASTIC
    tested = {words(written)[0].split("=")[0] for written in rows} | {"--config-file"}
    assert {name for flag in _flags.FLAGS for name in flag.names} <= tested


def test_the_flags_agree_with_the_table_of_settings():
    table = (Path(__file__).parents[2] / "libhvd" / "base" / "settings.def").read_text()
    settings = set(re.findall(r'HVD_SETTING\(\w+, "([^"]+)",\s*"([^"]+)"', table))
    without_effect = re.findall(r'HVD_NO_EFFECT\("([^"]+)"\)', table)
    assert len(settings) > 15 and len(without_effect) > 15
    for flag in _flags.FLAGS:
        if flag.effect == _flags.SETTING:
            assert (flag.key, flag.variable) in settings, flag
        elif flag.effect == _flags.NO_EFFECT:
            assert any(fnmatch.fnmatch(flag.variable, name) for name in without_effect), flag


def test_the_last_of_two_that_contradict_each_other_counts():
    assert parse("--stall-check", "--no-stall-check", "x").settings["stall-check-disable"].value == "1"
    assert parse("-np", "2", "-np", "3", "x").own == {"num_proc": 3}


def test_flags_end_where_the_program_begins():
    for separator in ([], ["--"]):
        request = parse("-np", "2", *separator, "python", "-np", "7", "--no-such-flag")
        assert request.own == {"num_proc": 2} and request.program == ["python", "-np", "7", "--no-such-flag"]


REFUSALS = [
    (["-np", "0"], '-np is "0"; it is a whole number, at least 1'),
    (["-np", "abc"], '-np is "abc"; it is a whole number, at least 1'),
    (["-np", "-2"], '-np is "-2"; it is a whole number, at least 1'),
    (["-np", "2.5"], '-np is "2.5"; it is a whole number, at least 1'),
    (["-np"], "-np needs a value"),
    (["--fusion-threshold-mb", "-1"], '--fusion-threshold-mb is "-1"; it is a whole number, at least 0'),
    (["--cycle-time-ms", "soon"], '--cycle-time-ms is "soon"; it is a number, at least 0'),
    (["--cycle-time-ms", "nan"], '--cycle-time-ms is "nan"; it is a number, at least 0'),
    (["--autotune-gaussian-process-noise", "1.5"],
     '--autotune-gaussian-process-noise is "1.5"; it is a number from 0 to 1'),
    (["--log-level", "LOUD"], '--log-level is "LOUD"; it is one of TRACE, DEBUG, INFO, WARNING, ERROR, FATAL'),
    (["--timeline-filename", ""], "--timeline-filename is empty"),
    (["--timeline-filename", "a\nb"], "--timeline-filename has a line break in it"),
    (["--gloo=yes"], "--gloo takes no value"),
    (["--fusion-treshold-mb", "1"], 'unknown flag "--fusion-treshold-mb"; did you mean --fusion-threshold-mb?'),
    (["--xyzzy"], 'unknown flag "--xyzzy"; --help lists the flags'),
    (["--stall-check-w", "1", "--log-wi"],
     'unknown flag "--log-wi"; it may be --log-without-timestamp or --log-with-timestamp'),
]


@pytest.mark.parametrize("arguments,text", REFUSALS)
def test_what_is_wrong_is_refused(arguments, text):
    assert refused(*arguments) == text


# ---- the configuration file ---------------------------------------------------------------------

CONFIG = """---
# as in Horovod's documentation
controller: gloo
params:
    fusion_threshold_mb: 32
    cycle_time_ms: 5.0     # ms
    cache_capacity: 2048
    hierarchical_allreduce: true
    hierarchical_allgather: False
autotune:
    enabled: yes
    log_file: "horovod autotune #1.log"
    warmup_samples: 5
    steps_per_sample: 20
    bayes_opt_max_samples: 50
    gaussian_process_noise: 0.9
timeline:
    filename: 'timeline.json'
    mark_cycles: true
stall_check:
    enabled: false
    warning_time_seconds: 120
    shutdown_time_seconds: 240
library_options:
    mpi_threads_disable: true
    num_nccl_streams: 2
    thread_affinity: 1
    ccl_bgt_affinity: 1
    gloo_timeout_seconds: 60
logging:
    level: INFO
    with_timestamp: false
"""


def test_a_configuration_file_says_what_its_flags_say():
    request = parse("--config-file", "c.yaml", "prog", files={"c.yaml": CONFIG})
    assert {key: setting.value for key, setting in request.settings.items()} == {
        "fusion-threshold": "32M", "cycle-time": "5.0ms", "cache-capacity": "2048", "timeline": "timeline.json",
        "timeline-mark-cycles": "1", "stall-check-disable": "1", "stall-warn": "120s", "stall-abort": "240s",
        "log": "info", "log-hide-time": "1"}
    assert request.variables == {
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "1", "HOROVOD_HIERARCHICAL_ALLGATHER": "0", "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_AUTOTUNE_LOG": "horovod autotune #1.log", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "5",
        "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "20", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "50",
        "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE": "0.9", "HOROVOD_MPI_THREADS_DISABLE": "1",
        "HOROVOD_NUM_NCCL_STREAMS": "2", "HOROVOD_THREAD_AFFINITY": "1", "HOROVOD_CCL_BGT_AFFINITY": "1",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "60"}
    assert request.notes[0] == "c.yaml:3: controller is not needed: ranks find each other through PMIx"
    said = {line.split(":")[0].strip() for line in CONFIG.splitlines() if line.startswith("    ")}
    assert said == {flag.config.split(".")[1] for flag in _flags.FLAGS if flag.config}


def test_flags_win_over_the_configuration_file_wherever_they_stand():
    for arguments in (["--cycle-time-ms", "1", "--config-file", "c"], ["--config-file=c", "--cycle-time-ms", "1"]):
        settings = parse(*arguments, "prog", files={"c": "params:\n  cycle_time_ms: 9\n  cache_capacity: 7"}).settings
        assert (settings["cycle-time"].value, settings["cache-capacity"].value) == ("1ms", "7")


@pytest.mark.parametrize("text", ["", "params:\n", "params: null\n", "params:\n  cycle_time_ms: ~\n", "# nothing\n"])
def test_a_configuration_file_that_says_nothing(text):
    request = parse("--config-file", "c", "prog", files={"c": text})
    assert not request.settings and not request.variables and not request.notes


CONFIG_REFUSALS = [
    ("params:\n  fusion_treshold_mb: 1", 'c:2: unknown key "params.fusion_treshold_mb"; did you mean '
                                         '"params.fusion_threshold_mb"?'),
    ("zebra: 1", 'c:1: unknown key "zebra"'),
    ("params:\n  cycle_time_ms: soon", 'c:2: params.cycle_time_ms is "soon"; it is a number, at least 0'),
    ("autotune:\n  enabled: maybe", 'c:2: autotune.enabled is "maybe"; it is true or false'),
    ("controller: smoke", 'c:1: controller is "smoke"; it is gloo or mpi'),
] + [(text, f'c:{line}: horovodrun does not read this; it reads "section:" and below it "  name: value"')
     for text, line in [("params: {cycle_time_ms: 1}", 1), ("- params", 1), ("params:\n  a:\n    b: 1\n", 3),
                        ("params:\n\tcycle_time_ms: 1", 2), ("  cycle_time_ms: 1", 1), ("just words", 1),
                        ("timeline:\n  filename: 'a", 2), ("timeline:\n  filename: &x a", 2)]]


@pytest.mark.parametrize("text,refusal", CONFIG_REFUSALS)
def test_what_is_wrong_in_a_configuration_file_is_refused_with_its_line(text, refusal):
    assert refused("--config-file", "c", "prog", files={"c": text}) == refusal
