# SPDX-License-Identifier: Apache-2.0
"""The pattern of synthetic benchmarks: flat, a model of torchvision, with hvd.SyncBatchNorm, timed by timeit."""

import argparse
import timeit

import numpy as np
import torch
import torch.backends.cudnn as cudnn
import torch.optim as optim
from torch.nn import functional
from torchvision import models

import horovod.torch as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="resnet50")
parser.add_argument("--batch-size", type=int, default=2)
parser.add_argument("--pixels", type=int, default=32)
parser.add_argument("--iterations", type=int, default=1)
args = parser.parse_args()
cuda = torch.cuda.is_available() and hvd.cuda_built()

hvd.init()
if cuda:
    torch.cuda.set_device(hvd.local_rank())
cudnn.benchmark = True

model = getattr(models, args.model)(norm_layer=hvd.SyncBatchNorm)
lr_scaler = hvd.local_size() if cuda and hvd.nccl_built() else hvd.size()
optimizer = optim.SGD(model.parameters(), lr=0.01 * lr_scaler)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                     compression=hvd.Compression.fp16, op=hvd.Average)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

data = torch.randn(args.batch_size, 3, args.pixels, args.pixels)
target = torch.LongTensor(args.batch_size).random_() % 1000


def benchmark_step():
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(data), target)
    loss.backward()
    optimizer.step()


def log(text):
    if hvd.rank() == 0:
        print(text)


log(f"{args.model}: {sum(p.requires_grad for p in model.parameters())} gradients, {hvd.size()} ranks")
rates = []
for number in range(args.iterations):
    seconds = timeit.timeit(benchmark_step, number=1)
    rates.append(args.batch_size / seconds)
log(f"Total img/sec on {hvd.size()} CPU(s): {hvd.size() * np.mean(rates):.1f} +-{hvd.size() * 1.96 * np.std(rates):.1f}")
