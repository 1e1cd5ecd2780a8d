"""One round: all moments at once under one fault, then everything that must be true afterwards."""
import concurrent.futures
import glob
import json
import os
import pathlib
import random
import re
import signal
import time

import urllib3
from kubernetes import client
from kubernetes.client.rest import ApiException

import moments
from history import FINAL, History, controller, lies, missing, orphans, unpublished
from rig import SANITIZED, Operator, fetch, proxied, wait_for

CONVERGE = 75       # seconds: the longest backoff is 30
QUIET = 1.5         # seconds without a request that count as quiet
RSS_KIB = 64 << 10
FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"
LEASE = "b2a304f2.paddlepaddle.org"


class Moment:
    """The jobs of one moment in a round."""

    def __init__(self, round_, row_name):
        self.round, self.row_name, self.row = round_, row_name, moments.ROWS[row_name]
        self.plane, self.ns = round_.plane, round_.ns
        self.rng = random.Random(f"{round_.seed}/{row_name}")
        self.ends = {}
        self.wrong = []

    def name(self, job):
        return f"{self.row_name}-{job}"

    def call(self, fn, *fine):
        """fn(), again while there is no server; an answer of `fine` is as good."""
        end = time.monotonic() + 60
        while True:
            try:
                return fn()
            except ApiException as e:
                if e.status in fine:
                    return None
                if e.status < 500 and e.status != 429 or time.monotonic() > end:
                    raise
            except (urllib3.exceptions.HTTPError, OSError):
                if time.monotonic() > end:
                    raise
            time.sleep(.1)

    def attempt(self, fn, *fine):
        return self.call(fn, 404, 409, *fine, 422)

    def create(self, job, **spec):
        return self.call(lambda: self.plane.create(self.ns, self.name(job), **spec), 409)

    def patch(self, job, body):
        return self.call(lambda: self.plane.patch(self.ns, self.name(job), body))

    def delete(self, job):
        return self.call(lambda: self.plane.delete(self.ns, self.name(job)), 404)

    def job(self, job):
        return self.call(lambda: self.plane.job(self.ns, self.name(job)), 404)

    def until(self, what, seconds, why=""):
        return wait_for(what, seconds * self.round.patience, why, .1)

    def wait(self, job, phase):
        status = lambda: (self.round.history.job(self.name(job)) or {}).get("status", {})
        self.until(lambda: status().get("phase") == phase, 30, lambda: f"{job} is {json.dumps(status())[:600]}, expected {phase}")

    def poke(self):
        """The nodes look at the moment's pods again: what ends them may be new."""
        for pod in self.call(lambda: self.plane.core.list_namespaced_pod(self.ns)).items:
            if pod.metadata.name.startswith(self.row_name + "-"):
                self.call(lambda: self.round.kubelet.on({"type": "MODIFIED", "object": pod}), 404)

    def end_of(self, pod):
        for job, fn in self.ends.items():
            if re.fullmatch(f"{re.escape(self.name(job))}-(ps|worker|heter)-\\d+", pod.metadata.name):
                return fn(pod)
        return None

    def received(self):
        """The operator's last lines about the moment's jobs."""
        words = f"={self.row_name}-"
        lines = [line for o in self.round.operators for line in o.text().splitlines() if words in line]
        return "\n".join(lines[-30:])

    # ---- the end

    def problem(self, jobs, pods, others):
        """What is not yet as it must be in the end; None: all is."""
        for job, phase in self.row.ends.items():
            have = jobs.get(self.name(job))
            if phase is None:
                left = [n for n in pods if n.startswith(self.name(job) + "-")]
                if have or left:
                    return f"{job} is to be gone: {'it is there' if have else left}"
                continue
            if not have:
                return f"{job} is missing"
            state = have.get("status") or {}
            if state.get("phase") != phase:
                return f"{job} is {json.dumps(state)[:500]}, not {phase}"
            wrong = {k: state.get(k) for k, v in self.row.status.items() if state.get(k) != v}
            if wrong:
                return f"{job} says {wrong}, not {self.row.status}: {json.dumps(state)[:500]}"
            if self.row.says not in state.get("message", ""):
                return f"{job} says {state.get('message')!r}, not {self.row.says!r}"
            if phase not in FINAL:
                trouble = lies(have, pods) or missing(have, others) or unpublished(have, pods, others)
                if trouble:
                    return f"{job}: {trouble}"
            if job in self.row.pods:
                live = sorted(n for n, p in pods.items() if n.startswith(self.name(job) + "-")
                              and not p["metadata"].get("deletionTimestamp"))
                if live != sorted(f"{self.name(job)}-{n}" for n in self.row.pods[job]):
                    return f"{job} has pods {live}, not {self.row.pods[job]}"
        return None


