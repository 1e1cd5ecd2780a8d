"""The operator on a cluster of KWOK nodes, each scenario next to a bare creator of the same objects in the same run.

SCENARIOS says what is done, ROWS what is read off and which bar it must meet.  Every measurement begins with a fresh
cluster.  Times are those at which a watch of pods and jobs told of a change; requests are what the API server's audit
log counted; bytes are those of the operator's connections; CPU and memory come from /proc.
"""
import collections
import statistics
import time

from cluster import NS, Cluster, Observer, Operator, children, cpu_of_machine, delete_pod, end_pod, job, load, post
from report import table

CALM = 5        # more of them until memory that a burst needed has gone back
TAIL = 11       # seconds that every window goes on after its end, for what comes late: under load events are gathered for ten


class Window:
    """What was used between begin and done."""

    def __init__(self, cluster, operator=None):
        self.cluster, self.operator = cluster, operator
        self.mark, self.begin = cluster.audit_mark(), self.now()

    def now(self):
        op = self.operator
        return {"s": time.monotonic(), "cpu_s": op.cpu() if op else 0, "control_plane_cpu_s": self.cluster.cpu(), "all": cpu_of_machine(),
                "sent_mb": op.wire()[0] / 1e6 if op else 0, "received_mb": op.wire()[1] / 1e6 if op else 0}

    def done(self, tail=TAIL):
        time.sleep(tail)
        used = {k: v - self.begin[k] for k, v in self.now().items()}
        kinds = self.cluster.requests_since(self.mark)
        # What neither of them used: the benchmark's own programs, and whoever shares the machine.
        others = used.pop("all") - used["cpu_s"] - used["control_plane_cpu_s"]
        return {**used, "other_cores": others / used["s"], "kinds": dict(kinds), "requests": sum(kinds.values()),
                "beside_pods": sum(n for k, n in kinds.items() if k != "create pods")}


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p / 100))]


def bare(jobs, cleans=False):
    """The limit: what the operator would make of the jobs, and the jobs themselves, by a plain creator in its name; and their end."""
    lines = [post(o) for j in jobs for o in [j, *children(j)]] if len(jobs) == 1 else many_lines(jobs)
    pods = sum('"kind":"Pod"' in line for line in lines)
    with Cluster() as c, Observer(c) as o:
        c.kubectl("create", "clusterrolebinding", "bench", "--clusterrole=cluster-admin", "--serviceaccount=paddle-system:paddle-manager-sa")
        window = Window(c)
        made = load(c.user, lines)
        running = o.wait("pod", "Running", pods, 120 + pods / 5)
        out = {"created_s": made["seconds"], "running_s": running[-1] - made["start"], **window.done()}
        if cleans:
            names = list(o.phases["pod"])
            ended = load(c.user, [end_pod(n, "Succeeded") for n in names] + [delete_pod(n) for n in names])
            out["cleaned_s"] = o.wait("pod", "gone", pods, 60 + pods / 5)[-1] - ended["start"]
        return out


def many_lines(jobs):
    """One job's children stand for those of all, which differ in the name alone."""
    first = jobs[0]["metadata"]["name"]
    texts = [post(o) for o in [jobs[0], *children(jobs[0])]]
    return [t.replace(first, j["metadata"]["name"]) for j in jobs for t in texts]


def start(c, o, op, jobs, pods):
    """Creates jobs and waits until all of them run."""
    window = Window(c, op)
    made = load(c.admin, [post(j) for j in jobs])
    running = o.wait("pod", "Running", pods, 120 + pods / 5)[-1]
    status = o.wait("job", "Running", len(jobs), 120 + pods / 50)
    born = {name: seen[0][0] for name, seen in o.phases["job"].items()}
    wait = [next(t for t, p in seen if p == "Running") - born[name] for name, seen in o.phases["job"].items()]
    created = max(seen[0][0] for seen in o.phases["pod"].values())
    used = window.done()
    return {"jobs": len(jobs), "pods": pods, "created_s": created - made["start"], "running_s": running - made["start"],
            "status_s": status[-1] - made["start"], "status_lag_s": status[-1] - running, "p50_s": percentile(wait, 50),
            "p99_s": percentile(wait, 99), "peak_mib": op.memory("VmHWM"), "rss_mib": op.memory(), **used,
            "requests_a_job": used["requests"] / len(jobs)}


def idle(c, op, seconds):
    time.sleep(5)       # what is left of the scenario before
    return Window(c, op).done(seconds)


# ---- scenarios: each takes its row's parameters and returns {name: figures}

def big(workers, intranet=None, flags=()):
    the_job = job("big", 0, workers, **({"intranet": intranet} if intranet else {}))
    limit = bare([the_job])
    with Cluster() as c, Observer(c) as o, Operator(c, *flags) as op:
        op.wait_ready()
        return {"run": {**start(c, o, op, [the_job], workers), "limit": limit}}


