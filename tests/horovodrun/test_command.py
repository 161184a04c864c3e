# SPDX-License-Identifier: Apache-2.0
"""The installed program, with an srun, scontrol and mpirun that print what they are given."""

import os
import subprocess
import sys

import pytest
from horovod.runner import _flags

FAKE = """#!/bin/bash
printf '%s\\n' "${0##*/}" "$@" "PYTHONPATH=$PYTHONPATH" "HOROVOD_AUTOTUNE=$HOROVOD_AUTOTUNE" "pid=$$"
read -r line && echo "stdin=$line"
exit 7
"""
SCONTROL = '#!/bin/bash\n[[ "$*" == "show hostnames node[0-1]" ]] || exit 1\nprintf "%s\\n" node0 node1\n'
JOB = {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "node[0-1]", "SLURM_JOB_CPUS_PER_NODE": "4(x2)",
       "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_NTASKS": "4"}
NOT_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture
def horovodrun(tmp_path, prefix):
    """Runs it: horovodrun(argument, …, env={}, without=[name of a program that is not there])."""
    for name, text in (("srun", FAKE), ("mpirun", FAKE), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "bash").symlink_to("/bin/bash")

    def run(*arguments, env=None, without=()):
        for name in without:
            (tmp_path / name).unlink()
        return subprocess.run([prefix / "bin" / "horovodrun", *arguments], env={"PATH": str(tmp_path), **(env or {})},
                              input="hello\n", capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    return run


def package(prefix):
    return os.path.realpath(prefix / "lib" / "horovod" / "python")


def test_in_a_job_it_becomes_srun(horovodrun):
    done = horovodrun("-np", "4", "-H", "node0:2,node1:2", "--cycle-time-ms", "2", "--autotune", "--gloo",
                      "prog", "-np", "9", "a b", env=JOB)
    lines = done.stdout.splitlines()
    assert lines[:11] == ["srun", "--horovod=cycle-time=2ms", "-N", "2", "-n", "4", "--ntasks-per-node=2",
                          "--distribution=block", "--input=0", "prog", "-np"]
    assert lines[11:15] == ["9", "a b", "PYTHONPATH=", "HOROVOD_AUTOTUNE=1"]
    assert lines[-1] == "stdin=hello" and done.returncode == 7
    assert done.stderr.splitlines() == [
        "horovodrun: --autotune has no effect: nothing is tuned while a program runs",
        "horovodrun: --gloo is not needed: ranks find each other through PMIx"]


def test_the_command_takes_the_place_of_horovodrun_so_signals_reach_it(horovodrun, prefix, tmp_path):
    process = subprocess.Popen([prefix / "bin" / "horovodrun", "-np", "4", "prog"], stdin=subprocess.DEVNULL,
                               env={"PATH": str(tmp_path), **JOB}, stdout=subprocess.PIPE, text=True)
    assert f"pid={process.pid}" in process.communicate(timeout=60)[0].splitlines()


def test_elsewhere_it_becomes_mpirun(horovodrun, prefix):
    done = horovodrun("-np", "2", "prog", "x", env=NOT_ROOT)
    assert done.stdout.splitlines()[:8] == ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", "prog", "x"]
    assert f"PYTHONPATH={package(prefix)}" in done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (7, "")


def test_a_host_file_and_a_configuration_file_are_read(horovodrun, tmp_path):
    (tmp_path / "hosts").write_text("node1 slots=1\n")
    (tmp_path / "c.yaml").write_text("logging:\n  level: INFO\n")
    done = horovodrun("--hostfile", "hosts", "--config-file", "c.yaml", "prog", env=JOB)
    assert done.stdout.splitlines()[1:10] == ["--horovod=log=info", "-N", "1", "-n", "1", "--ntasks-per-node=1",
                                              "--distribution=block", "-w", "node1"]


def test_folders_for_output_are_made(horovodrun, tmp_path):
    horovodrun("--output-filename", "out/deep", "prog", env=JOB)
    assert sorted(path.name for path in (tmp_path / "out" / "deep").iterdir()) == [f"rank.{i}" for i in range(4)]


@pytest.mark.parametrize("arguments,env,without,status,text", [
    (["--fusion-treshold-mb", "1", "prog"], JOB, [], 2,
     'unknown flag "--fusion-treshold-mb"; did you mean --fusion-threshold-mb?'),
    (["-np", "0", "prog"], JOB, [], 2, '-np is "0"; it is a whole number, at least 1'),
    (["-np", "2", "--hostfile", "missing", "prog"], JOB, [], 2, '"missing": No such file or directory'),
    (["--config-file", ".", "prog"], JOB, [], 2, '".": Is a directory'),
    (["-np", "2", "--output-filename", "srun/x", "prog"], JOB, [], 1, '/srun/x": Not a directory'),
    (["-np", "2", "prog"], JOB, ["srun"], 1, "this is a Slurm job, but there is no srun on PATH"),
    (["-np", "2", "prog"], JOB, ["scontrol"], 1,
     "the nodes of this job are not known, for scontrol does not run: [Errno 2] No such file or directory: 'scontrol'"),
    (["-np", "2", "prog"], {**JOB, "SLURM_JOB_NODELIST": "?"}, [], 1,
     'the nodes of this job are not known: "scontrol show hostnames ?" ended with status 1'),
    (["-np", "2", "prog"], NOT_ROOT, ["mpirun"], 1,
     "there is no mpirun to start ranks with; install Open MPI, or use srun --horovod"),
    (["-np", "2"], JOB, [], 2, "horovodrun --help lists the flags"),
])
def test_refused_before_anything_starts(horovodrun, arguments, env, without, status, text):
    done = horovodrun(*arguments, env=env, without=without)
    assert done.stderr.startswith("horovodrun: ") and done.stderr.endswith(f"{text}\n")
    assert (done.returncode, done.stdout) == (status, "")


def test_version_and_help(horovodrun, prefix):
    done = horovodrun("--version")
    assert done.returncode == 0 and done.stdout.startswith("0.28.1 (slurm-horovod ")
    done = horovodrun("--help")
    assert done.returncode == 0 and all(name in done.stdout for flag in _flags.FLAGS for name in flag.names)
    assert max(map(len, done.stdout.splitlines())) <= 140


def test_check_build_tells_what_was_built(horovodrun):
    done = horovodrun("--check-build")
    assert done.returncode == 0 and done.stdout.startswith("hvd-info "), done.stderr


def test_the_module_is_the_program_too(prefix):
    done = subprocess.run([sys.executable, "-B", "-m", "horovod.runner.launch", "-np", "x", "prog"], check=False,
                          env={"PYTHONPATH": package(prefix)}, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr == 'horovodrun: -np is "x"; it is a whole number, at least 1\n'


def test_program_and_package_may_be_moved_together(prefix, tmp_path):
    new = tmp_path / "new"
    (new / "bin").mkdir(parents=True)
    (new / "bin" / "horovodrun").write_bytes((prefix / "bin" / "horovodrun").read_bytes())
    (new / "bin" / "horovodrun").chmod(0o755)
    done = subprocess.run([new / "bin" / "horovodrun", "--version"], capture_output=True, text=True, check=False,
                          timeout=60, env={})
    assert done.returncode == 1 and f"the package horovod should be in {new}/lib/horovod/python: " in done.stderr
    (new / "lib" / "horovod").mkdir(parents=True)
    (new / "lib" / "horovod" / "python").symlink_to(package(prefix))
    (tmp_path / "link").symlink_to(new / "bin" / "horovodrun")
    for program in (new / "bin" / "horovodrun", tmp_path / "link"):
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=60, env={})
        assert done.returncode == 0, done.stderr
