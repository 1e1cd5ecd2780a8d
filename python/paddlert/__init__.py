"""Parameter servers and collective communication for training programs, without a compiler.

    import numpy as np, paddlert

    job = paddlert.Job()                                    # who am I? from the environment
    if job.is_server:
        job.serve()                                         # until all trainers have finished
    else:
        tables = [paddlert.Dense("w", 10, "sgd:lr=0.1"), paddlert.Sparse("embedding", 8, "adagrad:lr=0.05")]
        with paddlert.Client(job, tables) as client:
            w = client.init("w", np.zeros(10, np.float32))
            rows = client.pull("embedding", ids)            # [n][8]
            client.push("embedding", ids, gradients)
            client.exchange("w", gradient, w)
            client.step()

Arrays are NumPy's, float32 and uint64, or anything that has __dlpack__ or __array_interface__ on the CPU; those that fit
are not copied.  Calls let other threads run.  Errors are exceptions of their kind with the runtime's message.
"""
import types as _types

from . import admit, evict, init, optim, schedule
from ._lib import (Canceled, Damaged, Denied, Error, Invalid, NoResource, NotFound, PeerLost, Timeout, Unavailable, Unsupported)
from .group import Group
from .job import Job
from .ps import Client, Dense, Model, Server, Sparse

__all__ = ["Canceled", "Client", "Damaged", "Denied", "Dense", "Error", "Group", "Invalid", "Job", "Model", "NoResource", "NotFound",
           "PeerLost", "Server", "Sparse", "Timeout", "Unavailable", "Unsupported", "admit", "evict", "init", "optim", "schedule"]
__version__ = "0"


def __getattr__(name: str) -> _types.ModuleType:
    """paddlert.torch, paddlert.paddle and paddlert.fleet, when they are asked for: their frameworks are large."""
    if name not in ("torch", "paddle", "fleet"):
        raise AttributeError(f"module 'paddlert' has no attribute {name!r}")
    import importlib
    return importlib.import_module(f".{name}", __name__)
