# SPDX-License-Identifier: Apache-2.0
"""Every operation against plain torch: values, types, shapes, and what is asynchronous about them."""

import gc

import pytest
import torch

TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def of_rank(rank, dtype, shape=(5, 3)):
    """What rank puts in: small integers, which all types have."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 3 + rank) % 4 + 1).reshape(shape).to(dtype)


def reduced(op, size, dtype, hvd, shape=(5, 3)):
    all_of_them = torch.stack([of_rank(rank, torch.float64, shape) for rank in range(size)])
    if op == hvd.Sum:
        result = all_of_them.sum(0)
    elif op == hvd.Average:
        result = all_of_them.sum(0) / size
        result = result if dtype.is_floating_point else result.trunc()
    else:
        result = {hvd.Min: lambda t: t.amin(0), hvd.Max: lambda t: t.amax(0), hvd.Product: lambda t: t.prod(0)}[op](
            all_of_them)
    return result.to(dtype)


def assert_same(result, expected, op, hvd):
    """Averages may be divided or multiplied by the reciprocal: one rounding. The rest is exact."""
    tolerance = {} if op == hvd.Average else {"rtol": 0, "atol": 0}
    torch.testing.assert_close(result, expected, **tolerance)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", ["Sum", "Average", "Min", "Max", "Product"])
def test_allreduce_is_what_torch_computes(hvd, rank, size, op, dtype):
    op = getattr(hvd, op)
    tensor, expected = of_rank(rank, dtype), reduced(op, size, dtype, hvd)
    before = tensor.clone()
    for result in (hvd.allreduce(tensor, op=op), hvd.synchronize(hvd.allreduce_async(tensor, op=op)),
                   *hvd.grouped_allreduce([tensor], op=op)):
        assert_same(result, expected, op, hvd)
        assert torch.equal(tensor, before)
    for function in (hvd.allreduce_, lambda t, op: hvd.synchronize(hvd.allreduce_async_(t, op=op)),
                     lambda t, op: hvd.grouped_allreduce_([t], op=op)[0]):
        changed = tensor.clone()
        assert function(changed, op=op) is changed
        assert_same(changed, expected, op, hvd)


def test_bools_are_or_ed_and_and_ed(hvd, rank, size):
    mine = torch.tensor([rank == 0, True, False])
    assert hvd.allreduce(mine, op=hvd.Sum).tolist() == [True, True, False]
    assert hvd.allreduce(mine, op=hvd.Product).tolist() == [size == 1, True, False]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_adasum_of_equal_vectors_is_the_vector(hvd, dtype):
    tensor = torch.tensor([1.0, 2.0, -4.0], dtype=dtype)
    assert torch.allclose(hvd.allreduce(tensor, op=hvd.Adasum), tensor)


def test_adasum_of_orthogonal_vectors_is_their_sum(hvd, rank, size):
    tensor = torch.zeros(size)
    tensor[rank] = rank + 1
    assert torch.allclose(hvd.allreduce(tensor, op=hvd.Adasum), torch.arange(1.0, size + 1))


def test_allreduce_scales_before_and_after(hvd, size):
    result = hvd.allreduce(torch.full((3,), 2.0), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3)
    assert torch.equal(result, torch.full((3,), 3.0 * size))
    results = hvd.grouped_allreduce([torch.full((3,), 2.0)], op=hvd.Average, prescale_factor=0.5, postscale_factor=3)
    assert torch.equal(results[0], torch.full((3,), 3.0))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (2, 3, 4, 5), (100003,)], ids=str)
def test_tensors_of_any_shape_are_reduced(hvd, rank, size, shape):
    assert torch.equal(hvd.allreduce(of_rank(rank, torch.float32, shape), op=hvd.Sum),
                       reduced(hvd.Sum, size, torch.float32, hvd, shape))


def test_the_old_parameter_average_still_works_with_a_warning(hvd, size):
    with pytest.warns(DeprecationWarning, match="average is deprecated"):
        assert torch.equal(hvd.allreduce(torch.ones(2), False), torch.full((2,), float(size)))
    with pytest.warns(DeprecationWarning):
        assert torch.equal(hvd.allreduce(torch.ones(2), True), torch.ones(2))


def test_what_is_not_contiguous_is_reduced_as_it_looks(hvd, rank, size):
    base = of_rank(rank, torch.float32, (4, 6))
    for view in (base.t(), base[:, ::2], base[1:3], base[0].expand(3, 6)):
        assert torch.equal(hvd.allreduce(view, op=hvd.Sum),
                           sum(self_view(of_rank(r, torch.float32, (4, 6)), base, view) for r in range(size)))


def self_view(other, base, view):
    return torch.as_strided(other, view.size(), view.stride(), view.storage_offset())


@pytest.mark.parametrize("dtype", [*TYPES, torch.bool], ids=str)
def test_allgather_puts_ragged_tensors_together(hvd, rank, size, dtype):
    def of(r):
        return of_rank(r, dtype, (r, 2, 3))
    expected = torch.cat([of(r) for r in range(size)])
    for result in (hvd.allgather(of(rank)), hvd.synchronize(hvd.allgather_async(of(rank))),
                   hvd.grouped_allgather([of(rank)])[0]):
        assert result.dtype == dtype and torch.equal(result, expected)


def test_an_allgather_of_nothing_is_empty(hvd):
    result = hvd.allgather(torch.empty(0, 3))
    assert result.shape == (0, 3)


def test_a_group_may_have_tensors_of_different_types(hvd, rank, size):
    tensors = [torch.ones(3), torch.ones(2, dtype=torch.int64), torch.ones(1, dtype=torch.bfloat16)]
    for tensor, result in zip(tensors, hvd.grouped_allreduce(tensors, op=hvd.Sum)):
        assert torch.equal(result, tensor * size)
    first, second = hvd.grouped_allgather([torch.full((rank + 1,), rank), torch.full((1,), float(rank))])
    assert first.tolist() == [r for r in range(size) for _ in range(r + 1)]
    assert second.tolist() == [float(r) for r in range(size)]


@pytest.mark.parametrize("dtype", [*TYPES, torch.bool], ids=str)
def test_broadcast_gives_all_the_roots_tensor(hvd, rank, size, dtype):
    for root in range(size):
        tensor, expected = of_rank(rank, dtype), of_rank(root, dtype)
        assert torch.equal(hvd.broadcast(tensor, root), expected)
        assert torch.equal(tensor, of_rank(rank, dtype))
        assert torch.equal(hvd.synchronize(hvd.broadcast_async(tensor, root)), expected)
        assert hvd.broadcast_(tensor, root) is tensor
        assert torch.equal(tensor, expected)
        again = of_rank(rank, dtype)
        assert hvd.synchronize(hvd.broadcast_async_(again, root)) is again
        assert torch.equal(again, expected)


@pytest.mark.parametrize("dtype", [*TYPES, torch.bool], ids=str)
def test_alltoall_sends_equal_shares_without_splits(hvd, rank, size, dtype):
    tensor = of_rank(rank, dtype, (2 * size, 3))
    result = hvd.alltoall(tensor)
    mine = slice(2 * rank, 2 * rank + 2)
    assert torch.equal(result, torch.cat([of_rank(r, dtype, (2 * size, 3))[mine] for r in range(size)]))


@pytest.mark.parametrize("kind", ["list", "int32", "int64"])
def test_alltoall_sends_what_splits_say_and_tells_what_came(hvd, rank, size, kind):
    def splits_of(r):
        return [(r + to) % 3 for to in range(size)]

    def rows_of(r):
        return torch.arange(sum(splits_of(r))) + 100 * r

    splits = splits_of(rank) if kind == "list" else torch.tensor(splits_of(rank), dtype=getattr(torch, kind))
    expected = torch.cat([rows_of(r).split(splits_of(r))[rank] for r in range(size)])
    for result, received in (hvd.alltoall(rows_of(rank), splits),
                             hvd.synchronize(hvd.alltoall_async(rows_of(rank), splits))):
        assert torch.equal(result, expected)
        assert received.tolist() == [splits_of(r)[rank] for r in range(size)]
        assert received.dtype == (torch.int64 if kind == "int64" else torch.int32)


@pytest.mark.parametrize("op", ["Sum", "Average", "Min", "Max", "Product"])
def test_reducescatter_gives_each_rank_its_rows(hvd, rank, size, op):
    op = getattr(hvd, op)
    rows = 2 * size + 1
    whole = reduced(op, size, torch.float32, hvd, (rows, 3))
    start = sum(3 if r == 0 else 2 for r in range(rank))
    expected = whole[start:start + (3 if rank == 0 else 2)]
    tensor = of_rank(rank, torch.float32, (rows, 3))
    for result in (hvd.reducescatter(tensor, op=op), hvd.synchronize(hvd.reducescatter_async(tensor, op=op)),
                   hvd.grouped_reducescatter([tensor, tensor], op=op)[1],
                   hvd.synchronize(hvd.grouped_reducescatter_async([tensor], op=op))[0]):
        assert_same(result, expected, op, hvd)


def test_reducescatter_scales_and_averages_by_default(hvd, rank, size):
    tensor = torch.full((size, 2), 4.0)
    assert torch.equal(hvd.reducescatter(tensor, prescale_factor=0.5, postscale_factor=3.0), torch.full((1, 2), 6.0))


def test_a_sparse_tensor_is_reduced_by_entries(hvd, rank, size):
    tensor = torch.sparse_coo_tensor([[rank, 3], [0, 1]], [1.0, 2.0], (size + 4, 2))
    wait = hvd.sparse_allreduce_async(tensor, "sparse", hvd.Average)
    expected = sum(torch.sparse_coo_tensor([[r, 3], [0, 1]], [1.0, 2.0], (size + 4, 2)).to_dense() for r in range(size))
    assert torch.allclose(wait().to_dense(), expected / size)
    assert torch.allclose(hvd.synchronize(hvd.sparse_allreduce_async(tensor, None, hvd.Sum)).to_dense(), expected)
    empty = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.int64), torch.empty(0), (3,))
    assert torch.equal(hvd.sparse_allreduce_async(empty, "empty", hvd.Sum)().to_dense(), torch.zeros(3))


def test_operations_pair_by_name_whatever_the_order(hvd, rank, size):
    names = [f"order.{i}" for i in range(20)]
    tensors = {name: torch.full((3,), float(i)) for i, name in enumerate(names)}
    handles = {name: hvd.allreduce_async(tensors[name], name=name, op=hvd.Sum)
               for name in (names if rank % 2 else reversed(names))}
    for name in names:
        assert torch.equal(hvd.synchronize(handles[name]), tensors[name] * size)


def test_poll_is_false_until_all_ranks_have_submitted(hvd, rank, size):
    # The barrier keeps rank 0 from polling after the others have submitted.
    if rank == 0:
        handle = hvd.allreduce_async(torch.ones(2), name="polled", op=hvd.Sum)
        if size > 1:
            assert hvd.poll(handle) is False
    hvd.barrier()
    if rank != 0:
        handle = hvd.allreduce_async(torch.ones(2), name="polled", op=hvd.Sum)
    assert torch.equal(hvd.synchronize(handle), torch.full((2,), float(size)))
    assert hvd.synchronize(handle) is None
    with pytest.raises(ValueError, match="no operation with the handle"):
        hvd.poll(handle)


def test_tensors_nobody_refers_to_are_kept_until_the_operation_is_done(hvd, rank, size):
    handles = [hvd.allreduce_async(torch.full((1000,), float(i)), name=f"kept.{i}", op=hvd.Sum) for i in range(50)]
    gc.collect()
    for i, handle in enumerate(handles):
        assert torch.equal(hvd.synchronize(handle), torch.full((1000,), float(i * size)))


def test_results_are_not_copied_and_live_as_long_as_a_view_of_them(hvd, rank, size):
    from horovod.torch import _tensors
    gc.collect()
    before = len(_tensors._in_use)
    gathered = hvd.allgather(torch.full((4,), float(rank)))
    assert len(_tensors._in_use) == before + 1
    assert gathered.data_ptr() % 64 == 0
    gathered.add_(1)
    view = gathered[-2:]
    del gathered
    gc.collect()
    assert len(_tensors._in_use) == before + 1
    assert view.tolist() == [float(size)] * 2
    del view
    gc.collect()
    assert len(_tensors._in_use) == before


def test_join_waits_for_all_and_counts_as_zeros(hvd, rank, size):
    if rank != 0:
        for step in range(3):
            assert torch.equal(hvd.allreduce(torch.full((2,), 6.0), name=f"join.{step}", op=hvd.Sum),
                               torch.full((2,), 6.0 * (size - 1)))
        hvd.barrier()
    last = hvd.join(device=0)
    assert 0 <= last < size and (size == 1 or last != 0)
    assert hvd.allgather(torch.tensor([last])).unique().numel() == 1


@pytest.mark.parametrize("compression", ["none", "fp16", "bf16"])
def test_compression_sends_less_and_gives_the_type_back(hvd, rank, size, compression):
    compression = getattr(hvd.Compression, compression)
    for dtype in (torch.float32, torch.float64, torch.int32):
        tensor = of_rank(rank, dtype)
        for result in (hvd.allreduce(tensor, compression=compression, op=hvd.Sum),
                       hvd.grouped_allreduce([tensor], compression=compression, op=hvd.Sum)[0]):
            assert result.dtype == dtype and torch.equal(result, reduced(hvd.Sum, size, dtype, hvd))
    sent, context = compression.compress(torch.ones(2))
    assert sent.dtype in (torch.float32, torch.float16, torch.bfloat16)
    assert compression.decompress(sent, context).dtype == torch.float32


def test_process_sets_reduce_among_themselves(hvd, rank, size):
    if size == 1:
        pytest.skip("one rank")
    members = list(range(0, size, 2))
    process_set = hvd.add_process_set(members)
    assert process_set.ranks == members and process_set.size() == len(members)
    assert process_set.included() == (rank in members)
    if rank in members:
        assert process_set.rank() == members.index(rank)
        assert torch.equal(hvd.allreduce(torch.full((2,), float(rank)), op=hvd.Sum, process_set=process_set),
                           torch.full((2,), float(sum(members))))
        assert hvd.allgather(torch.tensor([rank]), process_set=process_set).tolist() == members
        assert hvd.broadcast(torch.tensor([rank]), members[-1], process_set=process_set).tolist() == [members[-1]]
        assert hvd.alltoall(torch.full((len(members),), rank), process_set=process_set).tolist() == members
        ones = torch.ones(len(members))
        assert hvd.reducescatter(ones, op=hvd.Sum, process_set=process_set).tolist() == [len(members)]
        assert hvd.broadcast_object(rank, members[0], process_set=process_set) == members[0]
        assert hvd.allgather_object(rank, process_set=process_set) == members
        hvd.barrier(process_set=process_set)
    else:
        with pytest.raises(ValueError, match="no member"):
            hvd.allreduce(torch.ones(2), process_set=process_set)
        with pytest.raises(ValueError):
            process_set.rank()
    with pytest.raises(ValueError, match="already"):
        hvd.add_process_set(members)
    assert hvd.remove_process_set(process_set) is True
    assert process_set.process_set_id is None and process_set.size() is None and process_set.included() is None
    assert hvd.remove_process_set(process_set) is False
    assert hvd.remove_process_set(hvd.global_process_set) is False
    assert hvd.global_process_set.ranks == list(range(size))


def test_init_adds_process_sets_and_shutdown_takes_their_ids(hvd, rank, size):
    hvd.shutdown()
    assert hvd.is_initialized() is False
    first = hvd.ProcessSet([0])
    hvd.init(process_sets=[first])
    assert (first.process_set_id > 0) == (size > 1) and first.included() == (rank == 0)
    hvd.init(process_sets=[first])
    hvd.shutdown()
    assert first.process_set_id is None and first.ranks == [0]
    hvd.init(process_sets="dynamic")
    assert torch.equal(hvd.allreduce(torch.ones(1), op=hvd.Sum), torch.tensor([float(size)]))
