"""What pip calls for `pip install ./python` (PEP 517): builds the library, then the wheel of paddlert, as `make wheel` does."""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent


def make(*words):
    if not (ROOT / "Makefile").is_file():
        raise SystemExit(f"{HERE} is not in a checkout of the project, which has the sources of the library: pip install CHECKOUT/python")
    # no deadline: a whole build, which a person watches
    return subprocess.run(["make", "--no-print-directory", "-s", f"-j{os.cpu_count()}", *words], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def build_wheel(directory, config_settings=None, metadata_directory=None):
    spec = importlib.util.spec_from_loader("wheel_script", importlib.machinery.SourceFileLoader("wheel_script", str(HERE / "wheel")))
    wheel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheel)
    make("build/lib/libpaddlert.so.1")
    with tempfile.TemporaryDirectory() as d:
        library = pathlib.Path(d) / "libpaddlert.so.1"
        subprocess.run(["strip", "--strip-unneeded", "-o", library, ROOT / "build/lib/libpaddlert.so.1"], check=True, timeout=60)
        return wheel.pack_library(wheel.pep440(make("version").strip()), directory, library).name
