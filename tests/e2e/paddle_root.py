"""The files of an image with Debian's Python and real Paddle 3.3.1, of build/paddle-3.3.1."""
import shutil

from cluster import BUILD, LOCAL, sh

SITE = "lib/python3.11/site-packages"       # below a virtual environment; Debian's Python is of that version, too
PACKAGES = "usr/lib/python3/dist-packages"


def paddle_root(root):
    # Paddle asks a shell which C library this is.
    sh(LOCAL / "rootfs", root, "python3-minimal", "libpython3-stdlib", "python3-distutils", "libgomp1", "libstdc++6", "dash",
       "mawk", "libc-bin", seconds=600)
    for name, program in (("sh", "dash"), ("awk", "mawk")):
        link = root / "bin" / name
        if not link.is_symlink():
            link.symlink_to(next(p for p in (f"/bin/{program}", f"/usr/bin/{program}") if (root / p[1:]).exists()))
    shutil.copytree(BUILD / "paddle-3.3.1" / SITE, root / PACKAGES, symlinks=True, dirs_exist_ok=True)
    (root / "workspace").mkdir()
    (root / "tmp").mkdir(exist_ok=True)
