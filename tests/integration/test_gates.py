"""Each gate of tools/check finds what it is for, and nothing in a tree that is in order."""
import shutil
import subprocess
import sys

import pytest

from rig import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from gates import GATES, Tree, built  # noqa: E402

ZLIB = "/usr/lib/x86_64-linux-gnu/libz.so"
ARCHITECTURE = """## The folders

| folder | what is in it |
| --- | --- |
| `common`, `app`, `tools`, `runtime`, `docs` | the code |
| `tests` | `integration`: a real API server |

## Layers

| folder | prefix | may include |
| --- | --- | --- |
| common | co | |
| app | ap | common |

## Doors

| header | where |
| --- | --- |
| zlib.h | common |
"""
WORDS = "## Words\n\n| word | say |\n| --- | --- |\n| anew | again |\n| going on, goes on | continue |\n"
SOUND = {
    "ARCHITECTURE.md": ARCHITECTURE, "CONTRIBUTING.md": WORDS, "README.md": "", "docs/documents.md": "| document | a | b | c | d |\n", "tools/cppcheck.supp": "",
    "common/contract_rows.c": '#include "common/contract.h"\nconst char *co_rows = "PADDLE_PORT";\n',
    "common/contract.h": "#pragma once\nextern const char *co_rows;\n",
    "common/zip.c": '#include <zlib.h>\n\nconst char *co_zip(void);\n\nconst char *co_zip(void) {\n    return zlibVersion();\n}\n',
    "app/go.c": '#include <stdio.h>\n\n#include "common/contract.h"\n\nint ap_go(void);\n\nint ap_go(void) {\n    return puts(co_rows);\n}\n',
    "Dockerfile": 'RUN /image/compiler "$TARGETARCH" zlib1g-dev\nRUN /image/make "$TARGETARCH" app\n',
    "NOTICE": "| library | licence | linked by |\n| --- | --- | --- |\n| zlib | zlib | training |\n",
    "run.sh": "#!/bin/sh\necho a\n", "tools/analyzer.h": "#pragma once\n",
    "runtime/exports": "rt_go\n",
    "Makefile": "all warnings build/lib/libpaddlert.so.1:\n\t@$(FAIL)\nlinks-app:\n\t@echo -lz\narchives:\n\t@echo build/lib/common.a build/lib/app.a\n",
}
COMMANDS = ("tools/waits", "tools/generate", "tools/pages", "tools/pictures", "tools/dashboard", "tests/mutants")


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """Makes a tree in order with these files put in, and returns what a gate finds in it."""
    monkeypatch.delenv("BUILD", raising=False)
    monkeypatch.setattr(built, "shipped", lambda tree: [("training", ZLIB)])

    def find(gate, files=()):
        for name in (".clang-format", ".clang-tidy"):
            shutil.copy(ROOT / name, tmp_path / name)
        for name, text in {**dict.fromkeys(COMMANDS, "#!/bin/sh\nexit 0\n"), **SOUND, **dict(files)}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
        (tmp_path / ".gitignore").write_text("build\n")
        for folder in ("common", "app"):
            lib = tmp_path / "build/lib"
            lib.mkdir(parents=True, exist_ok=True)
            for source in (tmp_path / folder).glob("*.c"):
                if gate in ("prefixes", "symbols"):
                    subprocess.run(["gcc", "-I.", "-c", source, "-o", f"build/{source.stem}.o"], cwd=tmp_path, check=True, timeout=60)
                    subprocess.run(["ar", "rcs", lib / f"{folder}.a", f"build/{source.stem}.o"], cwd=tmp_path, check=True, timeout=60)
        return [line for line in GATES[gate](Tree(tmp_path, everything=True)) if not line.startswith("# ")]
    return find


@pytest.mark.parametrize("gate", GATES)
def test_a_correct_tree_passes(plant, gate):
    assert plant(gate) == []


