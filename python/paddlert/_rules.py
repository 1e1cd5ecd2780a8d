"""What paddlert.optim, .schedule, .init, .admit and .evict share: an object that stands for a text of docs/rules.md."""
from __future__ import annotations

import ctypes
import inspect
from collections.abc import Sequence
from numbers import Real
from typing import Any

from ._lib import C, call, instance, items, number, real, shown, text

from . import _abi                       # after _lib, which says how to build it where it is missing


def _number(value: float) -> str:
    """As short as it can be: 10000, not 10000.0."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


class Rule:
    """A rule with its parameters.  str() is the text that a table takes in its place; two of the same rule with the same parameters are
    equal, and none changes: a wrong parameter is refused when the object is made (InvalidError)."""
    rule: str

    def __new__(cls, *_: Any, **parameters: Any) -> Any:
        """A parameter that there is not is named with those that there are."""
        made: Any = cls.__init__
        known = inspect.getfullargspec(made)
        wrong = [name for name in parameters if name not in known.args + known.kwonlyargs]
        if wrong and not known.varkw:
            ours = {**_PARAMETERS, **_MORE}.get(wrong[0], "")
            names = [ours] if ours in known.args + known.kwonlyargs else known.args[1:] + known.kwonlyargs
            raise TypeError(f"{cls.__name__} has no parameter {wrong[0]!r}, expected {'one of ' * (len(names) > 1)}{', '.join(names)}")
        return super().__new__(cls)

    def __init__(self, **parameters: float | Sequence[float]) -> None:
        lists = self._lists()
        for name, value in parameters.items():
            found = items(value) if name in lists else None
            many = None if found is None else tuple(found)
            for v in (value,) if many is None else many:
                real(f"{name} of {type(self).__name__}", instance(f"{name} of {type(self).__name__}", v, Real))
            self.__dict__[name] = value if many is None else many
        self._check()

    @classmethod
    def _lists(cls) -> set[str]:
        """Parameters that are several numbers, also of a program's class that is made of one of ours."""
        made = (inspect.getfullargspec(vars(c)["__init__"]).annotations for c in cls.__mro__ if "__init__" in vars(c) and c is not object)
        return {name for annotations in made for name, kind in annotations.items() if kind == "Sequence[float]"}

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of a {type(self).__name__} cannot be changed, expected a new one")

    def _defaults(self) -> dict[str, Any]:
        make: Any = type(self).__init__
        names = make.__code__.co_varnames[:make.__code__.co_argcount]
        positional = make.__defaults__ or ()
        return {**dict(zip(names[len(names) - len(positional):], positional)), **(make.__kwdefaults__ or {})}

    def _given(self) -> dict[str, Any]:
        """Parameters that are not as they are anyway."""
        defaults = self._defaults()
        return {k: v for k, v in self.__dict__.items() if k not in defaults or v != defaults[k]}

    def __str__(self) -> str:
        words = [f"{k}={':'.join(map(_number, v)) if isinstance(v, tuple) else _number(v)}" for k, v in self._given().items()]
        return f"{self.rule}:{','.join(words)}" if words else self.rule

    def __repr__(self) -> str:
        words = [f"{k}={list(v) if isinstance(v, tuple) else v}" for k, v in self._given().items()]
        return f"{type(self).__module__}.{type(self).__name__}({', '.join(words)})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(str(self))

    def _check(self) -> None:
        """What C has against it.  Of admission and eviction it says that when the table is made."""


class Optimizer(Rule):
    """The rule of a table's updates: paddlert.optim has them."""

    def _check(self) -> None:
        made = ctypes.c_void_p()
        call("rt_optimizer_new", text("optimizer", str(self)), 1, ctypes.byref(made))
        C.rt_optimizer_free(made)


LR_MAX = 1e30                            # of optimizers


class Schedule(Rule):
    """A learning rate over time: paddlert.schedule has them."""

    def _check(self) -> None:
        made = ctypes.c_void_p()
        call("rt_schedule_new", text("schedule", str(self)), ctypes.byref(made))
        C.rt_schedule_free(made)

    def rate(self, lr: float, step: int) -> float:
        """The rate of that step, from 0, for an optimizer with lr."""
        if not 0 <= real("lr", lr) <= LR_MAX:
            raise ValueError(f"lr is {shown(lr)}, expected 0 to {LR_MAX:g}")
        made = ctypes.c_void_p()
        call("rt_schedule_new", text("schedule", str(self)), ctypes.byref(made))
        try:
            return float(C.rt_schedule_at(made, real("lr", lr), number("step", step, ctypes.c_uint64)))
        finally:
            C.rt_schedule_free(made)


