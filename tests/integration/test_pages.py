"""The gates of tools/check on pages find what is wrong: tools/pages."""
import os
import subprocess
import sys

import pytest

from rig import ROOT

RECORD = "## {}. area: what\n\n- **Context.** a\n- **Decision.** b\n- **Consequence.** c\n"


def links(root):
    p = subprocess.run([ROOT / "tools/pages", "links", root], capture_output=True, text=True, timeout=60)
    return p.returncode, p.stdout + p.stderr


@pytest.fixture
def checkout(tmp_path):
    """A repository whose pages are in order."""
    for name, text in {"README.md": "# Title\n\nRead [a](docs/a.md#part-two), `docs/a.md` and [this](#title).\n",
                       "docs/README.md": "[a](a.md) [decisions](decisions.md)\n",
                       "docs/a.md": "# A\n\n<!-- tried by a.c -->\n\n## Part two\n\n    [no](link)\n",
                       "docs/decisions.md": RECORD.format(1) + RECORD.format(2),
                       "a.c": "/* docs/a.md */\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert links(tmp_path) == (0, "")
    return tmp_path


@pytest.mark.parametrize("name, text, finding", [
    ("README.md", "[a](docs/b.md)\n", "README.md:1: link to docs/b.md, which does not exist"),
    ("README.md", "\n[a](docs/a.md#part-three)\n", "README.md:2: link to docs/a.md#part-three, but a.md has no such heading"),
    ("README.md", "see `docs/b.md`\n", "README.md:1: names docs/b.md, which does not exist"),
    ("README.md", '<img src="docs/b.svg">\n', "README.md:1: link to docs/b.svg, which does not exist"),
    ("a.c", "/* docs/b.md */\n", "a.c:1: names docs/b.md, which does not exist"),
    ("docs/b.md", "# B\n", "docs/README.md: does not list b.md"),
    ("docs/a.md", "# A\n\n## Part two\n\n    make\n", "docs/a.md: has commands, but none is marked as runnable"),
    ("docs/a.md", "# A\n\n<!-- tried by b.c -->\n\n## Part two\n\n    make\n", "docs/a.md: is tried by b.c, which does not exist"),
    ("docs/decisions.md", RECORD.format(2), "expected '1. area: what was decided'"),
    ("docs/decisions.md", RECORD.format(1).replace("Decision", "Idea"), "record 1 needs a context, a decision and a consequence"),
    ("docs/decisions.md", RECORD.format(1) + "- **Since.** Record 1: it is so.\n", "record 1: expected '- **Since.** Record N: what holds now'"),
])
def test_what_is_wrong_is_named(checkout, name, text, finding):
    (checkout / name).write_text(text)
    code, out = links(checkout)
    assert code == 1 and finding in out, out
    assert len(out.splitlines()) == 1, out


def restamp(root, *words):
    """tools/pages of that checkout, where no page is looked for in it."""
    (root / ".git/pages").write_text((ROOT / "tools/pages").read_text())
    p = subprocess.run([sys.executable, root / ".git/pages", *words], capture_output=True, text=True, timeout=60)
    return p.returncode, p.stdout + p.stderr


def test_translation_follows_its_original(checkout):
    original, translated = checkout / "docs/a.md", checkout / "docs/zh/a.md"
    text = original.read_text() + "\n`--all`\n"
    original.write_text(text)
    translated.parent.mkdir()
    translated.write_text("# 甲\n\n第二部分\n")
    code, out = links(checkout)
    assert code == 1 and "docs/zh/a.md: expected a line '<!-- translates PAGE VERSION -->' with a page that exists" in out
    translated.write_text("# 甲\n\n<!-- translates docs/a.md 0 -->\n\n`--all`\n\n    [no](link)\n")
    code, out = links(checkout)
    assert code == 1 and "docs/zh/a.md: docs/a.md has changed since" in out and len(out.splitlines()) == 1, out
    assert restamp(checkout, "translated", "docs/zh/a.md") == (0, "")
    assert links(checkout) == (0, "")

    original.write_text(text + "\n`--any`\n\n    make\n")
    code, out = links(checkout)
    assert code == 1 and len(out.splitlines()) == 3, out
    assert "docs/zh/a.md: lacks --any of docs/a.md" in out and "docs/zh/a.md: commands differ from those of docs/a.md: 'no more', expected '    make'" in out
    original.write_text(text + "\nmore\n")
    assert restamp(checkout, "outdated") == (0, "")
    assert "[英文页面](../a.md)" in translated.read_text().splitlines()[2]
    assert links(checkout) == (0, "")
    assert restamp(checkout, "translated", "docs/zh/a.md") == (0, "")
    assert "英文页面" not in translated.read_text() and links(checkout) == (0, "")
    assert restamp(checkout, "translated", "docs/a.md") == (1, "docs/a.md is no translation\n")


def test_translations_link_to_translations(checkout):
    """And to their own originals."""
    (checkout / "docs/zh").mkdir()
    for page in "a", "b":
        original, translated = checkout / f"docs/{page}.md", checkout / f"docs/zh/{page}.md"
        original.write_text("# A\n\n## Part two\n")
        translated.write_text(f"# 甲\n\n<!-- translates docs/{page}.md 0 -->\n\n[甲](../a.md)\n")
        assert restamp(checkout, "translated", f"docs/zh/{page}.md") == (0, "")
    (checkout / "docs/README.md").write_text((checkout / "docs/README.md").read_text() + "[b](b.md)\n")
    assert links(checkout) == (1, "docs/zh/b.md: links to ../a.md, which docs/zh/a.md translates\n")


@pytest.mark.parametrize("text, code, finding", [
    ("```sh runnable\necho a 12 b\n```\n\n```text output\na 7 ...\n```\n", 0, "1 blocks"),
    ("```sh runnable\necho a\n```\n\n```text output\nb\n```\n", 1, ":1: the output lacks 'b'"),
    ("\n```sh runnable\nfalse\n```\n", 1, ":2: ended with 1"),
    ("```sh runnable\nfalse | true\n```\n", 1, ":1: ended with 1"),
    ("<!-- runnable\necho made >file\n-->\n\n```sh runnable\ncat file README.md >both && test -d build/bin\n```\n", 0, "2 blocks"),
    ("    echo not marked\n", 1, "nothing is marked as runnable"),
])
def test_runnable_blocks_run(tmp_path, text, code, finding):
    page = tmp_path / "page.md"
    page.write_text(text)
    p = subprocess.run([ROOT / "tools/pages", "run", page], capture_output=True, text=True, timeout=120,
                       env={**os.environ, "BUILD": str(ROOT / "build")})
    assert p.returncode == code and finding in p.stdout, p.stdout + p.stderr
