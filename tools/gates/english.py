"""Gates of how comments and names are worded."""
import io
import os
import re
import tokenize

C = re.compile(r"""(?P<comment>//[^\n]*|/\*.*?\*/)"""
               r"""|(?P<other>'(?:\\.|[^'\\\n])*'|^[ \t]*\#[ \t]*include[^\n]*)|(?P<text>(?:"(?:\\.|[^"\\\n])*"\s*)+)"""
               r"""|(?P<name>[A-Za-z_]\w*)""", re.S | re.M)

# Whose texts users read.
PRODUCT = r"(common|crd|operator|runtime|examples|python)/.*(?<!_test\.c)(?<!_testing\.[ch])(?<!_fuzz\.c)"


def of_c(text):
    """(kind, place, text) of comments, names and texts; those that the compiler joins are one."""
    for m in C.finditer(text):
        if m.lastgroup != "other":
            yield m.lastgroup, m.start(), m[0]


def of_python(text):
    """The same; a docstring is a comment."""
    begins = [0]
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    first = True        # of a statement
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        place = begins[t.start[0] - 1] + t.start[1]
        if t.type == tokenize.NAME:
            yield "name", place, t.string
        elif t.type == tokenize.COMMENT or (t.type == tokenize.STRING and first):
            yield "comment", place, t.string
        elif t.type == tokenize.STRING:
            yield "text", place, t.string
        if t.type not in (tokenize.COMMENT, tokenize.NL):
            first = t.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def of_page(text):
    """All of it, but for the table of words."""
    yield "comment", 0, re.sub(r"^## Words\n.*?(?=^## |\Z)", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S | re.M)


READERS = {".c": of_c, ".h": of_c, ".py": of_python, ".md": of_page}


def words(tree):
    """Comments, names, pages and what the product prints say things in the words of the field; names that rt.h exports are older."""
    rows = tree.table("Words", "CONTRIBUTING.md")
    if not rows:
        yield "CONTRIBUTING.md: no table of words"
        return
    instead = {word.strip(): row[1] for row in rows for word in row[0].split(",")}
    listed = "|".join(re.escape(word) for word in sorted(instead, key=len, reverse=True))
    find = {"comment": re.compile(r"\b(%s)\b" % listed.replace(r"\ ", r"\s+(?:[*#/]+\s+)?"), re.I),
            "text": re.compile(r"\b(%s)\b" % listed.replace(r"\ ", r'(?:\s|"\s*")+'), re.I),
            "name": re.compile("(?:^|_)(%s)(?=_|$)" % listed.replace(r"\ ", "_"))}
    exported = set(tree.text("runtime/exports").split())
    for f in tree.files:
        read = READERS.get(os.path.splitext(f)[1])
        if not read:
            continue
        text = tree.text(f)
        for kind, place, piece in read(text):
            if kind == "name" and piece in exported or kind == "text" and not re.fullmatch(PRODUCT, f):
                continue
            for m in find[kind].finditer(piece):
                word = re.sub(r'[\s*#/"]+', " ", m[1]).replace("_", " ")
                where = text.count("\n", 0, place + m.start()) + 1
                yield f"{f}:{where}: {piece if kind == 'name' else word}: say {instead[word.lower()]}"
