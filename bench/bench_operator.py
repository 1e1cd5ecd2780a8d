"""The operator on a cluster of KWOK nodes, each scenario next to a bare creator of the same objects in the same run, and
where they are asked for next to operators of other projects.

SCENARIOS says what is done, ROWS what is read off and which bar it must meet.  Every measurement begins with a fresh
cluster.  Times are those at which a watch of pods and jobs reported a change; requests are what the API server's audit
log counted; bytes are those of the operator's connections; CPU and memory come from /proc.
"""
import collections
import statistics
import subprocess
import threading
import time

from cluster import Cluster, Observer, Operator, children, cpu_of_machine, delete_pod, end_pod, load, post, wait_for
from products import OURS, PEERS, ROOT, job
from report import table

CALM = 5        # more of them until memory that a burst needed has gone back
TAIL = 11       # seconds that every window stays open after its end, for what comes late


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
        if self.operator:
            self.operator.wait_reported()
        used = {k: v - self.begin[k] for k, v in self.now().items()}
        kinds = self.cluster.requests_since(self.mark)
        # What neither of them used: the benchmark's own programs, and whoever shares the machine.
        others = used.pop("all") - used["cpu_s"] - used["control_plane_cpu_s"]
        figures = {**used, "other_cores": others / used["s"], "kinds": dict(kinds), "requests": sum(kinds.values()),
                   "beside_pods": sum(n for k, n in kinds.items() if k != "create pods")}
        if self.operator and self.operator.of is OURS:      # Go's programs send their token once a connection
            figures["token_mb"] = figures["requests"] * self.cluster.header / 1e6
        return figures


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p / 100))]


def bare(jobs, cleans=False):
    """The limit: what the operator would make of the jobs, and the jobs themselves, by a plain creator in its name; and their end."""
    lines = [post(o) for j in jobs for o in [j, *children(j)]] if len(jobs) == 1 else many_lines(jobs)
    pods = sum('"kind":"Pod"' in line for line in lines)
    with Cluster() as c, Observer(c) as o:
        c.allow_all()
        window = Window(c)
        made = load(c.user, lines)
        running = o.wait("pod", "Running", pods, 120 + pods / 5)
        until_running = c.cpu() - window.begin["control_plane_cpu_s"]
        out = {"created_s": made["seconds"], "running_s": running[-1] - made["start"], "until_running_cpu_s": until_running,
               **window.done()}
        if cleans:
            names = list(o.phases["pod"])
            ended = load(c.user, [end_pod(n, "Succeeded") for n in names] + [delete_pod(n) for n in names])
            out["cleaned_s"] = o.wait("pod", "gone", pods, 60 + pods / 5)[-1] - ended["start"]
        return out


def limit_of(of, jobs, cleans=False):
    """It stands beside our figures; run() puts it beside a peer's."""
    return {"limit": bare(jobs, cleans)} if of is OURS else {}


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
            "status_s": status[-1] - made["start"], "status_lag_s": status[-1] - running,
            "asked_lag_s": c.status_received(window.mark, status[-1]) - running, "p50_s": percentile(wait, 50),
            "p99_s": percentile(wait, 99), "peak_mib": op.memory("VmHWM"), "rss_mib": op.memory(), **used,
            "requests_a_job": used["requests"] / len(jobs)}


def settle(c, seconds):
    """That long, and on until nothing was asked for two seconds: upstream's operator writes statuses for a while."""
    time.sleep(seconds)
    for _ in range(20):
        mark = c.audit_mark()
        time.sleep(2)
        if c.audit_mark() == mark:
            break


def idle(c, op, seconds):
    time.sleep(5)       # what is left of the scenario before
    return Window(c, op).done(seconds)


# ---- scenarios: each takes its row's parameters and returns {name: figures}

def big(workers, of=OURS, flags=(), **spec):
    the_job = of.job("big", 0, workers, **spec)
    limit = limit_of(of, [the_job])
    with Cluster(of) as c, Observer(c, of) as o, Operator(c, *flags, of=of) as op:
        op.wait_ready()
        return {"run": {**start(c, o, op, [the_job], workers), **limit}}


