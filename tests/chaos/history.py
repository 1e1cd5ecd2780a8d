"""What really happened in a namespace: every event of its pods and jobs, and what must never be among them."""
import datetime
import json
import re
import threading
import time
from dataclasses import dataclass

from rig import GROUP

FINAL = ("Completed", "Failed")
ENDED = ("Succeeded", "Failed")


def version(obj):
    return int(obj["metadata"]["resourceVersion"])


def controller(obj):
    """The uid of the controlling owner, or None."""
    owners = obj["metadata"].get("ownerReferences") or []
    return next((o["uid"] for o in owners if o.get("controller")), None)


def seconds(text):
    """Of a time by the server's clock: when we receive something says more about us."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def received(obj, *field):
    """When the proxy received the request that wrote a field, or all of what it is in; None: none of the proxy's did."""
    times = [0.0]
    for entry in obj["metadata"].get("managedFields") or []:
        fields = entry.get("fieldsV1")
        for name in field:
            fields = fields and fields.get(f"f:{name}")
        if fields is not None and re.fullmatch(r"[0-9.]+", entry["manager"]):
            times.append(float(entry["manager"]))
    return max(times) or None


def attempt(obj):
    return int((obj["metadata"].get("labels") or {}).get("batch.paddlepaddle.org/attempt", 0))


def rank(pod):
    labels = pod["metadata"].get("labels") or {}
    return labels.get("paddle-res-type"), labels.get("paddle-res-index", pod["metadata"]["name"].rsplit("-", 1)[-1])


@dataclass
class Made:
    """A pod's beginning."""
    owner: str          # uid of its job
    job: str
    at: int             # the version; None: not known
    name: str
    when: float
    attempt: int
    received: float        # when its create was sent; None: not known


@dataclass
class End:
    """A job's, as it was reported first."""
    at: int
    phase: str
    when: float         # by the server's clock
    received: float        # when the status that says so was sent; None: not known


class Feed(threading.Thread):
    """Lists, then watches from there on, straight from the API server; reports what is gone when it has to list again."""

    def __init__(self, request, report):
        super().__init__(daemon=True)
        self.request, self.report, self.known, self.over = request, report, {}, False
        self.broken = None          # what went wrong in report
        self.start()

    def run(self):
        at = None
        while not self.over:
            try:
                at = self.follow(at or self.list())
            except Exception:       # the API server is down: that is what this is about
                at = None
                time.sleep(0.05)

    def list(self):
        body = json.loads(self.request().data)
        items = {o["metadata"]["uid"]: o for o in body["items"]}
        for uid in set(self.known) - set(items):
            self.report("GONE", self.known.pop(uid))
        for o in items.values():
            self.see("SEEN", o)
        return body["metadata"]["resourceVersion"]

    def follow(self, at):
        """The version to continue from; None: there is none."""
        for line in self.request(watch=True, resource_version=at, timeout_seconds=30, _request_timeout=40):
            event = json.loads(line)
            if self.over or event["type"] == "ERROR":
                return None
            self.see(event["type"], event["object"])
            at = event["object"]["metadata"]["resourceVersion"]
        return at

    def see(self, kind, obj):
        if kind == "DELETED":
            self.known.pop(obj["metadata"]["uid"], None)
        else:
            self.known[obj["metadata"]["uid"]] = obj
        try:
            self.report(kind, obj)
        except Exception as e:
            self.broken = e
            raise


