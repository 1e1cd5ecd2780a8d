"""Collective training by fleet's names: what paddlert.fleet does where is_collective is True."""
from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ._lib import UnsupportedError
from .arrays import Array
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


class StaticOptimizer:
    """An optimizer of a static program.  minimize() puts two calls of Python in: one behind backward, which averages the gradients of all
    workers, and one at the end of the startup program, which gives everybody worker 0's parameters.  All else is the optimizer's."""

    def __init__(self, paddle: Any, optimizer: Any, group: Group) -> None:
        self._paddle, self._optimizer, self._group = paddle, optimizer, group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)

    def minimize(self, loss: Any, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None) -> Any:
        """As the optimizer's."""
        static = self._paddle.static
        startup = startup_program or static.default_startup_program()
        with static.program_guard(loss.block.program, startup):
            found = self._optimizer.backward(loss, startup, parameters, no_grad_set)
            made = [(p, g) for p, g in found if g is not None]
            for parameter, gradient in made:
                if "FP32" not in str(gradient.dtype) and "float32" not in str(gradient.dtype) or "SELECTED_ROWS" in str(gradient.type):
                    raise UnsupportedError(f'the gradient of "{parameter.name}" is {gradient.type} of {gradient.dtype}, expected a dense one '
                                           "of float32")
            averages = [loss.block.create_var(name=f"{g.name}@AVERAGE", dtype=g.dtype, shape=g.shape) for _, g in made]
            static.py_func(lambda *values: self._average(*values), [g for _, g in made], averages)
            operators = self._optimizer.apply_gradients([(p, average) for (p, _), average in zip(made, averages)])
        with static.program_guard(startup):
            start = startup.global_block().all_parameters()
            static.py_func(lambda *values: self._from_first(*values), start, start)         # it takes a method's self for an argument
        return operators, found

    def _average(self, *gradients: Any) -> list[Array]:
        """All at once."""
        arrays = [np.array(gradient) for gradient in gradients]
        flat: Array = np.concatenate([array.ravel() for array in arrays])
        self._group.all_reduce(flat, "avg", out=flat)
        ends = np.cumsum([array.size for array in arrays])
        return [flat[end - array.size:end].reshape(array.shape) for array, end in zip(arrays, ends)]

    def _from_first(self, *parameters: Any) -> list[Array]:
        return [self._group.broadcast(np.array(parameter)) for parameter in parameters]


def optimizer_of(optimizer: Any, group: Group, strategy: Any) -> Any:
    """With a dynamic graph: the optimizer as it is, as backward has left averages in .grad."""
    if not callable(getattr(optimizer, "minimize", getattr(optimizer, "step", None))):
        raise UnsupportedError(f"optimizer is a {type(optimizer).__name__}, expected one of paddle.optimizer or torch.optim")
    paddle = sys.modules.get("paddle")
    if not paddle or paddle.in_dynamic_mode():
        return optimizer
    if getattr(paddle.framework, "in_pir_mode", bool)():
        raise UnsupportedError("this static program is one of Paddle 3 (PIR), which no call of Python can be put into, expected "
                               "FLAGS_enable_pir_api=0 in the environment, or a dynamic graph: no paddle.enable_static()")
    if strategy is not None and strategy.fp16_allreduce:
        raise UnsupportedError("strategy.fp16_allreduce is True, expected False in a static program, or a dynamic graph")
    return StaticOptimizer(paddle, optimizer, group)


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
