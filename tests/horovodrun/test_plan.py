# SPDX-License-Identifier: Apache-2.0
"""What flags and the allocation come to together: the command, its environment, or why there is none."""

import os

import pytest
from horovod.runner import _flags, _hosts, launch

HERE = os.uname().nodename
FILES = {"two": "# the nodes\nnode0 slots=2\n\nnode1 slots=1  # less\n", "bad": "node0 slots=2\nnode1\n", "none": "#\n"}


def read(name):
    return FILES[name]


def nodes(names):
    return {"node[0-2]": ["node0", "node1", "node2"], "a.b.c": ["a.b.c"], "x": ["x1.b.c", "x1.d.e"],
            "node[0-1]": ["node0", "node1"]}[names]


MACHINE = launch.Machine("node0", False, "/work", read, lambda name: f"/bin/{name}", nodes)
JOB = {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "node[0-2]", "SLURM_JOB_CPUS_PER_NODE": "4(x3)",
       "SLURM_TASKS_PER_NODE": "2(x3)", "SLURM_NTASKS": "6"}


def plan(written, environment=None, machine=MACHINE):
    arguments = written.split(" ") if isinstance(written, str) else written
    environment = JOB if environment is None else environment
    return launch.plan(_flags.parse(arguments, lambda name: []), environment, machine)


def refused(written, environment=None, machine=MACHINE):
    with pytest.raises(_flags.Refusal) as caught:
        plan(written, environment, machine)
    return str(caught.value)


def placement(made):
    """The words between --horovod… and --input=0."""
    return " ".join(made.command[2:made.command.index("--input=0")])


# A row: flags; what the environment has besides or instead (None: has not); what srun is told.
PLACEMENTS = [
    ("-np 6", {}, "-n 6"),
    ("", {}, "-n 6"),
    ("", {"SLURM_NTASKS": None, "SLURM_NTASKS_PER_NODE": "2"}, "-n 6"),
    ("-np 4", {}, "-N 2 -n 4 --ntasks-per-node=2 --distribution=block -w node0,node1"),
    ("-np 3", {}, "-N 2 -n 3 --distribution=arbitrary -w node0,node0,node1"),
    ("-np 9", {}, "-N 3 -n 9 --ntasks-per-node=3 --distribution=block"),
    ("-np 10", {},
     "-N 3 -n 10 --distribution=arbitrary -w node0,node0,node0,node0,node1,node1,node1,node2,node2,node2"),
    ("-np 7", {"SLURM_JOB_CPUS_PER_NODE": "1,8,2"},
     "-N 3 -n 7 --distribution=arbitrary -w node0,node1,node1,node1,node1,node2,node2"),
    ("-np 6", {"SLURM_TASKS_PER_NODE": "1", "SLURM_NTASKS": "1"},
     "-N 3 -n 6 --ntasks-per-node=2 --distribution=block"),
    ("-np 30", {"SLURM_OVERCOMMIT": "1"}, "-N 3 -n 30 --ntasks-per-node=10 --distribution=block"),
    ("-np 30", {"SLURM_JOB_CPUS_PER_NODE": None}, "-N 3 -n 30 --ntasks-per-node=10 --distribution=block"),
    ("-np 6 -H node0:2,node1:2,node2:2", {}, "-N 3 -n 6 --ntasks-per-node=2 --distribution=block"),
    ("-H node0:1,node2:1", {}, "-N 2 -n 2 --ntasks-per-node=1 --distribution=block -w node0,node2"),
    ("-H node2:2,node0:2", {}, "-N 2 -n 4 --distribution=arbitrary -w node2,node2,node0,node0"),
    ("-H node1:1,node0:2", {}, "-N 2 -n 3 --distribution=arbitrary -w node1,node0,node0"),
    ("-np 2 -H node0:2,node1:2", {}, "-N 1 -n 2 --ntasks-per-node=2 --distribution=block -w node0"),
    ("-np 4 -H node0:9,node1:9", {}, "-N 1 -n 4 --ntasks-per-node=4 --distribution=block -w node0"),
    ("-H node0:1,node1:1,node0:1", {}, "-N 2 -n 3 --distribution=arbitrary -w node0,node0,node1"),
    ("-H node1.site.org:2", {}, "-N 1 -n 2 --ntasks-per-node=2 --distribution=block -w node1"),
    ("-H a:2", {"SLURM_JOB_NODELIST": "a.b.c"}, "-N 1 -n 2 --ntasks-per-node=2 --distribution=block"),
    ("-np 3 -H localhost:4", {}, "-N 1 -n 3 --ntasks-per-node=3 --distribution=block -w node0"),
    ("-H 127.0.0.1:1", {"SLURMD_NODENAME": "node2"}, "-N 1 -n 1 --ntasks-per-node=1 --distribution=block -w node2"),
    ("-np 3 -hostfile two", {}, "-N 2 -n 3 --distribution=arbitrary -w node0,node0,node1"),
    ("--hostfile two", {}, "-N 2 -n 3 --distribution=arbitrary -w node0,node0,node1"),
    # CPUs of a task that are more than its share of the node.
    ("-np 6 -H node0:2,node1:2,node2:2", {"SLURM_CPUS_PER_TASK": "2"},
     "-N 3 -n 6 --ntasks-per-node=2 --distribution=block"),
    ("-np 6 -H node0:2,node1:2,node2:2", {"SLURM_CPUS_PER_TASK": "4"},
     "-N 3 -n 6 --ntasks-per-node=2 --distribution=block -c 2"),
    ("-np 30", {"SLURM_OVERCOMMIT": "1", "SRUN_CPUS_PER_TASK": "4"},
     "-N 3 -n 30 --ntasks-per-node=10 --distribution=block -c 1"),
]