def many(n, idle_s=0, cleans=True):
    jobs = [job(f"j{i:05}", 1, 2) for i in range(n)]
    limit = bare(jobs, cleans)
    out = {}
    with Cluster() as c, Observer(c) as o:
        with Operator(c) as op:
            op.wait_ready()
            empty = op.memory()
            out["run"] = {**start(c, o, op, jobs, 3 * n), "limit": limit}
            if idle_s:
                out["idle"] = idle(c, op, idle_s)
            else:
                time.sleep(CALM)
            out["run"]["kib_a_pod"] = (op.memory() - empty) * 1024 / (3 * n)
        if idle_s:
            out["restart"] = restart(c, o)
        if cleans:
            out["succeed"] = {**succeed(c, o, [name for name in o.phases["pod"] if not name.startswith("new")], n), "limit": limit}
    return out


def restart(c, o):
    """A job that was created while no operator ran, and an operator that starts with all the others."""
    load(c.admin, [post(job("new", 0, 2))])
    with Operator(c) as op:
        window = Window(c, op)
        window.begin["s"] = op.begin
        first = None
        while first is None:
            first = next((seen[0][0] for name, seen in list(o.phases["pod"].items()) if name.startswith("new-")), None)
            assert time.monotonic() < op.begin + 120, op.text()
            time.sleep(0.005)
        used = window.done()
        return {"first_pod_s": first - op.begin, "peak_mib": op.memory("VmHWM"), **used}


def succeed(c, o, pods, n):
    """All pods of all jobs succeed; with the default policy they are then cleaned."""
    with Operator(c) as op:
        op.wait_ready()
        time.sleep(2)
        window = Window(c, op)
        ended = load(c.admin, [end_pod(p, "Succeeded") for p in pods])
        status = o.wait("job", "Completed", n, 120)[-1]
        gone = o.wait("pod", "gone", len(pods), 120)[-1]
        last = max(t for seen in o.phases["pod"].values() for t, phase in seen if phase == "Succeeded")
        return {"status_lag_s": status - last, "cleaned_lag_s": gone - last, "cleaned_s": gone - ended["start"], **window.done()}


def fail(workers):
    """One of many workers fails; then all workers of another job succeed."""
    out = {}
    with Cluster() as c, Observer(c) as o, Operator(c) as op:
        op.wait_ready()
        load(c.admin, [post(job("bad", 0, workers)), post(job("good", 0, workers))])
        o.wait("job", "Running", 2, 60)
        time.sleep(TAIL)
        window = Window(c, op)
        load(c.admin, [end_pod("bad-worker-7", "Failed")])
        failed = o.wait("job", "Failed", 1, 60)[-1]
        at = o.phases["pod"]["bad-worker-7"][-1][0]
        status = c.kubectl("get", "pdj", "bad", "-o", "jsonpath={.status.message}")
        out["fail"] = {"status_lag_s": failed - at, "cause": status, **window.done()}
        out["succeed"] = one_succeeds(c, o, op, "good", workers)
    return out


def one_succeeds(c, o, op, name, workers):
    window = Window(c, op)
    load(c.admin, [end_pod(f"{name}-worker-{i}", "Succeeded") for i in range(workers)])
    status = o.wait("job", "Completed", 1, 60)[-1]
    gone = o.wait("pod", "gone", workers, 60)[-1]
    last = max(t for seen in o.phases["pod"].values() for t, phase in seen if phase == "Succeeded")
    return {"status_lag_s": status - last, "cleaned_lag_s": gone - last, **window.done()}


# name -> (function, arguments, in the default set)
SCENARIOS = {
    "big:100": (big, {"workers": 100}, True),
    "big:300": (big, {"workers": 300}, True),
    "big:1000": (big, {"workers": 1000}, True),
    "service:1000": (big, {"workers": 1000, "intranet": "Service"}, True),
    "gate:1000": (big, {"workers": 1000, "flags": ["--initImage=paddlejob/gate:dev", "--gate-address=127.0.0.1:1"]}, True),
    "life:100": (fail, {"workers": 100}, True),
    "many:100": (many, {"n": 100}, True),
    "many:300": (many, {"n": 300}, True),
    "many:1000": (many, {"n": 1000, "idle_s": 60}, True),
    "big:3000": (big, {"workers": 3000}, False),
    "many:10000": (many, {"n": 10000, "idle_s": 60, "cleans": False}, False),
}


def over_limit(key, limit_key=None):
    return lambda m: m[key] / m["limit"][limit_key or key]


