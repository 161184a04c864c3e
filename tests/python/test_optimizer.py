# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: what it reduces, when, and what it refuses. That training is right is test_training's."""

import gc
import weakref

import pytest
import torch


def one_parameter(hvd, **arguments):
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), [("p", parameter)], **arguments)
    return parameter, optimizer


def backward(parameter, value):
    (parameter * value).sum().backward()


def test_it_is_an_optimizer_of_the_same_class_with_the_same_groups(hvd):
    parameter = torch.nn.Parameter(torch.zeros(3))
    sgd = torch.optim.SGD([{"params": [parameter], "lr": 0.5}], lr=1.0, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(sgd)
    assert isinstance(optimizer, torch.optim.SGD) and type(optimizer).__name__ == "SGD"
    assert optimizer.param_groups[0] is sgd.param_groups[0] and optimizer.defaults["momentum"] == 0.9
    assert type(optimizer).__module__ == hvd.DistributedOptimizer.__module__
    assert list(optimizer._parameter_names.values()) == ["allreduce.noname.0"]
    assert "lr: 0.5" in repr(optimizer)


def test_schedulers_made_before_and_after_change_its_learning_rate(hvd, rank):
    parameter = torch.nn.Parameter(torch.zeros(3))
    sgd = torch.optim.SGD([parameter], lr=1.0)
    early = torch.optim.lr_scheduler.StepLR(sgd, 1, gamma=0.5)
    optimizer = hvd.DistributedOptimizer(sgd)
    late = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0)
    backward(parameter, rank)
    optimizer.step()
    late.step()
    early.step()
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert hvd.allgather(parameter.detach()[:1]).unique().numel() == 1


def test_gradients_are_averaged_and_are_on_their_way_during_backward(hvd, rank, size):
    parameter, optimizer = one_parameter(hvd)
    backward(parameter, rank + 1.0)
    assert optimizer._gradients.in_flight == (size > 1)
    optimizer.step()
    assert torch.allclose(parameter.grad, torch.full((3,), (size + 1) / 2))
    assert torch.allclose(parameter, torch.full((3,), -(size + 1) / 2))


@pytest.mark.parametrize("op", ["Sum", "Min", "Max", "Product"])
def test_other_reductions_of_gradients(hvd, rank, size, op):
    parameter, optimizer = one_parameter(hvd, op=getattr(hvd, op))
    backward(parameter, rank + 1.0)
    optimizer.synchronize()
    numbers = torch.arange(1.0, size + 1)
    expected = {"Sum": numbers.sum(), "Min": numbers.min(), "Max": numbers.max(), "Product": numbers.prod()}[op]
    assert torch.equal(parameter.grad, expected.expand(3))


def test_predivided_averages_are_averages(hvd, rank, size):
    parameter, optimizer = one_parameter(hvd, gradient_predivide_factor=4.0)
    backward(parameter, rank + 1.0)
    optimizer.synchronize()
    assert torch.allclose(parameter.grad, torch.full((3,), (size + 1) / 2))


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_compressed_gradients_come_back_in_their_type(hvd, rank, size, compression):
    parameter, optimizer = one_parameter(hvd, compression=getattr(hvd.Compression, compression))
    backward(parameter, rank + 1.0)
    optimizer.synchronize()
    assert parameter.grad.dtype == torch.float32
    assert torch.allclose(parameter.grad, torch.full((3,), (size + 1) / 2))


def test_gradients_of_several_passes_add_up(hvd, rank, size):
    parameter, optimizer = one_parameter(hvd, backward_passes_per_step=2)
    for _ in range(2):
        for number in (1, 2):
            assert not optimizer._gradients.in_flight
            backward(parameter, (rank + 1.0) * number)
        optimizer.step()
        assert torch.allclose(parameter.grad, torch.full((3,), 3 * (size + 1) / 2))
        optimizer.zero_grad()
    optimizer.set_backward_passes_per_step(1)
    backward(parameter, rank + 1.0)
    assert optimizer._gradients.in_flight == (size > 1)
    optimizer.step()


def test_a_step_before_all_passes_reduces_what_there_is(hvd, rank, size):
    parameter, optimizer = one_parameter(hvd, backward_passes_per_step=5)
    backward(parameter, rank + 1.0)
    optimizer.step()
    assert torch.allclose(parameter.grad, torch.full((3,), (size + 1) / 2))


def test_a_second_backward_before_step_is_an_assertion_error(hvd, size):
    if size == 1:
        pytest.skip("one rank")
    parameter, optimizer = one_parameter(hvd)
    backward(parameter, 1.0)
    with pytest.raises(AssertionError, match='gradient of "p" was computed more than 1 times before step'):
        backward(parameter, 1.0)
    optimizer.step()


