# SPDX-License-Identifier: Apache-2.0
"""Training on all ranks equals, step by step, one process with the whole batch."""

import copy

import pytest
import torch

STEPS = 5
ROWS = 6  # of each rank, in each pass


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Tanh(), torch.nn.Flatten(),
                               torch.nn.Linear(4 * 16, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()


def batch(step, size, passes):
    generator = torch.Generator().manual_seed(step)
    rows = size * passes * ROWS
    return (torch.randn(rows, 1, 6, 6, generator=generator, dtype=torch.float64),
            torch.randint(3, (rows,), generator=generator))


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("variant", ["plain", "passes", "groups", "lists", "predivide", "fp16", "clipped", "closure"])
def test_training_equals_one_process_with_the_whole_batch(hvd, rank, size, optimizer, variant):
    passes = 3 if variant == "passes" else 1
    alone, together = network(), network()
    make = OPTIMIZERS[optimizer]
    reference = make(alone.parameters())
    arguments = {"passes": {"backward_passes_per_step": 3}, "groups": {"groups": 2},
                 "lists": {"groups": [list(together.parameters())[:3]]},
                 "predivide": {"gradient_predivide_factor": 2.0},
                 "fp16": {"compression": hvd.Compression.fp16}}.get(variant, {})
    distributed = hvd.DistributedOptimizer(make(together.parameters()), together.named_parameters(), **arguments)
    hvd.broadcast_parameters(together.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(distributed, root_rank=0)
    tolerance = {"rtol": 1e-2, "atol": 2e-3} if variant == "fp16" else {"rtol": 1e-10, "atol": 1e-12}
    for step in range(STEPS):
        inputs, labels = batch(step, size, passes)
        reference.zero_grad()
        torch.nn.functional.cross_entropy(alone(inputs), labels).backward()
        if variant == "clipped":
            torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.1)
        reference.step()
        one_step(hvd, distributed, together, inputs.split(ROWS), labels.split(ROWS), variant, passes)
        for expected, parameter in zip(alone.parameters(), together.parameters()):
            assert torch.allclose(parameter, expected, **tolerance)
    mine = torch.cat([parameter.detach().reshape(-1) for parameter in together.parameters()])
    fingerprints = hvd.allgather(mine[None])
    assert all(torch.equal(fingerprint, fingerprints[0]) for fingerprint in fingerprints)


def one_step(hvd, optimizer, model, inputs, labels, variant, passes):
    first = hvd.rank() * passes

    def losses():
        for part in range(first, first + passes):
            loss = torch.nn.functional.cross_entropy(model(inputs[part]), labels[part]) / passes
            loss.backward()
        return loss

    optimizer.zero_grad()
    if variant == "closure":
        optimizer.step(losses)
        return
    losses()
    if variant != "clipped":
        optimizer.step()
        return
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    with optimizer.skip_synchronize():
        optimizer.step()


def test_ranks_with_uneven_batches_join(hvd, rank, size):
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for step in range(rank + 1):
        inputs, labels = batch(step, 1, 1)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    assert 0 <= hvd.join() < size


def test_a_checkpoint_resumes_on_all_ranks(hvd, rank, size):
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.01), model.named_parameters())
    for step in range(2):
        one_step(hvd, optimizer, model, *(part.split(ROWS) for part in batch(step, size, 1)), "plain", 1)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict())) if rank == 0 else None
    one_step(hvd, optimizer, model, *(part.split(ROWS) for part in batch(2, size, 1)), "plain", 1)

    resumed = network()
    again = hvd.DistributedOptimizer(torch.optim.Adam(resumed.parameters(), lr=9.0), resumed.named_parameters())
    if rank == 0:
        resumed.load_state_dict(saved[0])
        again.load_state_dict(saved[1])
    hvd.broadcast_parameters(resumed.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(again, root_rank=0)
    one_step(hvd, again, resumed, *(part.split(ROWS) for part in batch(2, size, 1)), "plain", 1)
    for expected, parameter in zip(model.parameters(), resumed.parameters()):
        assert torch.equal(parameter, expected)
