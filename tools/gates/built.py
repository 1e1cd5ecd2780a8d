"""Gates that look at what was built: archives, programs, printed files."""
import os
import re


def headers(tree):
    """Each compiles alone."""
    yield from tree.generated()
    options = [*tree.flags, "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-fsyntax-only", "-x", "c", "-"]

    def judge(name):
        found = list(tree.finds(["gcc", *options], input=f'#include "{name}"\n'))
        return [*found, f"{name}: does not compile alone"] if found else []
    yield from tree.each(tree.headers, judge)


def exported(tree, *archives):
    """(archive, object, name) of every name that the archives define for others."""
    code, out = tree.run(["nm", "-A", "--defined-only", "-g", *archives])
    for line in out.splitlines():
        if m := re.match(r"([^:]+):([^:]+):.* (\S+)$", line):
            yield m[1], m[2], m[3]
        elif code and line:
            raise RuntimeError(line)


def prefixes(tree):
    """The names that a folder exports begin with the prefix of its row, or are the training library's own."""
    yield from tree.make("all")
    public = set(tree.text("runtime/exports").split())
    for folder, prefix, _ in tree.table("Layers"):
        if prefix != "-":
            names = {name for _, o, name in exported(tree, f"{tree.build}/lib/{folder.replace('/', '-')}.a") if "pb-c.o" not in o}
            wrong = (n for n in sorted(names - public) if not n.startswith(f"{prefix}_"))
            yield from (f"{folder}: exports {n}, expected {prefix}_*" for n in wrong)
            if not names:
                yield f"{folder}: exports nothing, or is not there"


def symbols(tree):
    """Exported once: a program may link any of the archives together."""
    code, out = tree.run(["make", "-s", "--no-print-directory", f"-j{tree.jobs}", f"BUILD={tree.build}", "archives"])
    archives = [w for w in out.splitlines()[-1].split() if w.endswith(".a")] if not code and out else []
    if not archives:
        yield out or "no archives"
        return
    of = {}
    for archive, o, name in exported(tree, *archives):
        where = f"{os.path.basename(archive)}:{o}"
        if of.setdefault(name, where) != where:
            yield f"{name}: exported by {of[name]} and by {where}"


def clang(tree):
    """Its warnings."""
    yield from tree.make("warnings")


def drift(tree):
    """Files that are printed from tables are as printed now."""
    yield from tree.make("all")
    yield from tree.finds(["tools/generate", "--check"])


def image(tree):
    """A stage of the Dockerfile names the packages of all that its programs link."""
    packages = None
    for line in tree.text("Dockerfile").replace("\\\n", "").splitlines():
        words = line.split("&&")[0].partition('TARGETARCH"')[2].split()
        if line.startswith("RUN /image/compiler "):
            packages = words
        if not line.startswith("RUN /image/make "):
            continue
        _, out = tree.run(["make", "-s", "--no-print-directory", *(f"links-{p}" for p in words)])
        for lib in sorted(set(out.split())):
            if lib.startswith("-l"):
                file = tree.run(["gcc", f"-print-file-name=lib{lib[2:]}.so"])[1].strip()
            else:
                file = tree.run(["pkg-config", "--variable=pcfiledir", lib])[1].strip() + f"/{lib}.pc"
            code, owner = tree.run(["dpkg", "-S", os.path.abspath(file)])
            package = owner.split(":")[0]
            if code:
                yield f"Dockerfile: {' '.join(words)} link {lib}: {owner.strip()}"
            elif package not in (packages or ()):
                yield f"Dockerfile: {' '.join(words)} link {lib}, and their stage does not install {package}"
    if packages is None:
        yield "Dockerfile: no stage that compiles"


def shipped(tree):
    """(the kind of NOTICE's last column, file that was linked) of all that is shipped."""
    b = tree.build
    _, cache = tree.run(["/sbin/ldconfig", "-p"])
    rocks = re.search(r"^\s*librocksdb\S* .* (/\S+)$", cache, re.M)
    rocks = rocks[1] if rocks else ""
    examples = sorted({f.split("/")[1] for f in tree.files if f.startswith("examples/") and f.count("/") > 1})
    training = [f"{b}/bin/paddle-check", f"{b}/bin/paddle-pserver", f"{b}/lib/libpaddlert.so.1", rocks, *(f"{b}/bin/{e}" for e in examples)]
    for kind, file in [("paddle-operator", f"{b}/bin/paddle-operator"), ("paddlerun", f"{b}/bin/paddlerun"),
                       *(("training", f) for f in training)]:
        if file == rocks:
            yield kind, file
        if os.access(tree.root / file, os.X_OK) or ".so." in file:
            for line in tree.run(["ldd", file])[1].splitlines():
                if m := re.search(r"/\S*", line):
                    yield kind, m[0]
    for program in ("paddle-gate", "paddlerun-static"):
        for word in re.split(r"[\s\\]+", (tree.root / f"{b}/gen/{program}.d").read_text()):
            if re.fullmatch(r"/.*\.a:?", word):
                yield program, word.rstrip(":")


def notice(tree):
    """NOTICE names the libraries of every program that is shipped, and those alone."""
    found = list(tree.make("all", f"{tree.build}/lib/libpaddlert.so.1"))
    if found:
        yield from found
        return
    uses = {(os.path.realpath(file), kind) for kind, file in shipped(tree)}
    linked, source = {}, {}
    for file, kind in sorted(uses, key=lambda u: (u[1], u[0])):
        if file not in source:
            _, owner = tree.run(["dpkg-query", "-S", file, file.removeprefix("/usr")])
            owner = next((line for line in owner.splitlines() if not line.startswith("dpkg-query:")), "")
            package = owner.split(": ")[0].split(",")[0]
            source[file] = tree.run(["dpkg-query", "-W", "-f", "${source:Package}", package])[1].strip()
        kinds = linked.setdefault(source[file], [])
        if kind not in kinds:
            kinds.append(kind)
    rows = [[cell.strip() for cell in line.split("|")] for line in tree.text("NOTICE").splitlines() if line.startswith("| ")]
    named = {row[1]: row[3] for row in rows if row[1] not in ("library", "---")}
    for s in sorted(named.keys() | linked.keys()):
        said, right = named.get(s, "nothing"), ", ".join(linked.get(s, [])) or "nothing"
        if said != right:
            yield f"NOTICE: {s}: says {said}, and is linked by {right}"
