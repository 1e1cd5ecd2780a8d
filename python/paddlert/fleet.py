"""fleet's names, for programs that come from Paddle 2.x:

    from paddlert import fleet

    fleet.init()                                            # the role is the environment's
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    else:
        strategy = fleet.DistributedStrategy()
        strategy.a_sync = True
        strategy.a_sync_configs = {"k_steps": 100}          # geo
        optimizer = fleet.distributed_optimizer(paddlert.paddle.DistributedModel(net, "adam:lr=0.001"), strategy)
        fleet.init_worker()
        for ids, y in batches:
            loss_of(net, ids, y).backward()
            optimizer.step()
        if fleet.is_first_worker():
            fleet.save_persistables(None, "model")
        fleet.stop_worker()

What is not the same: there are no static programs with servers, so that no minimize puts tables into one; a table's rule is the text of
docs/rules.md, and its updates are the servers'.

Without servers, each worker has the whole model, and backward averages the gradients of all:

    fleet.init(is_collective=True)
    optimizer = fleet.distributed_optimizer(paddle.optimizer.Momentum(0.1, parameters=net.parameters()))
    net = fleet.distributed_model(net)
    for x, y in batches:                                    # this worker's share
        loss_of(net, x, y).backward()
        optimizer.step()                                    # or optimizer.minimize(loss)
        optimizer.clear_grad()

Names of fleet that are not here say what is in their place.
"""
from __future__ import annotations

import atexit
import copy
import ctypes
import json
import math
import os
import pathlib
import sys
import tempfile
import types
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ._collective import KEYS, Util, check_key, model_of, name_idle, optimizer_of
from ._kept import Kept
from ._lib import InvalidError, UnsupportedError, addresses, instance, number, renamed, shown, whole_number, with_options
from ._options import ClientOptions, ServerOptions
from ._training import Synchroniser
from .data import Batch, Dataset
from .group import Group
from .job import Job
from .ps import Client, Path

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["DistributedStrategy", "InMemoryDataset", "PaddleCloudRoleMaker", "QueueDataset", "Role", "StrategyFactory", "UserDefinedRoleMaker",
           "barrier_worker",
           "distributed_model", "distributed_optimizer", "init", "init_server", "init_worker", "is_first_worker", "is_server", "is_worker",
           "local_rank", "node_num", "nranks", "rank", "role_maker", "run_server", "save_persistables", "server_endpoints", "server_index",
           "server_num", "stop_worker", "worker_endpoints", "worker_index", "worker_num", "world_size"]


class DifferentError(UnsupportedError, AttributeError):
    """A name of fleet that cannot be what it is there; the message says what is here."""


