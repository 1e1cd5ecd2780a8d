"""Process 1 fails after all have met; the others would run for ever."""
import sys
import time

import paddle.distributed as dist

dist.init_parallel_env()
if dist.get_rank() == 1:
    print("the cause", flush=True)
    sys.exit(3)
while True:
    time.sleep(1)
