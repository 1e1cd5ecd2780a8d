"""What all runs of tests/run count and print: passed, failed with what to send of it, and how long each part took."""
import collections
import os
import pathlib
import re
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMES = "TESTS_TIMES"       # in the environment: the file where the runs that one began gather their rows
TAIL = 60                   # lines of a log that a failure prints
SANITIZER = re.compile(r"(WARNING|ERROR): \w+Sanitizer|: runtime error: ")
SLOWEST, APART = 15, 12
passed, failures, lock = 0, [], threading.Lock()


def say(line):
    sys.stdout.write(line + "\n")      # whole, as others may speak at the same time
    sys.stdout.flush()


def ok(n=1):
    global passed
    with lock:
        passed += n


def fail(name, why, out="", again="", tail=True):
    """Said at once, and again at the end: a reader may have the end alone.  With the last lines of its output, the seed that it
    printed, and the command that does the same again."""
    said = re.findall(r"^.*\bseed:? +\d+.*$", out, re.M)[-1:]
    own = (re.findall(r"again: *(.+?)[)\s]*$", out, re.M) or [""])[-1]      # of who drew at random: a command, or what goes before one
    again = re.sub(r"(?=tests/run )", own + " ", again) if again and re.fullmatch(r"\w+=\S+", own) else own or again
    sent = [f"  {line.strip()}" for line in said] + ([f"  again: {again}"] if again else [])
    with lock:
        failures.append((f"{name}: {why}", sent))
    lines = out.splitlines()
    stacks = next((n for n, line in enumerate(lines) if line.startswith("still there: ")), len(lines))      # of supervise: all of them
    first = max(0, stacks - TAIL)
    report = next((n for n in range(first) if SANITIZER.search(lines[n])), first)      # the first one, which may be far above
    shown = [*lines[report:min(report + TAIL, first)], *lines[first:]] if tail else []
    say("\n".join([f"FAILED {name}: {why}", *sent, *(f"    {line}" for line in shown)]))


def of_another_run(line):
    """A line that another tests/run printed: its failures are ours, too."""
    if m := re.match(r"FAILED ((?:(?!::).)+?: .*)", line):              # ours; pytest's own have "::"
        failures.append((m[1], []))
    elif failures and re.match(r"  (again: |\S.*\bseed\b)", line):
        failures[-1][1].append(line)


def allowed_skips():
    """Lines "test-name  reason" of tests/skips."""
    rows = {}
    for line in (ROOT / "tests/skips").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, reason = line.split(None, 1)
            rows[name] = reason
    return rows


def skip(name):
    reason = allowed_skips().get(name)
    if reason:
        say(f"{name}: skipped: {reason}")
    else:
        fail(name, "skipped without a reason in tests/skips")


def took(kind, name, seconds, cpu=0.0, began=0.0):
    """A part of a run: kind is "part" for a make target, else what ran there; cpu: seconds of processors, where they are known."""
    file = os.environ.get(TIMES)
    if file:
        with open(file, "a") as f:
            f.write(f"{kind}\t{name}\t{began:.1f}\t{seconds:.1f}\t{cpu:.1f}\n")


def idle():
    """Seconds that this machine's processors, together, have had nothing to do."""
    words = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return sum(map(int, words[4:6])) / os.sysconf("SC_CLK_TCK")                # idle, and waiting for a disk


def times():
    """What `took` gathered, for people: the parts in the order of their beginning, then what took longest in them."""
    rows = [line.split("\t") for line in pathlib.Path(os.environ[TIMES]).read_text().splitlines()]
    parts = sorted((float(began), float(seconds), float(cpu), name) for kind, name, began, seconds, cpu in rows if kind == "part")
    if parts:
        say("minutes, from their beginning to their end, and of processors; those of other columns ran beside the first:")
    for began, seconds, cpu, name in parts:
        name, lane = name.rsplit(" ", 1)
        say(f"  {'':{36 * int(lane)}}{name:14}{began / 60:5.1f} - {(began + seconds) / 60:4.1f} {cpu / 60:6.1f}")
    if parts:
        had = os.cpu_count() * max(began + seconds for began, seconds, *_ in parts)
        say(f"  processors were used for {sum(cpu for _, _, cpu, _ in parts) / 60:.1f} of {had / 60:.1f} minutes"
            + "".join(f", and idle for {float(seconds) / 60:.1f}" for kind, _, _, seconds, _ in rows if kind == "idle"))
    apart = collections.Counter()
    for kind, name, _, _, cpu in rows:
        if kind == "apart":
            apart[name] += float(cpu) / 60
    if apart:
        say("  of them, by what tests started apart: " + ", ".join(f"{name} {cpu:.1f}" for name, cpu in apart.most_common(APART)))
    longest = sorted(((float(seconds), float(cpu), kind, name) for kind, name, _, seconds, cpu in rows if kind not in ("part", "idle", "apart")), reverse=True)
    if longest:
        say("what took longest, in seconds, and of processors:")
    for seconds, cpu, kind, name in longest[:SLOWEST]:
        say(f"  {seconds:6.1f} {f'{cpu:6.1f}' if cpu else '      '}  {kind}: {name}")


def end(start):
    """The last lines, and the exit code."""
    if failures:
        say("failed:")
        for f, sent in failures:
            say("\n".join([f"  {f}", *(f"  {line}" for line in sent)]))
    say(f"{time.monotonic() - start:.0f} s")
    say(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0
