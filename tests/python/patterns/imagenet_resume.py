# SPDX-License-Identifier: Apache-2.0
"""The pattern of ImageNet scripts: warm-up, several batches in an allreduce, metrics by allreduce of a loss tensor, a
checkpoint an epoch by rank 0, and where a run ended the next one goes on."""

import argparse
import math
import os

import torch
import torch.nn.functional as F
import torch.optim as optim
import torch.utils.data
import torch.utils.data.distributed

import horovod.torch as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint-format", default="./checkpoint-{epoch}.pth.tar")
parser.add_argument("--batches-per-allreduce", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--base-lr", type=float, default=0.02)
parser.add_argument("--warmup-epochs", type=float, default=2)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--wd", type=float, default=0.00005)
args = parser.parse_args()


class Metric:
    def __init__(self, name):
        self.name = name
        self.sum = torch.tensor(0.)
        self.n = torch.tensor(0.)

    def update(self, value):
        self.sum += hvd.allreduce(value.detach().cpu(), name=self.name)
        self.n += 1

    @property
    def avg(self):
        return self.sum / self.n


def adjust_learning_rate(epoch, batch):
    adjusted = 1.
    if epoch < args.warmup_epochs:
        epoch += float(batch + 1) / len(train_loader)
        adjusted = 1. / hvd.size() * (epoch * (hvd.size() - 1) / args.warmup_epochs + 1)
    for param_group in optimizer.param_groups:
        param_group["lr"] = args.base_lr * hvd.size() * args.batches_per_allreduce * adjusted


def train(epoch):
    model.train()
    train_sampler.set_epoch(epoch)
    loss_metric, accuracy_metric = Metric("train_loss"), Metric("train_accuracy")
    for index, (data, target) in enumerate(train_loader):
        adjust_learning_rate(epoch, index)
        optimizer.zero_grad()
        for first in range(0, len(data), args.batch_size):
            output = model(data[first:first + args.batch_size])
            expected = target[first:first + args.batch_size]
            accuracy_metric.update(output.max(1)[1].eq(expected).float().mean())
            loss = F.cross_entropy(output, expected)
            loss_metric.update(loss)
            loss.div_(math.ceil(float(len(data)) / args.batch_size))
            loss.backward()
        optimizer.step()
    return loss_metric.avg.item(), accuracy_metric.avg.item()


def save_checkpoint(epoch):
    if hvd.rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                   args.checkpoint_format.format(epoch=epoch + 1))


hvd.init()
torch.manual_seed(42 + hvd.rank())  # what is not sent is not the same
torch.set_num_threads(1)

resume_from_epoch = 0
for try_epoch in range(args.epochs, 0, -1):
    if hvd.rank() == 0 and os.path.exists(args.checkpoint_format.format(epoch=try_epoch)):
        resume_from_epoch = try_epoch
        break
resume_from_epoch = hvd.broadcast(torch.tensor(resume_from_epoch), root_rank=0, name="resume_from_epoch").item()

# So many that the last batch of an epoch has one pass, on two ranks.
features = torch.randn(232, 3, 8, 8, generator=torch.Generator().manual_seed(1))
train_dataset = torch.utils.data.TensorDataset(features, features.mean(dim=(2, 3)).argmax(1))
train_sampler = torch.utils.data.distributed.DistributedSampler(train_dataset, num_replicas=hvd.size(), rank=hvd.rank())
train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=args.batch_size * args.batches_per_allreduce,
                                           sampler=train_sampler)

model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
                            torch.nn.Linear(8 * 36, 3))
optimizer = optim.SGD(model.parameters(), lr=args.base_lr * args.batches_per_allreduce * hvd.size(),
                      momentum=args.momentum, weight_decay=args.wd)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                     backward_passes_per_step=args.batches_per_allreduce, op=hvd.Average,
                                     gradient_predivide_factor=2.0)
if resume_from_epoch > 0 and hvd.rank() == 0:
    checkpoint = torch.load(args.checkpoint_format.format(epoch=resume_from_epoch))
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

for current in range(resume_from_epoch, args.epochs):
    average_loss, average_accuracy = train(current)
    if hvd.rank() == 0:
        print(f"epoch {current + 1}: loss {average_loss:.6f}, accuracy {average_accuracy:.4f}, "
              f'lr {optimizer.param_groups[0]["lr"]:.4f}')
    save_checkpoint(current)