class History:
    def __init__(self, plane, ns):
        self.wrong = []             # (job name, what)
        self.lock = threading.Lock()
        self.alive = {}             # (job uid, role, index) -> {pod uid: name}
        self.made = {}              # pod uid -> Made
        self.final = {}             # job uid -> End
        self.rests = {}             # job uid -> [version since which it is suspended, until when or None, attempt]s
        self.most = {}              # (job uid, counter of its status) -> what it was at most
        self.dying = {}             # job uid -> time when it was first seen being deleted
        self.rewound = False        # versions of before mean nothing any more
        custom, core = plane.custom, plane.core
        pods = lambda **k: core.list_namespaced_pod(ns, _preload_content=False, **k)
        jobs = lambda **k: custom.list_namespaced_custom_object(*GROUP, ns, "paddlejobs", _preload_content=False, **k)
        self.feeds = [Feed(jobs, self.on_job), Feed(pods, self.on_pod)]

    def job(self, name):
        """As it was reported last, or None."""
        return next((j for j in list(self.feeds[0].known.values()) if j["metadata"]["name"] == name), None)

    def on_job(self, kind, job):
        meta, status = job["metadata"], job.get("status") or {}
        with self.lock:
            self.on_status(job, status, (job.get("spec") or {}).get("suspend"))
            if meta.get("deletionTimestamp") or kind in ("DELETED", "GONE"):
                self.dying.setdefault(meta["uid"], time.time())

    def on_status(self, job, status, suspend):
        """An end is one, what is counted never falls."""
        meta, at, phase = job["metadata"], version(job), status.get("phase")
        uid = meta["uid"]
        if phase in FINAL:
            when = seconds(status["completionTime"]) if "completionTime" in status else float("inf")
            self.final.setdefault(uid, End(at, phase, when, received(job, "status", "phase")))
        if uid in self.final and self.final[uid].phase != phase and not self.rewound:
            self.wrong.append((meta["name"], f"{phase} after {self.final[uid].phase}"))
        for counter in ("attempt", "restarts"):
            most = self.most.get((uid, counter), 0)
            n = self.most[uid, counter] = status.get(counter, 0)
            if n < most and not self.rewound:
                self.wrong.append((meta["name"], f"{counter} fell from {most} to {n}"))
        rests = self.rests.setdefault(uid, [])
        rests_now = phase == "Suspended" and suspend
        if rests and rests[-1][1] is None and not rests_now:
            rests[-1][1] = at
        elif rests_now and not (rests and rests[-1][1] is None):
            rests.append([at, None, status.get("attempt", 0)])

    def on_pod(self, kind, pod):
        meta, owner = pod["metadata"], controller(pod)
        if not owner:
            return
        job = next(o["name"] for o in meta["ownerReferences"] if o["uid"] == owner)
        place = (owner, *rank(pod))
        with self.lock:
            if kind in ("ADDED", "SEEN") and meta["uid"] not in self.made:
                # Of one that a list shows we do not know the version that it began with.
                self.made[meta["uid"]] = Made(owner, job, version(pod) if kind == "ADDED" else None, meta["name"],
                                              seconds(meta["creationTimestamp"]), attempt(pod),
                                              received(pod, "metadata", "ownerReferences"))
            others = self.alive.setdefault(place, {})
            if kind in ("DELETED", "GONE") or meta.get("deletionTimestamp") or pod["status"].get("phase") in ENDED:
                others.pop(meta["uid"], None)
                return
            others[meta["uid"]] = meta["name"]
            if len(others) > 1:
                self.wrong.append((job, f"two live pods for {place[1]} {place[2]}: {sorted(others.values())}"))

    def after_the_end(self, uid, pod, patience):
        """What is wrong with a pod that was made when its job had ended; None: nothing, or it was made before.

        Nothing is created for a job that has ended: no create is sent once the status that says so was sent.  One that was
        sent before, and given up when nobody answered, may come to the server after that status; the operator cannot call
        it back, but it deletes that pod as it deletes all that run on (each moment whose job ends wants that of it)."""
        end = self.final.get(pod.owner)
        if not end or self.rewound or not (pod.at > end.at if pod.at else pod.when > end.when + patience):
            return None
        if not (pod.received and end.received and pod.received < end.received):
            return f"pod {pod.name} was made for a job that had ended ({pod} after {end})"
        if any(uid in others for others in self.alive.values()):
            return f"pod {pod.name} was on its way when its job ended, and lives on ({pod} after {end})"
        return None

    def verdict(self, blind, patience):
        """All that was wrong, as (job name, what).  blind: the operator could not know of a deletion at once; else it has
        that many seconds."""
        with self.lock:
            wrong = self.wrong + [("", f"the history broke: {f.broken!r}") for f in self.feeds if f.broken]
            for uid, pod in self.made.items():
                late = self.after_the_end(uid, pod, patience)
                if late:
                    wrong.append((pod.job, late))
                # One of the attempt before may have been on its way.
                rest = next((r for r in self.rests.get(pod.owner, ()) if pod.at and r[0] < pod.at < (r[1] or pod.at + 1)
                             and pod.attempt >= r[2]), None)
                if rest and not self.rewound:
                    wrong.append((pod.job, f"pod {pod.name} was made for a job that was suspended ({pod.at} in {rest})"))
                if pod.owner in self.dying and pod.when > self.dying[pod.owner] + patience and not blind:
                    wrong.append((pod.job, f"pod {pod.name} was made for a job that was being deleted"))
            return wrong

    def close(self):
        for f in self.feeds:
            f.over = True


# ---- what a status must say, from the pods alone --------------------------------------------

ROLES = ("ps", "worker", "heter")


def wanted(job, role):
    return (job["spec"].get(role) or {}).get("replicas", 0)


def counts(job, role, pods):
    n = {}
    for i in range(wanted(job, role)):
        pod = pods.get(f"{job['metadata']['name']}-{role}-{i}")
        if not pod or controller(pod) != job["metadata"]["uid"] or pod["metadata"].get("deletionTimestamp"):
            continue
        phase = pod["status"].get("phase", "Pending")
        ready = all(c["ready"] for c in pod["status"].get("containerStatuses") or [{"ready": False}])
        key = "starting" if phase == "Running" and not ready else phase.lower()
        n[key] = n.get(key, 0) + 1
    return n


