"""Three sums over all processes: how many there are, who they are, and each of them once."""
import paddle
import paddle.distributed as dist

dist.init_parallel_env()
rank, size = dist.get_rank(), dist.get_world_size()
t = paddle.to_tensor([1.0, float(rank), 10.0 ** rank])
dist.all_reduce(t)
print(f"rank {rank} of {size} sums", [round(x) for x in t.tolist()], flush=True)