class Initializer(Rule):
    """First values of rows: paddlert.init has them."""

    def _check(self) -> None:
        spec = _abi.rt_table_spec(name=b"rows", kind=_abi.RT_SPARSE, dim=1, optimizer=b"sgd", init=text("init", str(self)))
        call("rt_table_init_row", ctypes.byref(spec), 0, (ctypes.c_float * 1)())


class Admission(Rule):
    """When an id gets a row: paddlert.admit has them."""


class Eviction(Rule):
    """Which rows are erased: paddlert.evict has them."""


KINDS: dict[str, tuple[type[Rule], str]] = {
    "optimizer": (Optimizer, "optim"), "schedule": (Schedule, "schedule"), "init": (Initializer, "init"), "admit": (Admission, "admit"),
    "evict": (Eviction, "evict")}

# What stands for a class or function of a framework, by its name there: PyTorch's, Paddle's.
_INSTEAD = {
    "optimizer": {"SGD": "SGD", "Momentum": "Momentum", "Adagrad": "Adagrad", "Adam": "Adam", "AdamW": "AdamW", "RMSprop": "RMSprop",
                  "RMSProp": "RMSprop", "Ftrl": "Ftrl"},
    "init": {"uniform_": "Uniform", "Uniform": "Uniform", "normal_": "Normal", "Normal": "Normal", "trunc_normal_": "TruncatedNormal",
             "TruncatedNormal": "TruncatedNormal", "zeros_": "Zero", "constant_": "Constant", "ones_": "Constant", "Constant": "Constant",
             "xavier_uniform_": "Xavier", "XavierUniform": "Xavier", "xavier_normal_": "Xavier", "XavierNormal": "Xavier"},
    "schedule": {"CosineAnnealingLR": "Cosine", "CosineAnnealingDecay": "Cosine", "StepLR": "Step", "StepDecay": "Step",
                 "MultiStepLR": "MultiStep", "MultiStepDecay": "MultiStep", "ExponentialLR": "Exponential", "ExponentialDecay": "Exponential",
                 "PolynomialLR": "Polynomial", "PolynomialDecay": "Polynomial", "NoamDecay": "Noam", "PiecewiseDecay": "Piecewise",
                 "NaturalExpDecay": "NaturalExp", "InverseTimeDecay": "InverseTime"},
}
# Parameters of torch's and Paddle's optimizers, and ours.
_PARAMETERS = {"lr": "lr", "eps": "epsilon", "weight_decay": "l2", "alpha": "rho", "initial_accumulator_value": "initial"}
_MORE = {"learning_rate": "lr", "betas": "beta1", "momentum": "mu"}


def _of_torch(given: Any) -> str | None:
    """An object of torch.optim in our words, as far as it has some."""
    values = getattr(given, "defaults", None)
    if not isinstance(values, dict):
        return None
    ours, words = _INSTEAD["optimizer"].get(type(given).__name__, ""), {_PARAMETERS[k]: v for k, v in values.items() if k in _PARAMETERS}
    if ours == "SGD" and values.get("momentum"):
        ours, words["mu"] = ("Nesterov" if values.get("nesterov") else "Momentum"), values["momentum"]
    elif ours == "RMSprop":
        ours, words["momentum"] = ("RMSpropCentered" if values.get("centered") else "RMSprop"), values.get("momentum", 0)
    if "betas" in values:
        words["beta1"], words["beta2"] = values["betas"]
    if ours == "AdamW":
        words["decay"] = words.pop("l2", 0)
    return f"paddlert.optim.{ours}({', '.join(f'{k}={v}' for k, v in words.items() if v)})" if ours else None


def _instead(option: str, given: Any) -> str:
    """What to write where something of a framework is."""
    base, module = KINDS[option]
    if isinstance(given, type) and issubclass(given, base):
        return f"an object: paddlert.{module}.{given.__name__}(...)"
    name = getattr(given, "__name__", type(given).__name__)
    ours = _INSTEAD.get(option, {}).get(name)
    foreign = (getattr(given, "__module__", None) or type(given).__module__).partition(".")[0] in ("torch", "paddle", "keras", "tensorflow")
    if not foreign or not ours:
        return f"a text of docs/rules.md or an object of paddlert.{module}"
    written = _of_torch(given) if option == "optimizer" else None
    return f"{written or f'paddlert.{module}.{ours}(...)'}, as the servers apply it"


def text_of(option: str, given: Any) -> str | None:
    """The text that C reads, of what a table got as its optimizer, init, schedule, admit or evict."""
    base, _ = KINDS[option]
    if given is None or isinstance(given, str):
        return given
    if not isinstance(given, base):
        raise TypeError(f"option {option!r} is {shown(given)}, expected {_instead(option, given)}")
    return str(given)
