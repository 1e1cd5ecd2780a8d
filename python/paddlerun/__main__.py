"""`python -m paddlerun ...` for `python -m paddle.distributed.launch ...`: runs the program paddlerun, which the wheel has
put beside this interpreter's other programs, with this interpreter for the training script."""
import os
import shlex
import shutil
import site
import sys
import sysconfig


def find():
    folders = [sysconfig.get_path("scripts"), os.path.join(site.getuserbase(), "bin"), os.path.dirname(sys.executable)]
    programs = [os.path.join(f, "paddlerun") for f in folders]
    return next((p for p in programs if os.access(p, os.X_OK)), None) or shutil.which("paddlerun")


def main():
    program = find()
    if not program:
        sys.exit("paddlerun: no program paddlerun beside this interpreter's or in PATH, expected it from a wheel for this machine "
                 "(`make wheel`) or `make install`")
    words = sys.argv[2:] if sys.argv[1:2] == ["launch"] else sys.argv[1:]
    os.environ.setdefault("PADDLERUN_PYTHON", sys.executable)
    # argv[0] is how it was started: the command for other nodes begins with it.
    if os.path.basename(sys.argv[0]) == "fleetrun":
        os.execv(program, ["fleetrun", *words])
    python = shlex.quote(getattr(sys, "orig_argv", [sys.executable])[0])
    os.execv(program, [f"{python} -m paddlerun", "launch", *words])


if __name__ == "__main__":
    main()
