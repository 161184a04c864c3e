# SPDX-License-Identifier: Apache-2.0
"""The pattern of MNIST scripts where ranks have unlike amounts of data: a DataLoader with workers, hvd.join() after each
epoch, metrics averaged by allreduce, and no call of shutdown()."""

import argparse

import torch
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch.utils.data

import horovod.torch as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.02)
parser.add_argument("--seed", type=int, default=42)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=5)
        self.drop = nn.Dropout2d(0.1)
        self.fc1 = nn.Linear(4 * 4 * 4, 16)
        self.fc2 = nn.Linear(16, 4)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.drop(self.conv(x)), 2))
        x = F.relu(self.fc1(x.view(-1, 64)))
        return F.log_softmax(self.fc2(x), dim=1)


class Quarters(torch.utils.data.Dataset):
    """Pictures of 12 x 12 with one bright quarter, which is the label."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(4, (count,), generator=generator)
        self.pictures = torch.randn(count, 1, 12, 12, generator=generator)
        for picture, label in zip(self.pictures, self.labels.tolist()):
            top, left = 6 * (label // 2), 6 * (label % 2)
            picture[0, top:top + 6, left:left + 6] += 2

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.pictures[index], self.labels[index]


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


def train(epoch, model, optimizer, loader):
    model.train()
    for data, target in loader:
        optimizer.zero_grad()
        F.nll_loss(model(data), target).backward()
        optimizer.step()
    last = hvd.join()
    hvd.broadcast_parameters(model.state_dict(), root_rank=last)
    if hvd.rank() == 0:
        print(f"epoch {epoch}: rank 0 did {len(loader)} batches, rank {last} was the last")


def test(model, dataset):
    model.eval()
    with torch.no_grad():
        output = model(dataset.pictures)
    loss = metric_average(F.nll_loss(output, dataset.labels).item(), "avg_loss")
    accuracy = metric_average(output.argmax(1).eq(dataset.labels).float().mean().item(), "avg_accuracy")
    if hvd.rank() == 0:
        print(f"test set: average loss {loss:.4f}, accuracy {100 * accuracy:.2f} %")


def main():
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    kwargs = {"num_workers": 1}
    if "forkserver" in mp.get_all_start_methods() and hvd.cuda_built():
        kwargs["multiprocessing_context"] = "forkserver"
    train_dataset = Quarters(160 * (hvd.rank() + 1), seed=hvd.rank())
    loader = torch.utils.data.DataLoader(train_dataset, batch_size=16, shuffle=True, **kwargs)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.5)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    for epoch in range(1, args.epochs + 1):
        train(epoch, model, optimizer, loader)
        test(model, Quarters(200, seed=100 + hvd.rank()))


if __name__ == "__main__":
    main()
