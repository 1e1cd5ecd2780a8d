"""wide_and_deep: examples/s alone in one process, and with servers and trainers on loopback."""
import os
import re
import statistics
import subprocess
import tempfile

from cluster import BIN, free_port
from report import table


def rate(text):
    found = re.findall(r"examples/s: *([0-9.]+)", text)
    return statistics.median(map(float, found)) if found else 0.0


def run(names, runs):
    out = []
    with tempfile.TemporaryDirectory() as d:
        program = BIN / "wide_and_deep"
        subprocess.run([program, "--generate", d, "--lines", "60000", "--seed", "1"], check=True, capture_output=True)
        for batch in (10, 512):
            for servers, trainers in ((0, 1), (1, 1), (2, 2)):
                rates = [run_ps(program, d, batch, servers, trainers) for _ in range(runs)]
                out.append({"batch": batch, "servers": servers, "trainers": trainers,
                            "examples_per_s": statistics.median(rates), "runs": rates})
    table("wide_and_deep: examples/s, all trainers together (loopback; medians)", ["servers + trainers", "batch 10", "batch 512"],
          [["local" if not s else f"{s} + {t}"] +
           [f"{next(r['examples_per_s'] for r in out if (r['batch'], r['servers'], r['trainers']) == (b, s, t)):.0f}" for b in (10, 512)]
           for s, t in ((0, 1), (1, 1), (2, 2))])
    return out


def run_ps(program, data, batch, servers, trainers):
    """Examples a second, summed over the trainers."""
    args = [program, "--train", data, "--batch-size", str(batch), "--epochs", "1", "--save="]
    if not servers:
        return rate(subprocess.run([*args, "--local"], check=True, capture_output=True, text=True, timeout=600).stdout)
    ends = [f"127.0.0.1:{free_port()}" for _ in range(servers)]
    env = {**os.environ, "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(ends), "PADDLE_TRAINERS_NUM": str(trainers)}
    procs = [subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**env, "TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": e.split(":")[1]})
             for e in ends]
    work = [subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env={**env, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}) for i in range(trainers)]
    total = sum(rate(w.communicate(timeout=600)[0]) for w in work)
    for p in procs:
        p.wait(60)
    return total
