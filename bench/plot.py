"""Latency and memory of the operator against the number of pods, beside the bare creator."""
import statistics

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)


def series(out, prefix, pick):
    """[(pods, median), ...] of the scenarios "<prefix>:<n>", by size."""
    names = [n for n in out if n.startswith(prefix + ":")]
    return sorted((out[n][0]["run"]["pods"], statistics.median(pick(r["run"]) for r in out[n])) for n in names)


def operator(out, conditions, path):
    plt.rcParams["svg.hashsalt"] = "operator"       # the same figures, the same file
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for prefix, label, color in (("big", "one job", "tab:blue"), ("many", "jobs of 1 + 2", "tab:orange")):
        for pick, style, what in ((lambda m: m["status_s"], "o-", "all Running in status"),
                                  (lambda m: m["limit"]["running_s"], "x--", "bare creator, all pods Running")):
            points = series(out, prefix, pick)
            left.plot(*zip(*points), style, color=color, label=f"{label}: {what}") if points else None
        points = series(out, prefix, lambda m: m["peak_mib"])
        right.plot(*zip(*points), "o-", color=color, label=label) if points else None
    for axis, what in ((left, "seconds"), (right, "operator's peak RSS, MiB")):
        axis.set(xscale="log", xlabel="pods", ylabel=what)
        axis.set_ylim(bottom=0)
        axis.grid(True, which="both", alpha=0.3)
        axis.legend(fontsize=8)
    fig.suptitle(f"{conditions['cores']} cores, {conditions['cpu']}, load {conditions['load']:.1f} at the start", fontsize=9)
    fig.tight_layout()
    fig.savefig(path, format="svg", metadata={"Date": None})
    print(f"plot: {path}")
