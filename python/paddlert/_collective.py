"""Collective training by fleet's names: what paddlert.fleet does where is_collective is True."""
from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ._lib import UnsupportedError
from .group import Group

# Keys of a strategy that this runtime knows, and what they are when nobody says.
KEYS: dict[str, Any] = {"a_sync": True, "a_sync_configs": {}, "staleness": 0,                 # of parameter servers
                        "fuse_grad_size_in_MB": 32, "last_comm_group_size_MB": 1, "fp16_allreduce": False, "find_unused_parameters": False,
                        "hybrid_configs": {}}

# Keys with which Paddle trains in another way, in a dynamic graph, too: refused, and what is in their place.  Names joined by spaces.
_REFUSED = {
    "amp amp_configs": "paddle.amp.auto_cast and paddle.amp.GradScaler in the loop",
    "sharding sharding_configs tensor_parallel tensor_parallel_configs pipeline pipeline_configs heter_ccl_mode":
        "none, as every worker has the whole model; Paddle's own fleet trains under paddlerun launch, too",
    "semi_auto auto auto_search": "none, as nothing is parallel by itself; Paddle's own fleet trains under paddlerun launch, too",
}
REFUSED = {name: text for names, text in _REFUSED.items() for name in names.split()}

# Those of static programs, which do nothing in a dynamic graph, and what has another name here: named once, in one line.
IDLE = set("""
adam_d2sum adaptive_localsgd adaptive_localsgd_configs asp build_strategy conv_workspace_size_limit
cudnn_batchnorm_spatial_persistent cudnn_exhaustive_search dgc dgc_configs elastic execution_strategy fleet_desc_configs
fs_client_param fuse_all_reduce_ops fuse_grad_merge fuse_grad_size_in_num gradient_merge gradient_merge_configs gradient_scale_configs
hierarchical_allreduce_inter_nranks hybrid_parallel_order is_fl_ps_mode is_with_coordinator lamb lamb_configs lars lars_configs localsgd
localsgd_configs nccl_comm_num qat qat_configs recompute recompute_configs sparse_table_configs split_data sync_batch_norm
sync_nccl_allreduce trainer_desc_configs use_hierarchical_allreduce without_graph_optimization""".split())
_named: set[str] = set()


def check_key(name: str, value: Any) -> None:
    """Whether a strategy may have it."""
    if name in REFUSED:
        if value:
            raise UnsupportedError(f"strategy.{name} is {value!r}, expected {REFUSED[name]}")
    elif name not in KEYS and name not in IDLE:
        raise UnsupportedError(f"there is no strategy.{name}, expected one of {', '.join(KEYS)}")


def name_idle(strategy: Any) -> None:
    """Keys that do nothing, once in a process."""
    idle = sorted(name for name, value in vars(strategy).items() if name in IDLE and value and name not in _named)
    _named.update(idle)
    if idle:
        warnings.warn(f"of the strategy, {', '.join(idle)} do nothing here; see \"fleet's names\" of docs/python.md", stacklevel=3)


def _check_hybrid(given: Any, size: int) -> None:
    """Every degree of parallelism is 1, but that of data, which is the number of workers."""
    degrees = given if isinstance(given, Mapping) else {}
    for name, degree in degrees.items():
        if not name.endswith("_degree"):
            continue
        right = (-1, size) if name == "dp_degree" else (-1, 0, 1)
        if degree not in right:
            raise UnsupportedError(f"hybrid_configs[{name!r}] is {degree!r}, expected {right[-1]}: each of the {size} workers has the whole model")


def model_of(model: Any, group: Group, strategy: Any) -> Any:
    """The model on the ranks of the group, by paddlert.paddle or paddlert.torch: whichever its class is of."""
    _check_hybrid(strategy.hybrid_configs, group.size)
    sizes = strategy.fuse_grad_size_in_MB, strategy.last_comm_group_size_MB
    compression = "f16" if strategy.fp16_allreduce else None
    # A model's framework has been imported, and no other one has to be.
    paddle, torch = (sys.modules.get(name) for name in ("paddle", "torch"))
    if paddle and isinstance(model, paddle.nn.Layer):
        from .paddle import DataParallel
        return DataParallel(model, group, comm_buffer_size=sizes[0], last_comm_buffer_size=sizes[1], compression=compression)
    if torch and isinstance(model, torch.nn.Module):
        from .torch import DistributedDataParallel
        return DistributedDataParallel(model, group, bucket_cap_mb=sizes[0], last_bucket_mb=sizes[1], compression=compression)
    raise UnsupportedError(f"model is a {type(model).__name__}, expected a paddle.nn.Layer or a torch.nn.Module")


def optimizer_of(optimizer: Any) -> Any:
    """The optimizer as it is: backward has left averages in .grad.  There is no such place in a static program."""
    paddle = sys.modules.get("paddle")
    if paddle and not paddle.in_dynamic_mode():
        raise UnsupportedError("paddle.enable_static() was called, expected a dynamic graph: only Paddle's own fleet puts communication into static "
                               "programs. Leave out enable_static(), or import paddle.distributed.fleet, which paddlerun launch starts as it is")
    if not callable(getattr(optimizer, "step", None)):
        raise UnsupportedError(f"optimizer is a {type(optimizer).__name__}, expected one of paddle.optimizer or torch.optim")
    return optimizer


class Util:
    """fleet.util: between the workers, by the group of fleet.init(is_collective=True), which `group` returns."""

    def __init__(self, group: Callable[[], Group]) -> None:
        self._group = group

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        """The "sum", "max" or "min" of all workers' arrays."""
        return self._group().all_reduce(input, mode)

    def all_gather(self, input: Any, comm_world: str = "worker") -> list[Any]:
        """The arrays of all workers, in a list."""
        return list(self._group().all_gather(input))

    def barrier(self, comm_world: str = "worker") -> None:
        """Waits until all workers have called it."""
        self._group().barrier()

    def get_file_shard(self, files: list[str]) -> list[str]:
        """This worker's part: files that follow each other, the first workers have one more where they do not divide."""
        if not isinstance(files, list):
            raise TypeError(f"files is {files!r}, expected a list")
        group = self._group()
        rank, size = group.rank, group.size
        each, more = divmod(len(files), size)
        first = rank * each + min(rank, more)
        return files[first:first + each + (rank < more)]

    def print_on_rank(self, message: object, rank_id: int) -> None:
        """On that worker's standard output."""
        if self._group().rank == rank_id:
            print(message, flush=True)
