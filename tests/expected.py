"""The `expect` files of examples against what a job has printed."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]


def check_expected(text, example="wide_and_deep"):
    """The lines of an `expect` file against output whose lines begin with the pod's name."""
    for row in (ROOT / "examples" / example / "expect").read_text().splitlines():
        if not row.strip() or row.startswith("#"):
            continue
        whose, op, rest = row.split(None, 2)
        number, pattern = (None, rest.strip()) if op == "-" else rest.split(None, 1)
        lines = [l for l in text.splitlines() if re.match(rf"\S*{whose}\b", l)]
        hits = [m for m in (re.search(pattern, l) for l in lines) if m]
        assert hits, f"no line of {whose} matches {pattern!r}:\n" + "\n".join(lines[-20:])
        if number:
            value = float(hits[-1].group(1))
            assert {"<=": value <= float(number), ">=": value >= float(number)}[op], f"{value} is not {op} {number}"
