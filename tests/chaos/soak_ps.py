#!/usr/bin/env python3
"""Parameter servers under kills for a long time: jobs finish, with the model that they would have made undisturbed.

    tests/chaos/soak_ps.py [--minutes M] [--seed N] [--lines L] [--mode sync|async]

Two servers, which make checkpoints, and two trainers of wide_and_deep, sync and async in turn.  Random ones are killed, or stopped
for a while, and started again as a kubelet does; so is one that fails by itself, which is counted.  At the end of each job loss and
AUC are compared with those of a job that nobody disturbed, and the most memory that a server or a trainer had with theirs."""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / folder) for folder in (".", "integration")]

from rig import BIN, ROOT, free_port                                      # noqa: E402

NAMES = ("server0", "server1", "trainer0", "trainer1")
JOB_SECONDS = 600           # never: an undisturbed one takes a few
FAILURES_MAX = 3            # of processes that nobody killed, a job; more is no accident
# Sync, all go back together and make the same steps; only one that has finished does not.  Async, what was pushed to a server
# since its checkpoint is lost.
LOSS_MAX = {"sync": .01, "async": .03}
AUC_MAX = {"sync": .003, "async": .01}
# That a trainer has finished is known to those who are there: they must not all be lost before they have met again.
SETTLE_SECONDS = 5
RSS_MAX, RSS_ROOM = 1.5, 40 << 10       # KiB: a few lives' connections, and a checkpoint that is read


