"""Workers of a job with servers meet by gloo, at the HTTP store of server 0; its servers then wait for ever, as Paddle's do."""
import os
import time

import paddle
from paddle.distributed import fleet

paddle.enable_static()      # with dynamic graphs Paddle leaves gloo out
role = fleet.PaddleCloudRoleMaker(is_collective=False)
role._generate_role()
if role._is_server():
    print(f"server {role._server_index()} of {role._server_num()}, gloo {os.environ['PADDLE_WITH_GLOO']}", flush=True)
    time.sleep(10 ** 6)
role._barrier("worker")
print(f"worker {role._worker_index()} met {role._all_gather(role._worker_index(), 'worker')}", flush=True)
role._barrier("worker")     # gloo's connections end with the process
