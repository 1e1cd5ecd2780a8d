"""Arrays of callers as memory of C: no copy where type and layout fit, an error that says what was expected where not."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _abi
from ._lib import InvalidError, path, shown

if TYPE_CHECKING:
    import numpy.typing as npt
    Array = npt.NDArray[Any]
else:
    Array = np.ndarray               # numpy.typing takes as long to import as all of this package


def _foreign(array: Any) -> bool:
    """Of a framework that speaks DLPack."""
    return not isinstance(array, (np.ndarray, type)) and hasattr(array, "__dlpack__")


def _numpys(array: Any, dtype: Any, name: str) -> Array:
    """As NumPy makes one of it: a list, a number, a column of pandas."""
    if array is None or isinstance(array, type):
        raise TypeError(f"{name} is {shown(array)}, expected an array")
    try:
        return np.asarray(array, dtype)
    except (TypeError, ValueError) as e:
        raise type(e)(f"{name} makes no array, expected numbers in rows of equal length: {e}") from None


def _detached(array: Any) -> Any:
    """The same memory, of no gradient's business."""
    return array.detach() if hasattr(array, "detach") else array


def _unmasked(array: Any, name: str) -> Any:
    """Not what lies below a mask."""
    ma: Any = sys.modules.get("numpy.ma")                  # NumPy imports it for who uses it
    if ma and isinstance(array, ma.MaskedArray):
        raise TypeError(f"{name}: a masked array, expected one without a mask: .filled(0) makes it")
    return array


def _laid(array: Array, dtype: Any = None) -> Array:
    """As C reads it: in its order, aligned.  The same memory, where that is so."""
    packed = np.asarray(array, dtype, order="C")             # not ascontiguousarray, which makes a vector of one number
    return packed if packed.flags.aligned else packed.copy()


def view(array: Any, dtype: Any, name: str) -> Array:
    """A C-contiguous NumPy array of that type, of the caller's memory where that is one."""
    array = _widened(array, name) if _foreign(array) else _numpys(_unmasked(array, name), None, name)
    if dtype is not None and array.dtype.kind not in "biuf" and array.size:
        raise TypeError(f"{name}: {array.dtype}, expected numbers")
    return _laid(array, dtype)


def shaped(array: Any, name: str, *shapes: tuple[int, ...]) -> Array:
    """Numbers as float32, in one of those shapes: one of as many in another shape would be read in the wrong order."""
    if type(array) is np.ndarray and array.dtype == FLOATS and array.shape == shapes[0] and array.flags.carray:
        return array
    values = view(array, np.float32, name)
    if values.shape not in shapes:
        raise ValueError(f"{name} are of shape {values.shape}, expected {' or '.join(map(str, dict.fromkeys(shapes)))}")
    return values


def _of_ints(array: Any, name: str) -> Array | None:
    """What Python's own whole numbers make, which NumPy takes for floats where some are 2^63 or more; None: not all are such."""
    items = np.asarray(array, object)
    if not all(isinstance(i, int) for i in items.flat):
        return None
    for i in items.flat:
        if not -1 << 63 <= i < 1 << 64:
            raise ValueError(f"{name} have {i}, expected whole numbers below 2^64")
    return np.array([i % (1 << 64) for i in items.flat], np.uint64).reshape(items.shape)


IDS = (np.dtype(np.int64), np.dtype(np.uint64))
FLOATS = np.dtype(np.float32)


def whole(array: Any, name: str) -> Array:
    """Ids, as uint64: integers of any kind, negative ones modulo 2^64."""
    if type(array) is np.ndarray and array.dtype in IDS and array.flags.carray:
        return array                                     # as most programs have them: the same bits
    given = array
    array = view(array, None, name)
    if array.dtype.kind in "fO" and array.size and (array.dtype == object or not (isinstance(given, np.ndarray) or _foreign(given))):
        ints = _of_ints(given, name)
        array = array if ints is None else ints
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{name} are {array.dtype}, expected whole numbers of 64 bits")
    ids: Array = array.view(np.uint64) if array.dtype == np.int64 else array.astype(np.uint64, copy=False)
    return ids


def target(array: Any, dtype: Any, shape: Sequence[int], name: str) -> Array:
    """The caller's own memory, to be written: nothing is converted."""
    if type(array) is np.ndarray and array.dtype == dtype and array.shape == shape and array.flags.carray:
        return array
    if _foreign(array):
        array = _lying(array, name)                      # not from_dlpack, which takes what has no version for read-only
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != tuple(shape) or not array.flags.c_contiguous:
        gaps = isinstance(array, np.ndarray) and not array.flags.c_contiguous
        what = f"{type_name(array)} {array.shape}{', not contiguous' if gaps else ''}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"{name} is {what}, expected a contiguous array of {np.dtype(dtype)} {tuple(shape)}")
    if not array.flags.writeable or not array.flags.aligned:
        raise ValueError(f"{name} cannot be written to{'' if array.flags.aligned else ': it is not aligned'}")
    return array


