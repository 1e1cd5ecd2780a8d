"""What really happened in a namespace: every event of its pods and jobs, and what must never be among them."""
import datetime
import json
import threading
import time

from rig import GROUP

FINAL = ("Completed", "Failed")
ENDED = ("Succeeded", "Failed")


def version(obj):
    return int(obj["metadata"]["resourceVersion"])


def controller(obj):
    """The uid of the controlling owner, or None."""
    owners = obj["metadata"].get("ownerReferences") or []
    return next((o["uid"] for o in owners if o.get("controller")), None)


def made_at(meta):
    """By the server's clock, in whole seconds: when we hear of it says more about us."""
    return datetime.datetime.fromisoformat(meta["creationTimestamp"].replace("Z", "+00:00")).timestamp()


def rank(pod):
    labels = pod["metadata"].get("labels") or {}
    return labels.get("paddle-res-type"), labels.get("paddle-res-index", pod["metadata"]["name"].rsplit("-", 1)[-1])


class Feed(threading.Thread):
    """Lists, then watches, straight from the API server; tells of what is gone when it lists again."""

    def __init__(self, request, tell):
        super().__init__(daemon=True)
        self.request, self.tell, self.known, self.over = request, tell, {}, False
        self.start()

    def run(self):
        while not self.over:
            try:
                self.follow()
            except Exception:       # the API server is down: that is what this is about
                time.sleep(0.05)

    def follow(self):
        body = json.loads(self.request().data)
        items = {o["metadata"]["uid"]: o for o in body["items"]}
        for uid in set(self.known) - set(items):
            self.tell("GONE", self.known.pop(uid))
        for o in items.values():
            self.see("SEEN", o)
        at = body["metadata"]["resourceVersion"]
        stream = self.request(watch=True, resource_version=at, timeout_seconds=30, _request_timeout=40)
        for line in stream:
            if self.over:
                return
            event = json.loads(line)
            if event["type"] == "ERROR":
                return
            self.see(event["type"], event["object"])

    def see(self, kind, obj):
        if kind == "DELETED":
            self.known.pop(obj["metadata"]["uid"], None)
        else:
            self.known[obj["metadata"]["uid"]] = obj
        self.tell(kind, obj)


class History:
    def __init__(self, plane, ns):
        self.wrong = []             # (job name, what)
        self.lock = threading.Lock()
        self.alive = {}             # (job uid, role, index) -> {pod uid: name}
        self.made = {}              # pod uid -> (job uid, job name, version of its creation, pod name, the server's time of it)
        self.final = {}             # job uid -> version in which its status became final
        self.dying = {}             # job uid -> time when it was first seen being deleted
        self.rewound = False        # versions of before mean nothing any more
        custom, core = plane.custom, plane.core
        pods = lambda **k: core.list_namespaced_pod(ns, _preload_content=False, **k)
        jobs = lambda **k: custom.list_namespaced_custom_object(*GROUP, ns, "paddlejobs", _preload_content=False, **k)
        self.feeds = [Feed(jobs, self.on_job), Feed(pods, self.on_pod)]

    def job(self, name):
        """As it was told last, or None."""
        return next((j for j in list(self.feeds[0].known.values()) if j["metadata"]["name"] == name), None)

    def on_job(self, kind, job):
        meta = job["metadata"]
        with self.lock:
            if job.get("status", {}).get("phase") in FINAL:
                self.final.setdefault(meta["uid"], version(job))
            if meta.get("deletionTimestamp") or kind in ("DELETED", "GONE"):
                self.dying.setdefault(meta["uid"], time.time())

    def on_pod(self, kind, pod):
        meta, owner = pod["metadata"], controller(pod)
        if not owner:
            return
        job = next(o["name"] for o in meta["ownerReferences"] if o["uid"] == owner)
        place = (owner, *rank(pod))
        with self.lock:
            others = self.alive.setdefault(place, {})
            if kind in ("DELETED", "GONE") or meta.get("deletionTimestamp") or pod["status"].get("phase") in ENDED:
                others.pop(meta["uid"], None)
                return
            if kind == "ADDED" and meta["uid"] not in self.made:
                self.made[meta["uid"]] = (owner, job, version(pod), meta["name"], made_at(meta))
            others[meta["uid"]] = meta["name"]
            if len(others) > 1:
                self.wrong.append((job, f"two live pods for {place[1]} {place[2]}: {sorted(others.values())}"))

    def verdict(self, blind, patience):
        """All that was wrong, as (job name, what).  blind: the operator could not know of a deletion at once; else it has
        that many seconds."""
        with self.lock:
            wrong = list(self.wrong)
            for owner, job, at, name, when in self.made.values():
                end = self.final.get(owner)
                if end and at > end and not self.rewound:
                    wrong.append((job, f"pod {name} was made for a job that had ended ({at} after {end})"))
                if owner in self.dying and when > self.dying[owner] + patience and not blind:
                    wrong.append((job, f"pod {name} was made for a job that was being deleted"))
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
    """The ConfigMap or Service that a running job has not; others: (kind, name) -> uid of the controller."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    if job["spec"].get("suspend"):
        return None
    want = [("ConfigMap", name)]
    if job["spec"].get("intranet") == "Service":
        want += [("Service", f"{name}-{r}-{i}") for r in ROLES for i in range(wanted(job, r))]
    return next((f"{kind} {n} is missing" for kind, n in want if others.get((kind, n)) != uid), None)


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

