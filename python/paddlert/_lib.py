"""libpaddlert by ctypes: finds and loads it, turns its errors into exceptions.  Calls let other threads run."""
from __future__ import annotations

import builtins
import contextlib
import ctypes
import inspect
import keyword
import math
import os
import re
import threading
import warnings
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, NoReturn, TypeVar

from ._options import ENUMS

try:
    from . import _abi
except ImportError:
    raise ImportError("paddlert/_abi.py is missing: this is a source tree, in which the library is not built; "
                      "run `pip install ./python` or `make wheel`") from None


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


_owners: weakref.WeakSet[Owner] = weakref.WeakSet()


class Error(RuntimeError):
    """What the runtime says went wrong.  All errors of this package's own are of this class; code: a number of enum co_code (rt.h)."""
    code = _abi.CO_INTERNAL


class InvalidError(Error, ValueError):
    """The environment or an argument must change; the message names it, what it is and what was expected."""
    code = _abi.CO_INVALID


class UnsupportedError(Error):
    """This build or this machine cannot do it; the message says what is missing."""
    code = _abi.CO_UNSUPPORTED


class TimeoutError(Error, builtins.TimeoutError):
    """Somebody did not come, or did not answer, in time; the message says who.  Python's TimeoutError, too."""
    code = _abi.CO_TIMEOUT


class UnavailableError(Error, ConnectionError):
    """Nobody answers there, or an address is taken."""
    code = _abi.CO_UNAVAILABLE


class PeerLostError(Error, ConnectionError):
    """A server, trainer or rank is gone; the message names it.  A group: Group.shrink makes one of those that live."""
    code = _abi.CO_PEERLOST


class GoneError(Error):
    """What the call belongs to is no more: another rank has left the group by Group.shrink."""
    code = _abi.CO_GONE


class RolledBackError(GoneError):
    """A server was restarted, and the job (mode sync) went back to its checkpoint: call Client.resume, pull dense tables again, and continue
    from the step that resume returns.  checkpoint, step: their numbers; None: this call does not know them."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        found = re.search(r"checkpoint (\d+), step (\d+)", message)
        self.checkpoint: int | None = int(found[1]) if found else None
        self.step: int | None = int(found[2]) if found else None


class DeniedError(Error, PermissionError):
    """Another job, a wrong token, other tables."""
    code = _abi.CO_PERMISSION


class NotFoundError(Error, LookupError):
    """There is none of that name, or no checkpoint in that directory."""
    code = _abi.CO_NOTFOUND


class ExistsError(Error, FileExistsError):
    """Somebody else writes there: another save, or another job's checkpoints."""
    code = _abi.CO_EXISTS


class ConflictError(Error):
    """It was changed meanwhile, as by a server that was restarted: the same call may succeed."""
    code = _abi.CO_CONFLICT


class NoResourceError(Error):
    """A limit is reached; the message names table and limit."""
    code = _abi.CO_NORESOURCE


class OutOfMemoryError(Error, MemoryError):
    """This machine has no memory for it."""
    code = _abi.CO_NOMEMORY


class CanceledError(Error):
    """It was asked to end."""
    code = _abi.CO_CANCELED


class DamagedError(Error):
    """What was saved is damaged: an older copy may be whole."""
    code = _abi.CO_DAMAGED


KINDS = {c.code: c for c in (InvalidError, UnsupportedError, TimeoutError, UnavailableError, PeerLostError, GoneError, DeniedError, NotFoundError,
                             ExistsError, ConflictError, NoResourceError, OutOfMemoryError, CanceledError, DamagedError)}


