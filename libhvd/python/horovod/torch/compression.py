# SPDX-License-Identifier: Apache-2.0
"""Compression of what is sent: floating types as 16 bits, and back.

A compressor is a class with two static methods; programs may bring their own. (The setting HOROVOD_WIRE rounds only
what crosses between nodes, without a copy on the host, and needs no change of a program.)
"""

from typing import Any, Optional, Tuple

import torch


class Compressor:
    """The interface: what compress() returns besides the tensor is given to decompress()."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """Returns (the tensor to send, a context for decompress())."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the received tensor as the type that was compressed."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, None]:
        """Returns (tensor, None)."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: None) -> torch.Tensor:
        """Returns the tensor."""
        return tensor


def _as_type(dtype: torch.dtype):
    class TypeCompressor(Compressor):
        """Sends floating tensors as another type; others as they are."""

        @staticmethod
        def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Optional[torch.dtype]]:
            """Returns (the tensor as the type that is sent, its own type)."""
            if not tensor.dtype.is_floating_point:
                return tensor, None
            return tensor.type(dtype), tensor.dtype

        @staticmethod
        def decompress(tensor: torch.Tensor, ctx: Optional[torch.dtype]) -> torch.Tensor:
            """Returns the tensor as its own type again."""
            return tensor if ctx is None else tensor.type(ctx)

    return TypeCompressor


class FP16Compressor(_as_type(torch.float16)):
    """Sends floating tensors as float16: half the bytes of float32, 11 bits of precision, largest number 65504."""


class BF16Compressor(_as_type(torch.bfloat16)):
    """Sends floating tensors as bfloat16: half the bytes of float32, 8 bits of precision, float32's range."""


class Compression:
    """The compressors to choose from: ``none``, ``fp16``, ``bf16``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
