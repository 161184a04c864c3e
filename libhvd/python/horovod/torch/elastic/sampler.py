# SPDX-License-Identifier: Apache-2.0
"""ElasticSampler: each rank's share of a data set, without what has been processed in this epoch already."""

import math
import random
from typing import Any, Dict, Iterator, List, Sequence, Set

import torch.utils.data

from horovod.common.basics import HorovodBasics

_basics = HorovodBasics()


class ElasticSampler(torch.utils.data.Sampler):
    """Indices of a data set, shared out among the ranks.

    Call record_batch() after each batch, and set_epoch() at the end of an epoch. If the number of remaining indices is
    no multiple of the number of ranks, the first ones are given out twice.

    Args:
        dataset: anything with a length.
        shuffle: in another order in each epoch, the same on all ranks.
        seed: for that order; the same on all ranks.

    Attributes:
        epoch, processed_indices: what a checkpoint needs; see state_dict().
    """

    def __init__(self, dataset: Sequence[Any], shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_indices: Set[int] = set()
        self.num_replicas = 0
        self.rank = 0
        self.remaining_indices: List[int] = []
        self.num_samples = 0
        self.total_size = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch with all indices."""
        self.epoch = epoch
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Notes that this rank has processed its batch number batch_idx, counted from 0 since the last reset."""
        self.record_indices(self.get_indices(batch_idx, batch_size))

    def record_indices(self, indices: Sequence[int]) -> None:
        """Notes that these indices have been processed."""
        self.processed_indices.update(indices)

    def get_indices(self, batch_idx: int, batch_size: int) -> List[int]:
        """The indices of this rank's batch number batch_idx."""
        start = batch_idx * batch_size
        return self._mine()[start:start + batch_size]

    def state_dict(self) -> Dict[str, Any]:
        """Epoch and processed indices."""
        return {"epoch": self.epoch, "processed_indices": set(self.processed_indices)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Goes on from there; shares out what remains."""
        self.epoch = state_dict["epoch"]
        self.processed_indices = set(state_dict["processed_indices"])
        self.reset()

    def reset(self) -> None:
        """Shares out the remaining indices among the ranks that there are now."""
        self.num_replicas = _basics.size()
        self.rank = _basics.rank()
        self.remaining_indices = [index for index in range(len(self.dataset)) if index not in self.processed_indices]
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(self.remaining_indices)
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def _mine(self) -> List[int]:
        indices = self.remaining_indices
        while indices and len(indices) < self.total_size:
            indices = indices + indices[:self.total_size - len(indices)]
        return indices[self.rank:self.total_size:self.num_replicas]

    def __iter__(self) -> Iterator[int]:
        return iter(self._mine())

    def __len__(self) -> int:
        return self.num_samples
