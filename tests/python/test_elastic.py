# SPDX-License-Identifier: Apache-2.0
"""Elastic states and samplers, and a training that goes on after operations have failed across ranks."""

import pytest
import torch


def state_of(hvd, rank):
    torch.manual_seed(rank)
    model = torch.nn.Linear(3, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1 * (rank + 1), momentum=0.9),
                                         model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(range(10), shuffle=False)
    return hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=rank, batch=[rank])


def test_a_state_is_saved_restored_and_synchronised(hvd, rank, size):
    state = state_of(hvd, rank)
    state.sync()
    assert (state.epoch, state.batch) == (0, [0]) and state.optimizer.param_groups[0]["lr"] == 0.1
    assert hvd.allgather(state.model.weight.detach()[None]).unique(dim=0).shape[0] == 1
    saved = state.model.weight.detach().clone()
    state.batch.append(5)
    state.commit()
    state.batch.append(6)
    state.epoch = 7
    with torch.no_grad():
        state.model.weight.add_(1)
    state.sampler.record_indices([1, 2])
    state.restore()
    assert (state.epoch, state.batch) == (0, [0, 5]) and state.sampler.processed_indices == set()
    assert torch.equal(state.model.weight, saved)
    other = torch.nn.Linear(3, 2)
    state.model = other
    state.sync()
    assert state.model is other
    assert hvd.allgather(other.weight.detach()[None]).unique(dim=0).shape[0] == 1


def test_a_sampler_shares_out_what_is_not_processed(hvd, rank, size):
    sampler = hvd.elastic.ElasticSampler(range(11), shuffle=True, seed=4)
    everything = [index for part in hvd.allgather_object(list(sampler)) for index in part]
    assert set(everything) == set(range(11)) and len(everything) == len(sampler) * size
    sampler.record_batch(0, 1)
    state = hvd.elastic.TorchState(sampler=sampler)
    state.sync()
    assert len(sampler.processed_indices) == size
    rest = {index for part in hvd.allgather_object(list(sampler)) for index in part}
    assert rest == set(range(11)) - sampler.processed_indices
    sampler.set_epoch(1)
    assert not sampler.processed_indices and len(sampler) == -(-11 // size)
    again = hvd.elastic.ElasticSampler(range(11))
    again.load_state_dict(sampler.state_dict())
    assert again.epoch == 1


def test_a_training_goes_on_from_the_last_commit_after_an_error_across_ranks(hvd, rank, size):
    state = state_of(hvd, rank)
    resets = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @hvd.elastic.run
    def train(state, steps):
        while state.epoch < steps:
            state.optimizer.zero_grad()
            state.model(torch.ones(2, 3)).sum().backward()
            state.optimizer.step()
            if state.epoch == 2 and not resets and size > 1:
                hvd.allreduce(torch.ones(2 + (rank == 1)), name="broken")
            state.epoch += 1
            state.commit()
        return "done"

    assert train(state, 4) == "done"
    assert resets == ([size] if size > 1 else [])
    weights = hvd.allgather(state.model.weight.detach()[None])
    assert weights.unique(dim=0).shape[0] == 1

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    assert torch.allclose(state.model.weight, model.weight, atol=1e-6)


def test_changed_hosts_interrupt_a_commit(hvd, rank):
    state = state_of(hvd, rank)
    seen = []

    @hvd.elastic.run
    def train(state):
        seen.append(state.epoch)
        state.epoch += 1
        if len(seen) == 1:
            state.on_hosts_updated(0.0, None)
        state.commit()

    train(state)
    assert seen == [0, 1]


def test_other_errors_are_not_caught(hvd, rank):
    @hvd.elastic.run
    def train(state):
        raise KeyError("mine")

    with pytest.raises(KeyError):
        train(state_of(hvd, rank))
