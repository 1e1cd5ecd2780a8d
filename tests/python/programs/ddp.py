"""torch's own DDP over Gloo, as torchrun's documentation has it: what the launcher sets is all that it knows.  At its first start
rank 1 ends with 9 behind the first step, with FAILS; with LOSES two wait for one to be lost."""
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
assert (rank, size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
while size == 2 and os.environ.get("LOSES"):
    dist.all_reduce(torch.zeros(1))
    print("both are here", flush=True)
    time.sleep(0.1)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(rank)
for step in range(5):
    x = torch.randn(8, 4, generator=generator)
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
    if step == 0 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ.get("FAILS"):
        os._exit(9)
sums = torch.cat([p.detach().flatten() for p in model.parameters()])
theirs = [torch.zeros_like(sums) for _ in range(size)]
dist.all_gather(theirs, sums)
assert all(torch.equal(t, sums) for t in theirs)
print(f"rank {rank} of {size}, {os.environ['TORCHELASTIC_RESTART_COUNT']} restarts: the same", flush=True)
dist.destroy_process_group()
