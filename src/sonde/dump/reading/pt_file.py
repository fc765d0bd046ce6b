"""Reads the one tensor in a ``.pt`` file by ``torch.save``, without torch and without running code.

The file is a zip: a pickle that describes the tensor, and the bytes of its storage, not compressed.
Of pickle's operations only those that describe a tensor are carried out, on plain data; all others
are refused. Sizes are checked against the file before anything is allocated.
"""

from __future__ import annotations

import io
import pickletools
import struct
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from sonde.core.dtypes import BY_NAME
from sonde.core.errors import DumpError
from sonde.dump.bounded_file import open_without_blocking
from sonde.dump.reading.npy import NpyHeader

_MAX_PICKLE_BYTES = 1 << 20
_MAX_DIMENSIONS = 64
_MAX_OPERATIONS = 10_000
_LOCAL_HEADER = struct.Struct("<4s2B4HL2L2H")
_STORAGES = {
    "BoolStorage": "bool",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}


@dataclass(frozen=True, slots=True)
class _Global:
    """A class or function that the pickle names; it is never imported."""

    name: str


@dataclass(frozen=True, slots=True)
class _Storage:
    dtype: str
    key: str


@dataclass(frozen=True, slots=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_pt_header(path: Path) -> NpyHeader:
    """Where the values of the tensor in a file are; DumpError if it is no such file."""
    try:
        with (
            open(path, "rb", opener=open_without_blocking) as file,
            zipfile.ZipFile(file) as archive,
        ):
            members = {each.filename.partition("/")[2]: each for each in archive.infolist()}
            tensor = _described(archive, members)
            storage = members.get(f"data/{tensor.storage.key}")
            if storage is None or storage.compress_type != zipfile.ZIP_STORED:
                raise ValueError("the bytes of its storage are missing or compressed")
            size = file.seek(0, io.SEEK_END)
            file.seek(storage.header_offset)
            start = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            begin = storage.header_offset + _LOCAL_HEADER.size + start[-2] + start[-1]
            if begin + storage.file_size > size:
                raise ValueError("the file ends early")
            return _header(path, tensor, begin, storage.file_size)
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, IndexError, struct.error, zipfile.BadZipFile) as error:
        reason = (str(error).splitlines() or ["damaged"])[0][:200]
        raise _error(path, f"not a file of one tensor by torch.save: {reason}") from None
    except (NotImplementedError, RuntimeError, EOFError, TypeError, OverflowError) as error:
        raise _error(path, f"not a file of one tensor by torch.save: {error}") from None


def _described(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> _Tensor:
    described = members.get("data.pkl")
    if described is None or max(described.file_size, described.compress_size) > _MAX_PICKLE_BYTES:
        raise ValueError("it has no data.pkl, or a very large one")
    if "byteorder" in members and archive.read(members["byteorder"])[:16] != b"little":
        raise ValueError("its numbers are big-endian")
    found = _Machine().run(archive.read(described))
    if not isinstance(found, _Tensor):
        raise ValueError("it holds something else")
    return found


def _header(path: Path, tensor: _Tensor, begin: int, stored: int) -> NpyHeader:
    dtype = BY_NAME.get(tensor.storage.dtype)
    if dtype is None:
        raise ValueError(f"{tensor.storage.dtype} values are not read")
    last = tensor.offset
    if all(tensor.shape):
        steps = zip(tensor.shape, tensor.strides, strict=True)
        last += sum((size - 1) * step for size, step in steps) + 1
    if last * dtype.itemsize > stored:
        raise ValueError(f"{dtype.name}{list(tensor.shape)} needs more bytes than its storage has")
    raw = np.dtype(np.uint16 if dtype.name == "bfloat16" else dtype.name)
    offset = begin + tensor.offset * dtype.itemsize
    strides = None if tensor.strides == _dense(tensor.shape) else tensor.strides
    return NpyHeader(path, dtype.name, tensor.shape, False, raw, offset, strides=strides)


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(slots=True)
class _Machine:
    """Carries out the operations of a pickle that describe a tensor; ValueError for others."""

    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def run(self, data: bytes) -> Any:
        for count, (operation, argument, _) in enumerate(pickletools.genops(data)):
            name, argument = operation.name, cast(Any, argument)
            if count > _MAX_OPERATIONS:
                raise ValueError("its pickle is very long")
            if name == "STOP":
                return self.stack.pop()
            if name in ("PROTO", "FRAME"):
                continue
            if name.startswith(("BININT", "BINUNICODE", "SHORT_BINUNICODE", "LONG1")):
                self.stack.append(argument)
            elif name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            elif name == "GLOBAL":
                self.stack.append(_Global(str(argument)))
            elif name == "MARK":
                self.marks.append(len(self.stack))
            elif name in ("BINPUT", "LONG_BINPUT"):
                self.memo[argument] = self.stack[-1]
            elif name == "MEMOIZE":
                self.memo[len(self.memo)] = self.stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                self.stack.append(self.memo[argument])
            else:
                self._combine(name)
        raise ValueError("its pickle has no end")

    def _combine(self, name: str) -> None:
        if name in _TUPLES:
            self.stack.append(tuple(self._pop(_TUPLES[name])))
        elif name == "TUPLE":
            self.stack.append(tuple(self._pop(len(self.stack) - self.marks.pop())))
        elif name == "STACK_GLOBAL":
            self.stack.append(_Global(" ".join(map(str, self._pop(2)))))
        elif name == "BINPERSID":
            self.stack.append(_storage(self.stack.pop()))
        elif name == "REDUCE":
            function, arguments = self._pop(2)
            self.stack.append(_called(function, arguments))
        else:
            raise ValueError(f"the operation {name} is not one of a tensor")

    def _pop(self, count: int) -> list[Any]:
        if not 0 <= count <= len(self.stack):
            raise ValueError("its pickle takes more than it has")
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken


_CONSTANTS: dict[str, Any] = {"NEWTRUE": True, "NEWFALSE": False, "NONE": None, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _storage(given: Any) -> _Storage:
    """The storage that ``('storage', class, key, device, elements)`` names."""
    if not (isinstance(given, tuple) and len(given) == 5 and given[0] == "storage"):
        raise ValueError("an object of another kind than a storage")
    kind = given[1].name.rpartition(" ")[2] if isinstance(given[1], _Global) else ""
    return _Storage(_STORAGES.get(kind, kind), str(given[2]))


def _called(function: Any, arguments: Any) -> Any:
    name = function.name if isinstance(function, _Global) else ""
    if name == "torch._utils _rebuild_tensor_v2" and len(arguments) in (6, 7):
        return _rebuilt(*arguments[:4])
    if name == "torch._utils _rebuild_parameter" and isinstance(arguments[0], _Tensor):
        return arguments[0]
    if name == "collections OrderedDict" and arguments == ():
        return None
    raise ValueError(f"{name or 'an object'} is not a tensor")


def _rebuilt(storage: Any, offset: Any, shape: Any, strides: Any) -> _Tensor:
    def are_sizes(sizes: Any) -> bool:
        return isinstance(sizes, tuple) and all(type(x) is int and 0 <= x < 1 << 62 for x in sizes)

    if not (
        isinstance(storage, _Storage)
        and are_sizes((offset,))
        and are_sizes(shape)
        and are_sizes(strides)
        and len(shape) == len(strides) <= _MAX_DIMENSIONS
    ):
        raise ValueError("its description is damaged")
    return _Tensor(storage, offset, shape, strides)


def _error(path: Path, what: str) -> DumpError:
    return DumpError(f"{path}: {what}", slug="pt-file")
