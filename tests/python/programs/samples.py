"""A DataLoader over paddlert.data, without processes and with two."""
import importlib
import sys

from paddlert.data import Dataset

if __name__ == "__main__":
    name = sys.argv[1]
    loader = importlib.import_module("torch.utils.data" if name == "torch" else "paddle.io").DataLoader
    ours = importlib.import_module(f"paddlert.{name}")
    for i in range(3):
        with open(f"part-{i}", "w") as f:
            f.writelines(f"click:1 id:{100 * i + k}\n" for k in range(100))
    data = Dataset("part-*", "slots", slots=["id"], pad=1, batch=8, shuffle=50, seed=1)
    next(iter(data))                                       # a reader of this process, of which its children have nothing
    for workers in (0, 2):
        batches, epochs = loader(ours.Samples(data), batch_size=None, num_workers=workers), []
        for _ in range(2):
            epochs.append([])
            for batch in batches:
                epochs[-1] += batch["ids"].numpy()[:, 0].tolist()
        kinds = {k: str(v.dtype).rpartition(".")[2] for k, v in batch.items() if k != "dense"}
        print(workers, kinds, sorted(epochs[0]) == sorted(epochs[1]) == list(range(300)), epochs[0] != epochs[1])