# scenario, part, what, figure, bar (the largest good value; None: no bar), unit
ROWS = [
    ("big:1000", "run", "1,000 workers, PodIP: all pods Running, against the limit", over_limit("running_s"), 1.2, "x"),
    ("big:1000", "run", "... job Running in its status after the last pod", "status_lag_s", 0.2, "s"),
    ("big:1000", "run", "... requests beside the pods", "beside_pods", 15, ""),
    ("big:1000", "run", "... bytes sent", "sent_mb", 1.2, "MB"),
    ("big:1000", "run", "... operator CPU", "cpu_s", 0.4, "s"),
    ("big:1000", "run", "... control-plane CPU, against the limit", over_limit("control_plane_cpu_s"), 1.2, "x"),
    ("service:1000", "run", "1,000 workers, Service: all pods Running, against the limit", over_limit("running_s"), 1.2, "x"),
    ("gate:1000", "run", "1,000 workers with the start gate's container: bytes sent", "sent_mb", None, "MB"),
    ("many:1000", "run", "1,000 jobs of 1 + 2: all Running, against the limit", over_limit("status_s", "running_s"), 1.3, "x"),
    ("many:1000", "run", "... p50 create to Running, of the whole run", lambda m: m["p50_s"] / m["status_s"], 0.5, "x"),
    ("many:1000", "run", "... requests a job, pods included", "requests_a_job", 8, ""),
    ("many:1000", "run", "... operator peak RSS", "peak_mib", 20, "MiB"),
    ("many:1000", "run", "... memory a pod", "kib_a_pod", 1, "KiB"),
    ("many:1000", "idle", "idle with them for 60 s: requests", "requests", 0, ""),
    ("many:1000", "idle", "... operator CPU", "cpu_s", 0.02, "s"),
    ("many:1000", "restart", "restart with them: first pod of a new job", "first_pod_s", 0.5, "s"),
    ("many:1000", "restart", "... requests", "requests", 20, ""),
    ("life:100", "succeed", "100 workers succeed: job Completed after the last", "status_lag_s", 0.1, "s"),
    ("life:100", "succeed", "... pods cleaned after the last", "cleaned_lag_s", 0.6, "s"),
    ("life:100", "succeed", "... requests", "requests", 10, ""),
    ("many:100", "succeed", "100 jobs succeed: pods cleaned", "cleaned_s", 3, "s"),
    ("many:100", "succeed", "... against the limit", over_limit("cleaned_s"), None, "x"),
    ("life:100", "fail", "one of 100 workers fails: job Failed after", "status_lag_s", 0.02, "s"),
    ("life:100", "fail", "... requests", "requests", 3, ""),
    ("many:10000", "run", "10,000 jobs, 30,000 pods: all Running", "status_s", None, "s"),
    ("many:10000", "run", "... operator peak RSS", "peak_mib", None, "MiB"),
]


def run(names, runs):
    names = names or [n for n, (_, _, default) in SCENARIOS.items() if default]
    out = collections.defaultdict(list)
    for i in range(runs):
        for name in names:
            fn, args, _ = SCENARIOS[name]
            began = time.monotonic()
            out[name].append(fn(**args))
            print(f"  run {i + 1} of {runs}, {name}: {time.monotonic() - began:.0f} s", flush=True)
    print_bars(out)
    print_growth(out)
    return dict(out)


def figure(out, scenario, part, what):
    """The median over the runs."""
    return statistics.median(what(r[part]) if callable(what) else r[part][what] for r in out[scenario])


def print_bars(out):
    rows = []
    for scenario, part, label, what, bar, unit in ROWS:
        if scenario in out:
            value = figure(out, scenario, part, what)
            verdict = "" if bar is None else "yes" if round(value, 3) <= bar else "NO"
            rows.append([label, f"{value:.3g} {unit}", "" if bar is None else f"{bar} {unit}", verdict])
    table("operator: medians", ["", "measured", "bar", "met"], rows)


def print_growth(out):
    """Every size beside the bare creator's."""
    columns = [("pods", "pods", "{:.0f}"), ("limit s", lambda m: m["limit"]["running_s"], "{:.2f}"), ("Running s", "running_s", "{:.2f}"),
               ("status s", "status_s", "{:.2f}"), ("p50 s", "p50_s", "{:.2f}"), ("p99 s", "p99_s", "{:.2f}"),
               ("requests", "requests", "{:.0f}"), ("beside pods", "beside_pods", "{:.0f}"), ("sent MB", "sent_mb", "{:.2f}"),
               ("received MB", "received_mb", "{:.1f}"), ("CPU s", "cpu_s", "{:.2f}"), ("control plane s", "control_plane_cpu_s", "{:.1f}"),
               ("limit's", lambda m: m["limit"]["control_plane_cpu_s"], "{:.1f}"), ("peak MiB", "peak_mib", "{:.1f}"),
               ("other cores", "other_cores", "{:.2f}")]
    rows = [[name] + [fmt.format(figure(out, name, "run", what)) for _, what, fmt in columns] for name in out if "run" in out[name][0]]
    if rows:
        table("growth", [""] + [c[0] for c in columns], rows)
    for name in out:
        for part, m in out[name][-1].items():
            kinds = ", ".join(f"{n} {k}" for k, n in sorted(m["kinds"].items(), key=lambda kv: -kv[1]))
            print(f"  {name} {part}: {kinds or 'no request'}")