def _load() -> ctypes.CDLL:
    here = os.path.dirname(os.path.realpath(__file__))
    named = os.environ.get("PADDLERT_LIBRARY")
    places = [named] if named else [f"{here}/lib/libpaddlert.so.1", f"{here}/../../build/lib/libpaddlert.so.1", "libpaddlert.so.1"]
    why: OSError
    for place in places:
        try:
            if "/" in place:
                os.stat(place)
            return ctypes.CDLL(place, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except FileNotFoundError as e:      # one that is there and cannot be loaded has no stand-in: it may be of another version
            why = e
        except OSError as e:
            why = e
            break
    raise ImportError(f"libpaddlert.so.1 cannot be loaded: {why} (PADDLERT_LIBRARY names another place)")


_library = _load()


def _declare(name: str) -> Any:
    result, arguments = _abi.FUNCTIONS[name]
    function = getattr(_library, name)
    function.restype, function.argtypes = result, arguments
    return function


class _Functions:
    """Functions of the library by name, each declared when it is used first."""

    def __getattr__(self, name: str) -> Any:
        function = _declare(name)
        setattr(self, name, function)
        return function


C = _Functions()


# C's words for what Python has in words of its own: a function, and the types of what groups compute with.
_FUNCTION = re.compile(r"\brt_([a-z_]+?)(?:_as)?\b(?: \(in Python: [a-z_]+\))?")
_TYPE = re.compile(r"\b(?:i|f|bf|u)(?:8|16|32|64)\b")
_TYPES = {"i": "int", "f": "float", "bf": "bfloat", "u": "uint"}


def in_python(message: str, of_group: bool = False) -> str:
    """What C says, in this package's names.  of_group: a table's storage is "f32" here, too."""
    message = _FUNCTION.sub(r"\1()", message)
    return _TYPE.sub(lambda m: _TYPES[m[0].rstrip("0123456789")] + m[0].lstrip("abcdefiu"), message) if of_group else message


def check(err: _abi.co_err, rc: int, name: str = "") -> int:
    """Raises what the runtime said, as an exception of its kind.  name: of the function."""
    if rc < 0:
        message = in_python(err.msg.decode(errors="replace") or C.co_code_name(rc).decode(), name.startswith(("rt_coll", "rt_group", "rt_work")))
        e = (RolledBackError if rc == _abi.CO_GONE and "checkpoint" in message else KINDS.get(rc, Error))(message)
        e.code = rc
        raise e
    return rc


class _Watch:
    """What C asks while the main thread waits in a call: whether the handler of a signal has raised, which ends the call.

    Handlers run as the generator resumes, within its try.  Those of a function would run before its first line, and what they raise would be
    lost in C."""

    def __init__(self) -> None:
        self.raised: BaseException | None = None
        self.answers: Any = self._answers()          # a generator, of which types do not know gi_running
        next(self.answers)                 # to where it resumes
        self.check = _CHECK(self.answers.__next__)
        _watches.append(self)

    def _answers(self) -> Generator[bool, None, None]:
        try:
            while True:
                yield False
                ctypes.pythonapi.PyErr_CheckSignals()
        except BaseException as e:
            self.raised = e
            yield True                     # and is not asked again

    def set(self) -> None:
        C.rt_interrupt(self.check)

    def end(self) -> NoReturn:
        """Of a call in which the handler of a signal has raised."""
        global _watch
        raised, self.raised = self.raised, None
        assert raised
        _watch = None
        C.rt_interrupt(None)
        self.answers.close()               # it has the exception, and so what the program's functions have
        raise raised.with_traceback(raised.__traceback__ and raised.__traceback__.tb_next)


_CHECK = ctypes.CFUNCTYPE(ctypes.c_bool)
_watches: list[_Watch] = []              # never freed, as C may have any of them: one, and one more for each call that was interrupted
_watch: _Watch | None = None             # that of the main thread
_main = threading.main_thread().ident


def _forget_threads() -> None:
    """In a forked child, which has none of those that hold a lock."""
    global _main, _watch
    _main, _watch = threading.main_thread().ident, None
    for owner in list(_owners):
        owner._freeing = threading.RLock()


os.register_at_fork(after_in_child=_forget_threads)


def _watched(function: Any, arguments: tuple[Any, ...]) -> int:
    """A call of the main thread that needs a watch: the first one, or that of a signal's handler, which runs while C asks another one."""
    global _watch
    outer = _watch
    try:
        watch = _Watch()
        watch.set()
        _watch = watch                     # not before it is set: a signal may come between
        rc: int = function(*arguments)
        if watch.raised is not None:
            watch.end()
        return rc
    finally:
        if outer:
            _watch = outer
            outer.set()


_errors: list[Any] = []                  # empty ones, as arguments of C, that no call has: making one takes half a microsecond
_thread = threading.get_ident


@contextlib.contextmanager
def ended_by(event: threading.Event) -> Iterator[None]:
    """Of a thread of this package: its calls of C that wait end once the event is set (CanceledError)."""
    check = _CHECK(event.is_set)
    C.rt_interrupt(check)
    try:
        yield
    finally:
        C.rt_interrupt(None)


def call(name: str, *arguments: Any) -> int:
    """A function whose last argument is a struct co_err.  Where it waits, Ctrl-C ends it, and the program that does not catch it."""
    function = getattr(C, name)
    try:
        err = _errors.pop()
    except IndexError:
        err = ctypes.byref(_abi.co_err())
    if _thread() != _main:
        rc: int = function(*arguments, err)
    elif (watch := _watch) is None or watch.answers.gi_running:
        rc = _watched(function, (*arguments, err))
    else:
        rc = function(*arguments, err)
        if watch.raised is not None:
            watch.end()
    if rc < 0:
        return check(err._obj, rc, name)
    _errors.append(err)
    return rc


def _option_name(field: str) -> str:
    """lease_ms is lease, in seconds; return_ms is return_, as return is a keyword."""
    name = field.removesuffix("_ms")
    return f"{name}_" if keyword.iskeyword(name) else name


SHOWN_MAX = 160


def shown(value: Any) -> str:
    """repr() for a message: one line, not all of an array."""
    line = " ".join(repr(value).split())
    return line if len(line) <= SHOWN_MAX else f"{line[:SHOWN_MAX]}..."


def whole_number(name: str, value: Any) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):       # True is no number of anything
        raise TypeError(f"{name} is {shown(value)}, expected a whole number")
    return int(value)


