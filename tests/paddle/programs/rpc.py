"""Every process calls a function in every process, itself included."""
import os

import paddle.distributed.rpc as rpc


def double(x):
    return 2 * x, int(os.environ["PADDLE_TRAINER_ID"])


rank, size = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_TRAINERS_NUM"])
rpc.init_rpc(f"worker{rank}")
answers = [rpc.rpc_sync(f"worker{i}", double, args=(21 + i,)) for i in range(size)]
print(f"rank {rank} of {size} heard {answers}", flush=True)
rpc.shutdown()
