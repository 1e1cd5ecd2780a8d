"""`python -m paddlerun ...` for `python -m paddle.distributed.launch ...`: runs the program paddlerun, which is
beside this interpreter or in PATH, with this interpreter for the training script."""
import os
import shutil
import sys


def main():
    beside = os.path.join(os.path.dirname(sys.executable), "paddlerun")
    program = beside if os.access(beside, os.X_OK) else shutil.which("paddlerun")
    if not program:
        sys.exit("paddlerun: no program paddlerun beside this interpreter or in PATH, expected it from `make install`")
    words = sys.argv[2:] if sys.argv[1:2] == ["launch"] else sys.argv[1:]
    os.environ.setdefault("PADDLERUN_PYTHON", sys.executable)
    os.execv(program, ["paddlerun", "launch", *words])


if __name__ == "__main__":
    main()
