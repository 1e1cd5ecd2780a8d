"""python -m paddlert server: a parameter server, by the environment or by options."""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from . import Error, InvalidError, Job


def count(least: int) -> Callable[[str], int]:
    """A whole number of at least that."""
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number of at least {least}")
        return int(text)
    return parse


def options() -> argparse.Namespace:
    p = argparse.ArgumentParser(prog="python -m paddlert", description="A parameter server of a training job.")
    commands = p.add_subparsers(dest="command", required=True)
    s = commands.add_parser("server", help="serve until all trainers have finished")
    s.add_argument("--servers", help="host:port of all servers, joined by commas; default: the environment")
    s.add_argument("--index", type=count(0), default=0, help="which of them this one is, from 0")
    s.add_argument("--workers", type=count(1), default=1, help="number of trainers")
    s.add_argument("--shards", type=count(0), default=0, help="threads; 0: half the cores")
    s.add_argument("--memory", type=count(0), default=0, help="bytes of all tables together; 0: three quarters of what there is")
    s.add_argument("--checkpoint-dir", help="write checkpoints only in and below this directory; default: wherever a trainer asks")
    s.add_argument("--cold-dir", help="keep rows that do not fit in --memory on disk, below this directory; default: all are in memory")
    s.add_argument("--nonfinite", choices=("refuse", "skip", "allow"), help="what to do with NaN and infinite gradients; default: refuse")
    return p.parse_args()


def job_of(a: argparse.Namespace) -> Job:
    if a.servers:
        servers = a.servers.split(",")
        if a.index >= len(servers):
            raise InvalidError(f"--index is {a.index}, expected 0 to {len(servers) - 1} as --servers names {len(servers)}")
        return Job(servers=servers, server=a.index, workers=a.workers)
    job = Job()
    if not job.is_server:
        raise InvalidError(f"the environment describes worker {job.worker_index} of {job.worker_num}, "
                      "expected TRAINING_ROLE=PSERVER in it, or --servers")
    return job


def main() -> int:
    a = options()
    try:
        job_of(a).serve(shards=a.shards, memory_max=a.memory, checkpoint_dir=a.checkpoint_dir, cold_dir=a.cold_dir,
                        nonfinite=a.nonfinite)
    except Error as e:
        print(f"paddlert server: error: {e}", file=sys.stderr)
        return 2 if isinstance(e, InvalidError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
