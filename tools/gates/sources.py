"""Gates that read sources."""
import os
import re


def folders(tree):
    """The table of folders names each of the top; of deploy and tests, which hold what is not code, also those inside."""
    first = {row[0]: row[1] for row in tree.table("The folders")}
    named = {word for cell in first for word in re.findall(r"`([^`]+)`", cell)}
    named |= {f"{cell[1:-1]}/{word}" for cell, text in first.items() for word in re.findall(r"`(\w+)`", text)}
    have = {f.split("/")[0] for f in tree.files if "/" in f and not f.startswith(".")}
    have |= {m[1] for f in tree.files if (m := re.match(r"((deploy|tests)/[^/]+)/", f))}
    # deploy is named by its parts
    yield from (f"{folder}: no row of ARCHITECTURE.md's folders names it" for folder in sorted(have - named)
                if not any(n.startswith(f"{folder}/") for n in named))


def layers(tree):
    """A folder includes itself and what its row allows; a row allows nothing that is not used."""
    may, used = {row[0]: row[2].split() for row in tree.table("Layers")}, set()
    yield from (f"ARCHITECTURE.md: {folder} is no folder" for folder in may if not (tree.root / folder).is_dir())
    for f in tree.c:
        folder = os.path.dirname(f)
        if folder not in may and f != "runtime/rt.h" and not re.match(r"(tests|tools)(/|$)", folder):
            yield f"{f}: folder {folder} has no row in ARCHITECTURE.md"
    yield from folders(tree)
    for f, header in tree.includes('"'):
        folder = os.path.dirname(f)
        if folder not in may:
            continue
        by = [a for a in (folder, *may[folder]) if a in (header, os.path.dirname(header))]
        used.update((folder, a) for a in by)
        if not by:
            yield f"{f}: includes {header}, which {folder} may not"
    yield from (f"ARCHITECTURE.md: {folder} may include {a}, but no file there does"
                for folder in may for a in may[folder] if (folder, a) not in used)


def system_headers(tree):
    """Those of the C library, the kernel and the compiler."""
    _, listed = tree.run(["dpkg", "-L", "libc6-dev", "linux-libc-dev"])
    found = {re.sub(r"^/usr/include/(x86_64-linux-gnu/)?", "", line) for line in listed.splitlines() if line.endswith(".h")}
    return found, tree.run(["gcc", "-print-file-name=include"])[1].strip()


def doors(tree):
    """A third-party header is included in the one place that its row names."""
    where = {row[0]: row[1].split() for row in tree.table("Doors")}
    if not where:
        yield "ARCHITECTURE.md: no table of doors"
        return
    system, own = system_headers(tree)
    for f, header in tree.includes("<"):
        door = next((d for d in where if header == d or (d.endswith("/") and header.startswith(d))), None)
        if door is None:
            if header not in system and not os.path.isfile(f"{own}/{header}"):
                yield f"{f}: includes <{header}>, which is not the C library's and has no door in ARCHITECTURE.md"
        # A word without a folder is how names of files end.
        elif not any(f == w or f.startswith(f"{w}/") or ("/" not in w and re.search(r"\..$", w) and f.endswith(w)) for w in where[door]):
            yield f"{f}: includes <{header}>, whose door is {' '.join(where[door])}"


def contract(tree):
    """A variable that code names has a row, or no job could strip it and no page would list it."""
    rows = tree.text("common/contract_rows.c")
    files = [f for f in tree.product if f != "common/contract_rows.c" and not re.match(r"runtime/legacy/cluster/(conf|cmd_v2)\.c", f)]
    for f, _, line, _ in tree.grep(r'"(PADDLE|PADDLERT|PADDLERUN|FLAGS|TRAINER|STAGE|HETER)_[A-Za-z_]+"', files):
        for m in re.finditer(r'"((?:PADDLE|PADDLERT|PADDLERUN|FLAGS|TRAINER|STAGE|HETER)_[A-Za-z_]+)"', line):
            if m[0] not in rows and m[1] != "HETER_TRAINER":
                yield f"{f}: {m[0]} has no row in common/contract_rows.c"


MAINS = r"(operator/cmd/main|runtime/launch/cmd/main|operator/gate/gate|crd/crdgen|bench/[a-z_]+|examples/[a-z_]+/train)\.c"
BANNED = [
    (r"\b(sprintf|vsprintf|strcpy|stpcpy|strcat|strtok|atoi|atol|atoll|atof|gets|alloca|tmpnam|mktemp)\(", "",
     "has no bound, or tells no errors"),
    (r"\balarm\([0-9]", "", "ends a test on a slow machine and does not say where it was: tests/run ends what hangs, and does"),
    (r"\b(sleep|usleep|nanosleep|clock_nanosleep|thrd_sleep|uv_sleep)\(", "", "waits for a time, not for an event"),
    (r'\bgetenv\((co_contract|"(PADDLE|FLAGS_))', r"common/contract_env\.c|.*_test\.c|.*\.h",
     "a value may have blanks at its ends, or be what Kubernetes says of a Service: common/contract_env.h"),
    (r"""(?<!\[)'%[.0-9*]*s'""", r"common/manual\.c|crd/schema\.c|runtime/train/ps/client/join\.c|runtime/train/coll/door\.c|.*_(test|testing|fuzz)\.[ch]|(bench|tests|tools)/.*",
     "a message has what a user wrote in double quotes"),
    (r"\b(exit|quick_exit)\(", rf"{MAINS}|.*_test\.c|.*_testing\.h", "ends the process of whoever calls"),
]