# What is in whose place: names joined by spaces.
_INSTEAD = {
    "minimize amp_init get_loss_scaling qat_init distributed_scaler": "loss.backward() and optimizer.step(), as there are no static programs",
    "save save_inference_model": "save_persistables, and DistributedModel(net).predict(directory) where it is used",
    "load_model load_persistables load_inference_model": "init_worker(load=directory)",
    "save_one_table save_dense_params save_cache_model save_cache_table": "save_persistables, which saves all tables",
    "load_one_table": "init_worker(load=directory)",
    "check_save_pre_patch_done": "nothing, as save_persistables returns when all is saved",
    "shrink": "optimizer.client.shrink(table), for each that has evict=\"ctr:...\"",
    "set_date": "optimizer.client.shrink(table) once a day, with evict=\"ctr:...\"",
    "print_table_stat": "optimizer.client.stat(table)",
    "metrics all_reduce": "paddlert.Group(job).all_reduce of what each worker has counted",
    "UtilBase": "fleet.util, or paddlert.Group(job): all_reduce, all_gather, barrier",
    "get_hybrid_communicate_group get_hybrid_parallel_topology HybridCommunicateGroup CommunicateTopology": "paddlert.Group(job).split",
    "collective_perf allgather_perf allreduce_perf broadcast_perf reduce_perf reduce_scatter_perf": "make bench-coll of this project",
    "DatasetBase FileInstantDataset BoxPSDataset": "QueueDataset, InMemoryDataset, or paddlert.data.Dataset",
    "MultiSlotDataGenerator MultiSlotStringDataGenerator": "paddle's own, as a program of pipe_command, or a format of paddlert.data",
    "rank_in_node local_device_ids world_device_ids": "local_rank, or worker_index: which device a worker uses the program says",
    "is_coordinator init_coordinator make_fl_strategy get_fl_client": "nothing, as there is no federated training",
    "set_log_level get_log_level_code get_log_level_name": "nothing: the runtime says what matters, on stderr",
    "check_memory_usage": "/metrics (docs/seeing.md)",
    "Fleet fleet": "this module, which is the only one",
}
INSTEAD = {name: text for names, text in _INSTEAD.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "Different":
        return renamed(__name__, name, "DifferentError", DifferentError)
    if name in INSTEAD:
        raise DifferentError(f"there is no fleet.{name} in paddlert, expected {INSTEAD[name]}")
    raise AttributeError(f"module 'paddlert.fleet' has no attribute {name!r}")


class Role:
    """What a process is: WORKER or SERVER."""
    WORKER, SERVER = 1, 2


class PaddleCloudRoleMaker:
    """The role is the environment's.  is_collective: all processes are workers."""

    def __init__(self, is_collective: bool = False, **_: Any) -> None:
        self.is_collective = instance("is_collective", is_collective, bool)

    def job(self) -> Job:
        """The place that it describes."""
        return Job()


class UserDefinedRoleMaker(PaddleCloudRoleMaker):
    """The role is the program's; is_collective: that of worker_endpoints with the number current_id."""

    def __init__(self, is_collective: bool = False, *, current_id: int = 0, role: int = Role.WORKER, worker_num: int = 1,
                 server_endpoints: Sequence[str] = (), worker_endpoints: Sequence[str] = (), **_: Any) -> None:
        super().__init__(is_collective)
        if is_collective:
            workers = addresses("worker_endpoints", worker_endpoints)
            if not 0 <= whole_number("current_id", current_id) < len(workers):
                raise InvalidError(f"current_id is {current_id}, expected 0 to {len(workers) - 1} as there are {len(workers)} worker_endpoints")
            self._arguments: dict[str, Any] = {"variables": {
                **os.environ, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(current_id), "PADDLE_TRAINERS_NUM": str(len(workers)),
                "PADDLE_TRAINER_ENDPOINTS": ",".join(workers), "PADDLE_CURRENT_ENDPOINT": workers[current_id]}}
            return
        servers = addresses("server_endpoints", server_endpoints)
        if role not in (Role.WORKER, Role.SERVER):
            raise InvalidError(f"role is {role!r}, expected Role.WORKER or Role.SERVER")
        if not 0 <= whole_number("current_id", current_id) < len(servers) and role == Role.SERVER:
            raise InvalidError(f"current_id is {current_id}, expected 0 to {len(servers) - 1} as there are {len(servers)} server_endpoints")
        where = {"server": current_id} if role == Role.SERVER else {"worker": current_id}
        self._arguments = {"servers": servers, "workers": worker_num, **where}

    def job(self) -> Job:
        """The place that it describes."""
        return Job(**self._arguments)


# Paddle 1.x has these in a module of their own.
role_maker = types.SimpleNamespace(PaddleCloudRoleMaker=PaddleCloudRoleMaker, UserDefinedRoleMaker=UserDefinedRoleMaker, Role=Role)


class DistributedStrategy:
    """Of parameter servers:

    a_sync: False is sync; True async, or geo with k_steps above 0
    a_sync_configs: by fleet's names (docs/modes.md); the runtime says which keys there are
    staleness: this runtime's, of async and geo; 0: no bound

    Of collective training:

    fuse_grad_size_in_MB: gradients travel in buckets of that size
    last_comm_group_size_MB: that of the last bucket, which has nothing left to hide behind
    fp16_allreduce: gradients travel as float16; what rounding takes is added to the next step's
    find_unused_parameters: either is right, as they are always found
    hybrid_configs: every degree 1 but dp_degree, the number of workers

    Other keys of Paddle's that change how it trains in a dynamic graph are refused; those that do not are named once, in a warning."""
    a_sync: bool
    a_sync_configs: dict[str, Any]
    staleness: int
    fuse_grad_size_in_MB: float
    last_comm_group_size_MB: float
    fp16_allreduce: bool
    find_unused_parameters: bool
    hybrid_configs: dict[str, int]

    def __init__(self) -> None:
        for name, value in KEYS.items():
            setattr(self, name, copy.copy(value))

    def __setattr__(self, name: str, value: Any) -> None:
        check_key(name, value)
        super().__setattr__(name, value)

    def text(self) -> str:
        """As the file that PADDLE_PS_STRATEGY names."""
        bound = f"staleness: {json.dumps(self.staleness)}\n" if self.staleness else ""
        return f"a_sync: {json.dumps(self.a_sync)}\na_sync_configs: {json.dumps(self.a_sync_configs)}\n{bound}"


class StrategyFactory:
    """Paddle 1.8's ways to name a mode; each makes what DistributedStrategy has now."""

    @staticmethod
    def _make(a_sync: bool, **configs: Any) -> DistributedStrategy:
        strategy = DistributedStrategy()
        strategy.a_sync, strategy.a_sync_configs = a_sync, configs
        return strategy

    @classmethod
    def create_sync_strategy(cls) -> DistributedStrategy:
        """All workers make a step together."""
        return cls._make(False)

    @classmethod
    def create_async_strategy(cls) -> DistributedStrategy:
        """Each worker's gradients are applied at once."""
        return cls._make(True)

    @classmethod
    def create_half_async_strategy(cls) -> DistributedStrategy:
        """Async, in which each worker is at most one step ahead of the slowest (docs/modes.md)."""
        strategy = cls._make(True)
        strategy.staleness = 1
        return strategy

    @classmethod
    def create_geo_strategy(cls, update_frequency: int = 100) -> DistributedStrategy:
        """Each worker trains a copy, and exchanges differences every update_frequency steps."""
        if whole_number("update_frequency", update_frequency) < 1:
            raise InvalidError(f"update_frequency is {update_frequency}, expected at least 1")
        return cls._make(True, k_steps=update_frequency)


class _State:
    job: Job | None = None
    strategy: DistributedStrategy | None = None
    optimizer: Synchroniser | None = None
    group: Group | None = None                            # of collective training
    model: Any = None


def _job() -> Job:
    if _State.job is None:
        raise InvalidError("the role is not known yet, expected fleet.init() before")
    return _State.job


def _group() -> Group:
    if _State.group is None:
        raise InvalidError("the workers are not a group yet, expected fleet.init(is_collective=True) before")
    return _State.group


util = Util(_group)


def _client() -> Client:
    if _State.group is not None:
        raise UnsupportedError("there are no servers in collective training, expected paddle.save(net.state_dict(), file) by one worker")
    if _State.optimizer is None or _State.optimizer.client is None:
        raise InvalidError("this worker has no servers yet, expected fleet.distributed_optimizer(...) and fleet.init_worker() before")
    return _State.optimizer.client


def init(role_maker: PaddleCloudRoleMaker | None = None, is_collective: bool = False,
         strategy: DistributedStrategy | None = None) -> None:
    """Who am I?  From the environment, or from a UserDefinedRoleMaker.  is_collective: there are no servers, and waits for all workers."""
    maker = PaddleCloudRoleMaker(is_collective) if role_maker is None else instance("role_maker", role_maker, PaddleCloudRoleMaker)
    if strategy is not None:
        instance("strategy", strategy, DistributedStrategy)
    _leave()
    _State.job, _State.strategy, _State.optimizer = maker.job(), strategy, None
    if maker.is_collective:
        if _State.job.is_server:
            raise InvalidError("is_collective is True, but TRAINING_ROLE is PSERVER: expected TRAINER, as there are no servers")
        _State.group = Group(_State.job)


@atexit.register
def _leave() -> None:
    """The group of collective training, which it leaves; an error that ends the program is reported to the others."""
    model, group, error = _State.model, _State.group, getattr(sys, "last_value", None)
    _State.model = _State.group = None
    if model is not None:
        model.__exit__(type(error), error, None)
    if group is not None:
        group.__exit__(type(error), error, None)


def is_server() -> bool:
    """Whether this process is a server."""
    return _job().is_server


def is_worker() -> bool:
    """Whether this process is a worker."""
    return _job().is_worker


def is_first_worker() -> bool:
    """Whether it is worker 0."""
    return _job().is_first_worker


def worker_index() -> int:
    """The number of this worker, from 0."""
    return _job().worker_index


def worker_num() -> int:
    """How many workers there are."""
    return _job().worker_num


rank, nranks, world_size = worker_index, worker_num, worker_num


def local_rank() -> int:
    """The number of this worker on its machine, from 0."""
    return int(os.environ.get("PADDLE_LOCAL_RANK") or os.environ.get("PADDLE_RANK_IN_NODE") or 0)


def worker_endpoints(to_string: bool = False) -> str | list[str]:
    """Those of PADDLE_TRAINER_ENDPOINTS; none where it is not set: parameter servers need none."""
    endpoints = _job().workers
    return ",".join(endpoints) if to_string else endpoints


def node_num() -> int:
    """On how many hosts the worker_endpoints are."""
    return len({e.rpartition(":")[0] for e in _job().workers})


def server_index() -> int:
    """The number of this server, from 0."""
    return _job().server_index


def server_num() -> int:
    """How many servers there are."""
    return len(_job().servers)


def server_endpoints(to_string: bool = False) -> str | list[str]:
    """["host:port", ...] of the servers; to_string: joined by commas."""
    return ",".join(_job().servers) if to_string else _job().servers


def init_server(dirname: Path | None = None, *_: Any, **__: Any) -> None:
    """Nothing to do: the tables come with the workers."""
    if dirname:
        raise UnsupportedError(f"init_server({str(dirname)!r}): servers read no model by themselves, expected init_worker(load=...) of the workers")


@with_options(ServerOptions)
def run_server(**options: Unpack[ServerOptions]) -> None:
    """Serves until all workers have stopped, as Job.serve."""
    _job().serve(**options)


def distributed_optimizer(optimizer: Any, strategy: DistributedStrategy | None = None) -> Any:
    """With servers: the DistributedModel of a model, as the servers apply the rule, which comes back.  Collective: an optimizer of the
    framework, which comes back; of a static program: one whose minimize() averages the gradients, too.  strategy: in place of init's; where a model has been made of that one, it is too late."""
    if strategy is not None:
        instance("strategy", strategy, DistributedStrategy)
        if _State.model is not None:
            raise InvalidError("fleet.distributed_model(net) was called before, expected the strategy in fleet.init(...), or this call first")
        _State.strategy = strategy
    if _State.group is not None:
        return optimizer_of(optimizer, _State.group, _State.strategy)
    if not isinstance(optimizer, Synchroniser):
        raise UnsupportedError(f"optimizer is a {type(optimizer).__name__}, expected paddlert.torch.DistributedModel(net, rule) or "
                          "paddlert.paddle.DistributedModel(net, rule): the servers apply the rule")
    _State.optimizer = optimizer
    return optimizer


def distributed_model(model: Any) -> Any:
    """Collective: the model as paddlert.paddle.DataParallel (of PyTorch: paddlert.torch.DistributedDataParallel), whose backward averages the
    gradients of all workers.  Everybody gets worker 0's parameters."""
    if _State.group is None and _job():
        raise UnsupportedError("there is no fleet.distributed_model with servers, expected fleet.init(is_collective=True), or the model in "
                               "paddlert.torch.DistributedModel or paddlert.paddle.DistributedModel, as tables are on servers")
    strategy = _State.strategy or DistributedStrategy()
    name_idle(strategy)
    _State.model = model_of(model, _group(), strategy)
    return _State.model


@with_options(ClientOptions)
def init_worker(scopes: object = None, *, load: Path | None = None, **options: Unpack[ClientOptions]) -> None:
    """Joins the servers; all workers call it.  Without servers: nothing.  scopes: Paddle's, not used.  load: a directory of save_persistables to start from."""
    if _State.group is not None:
        return
    if _State.optimizer is None:
        raise InvalidError("this worker has no model yet, expected fleet.distributed_optimizer(paddlert.paddle.DistributedModel(net, rule)) before")
    if _State.strategy is None:
        _State.optimizer.connect(_job(), load=load, **options)
        return
    name_idle(_State.strategy)
    name, before = "PADDLE_PS_STRATEGY", os.environ.get("PADDLE_PS_STRATEGY")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "DistributedStrategy"
        file.write_text(_State.strategy.text())
        os.environ[name] = str(file)
        try:
            _State.optimizer.connect(_job(), load=load, **options)
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


def barrier_worker() -> None:
    """Waits until all workers have called it."""
    if _State.group is not None:
        _State.group.barrier()
    else:
        _client().barrier()


def save_persistables(executor: Any, dirname: Path, main_program: Any = None, mode: int = 0) -> None:
    """All tables with their optimizers' state.  One worker calls it."""
    if mode != 0:
        raise UnsupportedError(f"mode is {mode}, expected 0: which rows are kept is the table's evict")
    _client().save(dirname)


def _several(name: str, given: Sequence[Any]) -> Sequence[Any]:
    """One text is none, as it would be taken apart by letters."""
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise TypeError(f"{name} is {shown(given)}, expected a list")
    return given


class QueueDataset:
    """Lines as Paddle's MultiSlotDataFeed, from files or through a command, read while they are iterated over:

        dataset = fleet.QueueDataset()
        dataset.init(batch_size=512, use_var=[click, user, tags], pipe_command="python generator.py")
        dataset.set_filelist(files)                        # of this worker: as in fleet, all of them are read
        for batch in dataset:                              # paddlert.data.Batch
            batch["user"].values, batch["user"].offsets, batch["click"]

    use_var: names of ids, or what has .name, .dtype and .shape, as a static program's variables: floats are numbers, as many as their
    shape says behind the batch's place; whole numbers are ids."""

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {"batch": 1}
        self._dense: dict[str, int] = {}
        self._slots: list[str] = []
        self._files: list[str] = []

    def init(self, *, batch_size: int = 1, thread_num: int = 0, use_var: Sequence[Any] = (), pipe_command: str = "cat",
             **others: Any) -> None:
        """others: input_type 0, fs_name, fs_ugi, download_cmd, which a pipe_command has in its words."""
        if unknown := set(others) - {"input_type", "fs_name", "fs_ugi", "download_cmd", "data_feed_type"}:
            raise UnsupportedError(f"init({min(unknown)}=...) does nothing here, expected batch_size, thread_num, use_var, pipe_command")
        if given := [name for name, value in others.items() if value and name != "data_feed_type"]:
            raise UnsupportedError(f"{given[0]} is {others[given[0]]!r}, expected none: pipe_command fetches, as in 'hadoop fs -cat \"$1\" | ...'")
        self.set_batch_size(batch_size)
        self.set_thread(thread_num)
        self.set_use_var(use_var)
        self.set_pipe_command(pipe_command)

    def set_batch_size(self, batch_size: int) -> None:
        """Samples of a Batch; the last one of a pass has what is left."""
        self._settings["batch"] = number("batch_size", batch_size, ctypes.c_int32, 1)

    def set_thread(self, thread_num: int) -> None:
        """Threads that parse; 0: as many as paddlert.data.Dataset takes by itself."""
        self._settings["threads"] = number("thread_num", thread_num, ctypes.c_uint16)

    def set_pipe_command(self, pipe_command: str) -> None:
        """Of the shell: reads a file at its standard input and writes lines; 'cat': none."""
        self._settings["pipe_command"] = None if pipe_command == "cat" else pipe_command

    def set_use_var(self, var_list: Sequence[Any]) -> None:
        """In the order of a line."""
        kinds = {str(getattr(v, "name", v)): v for v in _several("use_var", var_list)}
        if len(kinds) < len(var_list):
            raise ValueError(f"use_var has a name twice, expected each once: {[str(getattr(v, 'name', v)) for v in var_list]}")
        floats = {name: v for name, v in kinds.items() if "float" in str(getattr(v, "dtype", "")).lower()}
        self._dense = {name: math.prod(int(n) for n in v.shape[1:] if int(n) > 0) for name, v in floats.items()}
        self._slots = [name for name in kinds if name not in floats]
        self._settings["columns"] = list(kinds)

    def set_filelist(self, filelist: Sequence[str]) -> None:
        """Files of this worker, in the order in which they are read."""
        self._files = list(_several("filelist", filelist))

    def get_filelist(self) -> list[str]:
        """Those of set_filelist."""
        return list(self._files)

    def _dataset(self, **more: Any) -> Dataset:
        if not self._files or not self._settings.get("columns"):
            raise InvalidError("this dataset has no files or no variables, expected set_filelist(...) and set_use_var(...) before")
        return Dataset(self._files, "multislot", label=None, dense=self._dense, slots=self._slots, rank=0, world=1,
                       **{**self._settings, **more})

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._dataset())


