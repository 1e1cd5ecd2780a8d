"""Gates of how comments and names are worded."""
import io
import re
import tokenize

C = re.compile(r"""(?P<comment>//[^\n]*|/\*.*?\*/)"""
               r"""|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|^[ \t]*\#[ \t]*include[^\n]*)"""
               r"""|(?P<name>[A-Za-z_]\w*)""", re.S | re.M)


def of_c(text):
    """(kind, place, text) of comments and names."""
    for m in C.finditer(text):
        if m.lastgroup != "text":
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
        if t.type not in (tokenize.COMMENT, tokenize.NL):
            first = t.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def words(tree):
    """Comments and names say things in the words of the field.  What users see is not looked at, nor what rt.h exports."""
    rows = tree.table("Words", "CONTRIBUTING.md")
    if not rows:
        yield "CONTRIBUTING.md: no table of words"
        return
    instead = {word.strip(): row[1] for row in rows for word in row[0].split(",")}
    listed = "|".join(re.escape(word) for word in sorted(instead, key=len, reverse=True))
    find = {"comment": re.compile(r"\b(%s)\b" % listed.replace(r"\ ", r"\s+(?:[*#/]+\s+)?"), re.I),
            "name": re.compile("(?:^|_)(%s)(?=_|$)" % listed.replace(r"\ ", "_"))}
    exported = set(tree.text("runtime/exports").split())
    for f in tree.files:
        if not f.endswith((".c", ".h", ".py")):
            continue
        text = tree.text(f)
        for kind, place, piece in (of_python if f.endswith(".py") else of_c)(text):
            if kind == "name" and piece in exported:
                continue
            for m in find[kind].finditer(piece):
                word = re.sub(r"[\s*#/]+", " ", m[1]).replace("_", " ")
                where = text.count("\n", 0, place + m.start()) + 1
                yield f"{f}:{where}: {word if kind == 'comment' else piece}: say {instead[word.lower()]}"
