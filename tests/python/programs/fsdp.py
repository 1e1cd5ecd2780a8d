"""torch's own FSDP over Gloo: parameters in shards, a gradient that all have, and the sum of what each rank has is the whole model.  At its
first start rank 1 is killed behind the first step."""
import os
import signal

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank, size, restarts = dist.get_rank(), dist.get_world_size(), os.environ["TORCHELASTIC_RESTART_COUNT"]
torch.manual_seed(0)
whole = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
model.load_state_dict(whole.state_dict())
mesh = dist.device_mesh.init_device_mesh("cpu", (size,))
fully_shard(model, mesh=mesh)
own = sum(p.to_local().numel() for p in model.parameters())
optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, whole)]
data = torch.randn(5, size, 8, 8, generator=torch.Generator().manual_seed(1))
for step in range(5):
    for m, optimizer, x in (model, optimizers[0], data[step, rank]), (whole, optimizers[1], data[step].flatten(0, 1)):
        optimizer.zero_grad()
        m(x).pow(2).mean().backward()
        optimizer.step()
    if step == 0 and rank == 1 and restarts == "0" and os.environ.get("FAILS"):
        os.kill(os.getpid(), signal.SIGKILL)
total = torch.tensor([own])
dist.all_reduce(total)
assert size == 1 or own < total.item() == sum(p.numel() for p in whole.parameters())
for a, b in zip(model.parameters(), whole.parameters()):
    torch.testing.assert_close(a.full_tensor(), b)
print(f"rank {rank} of {size}, {restarts} restarts: as one process", flush=True)
dist.destroy_process_group()