def many(n, idle_s=0, cleans=True, of=OURS):
    jobs = [of.job(f"j{i:05}", 1, 2) for i in range(n)]
    limit = limit_of(of, jobs, cleans)
    out = {}
    with Cluster(of) as c, Observer(c, of) as o:
        with Operator(c, of=of) as op:
            op.wait_ready()
            empty = op.memory()
            out["run"] = {**start(c, o, op, jobs, 3 * n), **limit}
            if idle_s:
                out["idle"] = idle(c, op, idle_s)
            else:
                time.sleep(CALM)
            out["run"]["kib_a_pod"] = (op.memory() - empty) * 1024 / (3 * n)
        if idle_s:
            out["restart"] = restart(c, o)
        if cleans:
            out["succeed"] = {**succeed(c, o, of, [name for name in o.phases["pod"] if not name.startswith("new")], n), **limit}
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


def succeed(c, o, of, pods, n):
    """All pods of all jobs succeed; with the default policy they are then cleaned."""
    with Operator(c, of=of) as op:
        op.wait_ready()
        settle(c, 0)
        window = Window(c, op)
        ended = load(c.admin, [end_pod(p, "Succeeded") for p in pods])
        status = o.wait("job", "Completed", n, 120)[-1]
        gone = o.wait("pod", "gone", len(pods), 120)[-1]
        last = max(t for seen in o.phases["pod"].values() for t, phase in seen if phase == "Succeeded")
        return {"status_lag_s": status - last, "cleaned_lag_s": gone - last, "cleaned_s": gone - ended["start"], **window.done()}


def fail(workers, of=OURS):
    """One of many workers fails; then all workers of another job succeed."""
    out = {}
    with Cluster(of) as c, Observer(c, of) as o, Operator(c, of=of) as op:
        op.wait_ready()
        load(c.admin, [post(of.job("bad", 0, workers)), post(of.job("good", 0, workers))])
        o.wait("job", "Running", 2, 120)
        settle(c, TAIL)
        window = Window(c, op)
        load(c.admin, [end_pod("bad-worker-7", "Failed")])
        failed = o.wait("job", "Failed", 1, 60)[-1]
        at = o.phases["pod"]["bad-worker-7"][-1][0]
        status = c.kubectl("get", "pdj", "bad", "-o", "jsonpath={.status.message}")
        asked = c.status_received(window.mark, failed) - at
        out["fail"] = {"status_lag_s": failed - at, "asked_lag_s": asked, "cause": status, **window.done()}
        settle(c, 0)
        out["succeed"] = one_succeeds(c, o, op, "good", workers)
    return out


def one_succeeds(c, o, op, name, workers):
    window = Window(c, op)
    load(c.admin, [end_pod(f"{name}-worker-{i}", "Succeeded") for i in range(workers)])
    status = o.wait("job", "Completed", 1, 60)[-1]
    gone = o.wait("pod", "gone", workers, 60)[-1]
    last = max(t for seen in o.phases["pod"].values() for t, phase in seen if phase == "Succeeded")
    return {"status_lag_s": status - last, "cleaned_lag_s": gone - last, **window.done()}


def unschedulable(name):
    """A job of 1 + 1 whose pods fit no node."""
    the_job = job(name, 1, 1)
    for role in ("ps", "worker"):
        the_job["spec"][role]["template"]["spec"]["nodeSelector"] = {"no": "node"}
    return the_job


def beside(c, o, name):
    """A job of 1 + 1 in a namespace of its own: seconds from its creation until it has both pods, and until it is Running."""
    made = load(c.admin, [post(job(name, 1, 1), "other")])
    pods = [f"{name}-ps-0", f"{name}-worker-0"]
    wait_for(lambda: all(p in o.phases["pod"] for p in pods), 600, f"no pods of {name}")
    wait_for(lambda: o.phases["job"][name][-1][1] == "Running", 600, f"{name} does not run")
    return [max(o.phases["pod"][p][0][0] for p in pods) - made["start"], o.phases["job"][name][-1][0] - made["start"]]