class InMemoryDataset(QueueDataset):
    """The same, read once and kept: load_into_memory, local_shuffle, global_shuffle, iteration, release_memory."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: Kept | None = None
        self._shuffles = 0

    def _memory(self) -> Kept:
        if self._kept is None:
            raise InvalidError("this dataset is not in memory, expected load_into_memory() before")
        return self._kept

    def load_into_memory(self) -> None:
        """Reads all files, once."""
        self._kept = Kept(list(self._dataset(batch=4096)))

    def release_memory(self) -> None:
        """Forgets what was read."""
        self._kept = None

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """Samples of this worker."""
        return len(self._memory())

    get_shuffle_data_size = get_memory_data_size

    def local_shuffle(self) -> None:
        """Another order of this worker's samples, each time."""
        self._shuffles += 1
        self._memory().shuffle(self._shuffles)

    def global_shuffle(self, fleet: Any = None, thread_num: int = 0, *, group: Group | None = None) -> None:
        """All workers call it: their samples are dealt out among them, each to one worker, in an order that is another one each time.
        group: of the workers; by default one that is made for it of the worker_endpoints.  fleet: this module, or such a group;
        thread_num is not used.  While it runs a worker holds its samples twice.  After an error it has those that it had before."""
        memory, given = self._memory(), fleet if isinstance(fleet, Group) else group
        self._shuffles += 1
        if given is not None:
            memory.deal(instance("group", given, Group), self._shuffles)
        elif _job().worker_num == 1:
            memory.shuffle(self._shuffles)
        elif _job().workers:
            with Group(_job(), name="global_shuffle") as made:
                memory.deal(made, self._shuffles)
        else:
            raise UnsupportedError("global_shuffle sends samples to other workers, and PADDLE_TRAINER_ENDPOINTS has no addresses of them, expected "
                                   "spec.withGloo: 1, or group=paddlert.Group(endpoints=..., rank=...)")

    def __iter__(self) -> Iterator[Batch]:
        return self._memory().batches(self._settings["batch"])


def stop_worker() -> None:
    """Pushes that are in flight arrive; the servers learn that this worker is done, and end with the last one.  Without servers: this
    worker leaves the others."""
    if _State.group is not None:
        _leave()
        return
    _client()
    if _State.optimizer:
        _State.optimizer.finish()
