"""Gates that run an analyser."""
import hashlib
import re


def judged(tree, names, command, noise=r"^$"):
    """What command(name) prints of each, without lines of noise; nothing, and without running it, where it found nothing before in the same text, headers
    and comments included, by the same tools and rules."""
    folder = tree.root / tree.build / "judged"
    folder.mkdir(parents=True, exist_ok=True)
    tools = "".join([tree.run(["gcc", "--version"])[1], tree.run(["clang-tidy", "--version"])[1], tree.text(".clang-tidy"),
                     tree.text("tools/analyzer.h")])

    def judge(name):
        cmd = command(name)
        _, text = tree.run(["gcc", "-E", "-C", *tree.flags, name])
        key = folder / hashlib.sha256("\0".join([*cmd, tools, text]).encode()).hexdigest()
        if key.exists():
            return []
        code, out = tree.run(cmd)
        if code == 0:
            key.touch()
            return []
        return [line for line in out.splitlines() if not re.search(noise, line)] or [f"{name}: {cmd[0]} ended with {code}"]
    yield from tree.each(names, judge)


def shell(tree):
    rest = [f for f in tree.files if not re.search(r"\.(c|h|md|ya?ml|json|py|supp)$|^tests/corpus/", f)]
    scripts = [f for f in rest if re.match(rb"#!.*\b(bash|sh)\b", (tree.root / f).open("rb").readline(80))]
    if not scripts:
        yield "no shell scripts"
    yield from tree.each(scripts, lambda f: tree.finds(["shellcheck", "-x", "-S", "warning", f]))


def header(tree, name):
    """Where the compiler finds it."""
    _, text = tree.run(["gcc", "-x", "c", "-E", "-include", name, "/dev/null"])
    return re.search(rf'^# 1 "(/.*/{name})"', text, re.M)[1]


def cppcheck(tree):
    """It reads no headers of the system; but sys/queue.h is macros that are syntax."""
    build = tree.root / tree.build
    (build / "cppcheck").mkdir(parents=True, exist_ok=True)
    (build / "cppcheck.files").write_text("\n".join(tree.product) + "\n")
    yield from tree.finds(["cppcheck", f"--cppcheck-build-dir={tree.build}/cppcheck", "--quiet", "--error-exitcode=1", "--std=c11",
                           "--enable=warning,portability,performance", "--inline-suppr", "-I", ".",
                           "--suppressions-list=tools/cppcheck.supp", "-j", tree.jobs, "-D_GNU_SOURCE", "--library=posix",
                           f"--include={header(tree, 'sys/queue.h')}",
                           f"--file-list={tree.build}/cppcheck.files"])


def codes(f):
    """What shows an analyser that errors are below zero; common/err.c defines what that header wraps."""
    return [] if f == "common/err.c" else ["-include", "tools/analyzer.h"]


def analyzer(tree):
    """gcc's.  Pointers that a function sets only on success look NULL to it afterwards; clang's analyzer (tidy) judges those."""
    files = tree.changed(tree.product)
    yield f"# of {len(tree.product)} files: {len(files)}"
    yield from tree.generated()
    yield from judged(tree, files, lambda f: ["gcc", *tree.flags, *codes(f), "-O1", "-fanalyzer", "-Wno-analyzer-null-dereference",
                                              "-Werror", "-c", "-o", "/dev/null", f])


def tidy(tree):
    files = tree.changed(tree.code)
    yield f"# of {len(tree.code)} files: {len(files)}"
    yield from tree.generated()

    yield from judged(tree, files, lambda f: ["clang-tidy", "--quiet", "--warnings-as-errors=*", f, "--", *tree.flags, *codes(f)],
                      r"^$|warnings? (generated|treated)|^Suppressed |^Use -header-filter")