def fair(n):
    """Another namespace's job alone; while n unschedulable ones are being created; when they just have been; and beside them, at rest."""
    with Cluster() as c, Observer(c) as burst, Operator(c) as op:
        c.kubectl("create", "namespace", "other")
        with Observer(c, ns="other") as o:
            op.wait_ready()
            window = Window(c, op)
            times = {"alone": beside(c, o, "alone")}
            crowd = threading.Thread(target=load, args=(c.admin, [post(unschedulable(f"j{i:05}")) for i in range(n)]))
            crowd.start()
            wait_for(lambda: len(burst.phases["job"]) > n / 4, 120, "no burst")
            times["during"] = beside(c, o, "during")
            crowd.join()
            times["after"] = beside(c, o, "after")
            made = len(burst.phases["pod"])
            wait_for(lambda: len(burst.phases["pod"]) >= 2 * n, 1200, "pods of the burst")
            used = window.done()
            times["standing"] = beside(c, o, "standing")
            return {"run": {"peak_mib": op.memory("VmHWM"), "made_before": made, **used,
                            **{f"{when}_{what}_s": t for when, both in times.items() for what, t in zip(("pods", "running"), both)}}}


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
    "fair:1500": (fair, {"n": 1500}, False),
    "big:3000": (big, {"workers": 3000}, False),
    "many:10000": (many, {"n": 10000, "idle_s": 60, "cleans": False}, False),
}
SCENARIOS |= {f"{peer}/{name}": (SCENARIOS[name][0], {**SCENARIOS[name][1], "of": product}, False)
              for peer, product in PEERS.items() for name in product.scenarios}
# The machine on which bars in seconds were set: a bare creator's 1,000 pods until all of them ran there.
ELSEWHERE = {"running_s": 4.03, "until_running_cpu_s": 7.4}


class OverLimit:
    """A figure that is read off against the bare creator's."""

    def __init__(self, key, limit_key=None):
        self.key, self.limit_key = key, limit_key or key

    def limit(self, m):
        return m["limit"][self.limit_key]

    def __call__(self, m):
        return m[self.key] / self.limit(m)