@pytest.mark.parametrize("gate, files, finding", [
    ("layers", {"common/up.c": '#include "app/go.h"\n'}, "common/up.c: includes app/go.h, which common may not"),
    ("layers", {"other/a.c": ""}, "other/a.c: folder other has no row in ARCHITECTURE.md"),
    ("layers", {"im/a.jpg": ""}, "im: no row of ARCHITECTURE.md's folders names it"),
    ("layers", {"tests/integration/a.py": "", "tests/soak/a.py": ""}, "tests/soak: no row of ARCHITECTURE.md's folders names it"),
    ("layers", {"ARCHITECTURE.md": ARCHITECTURE.replace("| co | |", "| co | app |")},
     "ARCHITECTURE.md: common may include app, but no file there does"),
    ("layers", {"ARCHITECTURE.md": ARCHITECTURE.replace("| app |", "| gone |")}, "ARCHITECTURE.md: gone is no folder"),
    ("doors", {"app/z.c": "#include <zlib.h>\n"}, "app/z.c: includes <zlib.h>, whose door is common"),
    ("doors", {"app/z.c": "#include <curl/curl.h>\n"}, "includes <curl/curl.h>, which is not the C library's and has no door"),
    ("doors", {"ARCHITECTURE.md": ARCHITECTURE.split("## Doors")[0]}, "ARCHITECTURE.md: no table of doors"),
    ("names", {"ARCHITECTURE.md": ARCHITECTURE.replace("| app | ap |", "| web | we | |\n| app | ap |"), "app/plan.c": "", "common/plan.h": "",
               "web/plan.c": ""}, "plan: the name of files in app, common, web: say what each is"),
    ("names", {"app/a.c": "struct line {\n};\n", "common/b.c": "enum line { A };\n"}, "common/b.c: enum line is defined in app/a.c, too"),
    ("names", {"app/a.h": "struct line {\n};\n", "app/a_test.c": "struct line {\n};\n"}, "app/a_test.c: struct line is defined in app/a.h, too"),
    ("names", {"app/a.h": "struct line {\n};\n", "app/b_testing.h": "struct line {\n};\n"}, "app/b_testing.h: struct line is defined in app/a.h, too"),
    ("names", {"app/kit.h": "", "app/a_test.c": '#include "app/kit.h"\n'}, "app/kit.h: only tests include it, expected app/kit_testing.h"),
    ("names", {"app/a_testing.h": "", "app/a.c": '#include "app/a_testing.h"\n'}, "app/a.c: includes app/a_testing.h, which is for tests"),
    ("contract", {"app/env.c": 'const char *ap_name = "PADDLE_NEW_NAME";\n'}, 'app/env.c: "PADDLE_NEW_NAME" has no row in'),
    ("headers", {"app/a.h": "#pragma once\nsize_t ap_size(void);\n"}, "app/a.h: does not compile alone"),
    ("prefixes", {"app/other.c": "int rt_go, go_wrong;\n"}, "app: exports go_wrong, expected ap_*"),
    ("prefixes", {"app/other.c": "int rt_other;\n"}, "app: exports rt_other, expected ap_*"),
    ("symbols", {"app/other.c": "int co_rows;\n"}, "co_rows: exported by common.a:contract_rows.o and by app.a:other.o"),
    ("banned", {"app/a.c": "int a = atoi(b);\n"}, "app/a.c:1: int a = atoi(b);: has no bound"),
    ("banned", {"app/a_test.c": "\nusleep(1);\n"}, "app/a_test.c:2: usleep(1);: waits for a time, not for an event"),
    ("banned", {"app/a_test.c": "alarm(3);\n"}, "ends a test on a slow machine"),
    ("banned", {"app/a.c": 'x = getenv("PADDLE_PORT");\n'}, "common/contract_env.h"),
    ("banned", {"app/a.c": "x(\"table '%s'\", a);\n"}, "a message has what a user wrote in double quotes"),
    ("banned", {"app/a.c": "exit(1);\n"}, "app/a.c:1: exit(1);: ends the process of whoever calls"),
    ("early", {"common/a.c": "\n    r = r ? r : b();\n"}, "common/a.c:2: r = r ? r :: return early, CO_TRY(call)"),
    ("early", {"common/a.c": "rc = rc < 0 ? rc\n             : b();\n"}, "common/a.c:1: rc = rc < 0 ? rc :: return early"),
    ("early", {"crd/a.c": "return r ? r : b();\n"}, "crd/a.c:1: return r ? r :: return early"),
    ("early", {"crd/a.c": "r = r || !b ? r : c();\n"}, "crd/a.c:1: r = r || !b ? r :: return early"),
    ("early", {"operator/plan/a.c": "return r ? r : b();\n"}, "operator/plan/a.c:1: return r ? r :: return early"),
    ("early", {"runtime/launch/local/a.c": "r = r ? r : b();\n"}, "runtime/launch/local/a.c:1: r = r ? r :: return early"),
    ("words", {"CONTRIBUTING.md": ""}, "CONTRIBUTING.md: no table of words"),
    ("words", {"app/a.c": "/* One line.\n * It is made Anew. */\n"}, "app/a.c:2: Anew: say again"),
    ("words", {"app/a.c": "/* It goes\n * on. */\n"}, "app/a.c:1: goes on: say continue"),
    ("words", {"app/a_test.c": "static void ap_goes_on(void);\n"}, "app/a_test.c:1: ap_goes_on: say continue"),
    ("words", {"common/a.c": 'char t[] = "it goes "\n    "on";\n'}, "common/a.c:1: goes on: say continue"),
    ("words", {"python/a.py": "x = 'goes on'\n"}, "python/a.py:1: goes on: say continue"),
    ("words", {"README.md": "It goes\non.\n"}, "README.md:1: goes on: say continue"),
    ("words", {"app/a.py": "x = 1  # goes on\n"}, "app/a.py:1: goes on: say continue"),
    ("words", {"app/a.py": 'def f():\n    """It\n    goes on."""\n'}, "app/a.py:3: goes on: say continue"),
    ("products", {"app/a.c": "size_t n = rpc_frame(h) + h->count * 4;\n"}, "multiply it with co_size_mul"),
    ("format", {"app/a.c": "int  ap_a;\n"}, "app/a.c:1:4: error: code should be clang-formatted"),
    ("format", {"app/a.c": '#include "common/contract.h"\n\n#include <stdio.h>\n'}, "app/a.c:1:1: error: code should be clang-formatted"),
    ("image", {"Dockerfile": SOUND["Dockerfile"].replace("zlib1g-dev", "curl")},
     "Dockerfile: app link -lz, and their stage does not install zlib1g-dev"),
    ("image", {"Dockerfile": ""}, "Dockerfile: no stage that compiles"),
    ("notice", {"NOTICE": SOUND["NOTICE"].replace("training", "paddlerun")}, "NOTICE: zlib: says paddlerun, and is linked by training"),
    ("notice", {"NOTICE": SOUND["NOTICE"] + "| gone | MIT | paddlerun |\n"}, "NOTICE: gone: says paddlerun, and is linked by nothing"),
    ("named", {"app/a.c": "/* As far_away.c says. */\n"}, "app/a.c: names far_away.c, which is not there"),
    ("named", {"README.md": "tests/a.py::test_it\n"}, "README.md: names tests/a.py::test_it, which is not there"),
    ("named", {"README.md": "`app/gone` and `app/a`\n", "app/a.c": "int ap_a;\n"}, "README.md: names app/gone, which is not there"),
    ("named", {"docs/documents.md": "| a | b | c | d | e |\n"}, "docs/documents.md: no test: | a | b"),
    ("shell", {"run.sh": "#!/bin/sh\ncd /nowhere\necho a\n"}, "SC2164"),
    ("cppcheck", {"app/a.c": "int ap_a(void) {\n    int *p = 0;\n    return *p;\n}\n"}, "app/a.c:3"),
    ("analyzer", {"app/a.c": "#include <stdlib.h>\nvoid ap_a(void *p) {\n    free(p);\n    free(p);\n}\n"}, "double-‘free’"),
    ("tidy", {"app/a.c": "#include <stdlib.h>\nvoid ap_a(void *p) {\n    free(p);\n    free(p);\n}\n"}, "app/a.c:4"),
])
def test_what_is_wrong_is_found(plant, gate, files, finding):
    found = plant(gate, files)
    assert any(finding in line for line in found), found