def phase(job, n):
    """None: as before (nothing to say while pods are missing)."""
    total = {}
    for c in n.values():
        for k, v in c.items():
            total[k] = total.get(k, 0) + v
    asked = sum(wanted(job, r) for r in ROLES)
    if total.get("failed"):
        return "Failed"
    if asked and total.get("succeeded", 0) == asked:
        return "Completed"
    if total.get("starting"):
        return "Starting"
    if total.get("pending"):
        return "Pending"
    return "Running" if total.get("running", 0) + total.get("succeeded", 0) == asked else None


def lies(job, pods):
    """In what the status of a job that has not ended differs from its pods; None: it is true."""
    status = job.get("status") or {}
    n = {r: counts(job, r, pods) for r in ROLES}
    want = phase(job, n)
    if want and status.get("phase") != want:
        return f"phase {status.get('phase')}, its pods say {want}"
    for r in ROLES:
        said = {k: v for k, v in (status.get(r) or {}).items() if isinstance(v, int) and v and k != "replicas"}
        if said != n[r]:
            return f"{r}: status says {said}, its pods {n[r]}"
        ready = f"{n[r].get('running', 0) + n[r].get('succeeded', 0)}/{wanted(job, r)}"
        key = "ready" + {"ps": "PS", "worker": "Worker", "heter": "Heter"}[r]
        if job["spec"].get(r) and status.get(key) != ready and not job["spec"].get("suspend"):
            return f"{key} {status.get(key)}, its pods say {ready}"
    return None


def missing(job, others):
    """The ConfigMap or Service that a running job has not; others: (kind, name) -> object."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    if job["spec"].get("suspend"):
        return None
    want = [("ConfigMap", name)]
    if job["spec"].get("intranet") == "Service":
        want += [("Service", f"{name}-{r}-{i}") for r in ROLES for i in range(wanted(job, r))]
    ours = {k for k, o in others.items() if controller(o) == uid}
    return next((f"{kind} {n} is missing" for kind, n in want if (kind, n) not in ours), None)


def unpublished(job, pods, others):
    """What a running job's ConfigMap says though its pods say something else; None: it is true, and of their attempt."""
    name, spec, status = job["metadata"]["name"], job["spec"], job["status"]
    have = others.get(("ConfigMap", name))
    if spec.get("suspend") or not have:
        return None
    data, named = have.get("data") or {}, spec.get("intranet") == "Service"
    ours = {r: [f"{name}-{r}-{i}" for i in range(wanted(job, r))] for r in ROLES}
    for what in [have, *(pods[n] for r in ROLES for n in ours[r] if n in pods)]:
        if attempt(what) != status.get("attempt", 0):
            return f"{what['metadata']['name']} is of attempt {attempt(what)}, the job at {status.get('attempt', 0)}"
    hosts = {r: [n if named else pods.get(n, {}).get("status", {}).get("podIP") for n in ours[r]] for r in ROLES}
    ends = {r: ",".join(f"{h}:{data.get('PADDLE_PORT')}" for h in hosts[r]) for r in ROLES}
    want = {"PADDLE_TRAINERS_NUM": str(wanted(job, "worker")), "PADDLE_TRAINERS": ",".join(map(str, hosts["worker"])),
            "PADDLE_TRAINER_ENDPOINTS": ends["worker"]} if spec.get("worker") else {}
    if spec.get("ps"):
        want["PADDLE_PSERVERS_IP_PORT_LIST"] = ends["ps"]
    return next((f"{k} is {data.get(k)}, by its pods {v}" for k, v in want.items() if data.get(k) != v), None)


def orphans(plane, ns, jobs):
    """Objects whose PaddleJob is no more, and pods that no job asks for."""
    uids = {j["metadata"]["uid"]: j for j in jobs}
    found = []
    for kind, request in (("Pod", plane.core.list_namespaced_pod), ("Service", plane.core.list_namespaced_service),
                          ("ConfigMap", plane.core.list_namespaced_config_map)):
        for o in json.loads(request(ns, _preload_content=False).data)["items"]:
            owner = controller(o)
            if not owner or o["metadata"].get("deletionTimestamp"):
                continue
            name = o["metadata"]["name"]
            if owner not in uids:
                found.append(f"{kind} {name} of no job")
            elif kind == "Pod":
                job = uids[owner]
                names = {f"{job['metadata']['name']}-{r}-{i}" for r in ROLES for i in range(wanted(job, r))}
                if name not in names and job.get("status", {}).get("phase") not in FINAL:
                    found.append(f"Pod {name} beyond the replicas of {job['metadata']['name']}")
    return found