# What a start of one big job is measured by: what, figure, bar for 1,000 workers, unit
START = [
    ("workers, PodIP: all pods Running, against the limit", OverLimit("running_s"), 1.2, "x"),
    ("... job Running in its status after the last pod", "status_lag_s", 0.2, "s"),
    ("... of that, until the API server had the status write", "asked_lag_s", None, "s"),
    ("... requests beside the pods", "beside_pods", 15, ""),
    ("... bytes sent", "sent_mb", 1.2, "MB"),
    ("... of that, the token that each request shows", "token_mb", None, "MB"),
    ("... operator CPU", "cpu_s", 0.4, "s"),
    ("... control-plane CPU, against the limit", OverLimit("control_plane_cpu_s"), 1.2, "x"),
]
# scenario, part, what, figure, bar (the largest good value; None: no bar), unit
ROWS = [
    *(("big:100", "run", what.replace("workers", "100 workers"), figure, None, unit) for what, figure, _, unit in START),
    *(("big:1000", "run", what.replace("workers", "1,000 workers"), figure, bar, unit) for what, figure, bar, unit in START),
    ("service:1000", "run", "1,000 workers, Service: all pods Running, against the limit", OverLimit("running_s"), 1.2, "x"),
    ("gate:1000", "run", "1,000 workers with the start gate's container: bytes sent", "sent_mb", None, "MB"),
    ("many:1000", "run", "1,000 jobs of 1 + 2: all Running, against the limit", OverLimit("status_s", "running_s"), 1.3, "x"),
    ("many:1000", "run", "... p50 create to Running, of the whole run", lambda m: m["p50_s"] / m["status_s"], 0.5, "x"),
    ("many:1000", "run", "... requests a job, pods included", "requests_a_job", 8, ""),
    ("many:1000", "run", "... operator peak RSS", "peak_mib", 30, "MiB"),
    ("many:1000", "run", "... memory a pod", "kib_a_pod", 4, "KiB"),
    ("many:1000", "idle", "idle with them for 60 s: requests", "requests", 0, ""),
    ("many:1000", "idle", "... operator CPU", "cpu_s", 0.02, "s"),
    ("many:1000", "restart", "restart with them: first pod of a new job", "first_pod_s", 0.5, "s"),
    ("many:1000", "restart", "... requests", "requests", 20, ""),
    ("life:100", "succeed", "100 workers succeed: job Completed after the last", "status_lag_s", 0.1, "s"),
    ("life:100", "succeed", "... pods cleaned after the last", "cleaned_lag_s", 0.6, "s"),
    ("life:100", "succeed", "... requests", "requests", 10, ""),
    ("many:100", "run", "100 jobs of 1 + 2: all Running, against the limit", OverLimit("status_s", "running_s"), None, "x"),
    ("many:100", "run", "... requests a job, pods included", "requests_a_job", None, ""),
    ("many:100", "run", "... operator CPU", "cpu_s", None, "s"),
    ("many:100", "succeed", "100 jobs succeed: pods cleaned", "cleaned_s", 3, "s"),
    ("many:100", "succeed", "... against the limit", OverLimit("cleaned_s"), None, "x"),
    ("life:100", "fail", "one of 100 workers fails: job Failed after", "status_lag_s", 0.02, "s"),
    ("life:100", "fail", "... of that, until the API server had the status write", "asked_lag_s", None, "s"),
    ("life:100", "fail", "... requests", "requests", 3, ""),
    ("fair:1500", "run", "a job of 1 + 1 of another namespace, alone: its pods are there", "alone_pods_s", None, "s"),
    ("fair:1500", "run", "... while 1,500 unschedulable jobs are created", "during_pods_s", 1, "s"),
    ("fair:1500", "run", "... when they have been", "after_pods_s", 1, "s"),
    ("fair:1500", "run", "... of whose 3,000 pods there were then", "made_before", None, ""),
    ("fair:1500", "run", "... beside them", "standing_pods_s", 1, "s"),
    ("fair:1500", "run", "it is Running: alone", "alone_running_s", None, "s"),
    ("fair:1500", "run", "... while they are created", "during_running_s", None, "s"),
    ("fair:1500", "run", "... when they have been", "after_running_s", None, "s"),
    ("fair:1500", "run", "... beside them", "standing_running_s", None, "s"),
    ("many:10000", "run", "10,000 jobs, 30,000 pods: all Running", "status_s", None, "s"),
    ("many:10000", "run", "... operator peak RSS", "peak_mib", None, "MiB"),
    ("many:10000", "restart", "restart with them: first pod of a new job", "first_pod_s", 1, "s"),
]


def run(names, runs, peers, auth):
    """peers: each scenario also with the peers that know it."""
    Cluster.auth = auth
    names = names or [n for n, (_, _, default) in SCENARIOS.items() if default]
    if peers:
        names = [n for name in names for n in [name, *(f"{p}/{name}" for p in PEERS if name in PEERS[p].scenarios)]]
    components = {n.split("/")[0] for n in names if "/" in n}
    if components:
        subprocess.run([ROOT / "deploy/local/build", *sorted(components)], check=True)
    out = collections.defaultdict(list)
    for i in range(runs):
        for name in names:
            fn, args, _ = SCENARIOS[name]
            began = time.monotonic()
            out[name].append(fn(**args))
            print(f"  run {i + 1} of {runs}, {name}: {time.monotonic() - began:.0f} s", flush=True)
    out = dict(out)
    for name in out:
        lend_limit(out, name)
    print_bars(out)
    print_growth(out)
    return out