def test_zero_grad_while_gradients_are_reduced_is_an_assertion_error(hvd, size):
    if size == 1:
        pytest.skip("one rank")
    parameter, optimizer = one_parameter(hvd)
    backward(parameter, 1.0)
    with pytest.raises(AssertionError, match="zero_grad.. was called after backward"):
        optimizer.zero_grad()
    optimizer.synchronize()
    optimizer.zero_grad(set_to_none=True)
    assert parameter.grad is None
    backward(parameter, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    assert torch.equal(parameter.grad, torch.zeros(3))


def test_gradients_can_be_clipped_between_synchronize_and_step(hvd, rank, recwarn):
    parameter, optimizer = one_parameter(hvd, op=hvd.Sum)
    backward(parameter, 100.0)
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    with optimizer.skip_synchronize():
        optimizer.step()
    assert torch.allclose(parameter.norm(), torch.tensor(1.0))
    assert not recwarn.list


def test_synchronize_and_step_without_skip_is_a_warning(hvd, size):
    parameter, optimizer = one_parameter(hvd)
    backward(parameter, 1.0)
    optimizer.synchronize()
    with pytest.warns(UserWarning, match="skip_synchronize"):
        optimizer.step()


def test_a_closure_is_evaluated_before_its_gradients_are_reduced(hvd, rank, size):
    parameter, optimizer = one_parameter(hvd)
    calls = []

    def closure():
        optimizer.zero_grad()
        loss = (parameter * (rank + 1.0)).sum()
        loss.backward()
        calls.append(1)
        return loss + 7

    assert optimizer.step(closure).item() == 7
    assert calls == [1] and torch.allclose(parameter, torch.full((3,), -(size + 1) / 2))


def test_parameters_without_gradient_put_in_zeros(hvd, rank, size):
    used, unused = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([used, unused], lr=1.0),
                                         [("used", used), ("unused", unused)])
    loss = used.sum() + (unused.sum() * 2 if rank == 0 else 0)
    loss.backward()
    optimizer.step()
    assert torch.allclose(used, torch.full((2,), -1.0))
    assert torch.allclose(unused, torch.full((2,), -2.0 / size))


def test_parameters_may_be_frozen_and_thawed(hvd, rank, size):
    first, second = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2), requires_grad=False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first, second], lr=1.0))
    for step in range(4):
        first.requires_grad_(step % 2 == 0)
        second.requires_grad_(step % 2 == 1)
        ((first.sum() if step % 2 == 0 else second.sum()) * (rank + 1)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    average = (size + 1) / 2
    for parameter in (first, second):
        assert torch.allclose(parameter, torch.full((2,), -2 * average))


def test_groups_added_later_are_reduced_too(hvd, rank, size):
    first, second = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first], lr=1.0), [("first", first)])
    optimizer.add_param_group({"params": [second]})
    for _ in range(2):
        ((first + second).sum() * (rank + 1)).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert torch.allclose(second, torch.full((2,), -float(size + 1)))


@pytest.mark.parametrize("groups", ["number", "many", "lists", "num_groups"])
def test_groups_of_gradients_are_reduced_together(hvd, rank, size, groups):
    parameters = [torch.nn.Parameter(torch.zeros(n + 1)) for n in range(5)]
    named = [(f"p{n}", parameter) for n, parameter in enumerate(parameters)]
    arguments = {"number": {"groups": 2}, "many": {"groups": 9}, "num_groups": {"num_groups": 2},
                 "lists": {"groups": [parameters[:2], [parameters[4]]]}}[groups]
    sgd = torch.optim.SGD(parameters, lr=1.0)
    if groups == "num_groups":
        with pytest.warns(DeprecationWarning, match="num_groups is deprecated"):
            optimizer = hvd.DistributedOptimizer(sgd, named, **arguments)
    else:
        optimizer = hvd.DistributedOptimizer(sgd, named, **arguments)
    for step in range(3):
        used = parameters if step != 1 else parameters[:1]
        sum(parameter.sum() * (rank + 1) for parameter in used).backward()
        optimizer.step()
        for parameter in parameters:
            expected = (size + 1) / 2 if any(parameter is one for one in used) else 0.0
            assert size == 1 or torch.allclose(parameter.grad, torch.full(parameter.shape, expected))
        optimizer.zero_grad(set_to_none=True)


@pytest.mark.parametrize("as_dense", [False, True])
def test_sparse_gradients_are_averaged(hvd, rank, size, as_dense):
    embedding = torch.nn.Embedding(size + 2, 3, sparse=True)
    torch.nn.init.zeros_(embedding.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(embedding.parameters(), lr=1.0), embedding.named_parameters(),
                                         sparse_as_dense=as_dense)
    for _ in range(2):
        embedding(torch.tensor([rank, size])).sum().backward()
        optimizer.step()
        assert embedding.weight.grad.is_sparse != (as_dense and size > 1)
        optimizer.zero_grad(set_to_none=True)
    expected = torch.zeros(size + 2, 3)
    expected[:size] = -2.0 / size
    expected[size] = -2.0
    assert torch.allclose(embedding.weight, expected)