def test_names_of_the_public_header_may_have_listed_words(plant):
    assert plant("words", {"app/a.c": 'const char *ap_a = "anew"; /* "*/\nint rt_go_anew(void);\n', "app/a.py": 'x = "anew"\n',
                           "runtime/exports": "rt_go\nrt_go_anew\n"}) == []


def test_a_test_may_stand_in_for_what_a_header_declares(plant):
    assert plant("names", {"app/a.h": "struct line;\n", "app/a.c": '#include "app/a.h"\nstruct line {\n};\n',
                           "app/b_testing.h": '#include "app/a.h"\nstruct line {\n};\n', "app/a_test.c": "struct line {\n};\n"}) == []


@pytest.mark.parametrize("gate, command", [("waits", "tools/waits"), ("drift", "tools/generate"), ("docs", "tools/pages"),
                                           ("docs", "tools/pictures"), ("docs", "tools/dashboard"), ("runnable", "tools/pages"),
                                           ("named", "tests/mutants")])
def test_a_gate_reports_the_findings_of_its_command(plant, gate, command):
    assert plant(gate, {command: "#!/bin/sh\necho a.c is wrong\nexit 1\n"}) == ["a.c is wrong"]
    assert plant(gate, {command: "#!/bin/sh\nexit 3\n"}) == [f"{command} ended with 3"]