def changed(changes):
    return {name: value for name, value in {**JOB, **changes}.items() if value is not None}


@pytest.mark.parametrize("flags,changes,told", PLACEMENTS)
def test_ranks_go_to_hosts_in_order_and_block_by_block(flags, changes, told):
    made = plan(f"{flags} prog -x".strip(), changed(changes))
    assert placement(made) == told and made.command[:2] == ["srun", "--horovod"] and made.command[-2:] == ["prog", "-x"]
    assert not made.notes and not made.folders


REFUSALS = [
    ("-np 13", {}, "-np 13 is more than the 12 CPUs of this job (4 on node0, 4 on node1, 4 on node2). Ask Slurm for "
                   "more with --ntasks-per-node, or set SLURM_OVERCOMMIT=1 to share them"),
    ("-np 5 -H node0:5", {}, "5 ranks on node0 are more than the 4 CPUs that this job has there. Ask Slurm for more "
                             "with --ntasks-per-node, or set SLURM_OVERCOMMIT=1 to share them"),
    ("-np 2 -H node0:2", {"SLURM_JOB_CPUS_PER_NODE": "1(x3)"},
     "2 ranks on node0 are more than the 1 CPU that this job has there. Ask Slurm for more with --ntasks-per-node, or "
     "set SLURM_OVERCOMMIT=1 to share them"),
    ("-np 5 -H node0:2,node1:2", {}, "-np 5 is more than the 4 slots of the hosts that are named"),
    ("-np 2 -H node0:1,node9:1", {}, 'host "node9" is not in this allocation, which has node0, node1, node2'),
    ("-np 2 -H node:2", {}, 'host "node" is not in this allocation, which has node0, node1, node2'),
    ("-np 2 -H x1:2", {"SLURM_JOB_NODELIST": "x"}, 'host "x1" is not in this allocation, which has x1.b.c, x1.d.e'),
    ("-np 2 -H node0", {}, '-H: "node0" is no host with its number of slots, as in node0:2,node1:2'),
    ("-np 2 -H node0:0", {}, '-H: "node0:0" is no host with its number of slots, as in node0:2,node1:2'),
    ("-np 2 -H node0:two", {}, '-H: "node0:two" is no host with its number of slots, as in node0:2,node1:2'),
    ("-np 2 -H ,", {}, "-H names no host"),
    ("-np 2 -hostfile bad", {}, 'bad:2: "node1" is no host with its number of slots, as in node0 slots=2'),
    ("-np 2 -hostfile none", {}, "none names no host"),
    ("-np 2 -H node0:2 -hostfile two", {}, "-H and -hostfile exclude each other"),
    ("-H localhost:1", {"SLURMD_NODENAME": "login"},
     'host "localhost" is not in this allocation, which has node0, node1, node2'),
    ("", {"SLURM_NTASKS": None}, "-np is missing, and this allocation was not made for a number of tasks; say -np N"),
    ("-np 2", {"SLURM_HET_SIZE": "2"}, "this is a heterogeneous job, whose components horovodrun cannot tell apart; "
                                       "start the program with srun --horovod"),
    ("-np 2", {"SLURM_STEP_ID": "0", "PMIX_RANK": "1", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"},
     "this process is task 1 of step 5.0 already. Call horovodrun once, in the job script itself, and not with srun "
     "or mpirun"),
    ("-np 2", {"SLURM_STEP_ID": "3", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "6"},
     "this process is task 0 of step 5.3 already. Call horovodrun once, in the job script itself, and not with srun "
     "or mpirun"),
    ("-np 2", {"OMPI_COMM_WORLD_RANK": "0"},
     "this process is a rank of a job already. Call horovodrun once, in the job script itself, and not with srun or "
     "mpirun"),
    ("-np 2 --output-filename a\\b", {}, '--output-filename is "/work/a\\b"; srun does not take a backslash'),
]


@pytest.mark.parametrize("flags,changes,text", REFUSALS)
def test_what_the_allocation_does_not_have_is_refused(flags, changes, text):
    assert refused(f"{flags} prog".strip(), changed(changes)) == text


def test_a_long_list_of_nodes_is_not_told_in_full():
    job = _hosts.Allocation(tuple(f"n{i}" for i in range(100)), (1,) * 100, (1,) * 100, 100)
    for hosts, count in (([("m", 1)], None), (None, 101)):
        with pytest.raises(_flags.Refusal) as caught:
            _hosts.place(hosts, count, job)
        assert ", …" in str(caught.value) and len(str(caught.value)) < 240


def test_no_program_is_refused_with_the_usage():
    for arguments in (["-np", "2"], []):
        assert refused(arguments) == (
            "there is no program to run\nusage: horovodrun -np N [-H HOST:SLOTS,...] [flag ...] program "
            "[argument ...]\nhorovodrun --help lists the flags")


@pytest.mark.parametrize("flags,inherited,option", [
    ("--cycle-time-ms 2 --log-level INFO", None, "--horovod=cycle-time=2ms,log=info"),
    ("--cycle-time-ms 2", "slots=8,cycle-time=9", "--horovod=slots=8,cycle-time=2ms"),
    ("", "slots=8,log-hide-time", "--horovod=slots=8,log-hide-time"),
    ("", "inherited,slots=8", "--horovod=slots=8"),
    ("--log-level INFO", "(null)", "--horovod=log=info"),
    ("", "", "--horovod"),
    ("", "off,slots=8", "--horovod"),
])
def test_settings_of_the_script_hold_and_flags_win(flags, inherited, option):
    environment = {**JOB, **({} if inherited is None else {launch._INHERITED: inherited})}
    assert plan(f"{flags} -np 6 prog".strip(), environment).command[1] == option


def test_a_value_with_a_comma_is_passed_as_a_variable():
    made = plan("--timeline-filename a,b --cycle-time-ms 1 prog", {**JOB, launch._INHERITED: "timeline=c"})
    assert made.command[1] == "--horovod=cycle-time=1ms" and made.environment["HOROVOD_TIMELINE"] == "a,b"


def test_variables_without_effect_reach_srun():
    made = plan("--autotune prog")
    assert made.environment["HOROVOD_AUTOTUNE"] == "1" and made.command[1] == "--horovod"
    assert made.notes == ["--autotune has no effect: nothing is tuned while a program runs"]


def test_pythonpath_is_the_plugin_s_in_a_job():
    assert "PYTHONPATH" not in plan("prog").environment
    assert plan("prog", {**JOB, "PYTHONPATH": "/mine"}).environment["PYTHONPATH"] == "/mine"


def test_what_would_contradict_a_placement_is_taken_out_of_the_environment():
    environment = {**JOB, "SLURM_HOSTFILE": "f", "SLURM_NTASKS_PER_NODE": "2"}
    assert not {"SLURM_HOSTFILE", "SLURM_NTASKS_PER_NODE"} & set(plan("-np 3 prog", environment).environment)
    assert {"SLURM_HOSTFILE", "SLURM_NTASKS_PER_NODE"} <= set(plan("-np 6 prog", environment).environment)


def test_in_a_shell_that_is_a_step_the_ranks_share_what_it_has():
    environment = {**JOB, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_TASKS_PER_NODE": "1",
                   "SLURM_NTASKS": "1"}
    assert "--overlap" in plan("-np 6 prog", environment).command
    assert "--overlap" not in plan("-np 6 prog", {**JOB, "SLURM_STEP_ID": "4294967290"}).command


def test_standard_input_is_rank_0s_unless_the_user_says_something_else():
    assert "--input=0" in plan("prog").command
    assert "--input=0" not in plan("prog", {**JOB, "SLURM_STDINMODE": "none"}).command


@pytest.mark.parametrize("flags,width,ranks,folder,pattern", [
    ("--output-filename out", 1, 6, "/work/out", "/work/out/rank.%t"),
    ("--output-filename /a/../o%t/", 1, 6, "/o%t", "/o%%t/rank.%t"),
    ("-np 12 --output-filename out", 2, 12, "/work/out", "/work/out/rank.%2t"),
])
def test_each_rank_has_files_for_its_output(flags, width, ranks, folder, pattern):
    made = plan(f"{flags} prog")
    assert made.folders == [f"{folder}/rank.{rank:0{width}}" for rank in range(ranks)]
    assert f"--output={pattern}/stdout" in made.command and f"--error={pattern}/stderr" in made.command


def test_times_before_lines_are_not_srun_s():
    assert plan("-prefix-timestamp prog").notes == [
        "--prefix-output-with-timestamp has no effect: srun does not write times"]


def test_verbose_prints_the_command():
    assert plan(["--verbose", "-np", "6", "sh", "-c", "a b"]).notes == [
        "srun --horovod -n 6 --input=0 sh -c 'a b'"]


def test_check_build_is_hvd_info_wherever_it_is_called():
    for environment in (JOB, {}, {"PMIX_RANK": "0"}):
        assert plan("-np 2 --check-build", environment).command == ["/bin/hvd-info"]
    assert refused("-cb", machine=MACHINE._replace(find=lambda name: None)) == (
        "hvd-info is neither beside horovodrun nor on PATH")


def test_without_srun_there_is_a_sentence():
    assert refused("prog", machine=MACHINE._replace(find=lambda name: None)) == (
        "this is a Slurm job, but there is no srun on PATH")


# ---- without Slurm ------------------------------------------------------------------------------

MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n"]


@pytest.mark.parametrize("flags,count", [
    ("-np 3", 3), ("-H localhost:4", 4), ("-np 2 -H localhost:4", 2), (f"-H {HERE}:2", 2), ("-np 2 -H 127.0.0.1:2", 2)])
def test_elsewhere_ranks_are_mpirun_s(flags, count):
    made = plan(f"{flags} prog -x", {"A": "b"})
    assert made.command == [*MPIRUN, str(count), "prog", "-x"] and not made.notes and not made.folders
    assert made.environment == {"A": "b", "PYTHONPATH": launch.PACKAGE}


def test_elsewhere_the_package_is_first_on_pythonpath():
    for before, after in (("/mine", ":/mine"), (f"/mine:{launch.PACKAGE}:", ":/mine"), ("", "")):
        assert plan("-np 2 prog", {"PYTHONPATH": before}).environment["PYTHONPATH"] == launch.PACKAGE + after


def test_elsewhere_settings_are_variables():
    made = plan("-np 2 --fusion-threshold-mb 1 --cycle-time-ms 2.5 --autotune prog", {"HOROVOD_CYCLE_TIME": "9"})
    assert {name: value for name, value in made.environment.items() if name != "PYTHONPATH"} == {
        "HOROVOD_FUSION_THRESHOLD": "1048576", "HOROVOD_CYCLE_TIME": "2.5", "HOROVOD_AUTOTUNE": "1"}


def test_elsewhere_mpirun_writes_times_and_files():
    made = plan("-np 2 -prefix-timestamp --output-filename out prog", {})
    assert made.command == [*MPIRUN, "2", "--timestamp-output", "--output-filename", "/work/out:nojobid", "prog"]


LOCAL_REFUSALS = [
    ("prog", {}, {}, "-np is missing: say how many ranks to start, as in horovodrun -np 2"),
    ("-np 4 -H elsewhere:4 prog", {}, {}, '"elsewhere" is another machine, and this is no Slurm job; horovodrun '
     "starts ranks on this machine alone. Submit a script that calls it with sbatch, or use srun --horovod"),
    ("-np 5 -H localhost:4 prog", {}, {}, "-np 5 is more than the 4 slots of the hosts that are named"),
    ("-np 2 prog", {"PMIX_RANK": "0"}, {}, "this process is a rank of a job already. Call horovodrun once, in the job "
     "script itself, and not with srun or mpirun"),
    ("-np 2 prog", {}, {"find": lambda name: None},
     "there is no mpirun to start ranks with; install Open MPI, or use srun --horovod"),
    ("-np 2 prog", {"OMPI_ALLOW_RUN_AS_ROOT": "1"}, {"root": True}, "mpirun does not start programs as root. Be "
     "another user, or set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"),
]


@pytest.mark.parametrize("written,environment,machine,text", LOCAL_REFUSALS)
def test_what_this_machine_cannot_is_refused(written, environment, machine, text):
    assert refused(written, environment, MACHINE._replace(**machine)) == text


def test_root_may_who_has_told_mpirun_so():
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    assert plan("-np 2 prog", allowed, MACHINE._replace(root=True)).command[0] == "mpirun"