class Job:
    def __init__(self, mode, lines):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="soak-ps-"))
        self.ports = [free_port(), free_port()]
        self.words = ["--mode", mode, "--lines", str(lines), "--test-lines", "4000", "--batch-size", "64"]
        self.env = {"PATH": os.environ["PATH"], "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{p}" for p in self.ports),
                    "PADDLE_TRAINERS_NUM": "2", "PADDLE_PS_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
                    "PADDLE_PS_CHECKPOINT_STEPS": "40", "PADDLE_PS_LEASE": "3s", "PADDLE_PS_RETURN": "60s",
                    "PADDLE_JOB_TOKEN": "soak"}
        self.p, self.down, self.failures, self.peak = {}, set(), [], {"server": 0, "trainer": 0}
        self.start_s = time.monotonic()
        for name in NAMES:
            self.start(name)

    def start(self, name):
        role, i = name[:-1], int(name[-1])
        own = ({"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)} if role == "trainer" else
               {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(self.ports[i])})
        with open(self.folder / name, "a") as log:
            self.p[name] = subprocess.Popen([BIN / "wide_and_deep", *self.words], cwd=self.folder, env={**self.env, **own},
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.down.discard(name)

    def hit(self, name, signo):
        self.p[name].send_signal(signo)
        if signo == signal.SIGKILL:
            self.down.add(name)
            self.p[name].wait()

    def resume(self, name):
        self.p[name].send_signal(signal.SIGCONT)

    def log(self, name):
        return (self.folder / name).read_text(errors="replace")

    def trained(self):
        """The servers know, too: a trainer that is killed between its last word and its end has done all it had to."""
        return any(all(self.p[n].poll() == 0 for n in names) for names in (NAMES[:2], NAMES[2:]))

    def has_finished(self, name):
        return name in NAMES[2:] and any(f"trainer {name[-1]} has finished" in self.log(n) for n in NAMES[:2])

    def running(self):
        return [n for n in NAMES if self.p[n].poll() is None]

    def has_checkpoint(self):
        return any((self.folder / "checkpoints").glob("**/MANIFEST"))

    def tend(self):
        """As a kubelet: what has failed is started again.  And as an operator: once all trainers are done, the servers may go."""
        for name, p in self.p.items():
            if p.poll() not in (None, 0) and name not in self.down:
                self.failures.append(f"{name} ended with {p.returncode}: {self.log(name).strip().splitlines()[-1:]}")
                self.start(name)
            role, status = name[:-1], pathlib.Path(f"/proc/{p.pid}/status")
            try:
                rss = re.search(r"VmHWM:\s*(\d+)", status.read_text())
            except OSError:
                continue
            self.peak[role] = max(self.peak[role], int(rss[1]) if rss else 0)

    def late(self):
        return time.monotonic() - self.start_s > JOB_SECONDS or len(self.failures) > FAILURES_MAX

    def result(self):
        m = re.findall(r"TEST ---> loss: (\S+) auc: (\S+)", self.log("trainer0"))
        return (float(m[-1][0]), float(m[-1][1])) if m else None

    def end(self, keep):
        """Servers that have seen all trainers finish end by themselves; one that was started since cannot know."""
        stop = time.monotonic() + 20
        while not keep and time.monotonic() < stop and any(n in self.running() for n in NAMES[:2]):
            time.sleep(.1)
        left = [n for n in self.running() if n[:-1] == "server"]
        for p in self.p.values():
            if p.poll() is None:
                p.kill()
            p.wait()
        if not keep:
            shutil.rmtree(self.folder)
        return left


class Faults:
    """Names that wait for their end, and what that is."""

    def __init__(self, job, rng):
        self.job, self.rng, self.count = job, rng, {"kill": 0, "stop": 0}
        self.hit_s, self.next_s, self.waiting = 0, time.monotonic() + rng.uniform(.5, 2), {}

    def names(self):
        """Whom it may hit next: a server only once there is a checkpoint to begin with."""
        names = [n for n in self.job.running() if n not in self.waiting and not self.job.has_finished(n)]
        if any(self.job.has_finished(n) for n in NAMES) and (self.waiting or time.monotonic() < self.hit_s + SETTLE_SECONDS):
            return []
        return names if self.job.has_checkpoint() else [n for n in names if n[:-1] == "trainer"]

    def turn(self):
        now = time.monotonic()
        for name, (when, end) in list(self.waiting.items()):
            if when <= now:
                del self.waiting[name]
                self.hit_s = now
                end(name)
        if now >= self.next_s and (names := self.names()):
            self.next_s = now + self.rng.choice([.05, .5, 1, 2, 4])
            name = self.rng.choice(names)
            kill = self.rng.random() < .7
            self.count["kill" if kill else "stop"] += 1
            self.job.hit(name, signal.SIGKILL if kill else signal.SIGSTOP)
            seconds = self.rng.choice([0, 0, .2, 2] if kill else [.1, 1, 5])
            self.waiting[name] = now + seconds, self.job.start if kill else self.job.resume

    def over(self):
        for name, (_, end) in self.waiting.items():
            if end == self.job.resume:
                end(name)


def run(mode, lines, rng=None):
    """A job, disturbed if there is an rng; what is to be said of it."""
    job = Job(mode, lines)
    faults = Faults(job, rng) if rng else None
    try:
        while not job.trained() and not job.late():
            if faults:
                faults.turn()
            job.tend()
            time.sleep(.02)
    except BaseException:
        job.end(keep=True)
        raise
    if faults:
        faults.over()
    r = {"mode": mode, "seconds": round(time.monotonic() - job.start_s, 1), "model": job.result(), "rss_kib": dict(job.peak),
         "faults": faults.count if faults else {}, "failures": job.failures, "wrong": []}
    if not job.trained():
        r["wrong"].append(f"not finished; running: {job.running()}, logs in {job.folder}")
    r["servers_left"] = job.end(keep=bool(r["wrong"]))
    if not faults and r["servers_left"]:
        r["wrong"].append(f"servers did not end: {r['servers_left']}")
    return r


def compare(r, calm):
    """Adds what is wrong with a disturbed job, beside one that was not."""
    if r["wrong"]:
        return
    (loss, auc), (calm_loss, calm_auc) = r["model"], calm["model"]
    if abs(loss - calm_loss) > LOSS_MAX[r["mode"]] or abs(auc - calm_auc) > AUC_MAX[r["mode"]]:
        r["wrong"].append(f"loss {loss} and AUC {auc}, undisturbed {calm_loss} and {calm_auc}")
    for role, kib in r["rss_kib"].items():
        if kib > calm["rss_kib"][role] * RSS_MAX + RSS_ROOM:
            r["wrong"].append(f"a {role} had {kib} KiB, undisturbed {calm['rss_kib'][role]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--lines", type=int, default=120000)
    parser.add_argument("--mode", choices=("sync", "async"))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10 ** 6))
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"seed {args.seed}; load {open('/proc/loadavg').read().split()[0]}", flush=True)
    modes = [args.mode] if args.mode else ["sync", "async"]
    rng, end = random.Random(args.seed), time.monotonic() + 60 * args.minutes
    calm = {mode: run(mode, args.lines) for mode in modes}
    results = list(calm.values())
    while not any(r["wrong"] for r in results) and (time.monotonic() < end or len(results) < 2 * len(modes)):
        mode = modes[len(results) % len(modes)]
        results.append(run(mode, args.lines, rng))
        compare(results[-1], calm[mode])
        print(json.dumps(results[-1]), flush=True)
    faults = {k: sum(r["faults"].get(k, 0) for r in results) for k in ("kill", "stop")}
    wrong = [w for r in results for w in r["wrong"]]
    out = {"seed": args.seed, "jobs": len(results), "faults": faults, "failures": sum(len(r["failures"]) for r in results),
           "calm": calm, "wrong": wrong, "load": open("/proc/loadavg").read().split()[0]}
    (ROOT / "build/soak-ps.json").write_text(json.dumps({**out, "results": results}, indent=1))
    print(json.dumps(out))
    print("FAILED" if wrong else "ok")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