def banned(tree):
    for pattern, but, why in BANNED:
        for f, n, line, _ in tree.grep(pattern, [f for f in tree.c if not re.fullmatch(but, f)]):
            yield f"{f}:{n}: {line.strip()}: {why}"


# Folders of which every function returns where a call fails (CO_TRY).  Add one when it is done.
EARLY = (r"(common(/\w+)?|crd|operator/\w+|examples(/\w+)?|runtime/(net|(launch|legacy|tools|train)(/\w+)*))"
         r"/[^/]*(?<!_fuzz)\.[ch]")
SEQUENCE = re.compile(r"\b(?:(r|rc|e|failed) = \1(?: < 0| != 0)?\s*(?:\|\| .*)?\? \1\s*:|return (r|rc|e|failed)(?: < 0| != 0)?\s*\? \2\s*:)")


def early(tree):
    """Steps stand one after the other: a conditional expression does not say which of them are done after a failure."""
    for f in tree.c:
        if re.fullmatch(EARLY, f):
            for m in SEQUENCE.finditer(tree.text(f)):
                yield f"{f}:{tree.text(f).count(chr(10), 0, m.start()) + 1}: {' '.join(m[0].split())}: return early, CO_TRY(call)"


# How structs are called that hold sizes of a file or a peer: a chunk, a table of a checkpoint, the head of a frame.
SIZE = (r"\b(c|chunk|h|head|saved|table|t)(->|\.)(items|count|dim|state|size|bytes|begin)\b"
        r"|\bco_get_u(16|32|64)\([^()]*\)")


def is_test(f):
    return f.endswith(("_test.c", "_fuzz.c")) or f.startswith("tests/")


def is_support(f):
    return f.endswith(("_testing.c", "_testing.h"))


def base_names(tree, parts):
    """Three files of one name say nothing.  Tests are called as what they test, and every program's main is main.c."""
    folders = {}
    for f in parts:
        folders.setdefault(os.path.basename(f).rsplit(".", 1)[0], set()).add(os.path.dirname(f))
    yield from (f"{stem}: the name of files in {', '.join(sorted(fs))}: say what each is"
                for stem, fs in sorted(folders.items()) if len(fs) > 2 and stem != "main")


DEFINED = r"\b(struct|enum|union)\s+(\w+)\s*\{"


def tags(tree, parts):
    """A tag is defined once.  Tests may have their own of one name; support may stand in for what a header only declares."""
    declared = {m[2] for f in parts if f.endswith(".h") for _, _, _, m in tree.grep(r"^(struct|enum|union) (\w+);", [f])}
    where = {}
    for f in parts:
        for m in re.finditer(DEFINED, tree.text(f)):
            if not (is_support(f) and m[2] in declared) and where.setdefault(m[2], f) != f:
                yield f"{f}: {m[1]} {m[2]} is defined in {where[m[2]]}, too"
    for f in filter(is_test, tree.c):
        for m in re.finditer(DEFINED, tree.text(f)):
            if m[2] not in declared and (h := where.get(m[2], "")).endswith(".h") and not is_support(h) and not f.startswith("tests/"):
                yield f"{f}: {m[1]} {m[2]} is defined in {h}, too"


def support(tree):
    """What tests alone include is x_testing.h, and nothing else includes that."""
    users = {}
    for f, header in tree.includes('"'):
        users.setdefault(header, set()).add(f)
    for_tests = {f for f in tree.c if is_test(f)}
    while more := {h for h in tree.headers if h not in for_tests and users.get(h) and users[h] <= for_tests}:
        for_tests |= more
    for h in tree.headers:
        if h in for_tests and not is_test(h) and not is_support(h) and not os.path.isfile(tree.root / f"{h[:-2]}.c"):
            yield f"{h}: only tests include it, expected {h[:-2]}_testing.h"
        if is_support(h):
            yield from (f"{f}: includes {h}, which is for tests" for f in sorted(users.get(h, ())) if f not in for_tests and not is_support(f))


def names(tree):
    """The base name of a file, a tag and the name of test support say what they are.  Examples and benchmarks are apart: each is
    a program of its own."""
    folders = {row[0] for row in tree.table("Layers") if not re.match(r"(examples|bench)(/|$)", row[0])}
    parts = [f for f in tree.c if os.path.dirname(f) in folders and not is_test(f)]
    yield from base_names(tree, parts)
    yield from tags(tree, parts)
    yield from support(tree)


def products(tree):
    """A size that a file or a peer gave is multiplied by co_size_mul alone, which does not wrap round."""
    readers = [f for f in (*tree.product, *tree.headers)
               if re.search(r"\b(ckpt_part_chunk|ckpt_table|rpc_frame|rpc_frame_head|co_get_u(16|32|64))\b", tree.text(f))]
    for f, n, line, _ in tree.grep(rf"({SIZE})\)* \* |[^ (,=] \* (\([a-z0-9_ ]+\))?\(*({SIZE})", readers):
        if not re.match(r" *(/\*|\* )", line):
            yield f"{f}:{n}: {line.strip()}: multiply it with co_size_mul (common/size.h)"


def waits(tree):
    """A wait without a deadline says why."""
    yield from tree.finds(["tools/waits"])


def format(tree):
    parts = [tree.c[i:i + 20] for i in range(0, len(tree.c), 20)]
    yield from tree.each(parts, lambda names: tree.finds(["clang-format", "--dry-run", "-Werror", *names]))


def sizes(tree):
    """A look, not a verdict."""
    yield "# longest files:"
    for n, f in sorted(((tree.text(f).count("\n"), f) for f in tree.c), reverse=True)[:5]:
        yield f"#   {n:5} {f}"