def test_sparse_gradients_in_a_group_are_refused(hvd, size):
    if size == 1:
        pytest.skip("one rank")
    embedding = torch.nn.Embedding(4, 3, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(embedding.parameters(), lr=1.0), groups=1)
    with pytest.raises(ValueError, match="give sparse_as_dense=True"):
        embedding(torch.tensor([1])).sum().backward()
    optimizer._gradients.start_over()


def test_gradients_that_are_not_contiguous_are_reduced(hvd, rank, size):
    parameter = torch.nn.Parameter(torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    weights = torch.arange(120.0).reshape(2, 3, 4, 5)
    (parameter * weights * (rank + 1)).sum().backward()
    optimizer.step()
    assert torch.allclose(parameter, -weights * (size + 1) / 2)


def test_a_process_set_averages_among_its_members(hvd, rank, size):
    members = [0] if size == 1 else [0, size - 1]
    process_set = hvd.add_process_set(members) if size > 2 else hvd.global_process_set
    parameter, optimizer = one_parameter(hvd, process_set=process_set)
    backward(parameter, rank + 1.0)
    optimizer.step()
    mine = sum(r + 1.0 for r in members) / len(members) if rank in members else rank + 1.0
    assert torch.allclose(parameter, torch.full((3,), -mine))
    if size > 2:
        hvd.remove_process_set(process_set)


def test_adasum_combines_what_the_steps_change(hvd, rank, size):
    parameter = torch.nn.Parameter(torch.zeros(size))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.5), [("p", parameter)], op=hvd.Adasum)
    for _ in range(2):
        optimizer.zero_grad()
        parameter[rank].backward()
        optimizer.step()
    # Changes of different ranks are orthogonal: they add up.
    assert torch.allclose(parameter, torch.full((size,), -1.0))
    assert optimizer.step(lambda: torch.tensor(3.0)).item() == 3.0
    if size > 1:
        with pytest.raises(AssertionError, match="cannot be used with Adasum"):
            optimizer.skip_synchronize()
    optimizer.synchronize()


def test_loading_a_state_starts_counting_anew(hvd, rank, size):
    parameter, optimizer = one_parameter(hvd, backward_passes_per_step=2)
    backward(parameter, 1.0)
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    for _ in range(2):
        backward(parameter, rank + 1.0)
    optimizer.step()
    assert torch.allclose(parameter.grad, torch.full((3,), float(size + 1)))


def test_ranks_with_different_models_get_an_error_that_names_the_parameter(hvd, rank, size):
    if size == 1:
        pytest.skip("one rank")
    parameter = torch.nn.Parameter(torch.zeros(3 + (rank == 1)))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), [("weight", parameter)])
    parameter.sum().backward()
    with pytest.raises(hvd.HorovodInternalError, match="weight"):
        optimizer.step()
    hvd.barrier()


def test_an_optimizer_that_is_dropped_leaves_hooks_that_do_nothing(hvd, rank):
    parameter, optimizer = one_parameter(hvd)
    gone = weakref.ref(optimizer._gradients)
    del optimizer
    gc.collect()
    assert gone() is None
    backward(parameter, 1.0 + rank)
    assert torch.equal(parameter.grad, torch.full((3,), 1.0 + rank))


class Other:
    """Makes the arguments of the cases below."""

    def __init__(self):
        self.first, self.second = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
        self.sgd = torch.optim.SGD([self.first, self.second], lr=1.0)


@pytest.mark.parametrize("make, text", [
    (lambda hvd, o: (o.sgd, [("a", o.first)]), "no name for 1 of the optimizer's 2 parameters"),
    (lambda hvd, o: (o.sgd, [("a", o.first), ("a", o.second)]), "have to be unique; these are there twice: a"),
    (lambda hvd, o: (o.sgd, [o.first, o.second]), "a sequence of pairs"),
    (lambda hvd, o: (o.sgd, None, hvd.Compression.none, 0), "backward_passes_per_step is 0"),
    (lambda hvd, o: (o.sgd, None, hvd.Compression.none, 1, hvd.Sum, 2.0), "with op=hvd.Average alone"),
    (lambda hvd, o: (o.sgd, None, hvd.Compression.none, 1, hvd.Average, 1.0, 0, -1), "groups is a number, at least 0"),
    (lambda hvd, o: (o.sgd, None, hvd.Compression.none, 1, hvd.Average, 1.0, 0, [[torch.ones(1)]]), "is no parameter"),
    (lambda hvd, o: (o.sgd, None, hvd.Compression.none, 1, hvd.Average, 1.0, 0, [[o.first], [o.first]]), "twice"),
    (lambda hvd, o: (torch.optim.LBFGS([o.first]),), "LBFGS cannot be distributed"),
    (lambda hvd, o: (hvd.DistributedOptimizer(o.sgd),), "a DistributedOptimizer already"),
])
def test_wrong_arguments_are_refused(hvd, make, text):
    with pytest.raises(ValueError, match=text):
        hvd.DistributedOptimizer(*make(hvd, Other()))
