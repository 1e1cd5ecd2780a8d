"""Trains for a moment, and compares what TensorBoard reads with what the program printed."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([sys.argv[1], "--more", "--lines", "200000", "--test-lines", "100"], cwd=folder, capture_output=True, text=True,
                          timeout=150, check=True, env={"PATH": os.environ["PATH"], "PADDLERT_TENSORBOARD": "curves"})
    run, = (pathlib.Path(folder) / "curves").iterdir()
    curves = EventAccumulator(str(run)).Reload()
    printed = re.findall(r"loss: ([0-9.]+) auc: ([0-9.]+) examples/s: ([0-9]+)", done.stdout.split("TEST")[0])
    assert len(printed) > 1, done.stdout
    tags = sorted(curves.Tags()["scalars"])
    assert tags == ["auc", "examples_per_second", "loss"], tags
    for tag, column, within in (("loss", 0, 1e-5), ("auc", 1, 1e-5), ("examples_per_second", 2, 1)):
        points = curves.Scalars(tag)
        assert len(points) == len(printed), (tag, points)
        assert all(abs(p.value - float(row[column])) <= within for p, row in zip(points, printed)), (tag, points, printed)
        assert [p.step for p in points] == sorted({p.step for p in points}) and points[-1].step == 2000, points
        assert all(abs(a.wall_time - b.wall_time) < 600 for a, b in zip(points, points[1:]))
    print(f"{run.name}: {len(printed)} points of {', '.join(tags)}")
