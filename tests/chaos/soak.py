#!/usr/bin/env python3
"""Jobs come and go for a long time: memory stays flat, and the operator's store says what the server says.

    tests/chaos/soak.py [--minutes M] [--rate JOBS_PER_SECOND] [--seed N]

Every job runs, then succeeds, fails, or is scaled; soon after it is deleted.  Once a minute the coming and going pauses and
the operator's gauges are compared with the server, job by phase.  Memory is sampled every second; its slope is fitted to
what comes after the first fifth."""
import argparse
import collections
import heapq
import json
import pathlib
import queue
import random
import re
import sys
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / folder) for folder in (".", "integration"))]

from history import Feed, controller                                       # noqa: E402
from rig import GROUP, ROOT, ControlPlane, Operator, wait_for             # noqa: E402

NS = "soak"
SLOPE_MAX = 30          # KiB a minute: a leak of a hundred bytes a job would be as much
LIFE = (1, 6)           # seconds that a job runs
FATES = ("succeed", "fail", "scale", "delete")
HANDS = 8               # requests of ours at a time: one after the other they would set the pace


class Nodes:
    """All pods run at once, end when their job's hour has come, and go when they are deleted."""

    def __init__(self, plane):
        self.core, self.n, self.work = plane.core, 0, queue.SimpleQueue()
        self.pods = {}              # job name -> {pod name: pod}
        for _ in range(HANDS):
            threading.Thread(target=self.serve, daemon=True).start()
        self.feed = Feed(lambda **k: self.core.list_namespaced_pod(NS, _preload_content=False, **k), self.on)

    def on(self, kind, pod):
        job = pod["metadata"]["name"].rsplit("-", 2)[0]
        if kind in ("DELETED", "GONE"):
            self.pods.get(job, {}).pop(pod["metadata"]["name"], None)
        else:
            self.pods.setdefault(job, {})[pod["metadata"]["name"]] = pod
            if pod["metadata"].get("deletionTimestamp") or not pod["status"].get("podIP"):
                self.work.put((pod, None))

    def end(self, job, code):
        for pod in list(self.pods.get(job, {}).values()):
            self.work.put((pod, code))

    def serve(self):
        while True:
            pod, code = self.work.get()
            try:
                self.act(pod["metadata"], pod["spec"]["containers"], code)
            except Exception:       # gone meanwhile
                pass

    def act(self, meta, containers, code):
        if meta.get("deletionTimestamp"):
            self.core.delete_namespaced_pod(meta["name"], NS, grace_period_seconds=0, _preload_content=False,
                                            body={"preconditions": {"uid": meta["uid"]}})
            return
        state = {"running": {}} if code is None else {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
        status = {"phase": "Running" if code is None else "Failed" if code else "Succeeded",
                  "containerStatuses": [{"name": c["name"], "ready": code is None, "restartCount": 0, "image": "x",
                                         "imageID": "x", "state": state} for c in containers]}
        if code is None:
            self.n += 1
            status["podIP"] = f"10.{self.n >> 16 & 255}.{self.n >> 8 & 255}.{self.n & 255}"
            status["podIPs"] = [{"ip": status["podIP"]}]
        self.core.patch_namespaced_pod_status(meta["name"], NS, {"metadata": {"uid": meta["uid"]}, "status": status},
                                              _preload_content=False)


def slope(samples):
    """KiB a minute, by least squares."""
    n = len(samples)
    mean_t, mean_v = sum(t for t, _ in samples) / n, sum(v for _, v in samples) / n
    spread = sum((t - mean_t) ** 2 for t, _ in samples)
    return 60 * sum((t - mean_t) * (v - mean_v) for t, v in samples) / spread if spread else 0


class Soak:
    def __init__(self, plane, operator, seed):
        self.plane, self.operator, self.rng = plane, operator, random.Random(seed)
        self.nodes = Nodes(plane)
        self.agenda, self.count, self.fates, self.alive = [], 0, collections.Counter(), set()
        self.samples, self.drift, self.late, self.wrong = [], [], 0, []
        self.lock, self.hands = threading.Lock(), threading.Semaphore(HANDS)

    def later(self, seconds, fn, *args):
        with self.lock:
            heapq.heappush(self.agenda, (time.monotonic() + seconds, self.rng.random(), fn, args))

    def do(self, fn, *args):
        """By the first hand that is free."""
        def run():
            try:
                fn(*args)
            except Exception as e:
                self.wrong.append(e)
            finally:
                self.hands.release()
        self.hands.acquire()
        threading.Thread(target=run, daemon=True).start()

    def begin(self):
        name, fate = f"j{self.count}", self.rng.choice(FATES)
        self.count += 1
        self.fates[fate] += 1
        self.alive.add(name)
        self.do(self.create, name, fate)

    def create(self, name, fate):
        self.plane.create(NS, name, ps=self.rng.choice([None, 1]), worker=self.rng.randrange(1, 4),
                          cleanPodPolicy=self.rng.choice(["Always", "Never", "OnFailure", "OnCompletion"]),
                          intranet=self.rng.choice(["PodIP", "PodIP", "Service", "Host"]))
        self.later(self.rng.uniform(*LIFE), self.turn, name, fate)

    def turn(self, name, fate):
        if fate in ("succeed", "fail"):
            self.nodes.end(name, int(fate == "fail"))
        elif fate == "scale":
            self.plane.patch(NS, name, {"spec": {"worker": {"replicas": self.rng.randrange(4)}}})
        self.later(0 if fate == "delete" else self.rng.uniform(1, 4), self.leave, name)

    def leave(self, name):
        self.plane.delete(NS, name)
        self.nodes.pods.pop(name, None)
        self.alive.discard(name)

    def due(self):
        with self.lock:
            if self.agenda and self.agenda[0][0] <= time.monotonic():
                return heapq.heappop(self.agenda)[2:]
        return None

    def tick(self):
        assert not self.wrong, self.wrong
        while due := self.due():
            self.do(due[0], *due[1])

    def gauges(self):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.operator.metrics}/metrics", timeout=10).read().decode()
        return {k: int(v) for k, v in re.findall(r"^(paddlejob_(?:jobs\{\S*|pods)) (\d+)$", text, re.M) if int(v)}

    def server(self):
        want = collections.Counter()
        for j in self.plane.jobs(NS):
            want[f'paddlejob_jobs{{phase="{(j.get("status") or {}).get("phase") or "None"}"}}'] += 1
        pods = json.loads(self.plane.core.list_namespaced_pod(NS, _preload_content=False).data)["items"]
        want["paddlejob_pods"] = sum(1 for p in pods if controller(p))
        return {k: v for k, v in want.items() if v}

    def compare(self):
        """A pause until both say the same; what they say when neither has said anything new for half a minute, or after five."""
        said, since, end = None, 0, time.monotonic() + 300
        while True:
            now, says = time.monotonic(), (self.gauges(), self.server())
            if says[0] == says[1]:
                return
            if says != said:
                said, since = says, now
            if now > min(since + 30, end):
                self.drift.append(f"the store has {says[0]}, the server {says[1]}")
                print("DRIFT", self.drift[-1], flush=True)
                return
            time.sleep(.3)

    def churn(self, seconds, rate):
        start = time.monotonic()
        next_job, next_sample, next_pause = start, start, start + 60
        while time.monotonic() < start + seconds:
            now = time.monotonic()
            assert self.operator.p.poll() is None, "the operator ended by itself"
            if now >= next_job:
                self.begin()
                next_job += 1 / rate
                if next_job < now - 1:          # this machine cannot keep up: no heap of debts
                    self.late, next_job = self.late + 1, now
            self.tick()
            if now >= next_sample:
                self.samples.append((now - start, self.operator.rss()))
                next_sample += 1
            if now >= next_pause:
                self.compare()
                self.say(now - start)
                next_job, next_pause = time.monotonic(), time.monotonic() + 60
            time.sleep(max(0, min(next_job, next_sample) - time.monotonic(), .002))

    def say(self, seconds):
        kept = [s for s in self.samples if s[0] > seconds / 5]
        print(f"{seconds:6.0f} s  {self.count} jobs ({self.count / seconds:.1f}/s)  RSS {self.operator.rss()} KiB  "
              f"slope {slope(kept):+.1f} KiB/min  CPU {self.operator.cpu():.1f} s  drift {len(self.drift)}", flush=True)

    def drain(self):
        while self.alive:
            self.tick()
            time.sleep(.02)
        wait_for(lambda: not self.server(), 120, "everything deleted", .5)
        self.compare()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10 ** 6))
    args = parser.parse_args()
    print(f"seed {args.seed}; load {open('/proc/loadavg').read().split()[0]}")
    plane = ControlPlane()
    plane.end("controller-manager")     # its collector would learn of PaddleJobs half a minute later
    plane.up()
    operator = Operator(plane.kubeconfig, "--server-grace=0s")
    try:
        plane.namespace(NS)
        soak = Soak(plane, operator, args.seed)
        soak.churn(60 * args.minutes, args.rate)
        soak.drain()
        kept = [s for s in soak.samples if s[0] > 60 * args.minutes / 5]
        result = {"minutes": args.minutes, "jobs": soak.count, "rate": round(soak.count / args.minutes / 60, 2),
                  "fates": dict(soak.fates), "rss_kib_first": kept[0][1], "rss_kib_last": kept[-1][1],
                  "rss_kib_end": operator.rss(), "slope_kib_per_minute": round(slope(kept), 2),
                  "operator_cpu_s": operator.cpu(), "drift": soak.drift, "late": soak.late, "seed": args.seed,
                  "load": open("/proc/loadavg").read().split()[0]}
        (ROOT / "build/soak.json").write_text(json.dumps(result, indent=1))
        print(json.dumps(result))
        bad = bool(soak.drift) or result["slope_kib_per_minute"] > SLOPE_MAX
        print("FAILED" if bad else "ok")
        return bad
    finally:
        text = operator.text()
        operator.close()
        print("\n".join(l[:300] for l in text.splitlines() if "level=error" in l)[:2000])
        plane.down()


if __name__ == "__main__":
    sys.exit(main())