def number(name: str, value: Any, kind: Any, least: int | None = None) -> int:
    """A whole number that C's type holds: ctypes would cut off the bits that do not fit."""
    bits = 1 if kind is ctypes.c_bool else 8 * ctypes.sizeof(kind)
    low, high = (-1 << bits - 1, (1 << bits - 1) - 1) if kind(-1).value < 0 else (0, (1 << bits) - 1)
    low = low if least is None else least
    whole = int(value) if bits == 1 and isinstance(value, bool) else whole_number(name, value)
    if not low <= whole <= high:
        raise ValueError(f"{name} is {shown(value)}, expected a whole number from {low} to {high}")
    return whole


def real(name: str, value: Any) -> float:
    """A number that C's double holds.  An array or a tensor of one is one: a loss, as it comes from a model."""
    if not isinstance(value, Real) and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    try:
        return float(instance(name, value, Real))
    except OverflowError:
        raise ValueError(f"{name} is too large, expected a number that a float holds") from None


def chosen(name: str, value: Any, table: Mapping[Any, int]) -> int:
    """What the table has for that word."""
    if not isinstance(value, (str, type(None))) or value not in table:
        raise ValueError(f"{name} is {shown(value)}, expected one of {', '.join(filter(None, table))}")
    return table[value]


def text(name: str, value: Any) -> bytes:
    """For C, where a NUL is the end."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is {shown(value)}, expected a text")
    try:
        data = os.fsencode(value)
    except UnicodeEncodeError as e:
        raise ValueError(f"{name} is {shown(value)}, expected a text that can be encoded: {e.reason}") from None
    if b"\0" in data:
        raise ValueError(f"{name} is {shown(value)}, expected no NUL in it")
    return data


SECONDS_MAX = 1e12                       # milliseconds of which C can still add up


def milliseconds(name: str, value: Any) -> int:
    """Of seconds.  Few as they may be, they are not 0, which is the default."""
    seconds: Any = value
    known = isinstance(value, Real) and not isinstance(value, bool)
    if not known or not abs(seconds) < SECONDS_MAX:
        raise TypeError(f"{name} is {shown(value)}, expected seconds{f', less than {SECONDS_MAX:g}' if known else ''}")
    ms = float(value) * 1000
    return math.ceil(ms) if 0 < ms < 1 else math.floor(ms) if -1 < ms < 0 else round(ms)


def option_value(name: str, field: str, kind: Any, value: Any) -> Any:
    """In C's unit and type: a field that ends in _ms has milliseconds."""
    if field in ENUMS:
        return chosen(name, value, {word: getattr(_abi, number) for word, number in ENUMS[field].items()})
    name = f"option {name!r}"
    if field == "encrypt":
        if not isinstance(value, bool):
            raise TypeError(f"{name} is {shown(value)}, expected True or False")
        return _abi.RT_ENCRYPT_YES if value else _abi.RT_ENCRYPT_NO
    if field.endswith("_ms"):
        ms = milliseconds(name, value)
        if ms < 0 and field != "return_ms":
            raise ValueError(f"{name} is {shown(value)}, expected seconds, from 0")
        return ms
    if kind is not ctypes.c_char_p:
        return number(name, value, kind, 0)
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is {shown(value)}, expected a text or a path")
    return text(name, value)


def struct_of(kind: Any, options: dict[str, Any]) -> Any:
    """A struct of options by their names; None: as if it was not given.  Its texts live as long as it does."""
    fields = {_option_name(field): (field, t) for field, t in kind._fields_ if field != "_spare"}
    made = kind()
    for name, value in options.items():
        if name not in fields:
            raise TypeError(f"there is no option {name!r}, expected one of {', '.join(sorted(fields))}")
        if value is not None:
            setattr(made, fields[name][0], option_value(name, *fields[name], value))
    return made


def renamed(module: str, old: str, new: str, value: T) -> T:
    """What a name of the last release is now."""
    warnings.warn(f"{module}.{old} is called {module}.{new}, and the old name goes with the next release", DeprecationWarning, stacklevel=3)
    return value


