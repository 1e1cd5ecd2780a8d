"""What the gates look at: the files of a checkout, the tables of ARCHITECTURE.md, and commands that run in it."""
import concurrent.futures
import functools
import os
import pathlib
import re
import subprocess

# Of make: a make that started us has a job server of its own.
MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
# What the Makefile gives every file, as far as analysers care.
FLAGS = ["-std=gnu17", "-pthread", "-D_GNU_SOURCE", "-I.", '-DCO_VERSION="x"', '-DCO_BUILD_FLAGS="x"']


class Tree:
    def __init__(self, root, everything=False):
        self.root, self.everything = pathlib.Path(root), everything
        self.build = os.environ.get("BUILD", "build")
        self.flags = [*FLAGS, f"-I{self.build}/gen"]
        self.jobs = os.cpu_count()

    # ---- files ----

    @functools.cached_property
    def files(self):
        """Tracked and new ones, without those that are deleted and not yet committed."""
        names = self.git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
        return sorted({n for n in names if n and (self.root / n).is_file()})

    @functools.cached_property
    def c(self):
        return [f for f in self.files if f.endswith((".c", ".h"))]

    @property
    def headers(self):
        return [f for f in self.c if f.endswith(".h")]

    @property
    def code(self):
        return [f for f in self.c if f.endswith(".c")]

    @property
    def product(self):
        """The .c files that are neither tests, fuzz targets nor test support."""
        return [f for f in self.code if not f.endswith(("_test.c", "_fuzz.c", "_testing.c"))]

    @functools.lru_cache(maxsize=None)
    def text(self, name):
        return (self.root / name).read_text(errors="replace")

    def grep(self, pattern, names):
        """(file, line number, line, match) of every line that has the pattern."""
        r = re.compile(pattern, re.M)
        for name in names:
            text = self.text(name)
            if r.search(text):
                for n, line in enumerate(text.splitlines(), 1):
                    if m := r.search(line):
                        yield name, n, line, m

    def includes(self, opening):
        """(file, header) of every #include that begins with that character: < or a quotation mark."""
        for name, _, _, m in self.grep(r"^\s*#\s*include\s*" + opening + r'([^">]*)', self.c):
            yield name, m[1]

    def table(self, heading, page="ARCHITECTURE.md"):
        """Rows of the Markdown table that follows a heading of a page, each a list of cells."""
        part = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", self.text(page), re.M | re.S)
        rows = re.findall(r"^\|(.*)\|$", part[1], re.M) if part else []
        return [[cell.strip() for cell in row.split("|")] for row in rows if not re.match(r" *(---|folder\b|header\b|word\b)", row)]

    def changed(self, names):
        """Those to analyse: changed ones, and those that include a changed header of their own folder.  At most CHECK_FILES (60), those
        with the most changed lines: a name that changes everywhere would cost an hour."""
        base = None if self.everything else self.base()
        if not base:
            return names
        # Without what only has another name now.
        rows = self.git("diff", "--numstat", "--no-renames", base, "--", "*.c", "*.h").splitlines()
        lines = {f: int(plus) + int(minus) for plus, minus, f in (row.split("\t") for row in rows)}
        moved = self.git("diff", "--name-only", "-M100%", "--diff-filter=dr", base, "--", "*.c", "*.h").split()
        changed = {f: lines.get(f, 0) for f in moved}
        changed |= {f: len(self.text(f).splitlines())
                    for f in self.git("ls-files", "--others", "--exclude-standard", "--", "*.c", "*.h").split()}
        chosen = [n for n in names if n in changed or
                  any(h in changed and os.path.dirname(h) == os.path.dirname(n)
                      for h in re.findall(r'^#include "([^"]*)"', self.text(n), re.M))]
        return sorted(chosen, key=lambda n: -changed.get(n, 0))[:int(os.environ.get("CHECK_FILES", "60"))]

    def base(self):
        if given := os.environ.get("CHECK_BASE"):
            return given
        head = self.git("rev-parse", "HEAD").strip()
        for branch in ("@{upstream}", "origin/HEAD", "origin/main", "main"):
            if (b := self.git("merge-base", "HEAD", branch, check=False).strip()) and b != head:
                return b
        return self.git("rev-parse", "-q", "--verify", f"HEAD~{os.environ.get('CHECK_COMMITS', '20')}", check=False).strip()

    # ---- commands ----

    def git(self, *words, check=True):
        return subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=check).stdout

    def run(self, cmd, **more):
        """(exit code, all that it prints)."""
        env = {k: v for k, v in os.environ.items() if k not in MAKE} | {"BUILD": self.build}
        p = subprocess.run([str(w) for w in cmd], cwd=self.root, env=env, stdin=subprocess.DEVNULL if "input" not in more else None,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **more)
        return p.returncode, p.stdout

    def finds(self, cmd, **more):
        """What a command prints, where it fails."""
        code, out = self.run(cmd, **more)
        if code:
            yield from out.splitlines() or [f"{cmd[0]} ended with {code}"]

    def make(self, *targets):
        """Builds them; what is wrong is yielded."""
        code, out = self.run(["make", "-s", "--no-print-directory", f"-j{self.jobs}", f"BUILD={self.build}", *targets])
        lines = [line for line in out.splitlines() if not re.match(r"  (CC|LD|PROTO) ", line)]
        if code:
            yield from lines or [f"make {' '.join(targets)} ended with {code}"]

    def generated(self):
        """Makes the headers that hand-written files include."""
        made = [f"{self.build}/gen/{f.removesuffix('.proto')}.pb-c.c" for f in self.files if f.endswith(".proto")]
        if made:
            yield from self.make(*made)

    def each(self, names, judge):
        """What judge, a function of a file's name, finds in each; several at a time."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for lines in pool.map(lambda n: list(judge(n)), names):
                yield from lines