_address, _byte = ctypes.addressof, ctypes.c_char.from_buffer


def pointer(array: Array) -> int:
    """Its address, for a call during which the caller has it.  array.ctypes takes three times as long."""
    lent: Any = array                                    # NumPy of before 2.0 does not say that it is a buffer
    try:
        return _address(_byte(lent))
    except (TypeError, ValueError, BufferError):         # it is read-only, or empty, or of a type that only NumPy knows
        return int(array.ctypes.data)


# Of elements that groups know: in C, in NumPy, and as (kind, bits) in DLPack.
TYPES = ((_abi.RT_F32, "f4", (2, 32)), (_abi.RT_F64, "f8", (2, 64)), (_abi.RT_F16, "f2", (2, 16)), (_abi.RT_BF16, None, (4, 16)),
         (_abi.RT_I64, "i8", (0, 64)), (_abi.RT_I32, "i4", (0, 32)), (_abi.RT_U8, "u1", (1, 8)))
NUMPY = {np.dtype(name): c for c, name, _ in TYPES if name}
NAMES = {c: f"={name}" if name else "|V2" for c, name, _ in TYPES}
DLPACK = {pair: c for c, _, pair in TYPES}
KNOWN = "float32, float64, float16, bfloat16, int64, int32, uint8"
DL_CPU, DL_PINNED = 1, 3


class _DLTensor(ctypes.Structure):
    """dlpack.h: what a capsule "dltensor" points to begins with it."""
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_number", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("kind", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


