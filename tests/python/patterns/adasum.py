# SPDX-License-Identifier: Apache-2.0
"""The pattern of scripts with --use-adasum: op=hvd.Adasum, a learning rate that is not scaled, one that a scheduler
changes, and fp16 compression."""

import torch
import torch.nn.functional as F
import torch.optim as optim

import horovod.torch as hvd

hvd.init()
torch.manual_seed(7)
torch.set_num_threads(1)
use_adasum = True
lr_scaler = hvd.size() if not use_adasum else 1

model = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
truth = torch.nn.Linear(10, 1)
optimizer = optim.SGD(model.parameters(), lr=0.05 * lr_scaler, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                     compression=hvd.Compression.fp16 if hvd.size() > 2 else hvd.Compression.none,
                                     op=hvd.Adasum if use_adasum else hvd.Average)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.5)

torch.manual_seed(100 + hvd.rank())
losses = []
for step in range(60):
    data = torch.randn(16, 10)
    optimizer.zero_grad()
    loss = F.mse_loss(model(data), truth(data).detach())
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(hvd.allreduce(loss.detach(), name="loss").item())

weights = hvd.allgather(torch.cat([p.detach().reshape(-1) for p in model.parameters()])[None], name="weights")
if hvd.rank() == 0:
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at last, lr {scheduler.get_last_lr()[0]:.5f}")
    print(f"{len(weights)} ranks, weights are {'equal' if bool((weights == weights[0]).all()) else 'unlike'}")
