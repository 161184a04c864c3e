# SPDX-License-Identifier: Apache-2.0
"""Gradients of the operations that wait: Horovod's rules, checked against plain torch where they are plain calculus."""

import pytest
import torch


def leaf(*shape, start=0.0):
    values = torch.arange(float(torch.Size(shape).numel()), dtype=torch.float64).reshape(shape) + start
    return values.requires_grad_()


@pytest.mark.parametrize("op, factor", [("Sum", 6.0), ("Average", 6.0), ("Sum", 1.0)])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_gradient_of_allreduce_is_the_allreduced_gradient(hvd, rank, size, op, factor, grouped):
    op = getattr(hvd, op)
    tensor = leaf(2, 3)
    weights = torch.arange(6.0, dtype=torch.float64).reshape(2, 3) + rank
    if grouped:
        result = hvd.grouped_allreduce([tensor, leaf(1)], op=op, prescale_factor=factor)[0]
    else:
        result = hvd.allreduce(tensor, op=op, prescale_factor=factor)
    result.backward(weights)
    everybody = sum(torch.arange(6.0, dtype=torch.float64).reshape(2, 3) + r for r in range(size))
    assert torch.allclose(tensor.grad, everybody * factor / (size if op == hvd.Average else 1))


def test_the_sum_of_squares_over_ranks_has_the_gradient_of_one_process(hvd, rank, size):
    # loss = (sum over ranks of x_r)^2, on one process by autograd alone
    leaves = [leaf(3, start=r) for r in range(size)]
    (sum(leaves) ** 2).sum().backward()
    mine = leaf(3, start=rank)
    total = hvd.allreduce(mine, op=hvd.Sum)
    (total ** 2).sum().div(size).backward()
    assert torch.allclose(mine.grad, leaves[rank].grad)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_gradient_of_allgather_is_the_average_of_its_own_rows(hvd, rank, size, grouped):
    tensor = leaf(rank + 1, 2)
    if grouped:
        result = hvd.grouped_allgather([leaf(2, 1), tensor])[1]
    else:
        result = hvd.allgather(tensor)
    weights = torch.arange(float(result.numel()), dtype=torch.float64).reshape(result.shape)
    result.backward(weights * (rank + 1))
    start = sum(r + 1 for r in range(rank))
    average = sum(r + 1 for r in range(size)) / size
    assert torch.allclose(tensor.grad, weights[start:start + rank + 1] * average)


def test_the_gradient_of_broadcast_is_the_average_on_the_root(hvd, rank, size):
    root = size - 1
    tensor = leaf(4)
    hvd.broadcast(tensor, root).backward(torch.full((4,), rank + 1.0, dtype=torch.float64))
    average = sum(r + 1.0 for r in range(size)) / size
    assert torch.allclose(tensor.grad, torch.full((4,), average if rank == root else 0.0, dtype=torch.float64))


@pytest.mark.parametrize("given", [False, True])
def test_the_gradient_of_alltoall_goes_back_to_where_the_rows_came_from(hvd, rank, size, given):
    splits = [to + 1 for to in range(size)] if given else [2] * size
    tensor = leaf(sum(splits), 2)
    result = hvd.alltoall(tensor, splits)[0] if given else hvd.alltoall(tensor)
    result.backward(torch.full(result.shape, rank + 1.0, dtype=torch.float64))
    expected = torch.cat([torch.full((splits[r], 2), r + 1.0, dtype=torch.float64) for r in range(size)])
    assert torch.equal(tensor.grad, expected)


@pytest.mark.parametrize("op", ["Sum", "Average"])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_gradient_of_reducescatter_is_gathered(hvd, rank, size, op, grouped):
    op = getattr(hvd, op)
    tensor = leaf(2 * size + 1, 2)
    if grouped:
        result = hvd.grouped_reducescatter([tensor, leaf(size)], op=op, prescale_factor=3.0)[0]
    else:
        result = hvd.reducescatter(tensor, op=op, prescale_factor=3.0)
    result.backward(torch.full(result.shape, rank + 1.0, dtype=torch.float64))
    rows = [3 if r == 0 else 2 for r in range(size)]
    expected = torch.cat([torch.full((rows[r], 2), r + 1.0, dtype=torch.float64) for r in range(size)]) * 3
    assert torch.equal(tensor.grad, expected * (size if op == hvd.Sum else 1))


def test_operations_can_be_differentiated_twice(hvd, rank, size):
    for operation in (lambda t: hvd.allreduce(t, op=hvd.Average), hvd.allgather, hvd.alltoall,
                      lambda t: hvd.broadcast(t, 0), hvd.reducescatter):
        tensor = leaf(size, start=1.0)
        result = (operation(tensor) ** 3).sum()
        first, = torch.autograd.grad(result, tensor, create_graph=True)
        assert first.requires_grad
        (first ** 2).sum().backward()
        assert tensor.grad is not None and tensor.grad.abs().sum() > 0 or rank != 0


def test_a_tensor_without_gradient_gives_one_without(hvd):
    assert not hvd.allreduce(torch.ones(2)).requires_grad
    assert not hvd.allgather(torch.ones(2)).requires_grad
    with torch.no_grad():
        assert not hvd.allreduce(leaf(2)).requires_grad


def test_compression_keeps_the_gradient(hvd, size):
    tensor = torch.ones(3, requires_grad=True)
    hvd.allreduce(tensor, compression=hvd.Compression.fp16, op=hvd.Sum).sum().backward()
    assert torch.equal(tensor.grad, torch.full((3,), float(size)))
