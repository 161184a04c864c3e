#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many images a second this job trains on: a model of torchvision, random images, and nothing to load.

    srun --horovod -N2 --ntasks-per-node=4 python3 synthetic_benchmark.py --model resnet50

Prints the lines that Horovod's benchmark of this name prints: a rank's rate in each iteration, then the mean of a rank
and of all together, with 1.96 standard deviations. It calls nothing that Horovod 0.28.1 does not have.

Needs PyTorch 1.13 or later, and torchvision for all models but "tiny".
"""

import argparse
import difflib
import statistics
import sys
import time

import horovod.torch as hvd
import torch
import torch.nn.functional as F

CLASSES = 1000


def parse():
    parser = argparse.ArgumentParser(description="Measures how many images a second this job trains on.",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", default="resnet50", help='of torchvision; or "tiny", which needs no torchvision')
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="images in a rank's batch")
    parser.add_argument("--image-size", type=int, default=224, metavar="N", help="pixels of an edge")
    parser.add_argument("--num-warmup-batches", type=int, default=10, metavar="N", help="batches that do not count")
    parser.add_argument("--num-batches-per-iter", type=int, default=10, metavar="N", help="batches in an iteration")
    parser.add_argument("--num-iters", type=int, default=10, metavar="N", help="iterations, each with a line")
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel as 16-bit floats")
    parser.add_argument("--use-adasum", action="store_true", help="combine by Adasum instead of averaging")
    parser.add_argument("--no-cuda", action="store_true", help="use no GPU")
    options = parser.parse_args()
    for name in ("batch_size", "image_size", "num_batches_per_iter", "num_iters"):
        if getattr(options, name) < 1:
            parser.error(f'--{name.replace("_", "-")} is {getattr(options, name)}; it is a number, at least 1')
    return options


def end(text):
    """Ends this rank; rank 0 says why, as it is the same for all."""
    if hvd.rank() == 0:
        print(f"synthetic_benchmark.py: {text}", file=sys.stderr, flush=True)
    sys.exit(1)


def tiny():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 7, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
        torch.nn.Linear(8 * 4 * 4, CLASSES))


def network(name):
    if name == "tiny":
        return tiny()
    try:
        from torchvision import models
    except ImportError as error:
        end(f"--model {name} is one of torchvision, which cannot be imported: {error}. Debian has it: apt-get install "
            "python3-torchvision; --model tiny needs none")
    names = [known for known, value in vars(models).items() if known.islower() and callable(value)]
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        end(f'torchvision has no model "{name}"' + (f'; did you mean "{near[0]}"?' if near else ""))
    return getattr(models, name)()


class Benchmark:
    def __init__(self, options):
        self.options = options
        self.device = torch.device("cpu")
        if torch.cuda.is_available() and hvd.cuda_built() and not options.no_cuda:
            self.device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
            torch.cuda.set_device(self.device)
            torch.backends.cudnn.benchmark = True
        self.model = network(options.model).to(self.device)
        # Averaging over more ranks allows for larger steps; Adasum finds their length itself.
        scale = 1 if options.use_adasum else hvd.size()
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(self.model.parameters(), lr=0.01 * scale),
            named_parameters=self.model.named_parameters(),
            compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
            op=hvd.Adasum if options.use_adasum else hvd.Average)
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(self.optimizer, root_rank=0)
        pixels = options.image_size
        self.images = torch.randn(options.batch_size, 3, pixels, pixels, device=self.device)
        self.labels = torch.randint(CLASSES, (options.batch_size,), device=self.device)

    def step(self):
        self.optimizer.zero_grad()
        outputs = self.model(self.images)
        outputs = getattr(outputs, "logits", outputs)  # of models that have an auxiliary classifier
        F.cross_entropy(outputs, self.labels).backward()
        self.optimizer.step()

    def seconds(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    def run(self):
        options, device = self.options, "GPU" if self.device.type == "cuda" else "CPU"
        log(f"Model: {options.model}")
        log(f"Batch size: {options.batch_size}")
        log(f"Number of {device}s: {hvd.size()}")
        log("Running warmup...")
        self.seconds(options.num_warmup_batches)
        log("Running benchmark...")
        mine, total = [], []
        for number in range(options.num_iters):
            rate = options.batch_size * options.num_batches_per_iter / self.seconds(options.num_batches_per_iter)
            mine.append(rate)
            total.append(hvd.allreduce(torch.tensor(rate), op=hvd.Sum, name="rate").item())
            log(f"Iter #{number}: {rate:.1f} img/sec per {device}")
        log(f"Img/sec per {device}: {with_deviation(mine)}")
        log(f"Total img/sec on {hvd.size()} {device}(s): {with_deviation(total)}")


def with_deviation(rates):
    return f"{statistics.fmean(rates):.1f} +-{1.96 * statistics.pstdev(rates):.1f}"


def log(text):
    if hvd.rank() == 0:
        print(text, flush=True)


def main():
    options = parse()
    hvd.init()
    Benchmark(options).run()
    hvd.shutdown()


if __name__ == "__main__":
    main()
