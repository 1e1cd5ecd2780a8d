"""The collective quick start in small: Fleet, data parallel, Momentum. Different data, the same weights in the end."""
import paddle
from paddle.distributed import fleet

fleet.init(is_collective=True)
rank = fleet.worker_index()
paddle.seed(7)
net = paddle.nn.Linear(8, 2)
optimizer = paddle.optimizer.Momentum(learning_rate=0.1, momentum=0.9, parameters=net.parameters())
optimizer = fleet.distributed_optimizer(optimizer)
net = fleet.distributed_model(net)
paddle.seed(100 + rank)
for batch in range(10):
    x = paddle.rand([32, 8])
    label = (x[:, 0:1] > 0.5).astype("int64")
    loss = paddle.nn.functional.cross_entropy(input=net(x), label=label)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    if rank == 0:
        print("[Epoch 0, batch %d] loss: %.5f" % (batch, float(loss)), flush=True)
weights = " ".join("%.5f" % w for w in net.parameters()[0].numpy().flatten())
print(f"worker {rank} of {fleet.worker_num()} weights {weights}", flush=True)
