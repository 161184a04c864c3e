#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training with PyTorch: every rank holds the whole network and learns from its share of each epoch.

    python3 train.py                                            alone
    srun --horovod -N2 --ntasks-per-node=2 python3 train.py     on four ranks
    mpirun -n 4 python3 train.py                                without Slurm

What makes it distributed is marked (1) to (6) below; the rest is any training loop. It runs with Horovod 0.28.1 as well,
which lacks should_stop alone. Needs PyTorch 1.13 or later, and the files of Fashion-MNIST.

With --checkpoint FILE it can be cut off: told that the job's end is near, all ranks stop at the same step, rank 0 writes
FILE, and the exit status is 75: start it again, and it ends with the weights that it would have had anyway, bit for bit.
job_requeue.sbatch does so.
"""

import argparse
import gzip
import os
import platform
import sys
import time

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from torch.utils.data.distributed import DistributedSampler

DATA = "/usr/share/datasets/fashion-mnist"  # where Debian's package dataset-fashion-mnist has it
TEST_BATCH = 500
SHOW_SECONDS = 2.0
CUT_OFF = 75  # exit status: not done, start me again (EX_TEMPFAIL)


def parse():
    def at_least_one(text):
        value = int(text)
        if value < 1:
            raise ValueError
        return value
    at_least_one.__name__ = "number"  # what argparse calls it: invalid number value: 'x'

    parser = argparse.ArgumentParser(description="Trains a small network on Fashion-MNIST, on as many ranks as there "
                                     "are.", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=at_least_one, default=3, metavar="N", help="times to go through the data")
    parser.add_argument("--batch-size", type=at_least_one, default=64, metavar="N", help="pictures in a rank's batch")
    parser.add_argument("--lr", type=float, default=0.02, metavar="X",
                        help="learning rate of one rank; it grows to so many times that as there are ranks")
    parser.add_argument("--warmup-epochs", type=float, default=1.0, metavar="X", help="how long it takes to grow")
    parser.add_argument("--momentum", type=float, default=0.9, metavar="X", help="momentum")
    parser.add_argument("--seed", type=int, default=1, metavar="N",
                        help="of the first weights and the order of pictures")
    parser.add_argument("--images", type=at_least_one, metavar="N", help="learn from the first N pictures alone")
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel as 16-bit floats")
    parser.add_argument("--checkpoint", metavar="FILE",
                        help="where rank 0 writes the state after every epoch, and when the job's end is near; if it is "
                        "there, go on from it")
    parser.add_argument("--stop-every", type=at_least_one, default=1, metavar="N",
                        help="ask after every N steps whether the job's end is near")
    parser.add_argument("--data", default=DATA, metavar="DIR", help="where the data set is")
    return parser.parse_args()


def end(text):
    """Ends this rank. Said once a node: its ranks see the same files."""
    if hvd.local_rank() == 0:
        print(f"train.py: {text}", file=sys.stderr, flush=True)
    sys.exit(1)


# ---- data ---------------------------------------------------------------------------------------


def read_idx(path, dimensions):
    """A file of bytes: 0, 0, 8 (the type), number of dimensions, each dimension as 4 bytes, data."""
    try:
        with gzip.open(path) as file:
            content = bytearray(file.read())
    except FileNotFoundError:
        end(f"{path} is not there. Debian has it: apt-get install dataset-fashion-mnist; --data names another place")
    except (OSError, EOFError) as error:
        end(f"{path}: {error}")
    shape = [int.from_bytes(content[at:at + 4], "big") for at in range(4, 4 + 4 * dimensions, 4)]
    start = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) - start != torch.Size(shape).numel():
        end(f"{path} is not the file it should be. Install its package again")
    return torch.frombuffer(content, dtype=torch.uint8, offset=start).reshape(shape)


def load(directory, name, count=None):
    """Pictures [n, 28, 28] and labels [n], both uint8: as they are on disk, for 54 MB become 216 as floats."""
    images = read_idx(os.path.join(directory, f"{name}-images-idx3-ubyte.gz"), 3)
    labels = read_idx(os.path.join(directory, f"{name}-labels-idx1-ubyte.gz"), 1)
    return images[:count], labels[:count]


def batch(images, labels, device):
    """Of mean 0 and deviation 1, about."""
    return (images.to(device).float().sub_(72.9).div_(90.0).unsqueeze(1), labels.to(device).long())


# ---- model --------------------------------------------------------------------------------------


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 5, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, stride=2), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(16 * 5 * 5, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


# ---- training -----------------------------------------------------------------------------------


def use_own_cores():
    """As many threads as are this rank's part: where two ranks may use the same cores, half of what torch would take.

    More than that would have threads of different ranks wait for each other, which costs far more than it gains.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return
    mine = os.sched_getaffinity(0)
    ranks = [cores for node, cores in hvd.allgather_object((platform.node(), mine)) if node == platform.node()]
    part = sum(1.0 / sum(core in cores for cores in ranks) for core in mine) / len(mine)
    torch.set_num_threads(max(1, int(torch.get_num_threads() * part + 1e-6)))


