"""What every benchmark prints: the conditions it ran under, and tables."""
import os
import re
import sys
import time


def conditions():
    cpu = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    return {"cores": os.cpu_count(), "cpu": cpu.group(1) if cpu else "?", "load": os.getloadavg()[0],
            "kernel": os.uname().release, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def table(title, header, rows):
    print(f"\n{title}")
    widths = [max(len(str(r[i])) for r in [header, *rows]) for i in range(len(header))]
    for r in [header, *rows]:
        print("  " + "  ".join(str(c).rjust(w) if i else str(c).ljust(w) for i, (c, w) in enumerate(zip(r, widths))))
    sys.stdout.flush()
