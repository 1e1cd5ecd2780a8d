"""Parameter servers and collective communication for training programs, without a compiler.

Where to begin, by what you want to do; each has its own help(), as help(paddlert.Client):

    a PyTorch or Paddle model with rows on servers     paddlert.torch, paddlert.paddle: Embedding, DistributedModel
    the same model on each worker, gradients averaged  paddlert.torch.DistributedDataParallel, paddlert.paddle.DataParallel
    training that outlives workers, and takes them in  paddlert.elastic, paddlert.torch.Elastic, paddlert.paddle.Elastic
    tables on servers, with NumPy alone                Job, Dense, Sparse, Client
    batches of text files, read by threads             paddlert.data: Dataset
    a server in this process, for a test or notebook   Server; a process of its own: python -m paddlert server
    how tables are updated, and which rows they have   optim, init, schedule, admit, evict
    a model that was saved, without servers            Model
    all_reduce, broadcast, ... between workers         Group
    a bar, or lines, of how far a loop is              Progress
    a program that was written for Paddle's fleet      paddlert.fleet
    what went wrong                                    Error and those below it, as TimeoutError, PeerLostError, RolledBackError

The same script is a server or a worker, by the environment that `paddlerun launch` and PaddleJobs set:

    import numpy as np, paddlert
    from paddlert import optim

    job = paddlert.Job()                                    # who am I? from the environment
    if job.is_server:
        job.serve()                                         # until all trainers have finished
    else:
        tables = [paddlert.Dense("w", 10, optim.SGD(lr=0.1)), paddlert.Sparse("embedding", 8, optim.Adagrad(lr=0.05))]
        with paddlert.Client(job, tables) as client:
            w = client.init("w", np.zeros(10, np.float32))
            rows = client.pull("embedding", ids)            # [n][8]
            client.push("embedding", ids, gradients)
            client.exchange("w", gradient, w)
            client.step()

Arrays are NumPy's, float32 and uint64, or anything that has __dlpack__ or __array_interface__ on the CPU; those that fit
are not copied.  Calls let other threads run, and times are in seconds.  Errors are exceptions of their kind with the runtime's message.
docs/python.md is the guide, docs/python-api.md has all calls.
"""
from typing import TYPE_CHECKING, Any

from . import admit, evict, init, optim, schedule
from ._lib import (CanceledError, ConflictError, DamagedError, DeniedError, Error, ExistsError, GoneError, InvalidError, NoResourceError,
                   NotFoundError, OutOfMemoryError, PeerLostError, RolledBackError, TimeoutError, UnavailableError, UnsupportedError, renamed)
from ._abi import VERSION as __version__
from ._progress import Progress
from .group import Group
from .job import Job
from .ps import Client, Dense, Model, Server, Sparse

if TYPE_CHECKING:
    from . import data, elastic, fleet, paddle, torch
    from ._lib import CanceledError as Canceled
    from ._lib import DamagedError as Damaged
    from ._lib import DeniedError as Denied
    from ._lib import InvalidError as Invalid
    from ._lib import NoResourceError as NoResource
    from ._lib import NotFoundError as NotFound
    from ._lib import PeerLostError as PeerLost
    from ._lib import TimeoutError as Timeout
    from ._lib import UnavailableError as Unavailable
    from ._lib import UnsupportedError as Unsupported

__all__ = ["CanceledError", "Client", "ConflictError", "DamagedError", "DeniedError", "Dense", "Error", "ExistsError", "GoneError", "Group",
           "InvalidError", "Job", "Model", "NoResourceError", "NotFoundError", "OutOfMemoryError", "PeerLostError", "Progress", "RolledBackError",
           "Server", "Sparse", "TimeoutError", "UnavailableError", "UnsupportedError", "admit", "evict", "init", "optim", "schedule"]

_OLD = {c.__name__.removesuffix("Error"): c for c in (CanceledError, DamagedError, DeniedError, InvalidError, NoResourceError, NotFoundError,
                                                      PeerLostError, TimeoutError, UnavailableError, UnsupportedError)}

if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        """paddlert.data, .elastic, .torch, .paddle and .fleet, when they are asked for: frameworks are large.  And old names."""
        if name in _OLD:
            return renamed(__name__, name, _OLD[name].__name__, _OLD[name])
        if name not in ("data", "elastic", "torch", "paddle", "fleet"):
            raise AttributeError(f"module 'paddlert' has no attribute {name!r}")
        import importlib
        return importlib.import_module(f".{name}", __name__)