class Round:
    spared = False      # there was nothing to break

    def __init__(self, plane, kubelet, fault_name, row, names, seed, directory, patience=1.0):
        self.plane, self.kubelet, self.fault_name, self.row = plane, kubelet, fault_name, row
        self.seed, self.least_patience = seed, patience
        self.ns = f"chaos-{fault_name}-{random.SystemRandom().randrange(16 ** 4):04x}"
        self.dir = pathlib.Path(directory) / self.ns
        self.dir.mkdir(parents=True)
        self.proxy = plane.proxy(random.Random(f"{seed}/{fault_name}"))
        self.config = proxied(plane, self.proxy, self.dir)
        self.moments = [Moment(self, n) for n in names]
        self.operators, self.clock, self.down = [], None, False
        self.figures, self.idle = {}, []

    @property
    def patience(self):
        """By the load as it is: neighbours come and go."""
        return max(self.least_patience, os.getloadavg()[0] / os.cpu_count() / 3)

    # ---- steps of the rows in faults.ROWS

    def cut(self):
        self.proxy.cut()

    def freeze(self):
        self.proxy.frozen = True

    def thaw(self):
        self.proxy.frozen = False

    def kill(self):
        self.operators[0].kill()

    def start(self):
        self.operators[0].start()

    def second(self):
        self.operators.append(self.operator())

    def stop_process(self):
        os.kill(self.operators[0].p.pid, signal.SIGSTOP)

    def continue_process(self):
        os.kill(self.operators[0].p.pid, signal.SIGCONT)

    def steal_lease(self):
        client.CoordinationV1Api().patch_namespaced_lease(LEASE, self.ns, {"spec": {
            "holderIdentity": "thief", "leaseDurationSeconds": 2}})

    def set_clock(self, offset):
        (self.dir / "clock").write_text(offset)

    def clock_forward(self):
        self.set_clock("+3600")

    def clock_back(self):
        self.set_clock("-3600")

    def kill_apiserver(self):
        self.plane.kill("apiserver")
        self.down = True

    def terminate_apiserver(self):
        self.plane.kill("apiserver", signal.SIGTERM)

    def freeze_apiserver(self):
        self.plane.kill("apiserver", signal.SIGSTOP)

    def thaw_apiserver(self):
        self.plane.kill("apiserver", signal.SIGCONT)

    def kill_etcd(self):
        self.plane.kill("etcd")
        self.down = True

    def compact(self):
        self.plane.compact()

    def back_up(self):
        self.plane.back_up()

    def restore(self):
        self.history.rewound = True
        self.plane.restore()

    # ---- the round

    def operator(self):
        env = {}
        if any(step.startswith("clock") for _, step in self.row.steps):
            self.set_clock("+0")
            env = {"LD_PRELOAD": glob.glob(FAKETIME)[0], "FAKETIME_TIMESTAMP_FILE": str(self.dir / "clock"), "FAKETIME_NO_CACHE": "1",
                   "FAKETIME_DONT_FAKE_MONOTONIC": "1", "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") +
                   ":verify_asan_link_order=0"}
        return Operator(self.config, f"--namespace={self.ns}", "--server-grace=0s", "--restart-backoff=1s",
                        *(f.format(ns=self.ns) for f in self.row.flags), env=env)

    def end_of(self, pod):
        if pod.metadata.namespace != self.ns:
            return None
        return next((e for e in (m.end_of(pod) for m in self.moments) if e), None)

    def each(self, what):
        """what(moment) for all at once; one that fails is out."""
        def guarded(m):
            if m.wrong:
                return
            try:
                what(m)
            except Exception as e:      # whatever it is, it is this cell's
                m.wrong.append(f"{type(e).__name__}: {str(e)[:700]}")
        with concurrent.futures.ThreadPoolExecutor(len(self.moments)) as pool:
            list(pool.map(guarded, self.moments))

    def run(self):
        self.plane.namespace(self.ns)
        self.history = History(self.plane, self.ns)
        self.kubelet.enders[self.ns] = self.end_of
        self.operators.append(self.operator())
        try:
            self.each(lambda m: m.row.before(m))
            self.break_things()
            self.heal()
            if self.row.redo:
                self.each(lambda m: m.row.during(m))
            self.each(lambda m: m.row.after(m))
            self.settle()
            self.look()
            self.once_more()
        finally:
            self.close()

    def do(self, step):
        getattr(self, step)()

    def break_things(self):
        steps = sorted(self.row.steps)
        for _, step in [s for s in steps if s[0] < 0]:
            self.do(step)
        self.proxy.limit = self.row.limit
        self.proxy.faults = [type(f)(**{**f.__dict__, "hits": 0}) for f in self.row.faults]
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            acting = pool.submit(self.each, lambda m: m.row.during(m))
            for at, step in [s for s in steps if s[0] >= 0]:
                time.sleep(max(0, start + at - time.monotonic()))
                self.do(step)
            time.sleep(max(0, start + self.row.seconds - time.monotonic()))
            if self.down:
                self.plane.up()
            acting.result()
        self.figures["hits"] = sum(f.hits for f in self.proxy.faults) + len(steps)
        self.idle = [f"{f.do} {f.match}" for f in self.proxy.faults if not f.hits]

    def heal(self):
        self.proxy.faults, self.proxy.limit, self.proxy.frozen = [], 0, False
        self.healed = time.monotonic()

    def world(self):
        """Jobs and pods by name; Services and ConfigMaps by (kind, name)."""
        core = self.plane.core
        items = lambda request: json.loads(request(self.ns, _preload_content=False).data)["items"]
        others = {(kind, o["metadata"]["name"]): o for kind, request in (
            ("Service", core.list_namespaced_service), ("ConfigMap", core.list_namespaced_config_map)) for o in items(request)}
        return ({j["metadata"]["name"]: j for j in self.plane.jobs(self.ns)},
                {p["metadata"]["name"]: p for p in items(core.list_namespaced_pod)}, others)

    def settle(self):
        left = [m for m in self.moments if not m.wrong]
        end = self.healed + CONVERGE * self.patience
        while left:
            world = self.world()
            why = {m: m.problem(*world) for m in left}
            self.figures.update({m.row_name: f"{time.monotonic() - self.healed:.1f}" for m in left if not why[m]})
            left = [m for m in left if why[m]]
            if left and time.monotonic() > end:
                for m in left:
                    m.wrong.append(f"not within {CONVERGE} s: {why[m]}")
                break
            time.sleep(.3)
        self.figures["settled"] = time.monotonic() - self.healed

    def all_wrong(self, what):
        for m in self.moments:
            m.wrong.append(what)

    def blame(self, name, what):
        """The moment that a name of a job belongs to, or all of them."""
        owners = [m for m in self.moments if name.startswith(m.row_name + "-")]
        for m in [max(owners, key=lambda m: len(m.row_name))] if owners else self.moments:
            m.wrong.append(what)

    def acts(self, since):
        """"METHOD path name" of what the operator did, apart from trying again what the API server refuses."""
        pattern = rf"(POST|PATCH|PUT|DELETE) .*/namespaces/{self.ns}/(\w+)"
        found = []
        for at, line in self.proxy.requests(since=since):
            act = re.match(pattern, line)
            path = re.search(rf"/namespaces/{self.ns}/\w+/([^/?]+)", line)
            name = path.group(1) if path else self.proxy.names.get(at, "")
            if act and act.group(2) != "events" and not name.startswith("garbage-"):
                found.append(f"{line} {name}")
        return found

    def quiet(self):
        """False: requests do not end, or are put off for ever."""
        end = time.monotonic() + 40 * self.patience
        while time.monotonic() < end:
            since = time.monotonic()
            time.sleep(QUIET)
            self.noise = self.acts(since) or self.put_off()
            if not self.noise:
                return True
        return False

    def put_off(self):
        """Status writes that wait for more to say: an operator that is killed now leaves them to the next one."""
        text = "".join(fetch(o.metrics) for o in self.operators if o.p.poll() is None)
        return re.findall(r"^paddlejob_status_waiting [1-9].*$", text, re.M)

    def look(self):
        if self.idle and len(self.moments) > 1:     # one moment alone may have nothing that a fault is for
            self.all_wrong(f"never struck: {self.idle}")
        if not self.quiet():
            self.all_wrong(f"not quiet: {self.noise[:4]}")
        for o in self.operators:
            if o.p.poll() is not None:
                self.all_wrong(f"an operator ended by itself with {o.p.returncode}: {o.text()[-800:]}")
                continue
            status = pathlib.Path(f"/proc/{o.p.pid}/status").read_text()
            peak = int(re.search(r"VmHWM:\s+(\d+)", status).group(1))
            self.figures["rss"] = max(peak, self.figures.get("rss", 0))
            if peak > RSS_KIB and not SANITIZED:
                self.all_wrong(f"{peak} KiB at most")
        for what in self.left_over():
            self.blame(what.split()[1], what)
        for job, what in self.history.verdict(self.row.blind, self.patience):
            self.blame(job, what)
        self.gauges()

    def left_over(self):
        """Once the garbage collector has had its time, which it needs after an API server that was away."""
        end = time.monotonic() + CONVERGE * self.patience
        while True:
            jobs, *_ = self.world()
            found = orphans(self.plane, self.ns, jobs.values())
            if not found or time.monotonic() > end:
                return found
            time.sleep(.3)

    def gauges(self):
        """The store holds what the server holds, phase by phase; what has drifted stays so, what is late does not."""
        end = time.monotonic() + 5 * self.patience
        held, there = self.held_and_there()
        while held != there and time.monotonic() < end:
            time.sleep(.2)
            held, there = self.held_and_there()
        if held != there:
            self.all_wrong(f"the store has {held}, the server {there}")

    def held_and_there(self):
        jobs, pods, _ = self.world()
        want = {"paddlejob_pods": len([p for p in pods.values() if controller(p)])}
        for j in jobs.values():
            key = f'paddlejob_jobs{{phase="{(j.get("status") or {}).get("phase") or "None"}"}}'
            want[key] = want.get(key, 0) + 1
        text = fetch(self.operators[0].metrics)
        have = {k: int(v) for k, v in re.findall(r"^(paddlejob_(?:jobs\{\S*|pods)) (\d+)$", text, re.M) if int(v)}
        return have, {k: v for k, v in want.items() if v}

    def once_more(self):
        """An operator that knows nothing of before finds nothing to do: the one before it missed nothing."""
        for o in self.operators:
            o.kill()
        o = self.operators[0]
        del self.operators[1:]
        since = time.monotonic()
        o.start()
        try:
            wait_for(lambda: o.text().rsplit("msg=paddle-operator", 1)[-1].count("in sync"), 30 * self.patience, o.text()[-500:])
        except AssertionError as e:
            self.all_wrong(str(e))
            return
        time.sleep(.7)
        end = time.monotonic() + 5 * self.patience
        while self.put_off() and time.monotonic() < end:
            time.sleep(.2)
        for r in self.acts(since):
            self.blame(r.rsplit(" ", 1)[1], f"a new operator found something left to do: {r}")

    def close(self):
        self.history.close()
        self.kubelet.enders.pop(self.ns, None)
        failed = [m for m in self.moments if m.wrong]
        for o in self.operators:
            (self.dir / "operator.log").write_text(o.text())
            if o.p.poll() is None:
                o.p.send_signal(signal.SIGCONT)
            try:
                o.close()
            except AssertionError as e:
                self.all_wrong(str(e)[:2000])
        (self.dir / "requests.log").write_text("\n".join(f"{t:.3f} {r}" for t, r in self.proxy.log))
        self.proxy.close()
        if failed:
            (self.dir / "world.json").write_text(json.dumps(self.world()[:2]))
        for m in self.moments:
            for j in self.plane.jobs(self.ns):
                m.attempt(lambda: self.plane.delete(self.ns, j["metadata"]["name"]))
            break
        self.plane.core.delete_namespace(self.ns, grace_period_seconds=0)
