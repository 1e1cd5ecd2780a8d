"""Programs of tests by their path: which build they are of, and what that build needs."""
import os
import re

import tally
from tally import ROOT

SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=1:quarantine_size_mb=16",
    "LSAN_OPTIONS": f"suppressions={ROOT / 'tests/lsan.supp'}:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PADDLE_SANITIZED": "1",
    "TSAN_OPTIONS": f"suppressions={ROOT / 'tests/tsan.supp'}:halt_on_error=0:exitcode=66",
}


def build_of(program):
    """How it was built, by the folder it lies in: san, tsan, or plain, which is empty."""
    return (re.search(r"/(san|tsan)/", "/" + program) or [""] * 2)[1]


def environment(program):
    """What a program of tests is given: TAP, and the options of the sanitizers it was built with."""
    return {"CMOCKA_MESSAGE_OUTPUT": "TAP", **(SANITIZERS if build_of(program) else {})}


def again(program, how):
    """The commands that build a program and do the same with it."""
    make = {"": "make", "san": "make sanitized", "tsan": "make races"}[build_of(program)]
    what = os.path.relpath(program, ROOT)
    return f"{make} {'WHAT=' if build_of(program) else ''}{what} && tests/run {how} {what}"


def bare_name(program):
    """build/san/test/common/yaml/yaml_test -> common/yaml/yaml_test"""
    return re.sub(r"^.*?/test/", "", program)


def name_of(program):
    """build/san/test/common/yaml/yaml_test -> san/common/yaml/yaml_test"""
    return "/".join(filter(None, [build_of(program), bare_name(program)]))


# Programs that mostly wait, for leases, deadlines and other processes, the longest first; and how many processes share the tests of
# one, so that these wait side by side (common/part_testing.c).
WAITING = {
    "runtime/train/ps/client/rejoin_test": 12,
    "runtime/train/coll/fault_test": 3,
    "runtime/train/coll/shrink_test": 3,
    "runtime/train/ps/client/return_test": 4,
    "runtime/train/ps/client/process_test": 5,
    "runtime/train/ps/client/disk_test": 3,
    "runtime/train/coll/netns_test": 1,
    "runtime/train/ps/client/again_test": 2,
    "runtime/train/ps/server/session_wait_test": 2,
    "runtime/train/coll/wait_test": 1,
    "operator/gate/gate_test": 2,
    "runtime/train/ps/server/session_test": 1,
    "runtime/train/ps/client/loss_test": 1,
    "runtime/train/rpc/rpc_test": 1,
    "common/http/conn_test": 1,
    "runtime/net/net_test": 1,
    "runtime/launch/rendezvous/neighbour_test": 1,
    "runtime/launch/process/training_end_test": 1,
    "runtime/launch/rendezvous/kv_test": 1,
    "runtime/launch/process/first_test": 1,
}
# Those of the others that compute for longest, the longest first.
LONG = [
    "runtime/train/coll/gpu_fault_test",
    "examples/resnet50/training_test",
    "runtime/train/coll/agree_test",
    "runtime/train/ps/client/cold_test",
    "examples/resnet50/plan_test",
    "runtime/train/ps/client/flood_test",
    "runtime/train/coll/calls_test",
    "runtime/train/coll/algorithms_test",
    "runtime/train/ps/shard/snapshot_test",
    "runtime/train/ckpt/chain_test",
    "runtime/train/ps/client/ps_test",
    "examples/wide_and_deep/trainer_test",
]


def in_order(programs):
    """Of those that wait and of the others, what to run as (program, part of its tests or ""), in the order of beginning."""
    for name in [*WAITING, *LONG]:
        if not (ROOT / f"{name}.c").exists():
            tally.fail("tests/programs.py", f"{name} is no program any more: take its row out")
    rows = sorted(programs, key=lambda p: [*WAITING, *LONG, bare_name(p)].index(bare_name(p)))
    waiting = [(p, f"{i}/{n}" if n > 1 else "") for p in rows for n in [WAITING.get(bare_name(p), 0)] for i in range(n)]
    return waiting, [(p, "") for p in rows if bare_name(p) not in WAITING]
