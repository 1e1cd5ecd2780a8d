"""Gates on documents."""
import os
import re

# Paddle's, and the kernel's.
OTHERS = {"dgc_op.h", "tcp_states.h"}
PAGES = r"(README|ARCHITECTURE|CONTRIBUTING)\.md|docs/[^/]+\.md"


def named(tree):
    """Tests that documents and mutants name are there, and files that comments name."""
    have = {os.path.basename(f) for f in tree.c} | OTHERS
    for f, _, line, _ in tree.grep(r"^(/\*| \*| +/\*)", tree.c):
        for m in re.finditer(r"\b[a-z0-9]+(_[a-z0-9]+)+\.[ch]\b", line):
            if m[0] not in have:
                yield f"{f}: names {m[0]}, which is not there"
    for f in tree.files:
        if re.fullmatch(PAGES, f):
            for file, test in re.findall(r"(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)", tree.text(f)):
                if file not in tree.files or not re.search(rf"^def {test}\(", tree.text(file), re.M):
                    yield f"{f}: names {file}::{test}, which is not there"
    yield from missing_paths(tree)
    # A row says where its command is tested, twice.
    for line in tree.text("docs/documents.md").splitlines():
        if line.startswith("|") and not re.match(r"\| (---|document )", line):
            cells = [*line.split("|"), "", "", ""]
            if not all(re.search(r"::test_|as above", cell) for cell in cells[4:6]):
                yield f"docs/documents.md: no test: {line}"
    yield from tree.finds(["tests/mutants", "--check"])


def missing_paths(tree):
    """`folder/file` in a page, whose ending may be left out."""
    have = {part for f in tree.files for part in (f, re.sub(r"\.[a-z]+$", "", f))}
    folders = {"/".join(f.split("/")[:n]) for f in tree.files for n in range(1, f.count("/") + 1)}
    ends = {p[m.start():] for p in have | folders for m in re.finditer(r"(?:^|(?<=/))\w", p)}
    begins = {os.path.basename(d) for d in folders}
    for f in tree.files:
        if re.fullmatch(PAGES, f):
            for path in re.findall(r"`([a-z]\w*(?:/[a-z0-9_][a-z0-9_.]*)+)`", tree.text(f)):
                if path.split("/")[0] in begins and path not in ends:
                    yield f"{f}: names {path}, which is not there"


def docs(tree):
    """What pages link to is there, docs/README.md lists them all, pictures are those of their texts."""
    yield from tree.finds(["tools/pages", "links"])
    yield from tree.finds(["tools/pictures", "--check"])
    yield from tree.finds(["tools/dashboard", "--check"])


def runnable(tree):
    """Commands that pages mark as runnable do run."""
    yield from tree.make("all")
    yield from tree.finds(["tools/pages", "run"])
