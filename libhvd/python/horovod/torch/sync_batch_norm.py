# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNorm: batch normalisation over the batches of all ranks.

Ranks may have batches of different sizes. Written in plain tensor operations, so it works on host memory: forward sums
counts, values and squares over the ranks in one allreduce; backward sums what the gradient of mean and variance need.
"""

from typing import Any, Optional, Tuple

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from horovod.common.basics import HorovodBasics
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch import _operations
from horovod.torch._async import Sum
from horovod.torch._operations import synchronize

_basics = HorovodBasics()


def _per_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, *([1] * (like.dim() - 2)))


def _all_but_channels(tensor: torch.Tensor) -> Tuple[int, ...]:
    return (0, *range(2, tensor.dim()))


def _summed(tensor: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    return synchronize(_operations.allreduce(tensor, True, None, Sum, 1.0, 1.0, process_set))


class _Normalize(Function):
    """(input - mean) / deviation over all ranks, with the mean, the variance (biased) and the count."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, eps: float,
                process_set: ProcessSet) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        # Sums of squares lose digits where the mean is large against the deviation: so in double precision.
        values = tensor.double()
        dims = _all_but_channels(tensor)
        channels = tensor.shape[1]
        count = torch.tensor([tensor.numel() // max(channels, 1)], dtype=torch.float64)
        sums = _summed(torch.cat([count, values.sum(dims), (values * values).sum(dims)]), process_set)
        total = sums[0]
        mean = sums[1:channels + 1] / total
        variance = (sums[channels + 1:] / total - mean * mean).clamp_(min=0)
        scale = (variance + eps).rsqrt()
        normal = (values - _per_channel(mean, tensor)) * _per_channel(scale, tensor)
        normal = normal.to(tensor.dtype)
        ctx.save_for_backward(normal, scale, total)
        ctx.process_set = process_set
        ctx.mark_non_differentiable(mean, variance, total)
        return normal, mean, variance, total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor, *_: Any) -> Tuple[Optional[torch.Tensor], None, None]:
        normal, scale, total = ctx.saved_tensors
        grads, values = grad.double(), normal.double()
        dims = _all_but_channels(grad)
        sums = _summed(torch.cat([grads.sum(dims), (grads * values).sum(dims)]), ctx.process_set) / total
        of_mean, of_scale = sums.split(len(scale))
        centred = grads - _per_channel(of_mean, grad) - values * _per_channel(of_scale, grad)
        result = centred * _per_channel(scale, grad)
        return result.to(grad.dtype), None, None


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of (N, C, ...) over the batches of all ranks, which may differ in N. In evaluation, and on
    one rank, as torch.nn.BatchNorm does.

    Args:
        num_features: C.
        eps: what is added to the variance.
        momentum: how fast running mean and variance follow; None: plain averages over all batches.
        affine: with learnable weight and bias.
        track_running_stats: keep running mean and variance; without them evaluation uses the batch's, too.
        process_set: the ranks that take part.

    Raises (forward): ValueError for fewer than two dimensions; HorovodInternalError if ranks disagree or one is lost.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: Optional[float] = 0.1, affine: bool = True,
                 track_running_stats: bool = True, process_set: ProcessSet = global_process_set) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.process_set = process_set

    def _check_input_dim(self, tensor: torch.Tensor) -> None:
        if tensor.dim() < 2:
            raise ValueError(f"SyncBatchNorm takes tensors of at least 2 dimensions (N, C, ...), not {tensor.dim()}")
        if tensor.shape[1] != self.num_features:
            raise ValueError(f"SyncBatchNorm was made for {self.num_features} channels; the tensor has "
                             f"{tensor.shape[1]}")

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        """Normalises a tensor (N, C, ...); the result has its shape and type."""
        self._check_input_dim(tensor)
        batch_stats = self.training or not self.track_running_stats
        if not batch_stats or not _basics.is_initialized() or self.process_set.size() == 1:
            return super().forward(tensor)
        normal, mean, variance, total = _Normalize.apply(tensor, self.eps, self.process_set)
        if self.training and self.track_running_stats:
            self._track(mean, variance, float(total))
        if self.affine:
            normal = normal * _per_channel(self.weight, tensor) + _per_channel(self.bias, tensor)
        return normal

    def _track(self, mean: torch.Tensor, variance: torch.Tensor, total: float) -> None:
        with torch.no_grad():
            self.num_batches_tracked += 1
            follow = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
            unbiased = variance * (total / max(total - 1, 1))
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), follow)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), follow)
