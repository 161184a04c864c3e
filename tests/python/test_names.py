# SPDX-License-Identifier: Apache-2.0
"""Every public name that scripts written for Horovod 0.28.1 use is there, and has a test that uses it."""

import importlib
import re
from pathlib import Path

import pytest

OPERATIONS = {  # name -> its variants
    "allreduce": ("", "_", "_async", "_async_"), "grouped_allreduce": ("", "_", "_async", "_async_"),
    "allgather": ("", "_async"), "grouped_allgather": ("", "_async"),
    "broadcast": ("", "_", "_async", "_async_"),
    "alltoall": ("", "_async"),
    "reducescatter": ("", "_async"), "grouped_reducescatter": ("", "_async"),
}
TORCH = """
    init shutdown is_initialized start_timeline stop_timeline size rank local_size local_rank cross_size cross_rank
    is_homogeneous mpi_threads_supported mpi_built gloo_built nccl_built ddl_built ccl_built cuda_built rocm_built
    mpi_enabled gloo_enabled ProcessSet global_process_set add_process_set remove_process_set
    Average Sum Adasum Min Max Product HorovodInternalError Compression DistributedOptimizer SyncBatchNorm elastic
    poll synchronize join barrier sparse_allreduce_async allgather_object broadcast_object broadcast_parameters
    broadcast_optimizer_state should_stop
""".split() + [name + variant for name, variants in OPERATIONS.items() for variant in variants]
MODULES = {
    "horovod": "__version__ run",
    "horovod.torch.mpi_ops": "allreduce_async_ synchronize Average size",
    "horovod.torch.functions": "broadcast_parameters broadcast_optimizer_state broadcast_object allgather_object",
    "horovod.torch.optimizer": "DistributedOptimizer",
    "horovod.torch.compression": "Compression Compressor NoneCompressor FP16Compressor",
    "horovod.torch.sync_batch_norm": "SyncBatchNorm",
    "horovod.torch.elastic": "run TorchState ElasticSampler",
    "horovod.common.exceptions": "HorovodInternalError HostsUpdatedInterrupt",
    "horovod.common.process_sets": "ProcessSet global_process_set add_process_set remove_process_set",
    "horovod.common.util": "check_extension split_list extension_available gpu_available num_rank_is_power_2",
    "horovod.common.basics": "HorovodBasics",
    "horovod.common.elastic": "State ObjectState run_fn",
    "horovod.runner.util.threads": "in_thread on_event execute_function_multithreaded",
    "horovod.runner.common.util.env": "is_exportable get_env_rank_and_size",
}
OPTIMIZER = "synchronize skip_synchronize step zero_grad set_backward_passes_per_step _parameter_names".split()


@pytest.fixture(scope="module")
def texts():
    """What all tests but this one say."""
    here = Path(__file__)
    return "\n".join(path.read_text() for path in here.parent.glob("test_*.py") if path != here)


def test_every_public_name_of_horovod_torch_is_there_and_tested(hvd, rank, texts):
    missing = [name for name in TORCH if not hasattr(hvd, name)]
    variants = "|".join(map(re.escape, OPERATIONS))
    # Tests by parameters spell the operation and its variant apart: "allreduce", "_async_".
    untested = [name for name in TORCH if not re.search(rf"\b{name}\b", texts)
                and not re.fullmatch(rf"({variants})(_|_async|_async_)", name)]
    assert (missing, untested) == ([], [])
    if rank == 0:
        print(f"# {len(TORCH)} public names of horovod.torch")


@pytest.mark.parametrize("module", MODULES)
def test_modules_that_scripts_import_have_their_names(module):
    found = importlib.import_module(module)
    assert [name for name in MODULES[module].split() if not hasattr(found, name)] == []


def test_the_version_is_that_of_the_interface():
    import horovod
    assert tuple(map(int, horovod.__version__.split("."))) >= (0, 28, 1)


def test_every_method_of_a_distributed_optimizer_is_there_and_tested(hvd, texts):
    import torch
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    assert [name for name in OPTIMIZER if not hasattr(optimizer, name)] == []
    assert isinstance(optimizer, torch.optim.SGD)
    assert [name for name in OPTIMIZER if not re.search(rf"\b{name}\b", texts)] == []
