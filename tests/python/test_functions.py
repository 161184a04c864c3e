# SPDX-License-Identifier: Apache-2.0
"""Parameters, optimizer states and objects from one rank to all; the small modules; what is built in."""

import collections
import os
import subprocess
import sys
import threading

import pytest
import torch


def model_of(rank, dtype=torch.float32):
    torch.manual_seed(1234 + rank)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)).to(dtype)


@pytest.mark.parametrize("what", ["state_dict", "named_parameters", "parameters", "list"])
def test_parameters_become_those_of_the_root(hvd, rank, size, what):
    model, expected = model_of(rank), model_of(size - 1)
    params = list(model.named_parameters()) if what == "list" else getattr(model, what)()
    hvd.broadcast_parameters(params, root_rank=size - 1)
    for name, value in model.named_parameters():
        assert torch.equal(value, dict(expected.named_parameters())[name])


def test_parameters_that_are_not_contiguous_are_broadcast_too(hvd, rank):
    weight = torch.nn.Parameter(torch.full((2, 3, 4, 5), float(rank)).to(memory_format=torch.channels_last))
    stride = weight.stride()
    hvd.broadcast_parameters({"weight": weight, "nothing": None}, 0)
    assert torch.equal(weight, torch.zeros(2, 3, 4, 5)) and weight.stride() == stride


OPTIMIZERS = [cls for cls in vars(torch.optim).values()
              if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer)
              and cls not in (torch.optim.Optimizer, torch.optim.SparseAdam, torch.optim.LBFGS)]
SPECIAL = {"SGD": {"momentum": 0.9}, "RMSprop": {"momentum": 0.9, "centered": True}, "Adam": {"amsgrad": True}}


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).pow(2).sum().backward()
        optimizer.step()


def same(left, right):
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def made(cls, model, rank):
    arguments = {"lr": 0.01 * (rank + 1), **SPECIAL.get(cls.__name__, {})}
    if "lr" not in cls.__init__.__code__.co_varnames:
        del arguments["lr"]
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1]},
              {"params": [p for p in model.parameters() if p.dim() <= 1]}]
    if cls.__name__ == "Muon":
        groups = groups[:1]
    return cls(groups, **arguments)


@pytest.mark.parametrize("cls", OPTIMIZERS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("trained", ["root", "all", "none"])
def test_every_optimizers_state_becomes_the_roots(hvd, rank, size, cls, trained):
    root = size - 1
    model = model_of(rank)
    optimizer = made(cls, model, rank)
    if trained == "all" or trained == "root" and rank == root:
        train(model, optimizer, 1 + rank)
    hvd.broadcast_parameters(model.state_dict(), root)
    hvd.broadcast_optimizer_state(optimizer, root)
    states = hvd.allgather_object(optimizer.state_dict())
    assert all(same(state, states[root]) for state in states)
    assert optimizer.param_groups[0].get("lr") in (None, 0.01 * (root + 1))
    torch.manual_seed(0)
    train(model, optimizer, 1)
    models = hvd.allgather_object({name: value for name, value in model.named_parameters()})
    assert all(same(other, models[root]) for other in models)


def test_the_state_of_a_distributed_optimizer_is_broadcast_too(hvd, rank):
    model = model_of(rank)
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.1 + rank), model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), 0)
    train(model, optimizer, 1)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    states = hvd.allgather_object(optimizer.state_dict())
    assert all(same(state, states[0]) for state in states)