@pytest.mark.parametrize("gate", ["clang", "drift", "runnable", "prefixes", "notice"])
def test_a_build_that_fails_is_a_finding(plant, monkeypatch, gate):
    monkeypatch.setenv("FAIL", "echo a.c:1: error; false")
    assert "a.c:1: error" in plant(gate)


def test_a_gate_that_breaks_off_is_red(tmp_path):
    """Without the table, the file or the tool that it needs it has judged nothing."""
    for part in ("tools/gates", "tools/check"):
        (shutil.copytree if "gates" in part else shutil.copy)(ROOT / part, tmp_path / part)
    (tmp_path / "a.c").write_text("")
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
    p = subprocess.run([tmp_path / "tools/check", "contract", "banned"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and "contract broke off: FileNotFoundError" in p.stdout and "not ok 1 - contract" in p.stdout
    assert "ok 2 - banned" in p.stdout and p.stdout.endswith("1..2\n")
    assert subprocess.run([tmp_path / "tools/check", "other"], capture_output=True, text=True, timeout=60).stderr.startswith("no gate other")


def test_analysers_look_at_the_files_that_changed_most(tmp_path, monkeypatch):
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for name, lines in {"a.c": 40, "b.c": 40, "c.c": 40, "moved.c": 40}.items():
        (tmp_path / name).write_text(f"/* {name} */\n" * lines)
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
    for change in ({}, {"a.c": 1, "b.c": 9}):
        for name, lines in change.items():
            (tmp_path / name).write_text(f"/* {name} */\n" * (40 - lines) + "int x;\n" * lines)
        if change:
            (tmp_path / "moved.c").rename(tmp_path / "new.c")
        subprocess.run([*git, "add", "-A"], check=True, timeout=60)
        subprocess.run([*git, "commit", "-q", "-m", "a"], check=True, timeout=60)
    monkeypatch.setenv("CHECK_BASE", "HEAD~1")
    changed = Tree(tmp_path).changed(Tree(tmp_path).code)
    assert changed == ["b.c", "a.c"]
    (tmp_path / "d.c").write_text("int y;\n" * 5)       # not tracked yet
    assert Tree(tmp_path).changed(Tree(tmp_path).code) == ["b.c", "d.c", "a.c"]
    monkeypatch.setenv("CHECK_FILES", "1")
    assert Tree(tmp_path).changed(Tree(tmp_path).code) == ["b.c"]
    assert len(Tree(tmp_path, everything=True).changed(Tree(tmp_path).code)) == 5
