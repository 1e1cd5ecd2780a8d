"""Programs of tests by their path: which build they are of, and what that build needs."""
import os
import re

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


def name_of(program):
    """build/san/test/common/yaml_test -> san/common/yaml_test"""
    return "/".join(filter(None, [build_of(program), re.sub(r"^.*?/test/", "", program)]))
