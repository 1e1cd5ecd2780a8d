"""A DataLoader over paddlert.data: uneven files, without processes and with some, which stay or are started in each epoch."""
import importlib
import sys

from paddlert.data import Dataset

if __name__ == "__main__":
    name = sys.argv[1]
    loader = importlib.import_module("torch.utils.data" if name == "torch" else "paddle.io").DataLoader
    ours = importlib.import_module(f"paddlert.{name}")
    lines = {i: range(1000 * i, 1000 * i + n) for i, n in enumerate((7, 200, 93))}
    for i, ids in lines.items():
        with open(f"part-{i}", "w") as f:
            f.writelines(f"click:1 id:{k}\n" for k in ids)
    every = [k for ids in lines.values() for k in ids]
    # Paddle's own fails with persistent_workers for any IterableDataset.
    ways = [{"num_workers": n} for n in (0, 2, 3)] + [{"num_workers": 2, "persistent_workers": True}] * (name == "torch")
    for share in ("files", "mixed"):
        data = Dataset("part-*", "slots", slots=["id"], pad=1, batch=8, shuffle=50, seed=1, share=share)
        next(iter(data))                                   # a reader of this process, of which its children have nothing
        for how in ways:
            batches, epochs = loader(ours.Samples(data), batch_size=None, **how), []
            for _ in range(2):
                epochs.append([])
                for batch in batches:
                    epochs[-1] += batch["ids"].numpy()[:, 0].tolist()
            kinds = {k: str(v.dtype).rpartition(".")[2] for k, v in batch.items() if k != "dense"}
            assert sorted(epochs[0]) == sorted(epochs[1]) == every and epochs[0] != epochs[1], (share, how, epochs)
            assert kinds == {"labels": "float32", "ids": "int64"}, kinds
        print(share, len(ways))
