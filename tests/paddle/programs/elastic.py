"""Steps of an all_reduce until the job has as many processes as the argument says; asked to stop, it stops."""
import os
import signal
import sys
import time

import paddle
import paddle.distributed as dist

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
dist.init_parallel_env()
size = dist.get_world_size()
while True:
    t = paddle.to_tensor([1.0])
    if size > 1:        # alone there is no group
        try:
            dist.all_reduce(t)
        except Exception:
            if "PATIENT" not in os.environ:
                raise
            time.sleep(600)
    print(f"step of {size}: {round(t.item())}", flush=True)
    if size == int(sys.argv[1]):
        break
    time.sleep(0.1)