class _Lent:
    """A tensor's memory as NumPy takes it, whose array then keeps this."""

    def __init__(self, array: Any, name: str) -> None:
        if getattr(array, "is_neg", bool)():
            raise ValueError(f"{name} is a view that stands for the negative of its memory, expected .resolve_neg() of it")
        try:
            self.capsule = _detached(array).__dlpack__()
        except (BufferError, RuntimeError, TypeError) as e:
            of = f" of {array.dtype} on {device}" if (device := getattr(array, "device", None)) else ""
            raise TypeError(f"{name} is a {type(array).__name__}{of} whose memory cannot be used: {e}; expected a dense one in main memory") from None
        t = _DLTensor.from_address(_capsule_pointer(self.capsule, b"dltensor"))
        if t.device not in (DL_CPU, DL_PINNED):
            where = getattr(array, "device", None) or getattr(array, "place", None) or f"device {t.device} of DLPack"
            raise ValueError(f"{name} is on {where}, expected one in main memory, as .cpu() makes it")
        if (t.kind, t.bits) not in DLPACK or t.lanes != 1:
            raise ValueError(f"{name} is of {array.dtype}, expected one of {KNOWN}")
        self.dtype, shape = DLPACK[t.kind, t.bits], tuple(t.shape[:t.ndim])
        # Strides of a tensor without elements mean nothing, and NumPy has its own way to say "contiguous".
        steps = tuple(s * t.bits // 8 for s in t.strides[:t.ndim]) if t.strides and 0 not in shape else None
        self.__array_interface__ = {"version": 3, "data": ((t.data or 0) + t.offset, False), "shape": shape, "strides": steps,
                                    "typestr": NAMES[self.dtype]}


def _lying(array: Any, name: str) -> Array:
    """A tensor as an array, where and however it lies."""
    return np.asarray(_Lent(array, name))


def type_name(array: Array) -> str:
    """bfloat16 has no type in NumPy."""
    return "bfloat16" if array.dtype == np.dtype("V2") else str(array.dtype)


def _widened(array: Any, name: str) -> Array:
    """A tensor's numbers in a type that NumPy has: those of bfloat16 are the upper half of float32's."""
    dtype = getattr(array, "dtype", None)
    if not str(dtype).endswith("bfloat16"):
        try:
            return np.asarray(np.from_dlpack(_detached(array)))
        except (BufferError, RuntimeError, TypeError):
            pass                                # _Lent says why
    lies = _lying(array, name)
    return (lies.view(np.uint16).astype(np.uint32) << 16).view(np.float32) if type_name(lies) == "bfloat16" else lies


EXACT_WORK: Any = 1000                   # of NumPy, to see whether the columns of a matrix are apart; where that is too little: they are not


class Memory:
    """An array's memory for one call: address, element type of C, shape.  Lives as long as this does.

    What does not lie in C's order (a transposed tensor, channels_last), or unaligned, is copied; end() copies back what was written."""

    def __init__(self, array: Any, name: str, write: bool = False) -> None:
        if not _foreign(array):
            if write and not isinstance(array, np.ndarray):
                raise TypeError(f"{name} is a {type(array).__name__}, expected a NumPy array or a tensor, as it is written to")
            self._lies: Array = _numpys(_unmasked(array, name), None, name)
            if self._lies.dtype not in NUMPY:
                raise ValueError(f"{name} is of {self._lies.dtype}, expected one of {KNOWN}")
            if write and not self._lies.flags.writeable:
                raise ValueError(f"{name} cannot be written to")
            self.dtype: int = NUMPY[self._lies.dtype]
        else:
            lent = _Lent(array, name)
            self._lies, self.dtype = np.asarray(lent), lent.dtype
        if write and self._lies.size and any(n > 1 and step == 0 for n, step in zip(self._lies.shape, self._lies.strides)):
            raise ValueError(f"{name} has the same memory for several of its values (expand, broadcast_to), expected memory of its own for each, as "
                             "it is written to")
        self._packed: Array = _laid(self._lies)
        self._copied = not (self._lies.flags.c_contiguous and self._lies.flags.aligned)
        self._write = write and self._copied
        self.address: int = pointer(self._packed)
        self.shape: tuple[int, ...] = self._lies.shape
        self.size: int = self._lies.size

    def comes_after(self, out: Memory) -> bool:
        """Whether a call that uses this needs what one before it writes to `out` to be there first: where either is a copy, C cannot know."""
        return (self._copied or out._write) and np.may_share_memory(self._lies, out._lies, max_work=EXACT_WORK)

    def pack(self) -> None:
        """Once more, as a call that came before has written to it."""
        if self._copied:
            self._packed[...] = self._lies

    def end(self) -> None:
        """The call has written its result."""
        if self._write:
            self._lies[...] = self._packed


def write_arrays(file: Any, arrays: Mapping[str, Array]) -> None:
    """As the name's ending says.  What was there is replaced when all is written, and is on the disk."""
    given = os.fsdecode(path("file", file))
    ending, name = os.path.splitext(given)[1], _target(given)
    part = f"{name}.{os.getpid()}.{threading.get_ident()}.part"     # others may write there, too
    save: Callable[[], Any]
    if ending == ".npz":
        save = functools.partial(_save_npz, part, arrays)
    elif ending == ".safetensors":
        try:
            from safetensors.numpy import save_file
        except ImportError:
            raise InvalidError(f"{given} needs the package safetensors, which is not installed: pip install safetensors, or export to a file .npz "
                               "of NumPy") from None
        if "__metadata__" in arrays:
            raise InvalidError(f'{given}: an array has the name "__metadata__", which no array of a .safetensors has, expected a file .npz')
        save = functools.partial(save_file, dict(arrays), part)
    else:
        raise ValueError(f'the file is "{given}", expected a name that ends in .npz or .safetensors')
    try:
        save()
        _sync(part)
        os.replace(part, name)
    except BaseException as e:
        with contextlib.suppress(OSError):
            os.unlink(part)
        if isinstance(e, OSError):                       # of the file that the program named, not of what lay beside it
            raise OSError(e.errno, e.strerror or str(e), given) from None
        raise
    _sync(os.path.dirname(name) or ".")


def _target(name: str) -> str:
    """The file that a name leads to: os.replace would remove a link, and a device that other programs use."""
    if not os.path.lexists(name):
        return name
    if not os.path.exists(name):
        raise InvalidError(f'cannot write "{name}": it is a link that leads to no file')
    if not os.path.isfile(name):
        raise InvalidError(f'cannot write "{name}": it is a directory, a device or the like, expected a file')
    return os.path.realpath(name)


def _save_npz(name: str, arrays: Mapping[str, Array]) -> None:
    """Not by np.savez, for which the arrays are arguments, and so "file" and "allow_pickle" no names of any."""
    import zipfile                       # not all of NumPy's versions have it by then
    with zipfile.ZipFile(name, "w") as out:
        for array, values in arrays.items():
            with out.open(zipfile.ZipInfo(f"{array}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, values, allow_pickle=False)


def _sync(name: str) -> None:
    """A file or a folder."""
    fd = os.open(name, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def as_array(array: Any) -> Any:
    """What is none, a list say, as NumPy's."""
    return array if isinstance(array, np.ndarray) or _foreign(array) else _numpys(array, None, "array")


def empty(shape: Sequence[int], like: Any) -> Any:
    """A new array of the kind and element type of another one: NumPy's, or of its framework, also where its class is the
    program's own."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, like.dtype)
    modules: list[Any] = [sys.modules.get(kind.__module__.partition(".")[0]) for kind in type(like).__mro__]
    return next(m for m in modules if hasattr(m, "empty")).empty(shape, dtype=like.dtype)