def lend_limit(out, name):
    """What a peer is measured against is our limit of the same run."""
    ours = out.get(name.split("/")[-1]) if "/" in name else None
    for mine, theirs in zip(ours or [], out[name]):
        for part in theirs.keys() & mine.keys():
            if "limit" in mine[part]:
                theirs[part]["limit"] = mine[part]["limit"]


def figure(out, scenario, part, what):
    """The median over the runs."""
    return statistics.median(what(r[part]) if callable(what) else r[part][what] for r in out[scenario])


def cell(out, scenario, part, what, text):
    """The figure in its text; "-" where there is none: not run, or nothing that a peer does."""
    try:
        return text.format(figure(out, scenario, part, what)).strip()
    except KeyError:
        return "-"


def slower(out):
    """How many times the processor time of those other bars the bare creator took here in this run; None where it was not run."""
    if "big:1000" not in out:
        return None
    here = {k: figure(out, "big:1000", "run", lambda m: m["limit"][k]) for k in ELSEWHERE}
    ratio = here["until_running_cpu_s"] / ELSEWHERE["until_running_cpu_s"]
    print(f"\nmachine: a bare creator's 1,000 pods are all Running after {here['running_s']:.3g} s and {here['until_running_cpu_s']:.3g} s "
          f"of control-plane CPU;\n  where the bars were set {ELSEWHERE['running_s']} s and {ELSEWHERE['until_running_cpu_s']} s: "
          f"the same work takes {ratio:.2f} times the processor here")
    return ratio


def print_bars(out):
    ratio = slower(out)
    peers = {p: product.program().parent.name for p, product in PEERS.items() if any(n.startswith(p + "/") for n in out)}
    rows = []
    for scenario, part, label, what, bar, unit in ROWS:
        if not any(n.split("/")[-1] == scenario for n in out):
            continue
        text = "{:.3g} " + unit
        met = scaled = ""
        if bar is not None and scenario in out:
            met = "yes" if round(figure(out, scenario, part, what), 3) <= bar else "NO"
        if bar is not None and unit == "s" and ratio:
            scaled = text.format(bar * ratio)
        limit = cell(out, scenario, part, what.limit, "{:.3g} s") if isinstance(what, OverLimit) else ""
        rows.append([label, cell(out, scenario, part, what, text), "" if bar is None else f"{bar} {unit}", met, scaled, limit,
                     *(cell(out, f"{p}/{scenario}", part, what, text) for p in peers)])
    table("operator: medians", ["", "measured", "bar", "met", f"bar x {ratio:.2f}, for this machine" if ratio else "", "limit",
                                *peers.values()], rows)


def print_growth(out):
    """Every size beside the bare creator's."""
    columns = [("pods", "pods", "{:.0f}"), ("limit s", lambda m: m["limit"]["running_s"], "{:.2f}"), ("Running s", "running_s", "{:.2f}"),
               ("status s", "status_s", "{:.2f}"), ("p50 s", "p50_s", "{:.2f}"), ("p99 s", "p99_s", "{:.2f}"),
               ("requests", "requests", "{:.0f}"), ("beside pods", "beside_pods", "{:.0f}"), ("sent MB", "sent_mb", "{:.2f}"),
               ("received MB", "received_mb", "{:.1f}"), ("CPU s", "cpu_s", "{:.2f}"), ("control plane s", "control_plane_cpu_s", "{:.1f}"),
               ("limit's", lambda m: m["limit"]["control_plane_cpu_s"], "{:.1f}"), ("peak MiB", "peak_mib", "{:.1f}"),
               ("other cores", "other_cores", "{:.2f}")]
    rows = [[name] + [cell(out, name, "run", what, text) for _, what, text in columns] for name in out if "run" in out[name][0]]
    if rows:
        table("growth", [""] + [c[0] for c in columns], rows)
    for name in out:
        for part, m in out[name][-1].items():
            kinds = ", ".join(f"{n} {k}" for k, n in sorted(m["kinds"].items(), key=lambda kv: -kv[1]))
            print(f"  {name} {part}: {kinds or 'no request'}")