class Training:
    def __init__(self, options):
        self.options = options
        # The GPU of this rank, where Horovod can take tensors from it. It may see all of the node, or its own alone.
        self.device = torch.device("cpu")
        if torch.cuda.is_available() and hvd.cuda_built():
            self.device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
            torch.cuda.set_device(self.device)
        self.images, self.labels = load(options.data, "train", options.images)
        self.test_images, self.test_labels = load(options.data, "t10k")

        # (2) Each rank has its share of the pictures: another one in each epoch, as large as that of every other.
        self.sampler = DistributedSampler(self.labels, num_replicas=hvd.size(), rank=hvd.rank(), seed=options.seed)
        self.steps = -(-len(self.sampler) // options.batch_size)

        torch.manual_seed(options.seed)
        self.model = network().to(self.device)
        # (3) Gradients are averaged while the backward pass still computes others.
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(self.model.parameters(), lr=options.lr, momentum=options.momentum),
            named_parameters=self.model.named_parameters(),
            compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none)
        self.epochs_done, self.steps_done = self.resume()

    def run(self):
        """False if it was cut off."""
        self.should_stop()  # the first question: from here on Slurm's signals do not end this rank
        if hvd.rank() == 0:
            print(f"{hvd.size()} rank{'s' * (hvd.size() > 1)}, {self.options.batch_size} pictures each in a batch, "
                  f"{self.steps} steps an epoch, {torch.get_num_threads()} threads, {self.device.type}", flush=True)
        for epoch in range(self.epochs_done, self.options.epochs):
            start = time.monotonic()
            if not self.train(epoch):
                return False
            loss, accuracy = self.test()
            if hvd.rank() == 0:
                print(f"epoch {epoch + 1}/{self.options.epochs}  test loss {loss:.4f}  accuracy {accuracy:.4f}  "
                      f"after {time.monotonic() - start:.1f} s", flush=True)
            self.save(epoch + 1)
        return True

    def train(self, epoch):
        """An epoch, or what is left of it. False if it was cut off, and saved."""
        self.model.train()
        self.sampler.set_epoch(epoch)
        start = shown = time.monotonic()
        images = 0
        done, self.steps_done = self.steps_done, 0
        for step, indices in enumerate(torch.tensor(list(self.sampler)).split(self.options.batch_size), 1):
            if step <= done:
                continue
            self.set_learning_rate(epoch + step / self.steps)
            inputs, labels = batch(self.images[indices], self.labels[indices], self.device)
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(inputs), labels)
            loss.backward()
            self.optimizer.step()
            images += len(indices) * hvd.size()
            now = time.monotonic()
            if hvd.rank() == 0 and (step == self.steps or now - shown >= SHOW_SECONDS):
                shown = now
                print(f"epoch {epoch + 1}/{self.options.epochs}  step {step}/{self.steps}  loss {loss.item():.4f}  "
                      f"{images / (now - start):.0f} images/s", flush=True)
            if step < self.steps and step % self.options.stop_every == 0 and self.should_stop():
                self.save(epoch, step)
                if hvd.rank() == 0:
                    print(f"epoch {epoch + 1}/{self.options.epochs}  step {step}/{self.steps}  cut off; start again to "
                          f"go on from {self.options.checkpoint}", flush=True)
                return False
        return True

    def should_stop(self):
        """Is the job's end near? All ranks get the same answer. Without a checkpoint it is no use to know."""
        return self.options.checkpoint is not None and hasattr(hvd, "should_stop") and hvd.should_stop()

    def set_learning_rate(self, epochs):
        """(4) N ranks see N batches in a step, and can go N times as far; not at once, as the first steps are wild."""
        grown = min(1.0, epochs / self.options.warmup_epochs) if self.options.warmup_epochs > 0 else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.lr * (1 + (hvd.size() - 1) * grown)

    @torch.no_grad()
    def test(self):
        """(5) Each rank tests every size-th picture. Returns loss and accuracy over all of them."""
        self.model.eval()
        sums = torch.zeros(3, dtype=torch.float64)
        for indices in torch.arange(hvd.rank(), len(self.test_labels), hvd.size()).split(TEST_BATCH):
            inputs, labels = batch(self.test_images[indices], self.test_labels[indices], self.device)
            outputs = self.model(inputs)
            sums += torch.tensor([F.cross_entropy(outputs, labels, reduction="sum").item(),
                                  (outputs.argmax(1) == labels).sum().item(), len(indices)], dtype=torch.float64)
        loss, correct, count = hvd.allreduce(sums, op=hvd.Sum, name="test").tolist()
        return loss / count, correct / count

    def resume(self):
        """(6) All ranks start from rank 0's state: from the checkpoint, if it has one.

        Returns how many epochs are done, and how many steps of the next. Of other ranks or batches than those that it
        was written by, as many steps as come nearest.
        """
        state = {"epochs": 0, "images": 0, "random": []}
        path = self.options.checkpoint
        if hvd.rank() == 0 and path and os.path.exists(path):
            state = torch.load(path, map_location="cpu")
            self.model.load_state_dict(state.pop("model"))
            self.optimizer.load_state_dict(state.pop("optimizer"))
            steps = f" and {state['images']} pictures" if state["images"] else ""
            print(f"{path}: {state['epochs']} epoch{'s' * (state['epochs'] != 1)}{steps} done", flush=True)
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(self.optimizer, root_rank=0)
        state = hvd.broadcast_object({key: state[key] for key in ("epochs", "images", "random")}, root_rank=0,
                                     name="state")
        if len(state["random"]) == hvd.size():
            torch.set_rng_state(state["random"][hvd.rank()])
        return state["epochs"], state["images"] // (self.options.batch_size * hvd.size())

    def save(self, epochs, steps=0):
        """All that the next step depends on: weights, optimizer, place in the data, and each rank's random numbers
        (which this network does not use; one with dropout does). All ranks call it.

        Into the file's place when it is whole and on disk: a job may be ended at any moment.
        """
        path = self.options.checkpoint
        if not path:
            return
        random = hvd.allgather_object(torch.get_rng_state(), name="random")
        if hvd.rank() == 0:
            state = {"epochs": epochs, "images": steps * self.options.batch_size * hvd.size(), "random": random,
                     "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
            with open(path + ".new", "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(path + ".new", path)


def main():
    options = parse()
    hvd.init()  # (1) find the other ranks
    use_own_cores()
    done = Training(options).run()
    hvd.shutdown()
    sys.exit(0 if done else CUT_OFF)


if __name__ == "__main__":
    main()
