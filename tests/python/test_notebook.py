"""examples/python/notebook.ipynb in Jupyter's kernel, in which tqdm is."""
import os
import pathlib

from wheel import ROOT, finish, package, python  # noqa: F401

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs/notebook.py"


def test_cells_run_twice_are_interrupted_and_run_after_a_restart(python):
    """Again in the same kernel, and in one that was restarted."""
    out, = finish(python("", PROGRAM, ROOT / "examples/python/notebook.ipynb", interpreter=os.environ["NOTEBOOK_PYTHON"]), seconds=500)
    assert out.splitlines() == ["{'ok'} True True", "True", "{'ok'} True True", "KeyboardInterrupt ok KeyboardInterrupt ok",
                                "{'ok'} True True"], out