def test_what_is_no_number_in_a_state_comes_back_as_it_was(hvd, rank):
    model = model_of(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    pair = collections.namedtuple("pair", "a b")
    globals()["pair"] = pair
    optimizer.param_groups[0].update(lr=rank, betas=(0.5, 3), name=None, flag=rank == 0,
                                     nested={"x": [torch.ones(2) * rank]})
    hvd.broadcast_optimizer_state(optimizer, 0)
    group = optimizer.param_groups[0]
    assert (group["lr"], group["betas"], group["name"], group["flag"]) == (0, (0.5, 3), None, True)
    assert type(group["lr"]) is int and torch.equal(group["nested"]["x"][0], torch.zeros(2))


@pytest.mark.parametrize("name", [None, "object"])
def test_objects_are_broadcast_and_gathered(hvd, rank, size, name):
    def of(r):
        return {"rank": r, "list": list(range(r)), "tensor": torch.full((r,), r)}

    got = hvd.broadcast_object(of(rank), size - 1, name=name)
    assert same(got, of(size - 1))
    assert same(hvd.allgather_object(of(rank), name=name), [of(r) for r in range(size)])
    assert hvd.broadcast_object(None if rank else "x" * 100000) == "x" * 100000


def test_two_objects_of_a_type_do_not_get_mixed_up(hvd, rank, size):
    assert [hvd.broadcast_object(value + rank, 0) for value in (1, 2, 3)] == [1, 2, 3]


def test_sync_batch_norm_is_batch_norm_over_all_batches(hvd, rank, size):
    shapes = [(3 + r, 4, 5) for r in range(size)]
    torch.manual_seed(7)
    batches = [torch.randn(shape, dtype=torch.float64) * 3 + 1 for shape in shapes]
    grads = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    for arguments in ({}, {"affine": False}, {"momentum": None}, {"track_running_stats": False}):
        alone = torch.nn.BatchNorm1d(4, **arguments).double()
        together = hvd.SyncBatchNorm(4, **arguments).double()
        for _ in range(2):
            whole = torch.cat(batches).requires_grad_()
            expected = alone(whole)
            expected.backward(torch.cat(grads))
            mine = batches[rank].clone().requires_grad_()
            result = together(mine)
            result.backward(grads[rank])
        rows = [shape[0] for shape in shapes]
        assert torch.allclose(result, expected.split(rows)[rank])
        assert torch.allclose(mine.grad, whole.grad.split(rows)[rank])
        if arguments.get("affine", True):
            assert torch.allclose(hvd.allreduce(together.weight.grad, op=hvd.Sum), alone.weight.grad)
            assert torch.allclose(hvd.allreduce(together.bias.grad, op=hvd.Sum), alone.bias.grad)
        if arguments.get("track_running_stats", True):
            assert torch.allclose(together.running_mean, alone.running_mean)
            assert torch.allclose(together.running_var, alone.running_var)
            assert together.num_batches_tracked == 2
        assert torch.allclose(together.eval()(batches[0]), alone.eval()(batches[0]))
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        together(torch.ones(3))
    with pytest.raises(ValueError, match="made for 4 channels; the tensor has 2"):
        together(torch.ones(3, 2))


def test_what_is_built_in_is_told_truly(hvd, size):
    import horovod
    import horovod.common.util as util
    assert horovod.__version__ >= "0.28.1"
    assert hvd.mpi_built() is True and util.mpi_built() is True
    assert hvd.mpi_enabled() in (True, False) and hvd.mpi_threads_supported() in (True, False)
    for name in ("gloo_built", "nccl_built", "ddl_built", "ccl_built", "cuda_built", "rocm_built"):
        assert not getattr(hvd, name)() and not getattr(util, name)()
    assert hvd.gloo_enabled() is False and util.gpu_available("torch") is False
    assert util.extension_available("torch") and not util.extension_available("tensorflow")


def test_ranks_and_sizes_are_consistent(hvd, rank, size):
    places = hvd.allgather_object((hvd.rank(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()))
    assert [place[0] for place in places] == list(range(size))
    assert len({place[1:2] + place[3:4] for place in places}) == size
    assert sum(place[1] == 0 and place[3] == 0 for place in places) == 1
    assert hvd.is_homogeneous() == (len({place[2] for place in places}) == 1)


@pytest.mark.parametrize("name", ["tensorflow", "tensorflow.keras", "keras", "mxnet"])
def test_packages_that_are_not_there_say_so(name):
    with pytest.raises(ImportError, match="is not part of this release, which has horovod.torch"):
        __import__(f"horovod.{name}")


def test_the_timeline_is_written_where_it_is_asked_for(hvd, rank, tmp_path_factory):
    import json
    folder = str(tmp_path_factory.mktemp("timeline"))  # of this rank: nodes share no directory
    hvd.start_timeline(f"{folder}/%r.json", mark_cycles=True)
    hvd.allreduce(torch.ones(2), name="traced")
    hvd.stop_timeline()
    with open(f"{folder}/{rank}.json", encoding="utf-8") as file:
        assert "traced" in json.dumps(json.load(file))
    with pytest.raises(hvd.HorovodInternalError):
        hvd.start_timeline("/nowhere/at/all/%r.json")


def test_threads_and_environment_helpers_do_what_their_names_say(monkeypatch):
    from horovod.common.util import env, is_version_greater_equal_than, num_rank_is_power_2, split_list
    from horovod.runner.common.util.env import get_env_rank_and_size, is_exportable
    from horovod.runner.util.threads import execute_function_multithreaded, in_thread, on_event
    seen, go, stop = [], threading.Event(), threading.Event()
    in_thread(seen.append, (1,)).join(5)
    waiting = on_event(go, seen.append, (2,))
    stopped = on_event(threading.Event(), seen.append, (3,), stop=stop, check_stop_interval_s=0.01)
    go.set()
    stop.set()
    waiting.join(5)
    stopped.join(5)
    assert seen == [1, 2]
    sums = execute_function_multithreaded(lambda a, b: a + b, [(1, 2), (3, 4)], max_concurrent_executions=1)
    assert sums == {0: 3, 1: 7}
    for wrong in (lambda: in_thread(print, 1), lambda: on_event(None, print), lambda: on_event(go, print, 1)):
        with pytest.raises(ValueError):
            wrong()
    monkeypatch.setenv("HOROVOD_RANK", "3")
    monkeypatch.setenv("HOROVOD_SIZE", "5")
    assert get_env_rank_and_size() == (3, 5)
    assert is_exportable("PATH") and not is_exportable("OLDPWD")
    assert split_list([1, 2, 3, 4, 5], 3) == [[1, 2], [3, 4], [5]]
    assert [num_rank_is_power_2(n) for n in (0, 1, 3, 4)] == [False, True, False, True]
    assert is_version_greater_equal_than("1.13.1+cpu", "1.13") and not is_version_greater_equal_than("1.9.0", "1.13")
    with env(HVD_TEST_VARIABLE="x", PATH=None):
        assert os.environ["HVD_TEST_VARIABLE"] == "x"
    assert "HVD_TEST_VARIABLE" not in os.environ


def test_run_refuses_inside_a_job_and_on_other_machines(monkeypatch):
    import horovod
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    with pytest.raises(RuntimeError, match="a rank of a job already"):
        horovod.run(print)
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK")
    monkeypatch.delenv("PMIX_RANK", raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with pytest.raises(RuntimeError, match="srun --horovod python program.py"):
        horovod.run(print)
    for arguments, text in (({"np": 0}, "num_proc is 0; .* at least 1"),
                            ({"hosts": "elsewhere:4"}, '"elsewhere" is another'),
                            ({"hosts": "elsewhere:many"}, "elsewhere:many"),
                            ({"hostfile": "/nowhere"}, "cannot be read"),
                            ({"max_num_proc": 4}, "max_num_proc is for jobs whose size changes")):
        with pytest.raises(ValueError, match=text):
            horovod.run(print, **arguments)


SCRIPT = """
import horovod
from horovod.runner.common.util.env import get_env_rank_and_size
def own(word):
    return word, get_env_rank_and_size()[0]
if __name__ == "__main__":
    print(horovod.run(%s, np=2))
"""


@pytest.mark.parametrize("call, result", [("get_env_rank_and_size", "[(0, 2), (1, 2)]"),
                                          ("own, args=('so',)", "[('so', 0), ('so', 1)]")])
def test_run_calls_a_function_on_every_rank_also_one_of_the_script(rank, tmp_path, call, result):
    if rank != 0:
        return
    # The environment of somebody who has just logged in: nothing of the launcher that has started this test.
    kept = ("PATH", "HOME", "USER", "LANG", "PYTHONPATH", "LD_LIBRARY_PATH", "HVD_LIBRARY", "TMPDIR",
            "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    script = tmp_path / "script.py"
    script.write_text(SCRIPT % call)
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=100,
                          check=False)
    assert done.stdout == result + "\n", done.stderr
