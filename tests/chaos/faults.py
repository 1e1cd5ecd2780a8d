"""The faults: what is done to requests (proxy.Fault), and what is done when, in seconds after the jobs' own moment."""
import json
from dataclasses import dataclass, field

from proxy import Fault


def status(code, reason, message="injected"):
    return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason,
                       "code": code})


def answer(match, code, reason, chance, **more):
    return Fault(match, "status", chance=chance, status=code, body=status(code, reason), **more)


@dataclass
class Row:
    faults: list = field(default_factory=list)      # of the proxy, while the fault lasts
    steps: list = field(default_factory=list)       # (seconds, name of a method of Round)
    flags: list = field(default_factory=list)       # of the operator
    limit: int = 0                                  # page size that the proxy makes of the operator's
    blind: bool = False                             # the operator receives changes late
    redo: bool = False                              # what was done is undone by it: done again afterwards
    without: list = field(default_factory=list)     # moments that mean nothing under it
    plane: bool = False                             # breaks the control plane itself: nothing runs beside it
    seconds: float = 3.5


WRITES = "(POST|PATCH|PUT|DELETE) "
GONE = json.dumps({"type": "ERROR", "object": json.loads(status(410, "Expired"))})
FOREVER = 1 << 30
LEASE = ["--leader-elect", "--leader-elect-namespace={ns}"]
IDLE = ["--watch-idle=2s"]

ROWS = {
    "none": Row(),
    # Answers.  A watch that was cut comes back when it is answered: seconds, now and then.
    "429": Row([answer(WRITES, 429, "TooManyRequests", .5, headers={"Retry-After": "1"}),
                answer("GET ", 429, "TooManyRequests", .5, headers={"Retry-After": "1"})], [(.5, "cut")], blind=True),
    "500": Row([answer(".", 500, "InternalError", .4)], [(.5, "cut")], blind=True),
    "503": Row([Fault(".", "status", chance=.4, status=503, body="no upstream")], [(.5, "cut")], blind=True),
    "504": Row([answer(".", 504, "Timeout", .4)], [(.5, "cut")], blind=True),
    "409-status": Row([answer("PATCH .*/status", 409, "Conflict", .7)]),
    "409-all": Row([answer(WRITES, 409, "Conflict", .6)]),
    "403": Row([answer(WRITES, 403, "Forbidden", .5)]),
    "401": Row([answer(".", 401, "Unauthorized", .4)], [(.5, "cut")], blind=True),
    "garbage-answers": Row([Fault(".", "status", chance=.4, status=200, body="<html>who are you?</html>")], [(.5, "cut")],
                           blind=True),
    # Connections.
    "reset": Row([Fault(".", "reset", chance=.4)], [(.5, "cut")], blind=True),
    "answers-lost": Row([Fault(WRITES, "lose", chance=.5)]),
    "answers-torn": Row([Fault(".", "tear", chance=.4, after=150)], [(.5, "cut")], blind=True),
    "slow": Row([Fault(".", "slow", chance=.6)], [(.5, "cut")], blind=True),
    "late": Row([Fault(WRITES, "late", chance=.6, delay=1.5)], blind=True),
    # The operator gives up creates that the server receives later: when their job has ended, too.
    "given-up": Row([Fault("POST .*/pods", "late", chance=.7, delay=3.4)], [(.5, "cut"), (2, "cut")], blind=True),
    "partition": Row(steps=[(.1, "freeze"), (2.5, "thaw")], blind=True),
    "half-open": Row(steps=[(.1, "freeze"), (3, "cut")], flags=IDLE, blind=True),
    # Lists and watches.
    "watch-410": Row([answer("watch=", 410, "Expired", .6)], [(.3, "cut"), (1.5, "cut")], blind=True),
    "watch-410-inside": Row([Fault("watch=", "line", chance=.8, line=GONE)], [(.3, "cut")], blind=True),
    "watch-torn": Row([Fault("watch=", "tear", chance=.8, after=1500)], [(.3, "cut"), (1, "cut")], blind=True),
    "watch-half-event": Row([Fault("watch=", "half", chance=.8)], [(.3, "cut"), (1, "cut")], blind=True),
    "watch-doubled": Row([Fault("watch=", "double")], [(.1, "cut")]),
    "watch-replayed": Row([Fault("watch=", "replay")], [(.1, "cut")], blind=True),
    "watch-garbage": Row([Fault("watch=", "line", chance=.8, line='{"type":"MODIFIED","object":{"meta')], [(.3, "cut")],
                         blind=True),
    "continue-410": Row([answer("continue=", 410, "Expired", .5), answer("watch=", 410, "Expired", 1, times=8)],
                        [(.2, "cut"), (1.2, "cut")], limit=2, blind=True),
    "list-stale": Row([Fault("limit=", "stale", times=8), answer("watch=", 410, "Expired", 1, times=4)], [(1, "cut")],
                      blind=True),
    # The operator.
    "killed": Row(steps=[(.2, "kill"), (.5, "start"), (1.1, "kill"), (1.3, "start")]),
    "frozen": Row(steps=[(.2, "stop_process"), (3, "continue_process")], blind=True),
    "two-at-once": Row(steps=[(-1, "second")]),
    "two-one-lease": Row(steps=[(-1, "second"), (.4, "kill"), (.6, "start")], flags=LEASE, seconds=2),
    "lease-stolen": Row(steps=[(.2, "steal_lease")], flags=LEASE, blind=True),
    "clock-forward": Row(steps=[(.3, "clock_forward")]),
    "clock-back": Row(steps=[(.3, "clock_back")]),
    # The control plane.
    "api-killed": Row(steps=[(.2, "kill_apiserver")], plane=True, blind=True),
    "api-restarted": Row(steps=[(.4, "terminate_apiserver"), (2.5, "kill_apiserver")], plane=True, blind=True),
    "api-frozen": Row(steps=[(.2, "freeze_apiserver"), (3, "thaw_apiserver")], plane=True, blind=True),
    "etcd-killed": Row(steps=[(.2, "kill_etcd")], plane=True, blind=True),
    "compaction": Row(steps=[(.2, "cut"), (.2, "freeze"), (1.5, "compact"), (1.6, "thaw"), (1.7, "cut")], plane=True,
                      blind=True),
    # Names that others took were free again, so they may be the operator's by now; restarts are counted in what was lost.
    "restored": Row(steps=[(0, "back_up"), (1.5, "restore")], flags=["--watch-idle=8s"], redo=True, without=["foreign", "restart", "node-lost"],
                    plane=True, blind=True),
}
