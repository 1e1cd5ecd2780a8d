"""examples/python/notebook.ipynb in a kernel of Jupyter: all of it, again in the same kernel, a cell that is interrupted, after a restart."""
import json
import sys

from jupyter_client.manager import start_new_kernel

NOTEBOOK, SECONDS = sys.argv[1], 200
WAITS = """
server = paddlert.Server(workers=2)
client = paddlert.Client(server.job(0), [paddlert.Dense("w", 1)], mode="sync")
print("waiting", flush=True)
client.step()
"""
kernel, client = start_new_kernel(kernel_name="python3")


def run(code, interrupt=""):
    """(how it ended, what stood below it); interrupt: when that has been said."""
    said = []

    def seen(message):
        content = message["content"]
        said.append(content.get("text") or content.get("evalue") or str(content.get("data", "")))
        if interrupt and interrupt in said[-1]:
            kernel.interrupt_kernel()

    reply = client.execute_interactive(code, timeout=SECONDS, output_hook=seen)["content"]
    return reply.get("ename", reply["status"]), "".join(said)


def run_all():
    with open(NOTEBOOK) as f:
        cells = ["".join(c["source"]) for c in json.load(f)["cells"] if c["cell_type"] == "code"]
    ended, said = zip(*map(run, cells))
    print(set(ended), "accuracy" in "".join(said), "of weights, bias" in "".join(said) or "of bias, weights" in "".join(said))
    return "".join(said)


try:
    print("300/300" in run_all())                                   # a bar of tqdm's
    run_all()
    print(run(WAITS, "waiting")[0], run("client")[0], run(WAITS, "waiting")[0], run("client.close()")[0])
    kernel.restart_kernel(now=True)
    client.wait_for_ready(timeout=SECONDS)
    run_all()
finally:
    client.stop_channels()
    kernel.shutdown_kernel(now=True)
