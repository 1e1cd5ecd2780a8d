"""WideDeepDataset: samples of the files in a folder, with lines of Criteo: label, 13 numbers, 26 categories, by tabs."""
import pathlib
import zlib

from model import DENSE, IDS


class WideDeepDataset:
    def __init__(self, data_path):
        self.files = sorted(pathlib.Path(data_path).iterdir())

    def __call__(self):
        for file in self.files:
            for line in file.read_text().splitlines():
                label, *fields = line.split("\t")
                numbers = [float(f or 0) / 100 for f in fields[:DENSE]]
                ids = [zlib.crc32(f"{i}:{f}".encode()) % IDS for i, f in enumerate(fields[DENSE:])]
                yield [numbers, *([i] for i in ids), [int(label)]]