def with_options(*kinds: Any) -> Callable[[F], F]:
    """Of a function with **options: help() and completion show those of these TypedDicts, as they are in its signature."""
    def shown(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        named = {name: getattr(kind, "__forward_arg__", kind) for k in kinds for name, kind in k.__annotations__.items()}
        more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
                for name, kind in named.items() if name not in signature.parameters]
        documents = [line for k in kinds for line in inspect.cleandoc(k.__doc__).split("\n\n", 1)[1].splitlines()]
        options: Any = function
        options.__signature__ = signature.replace(parameters=[*own, *more])
        options.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n" + "\n".join(documents)
        return function
    return shown


def path(name: str, value: Any) -> bytes:
    """A file or folder: not what str() makes of just anything."""
    if not isinstance(value, (str, bytes, os.PathLike)) or not os.fspath(value):
        raise TypeError(f"{name} is {shown(value)}, expected a path")
    return text(name, value)


def instance(name: str, value: Any, kind: type) -> Any:
    """The value, which must be of that class."""
    if not isinstance(value, kind):
        module = kind.__module__.partition(".")[0]
        words: dict[Any, str] = {Real: "number", Mapping: "mapping"}
        inner = "nn." if module in ("torch", "paddle") and kind.__name__ in ("Module", "Layer") else ""
        expected = words.get(kind, kind.__name__ if module == "builtins" else f"{module}.{inner}{kind.__name__}")
        of = f", an object of this class: {value.__name__}(...)" if isinstance(value, type) and issubclass(value, kind) else ""
        raise TypeError(f"{name} is {shown(value)}, expected a {expected}{of}")
    return value


def items(values: Any) -> list[Any] | None:
    """What several things have; None: it is one thing, as a text is, which would be taken apart by letters, and an array of one number."""
    try:
        found = None if isinstance(values, (str, bytes)) else iter(values)
    except TypeError:
        return None
    return None if found is None else list(found)


def texts(name: str, values: Any) -> list[str]:
    """A list of texts."""
    found = items(values)
    if found is None or not all(isinstance(v, str) for v in found):
        raise TypeError(f"{name} is {shown(values)}, expected a list of texts")
    return found


def addresses(name: str, values: Any) -> list[str]:
    """A list of "host:port".  An empty text would be none of them, and one with a comma several."""
    found = texts(name, values)
    for v in found:
        host, _, port = v.rpartition(":")
        if not host or not port.isdecimal() or "," in v:
            raise InvalidError(f'{name} has "{v}", expected host:port')
    return found


class Here:
    """Of this process alone: has addresses of C."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} belongs to this process, and cannot be copied or pickled")


class Owner(Here):
    """Of something in C that calls use, which must stay while a call of another thread uses it, or the one that a signal's handler
    has interrupted."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.left: list[Any] = []
        self._calls: list[None] = []                       # in flight: a list, as changes of it need no lock
        self._freeing = threading.RLock()                  # a signal's handler may close it, too
        self._freed: tuple[Any, Any] | None = None         # by the last call that ends: a function of C, and its argument
        _owners.add(self)

    def begin(self) -> None:
        """A call begins, before it looks whether there is still something to use."""
        self._calls.append(None)

    def end(self) -> None:
        """It has ended."""
        self._calls.pop()
        if self._freed is not None:
            self._free_unused()

    def _free_unused(self) -> None:
        with self._freeing:
            freed = None if self._calls else self._freed
            self._freed = self._freed if self._calls else None
        if freed:
            freed[0](freed[1])

    def may_close(self) -> bool:
        """Not in a process that was forked (a data loader's), which has none of the threads."""
        return not self._calls and self.process == os.getpid()

    def free(self, function: Any, what: Any) -> None:
        """When no call uses it.  The caller has it no longer where a new call would find it."""
        if self.process == os.getpid():
            self.begin()
            self._freed = function, what
            self.end()


class Started(Here):
    """A call in flight.  What its one wait said is said again: when that failed, nobody takes memory that was not
    written for a result."""

    def __init__(self, owner: Owner, handle: ctypes.c_void_p) -> None:
        self._owner = owner
        self._handle: ctypes.c_void_p | None = handle
        self._error: Error | None = None

    def _end(self, name: str) -> bool:
        """Waits by that function, which frees the handle.  Whether there is a result just now."""
        if self._handle is None:
            return False
        handle, self._handle = self._handle, None
        self._error = CanceledError("there is no result: a signal has ended the wait for it, or another thread is waiting")
        try:
            call_long(self._owner, name, handle)
        except Error as e:
            self._error = e.with_traceback(None)
            return False
        self._error = None
        return True

    def _check(self) -> None:
        if self._error is not None:
            raise self._error


def call_long(owner: Owner, name: str, *arguments: Any) -> int:
    """A call that uses what the owner has in C."""
    owner.begin()
    try:
        return call(name, *arguments)
    finally:
        owner.end()
