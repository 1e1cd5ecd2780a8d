"""Looks for tests that fail now and then: copies of each program side by side, more than there are processors."""
import collections
import concurrent.futures
import os
import re

import tally
from programs import again, environment, name_of
from supervise import run, timed

COPIES, ROUNDS = 8, int(os.environ.get("HUNT_ROUNDS", "2"))
LONGEST, SHORTEST = 400, 60     # seconds: of a program alone; what any program gets among its copies
SLOWER = 4                      # times what it takes alone, had it a processor to itself
# Each copy is stopped again and again; then it takes so many times as long.
STOPS, STOPPED = os.environ.get("HUNT_STOPS"), 8


def failed_tests(code, out, seconds):
    """Names of what failed, or what the program did instead."""
    bad = re.findall(r"^not ok \d+ - (.*)$", out, re.M)
    if code == 124:
        bad.append(f"still running after {seconds:.0f} s")
    elif code and not bad:
        bad.append(f"ended with {code}")
    return bad


def hunt_one(program):
    """(runs, {what failed: outputs})"""
    env, found, limit = environment(program), collections.defaultdict(list), LONGEST
    code, out, alone, _ = timed([program], limit, env)
    for what in failed_tests(code, out, limit):
        found[what].append(out)
    limit = max(SHORTEST, SLOWER * alone * COPIES / os.cpu_count()) * (STOPPED if STOPS else 1)
    command = [tally.ROOT / "tests/stops.py", program] if STOPS else [program]

    def copy(_):
        for _ in range(ROUNDS):
            yield run(command, limit, env)

    with concurrent.futures.ThreadPoolExecutor(COPIES) as pool:
        for runs in pool.map(lambda n: list(copy(n)), range(COPIES)):
            for code, out in runs:
                for what in failed_tests(code, out, limit):
                    found[what].append(out)
    return 1 + COPIES * ROUNDS, found


def hunt(programs):
    logs = tally.ROOT / "build/hunt"
    logs.mkdir(parents=True, exist_ok=True)
    tally.say(f"hunt: {len(programs)} programs, {COPIES} copies side by side, {ROUNDS} times each")
    for program in programs:
        name = name_of(program)
        runs, found = hunt_one(program)
        tally.say(f"  {name}: {runs} runs, {sum(map(len, found.values()))} failed")
        for what, outs in found.items():
            log = logs / f"{re.sub('[^A-Za-z0-9_]+', '-', f'{name} {what}')[:100]}.log"
            log.write_text("\n=====\n".join(outs))
            tally.fail(f"{name}: {what}", f"{len(outs)} of {runs} runs; their logs: {log}", outs[0], again(program, "hunt"))
        if not found:
            tally.ok()
