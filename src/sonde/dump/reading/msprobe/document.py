"""The contents of msprobe's ``dump.json``, ``construct.json`` and ``stack.json``.

``dump.json`` has an entry for each call of an API, a module or its gradients, in the order in which
the calls ended, with the statistics of its tensors and the names of their files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Literal

from sonde.core.dtypes import BY_NAME, DType
from sonde.core.errors import DumpError
from sonde.core.graph import Phase, Source, TensorSpec
from sonde.core.keys import Io
from sonde.dump.reading.side_files import read_json
from sonde.dump.reading.statistic_rows import Number

DOCUMENT = "dump.json"
CONSTRUCT = "construct.json"
STACK = "stack.json"
TENSORS = "dump_tensor_data"

_API = re.compile(r"([A-Za-z]\w*)\.(.+)\.([0-9]+)\.(forward|backward)")
_MODULE = re.compile(r"(?:Module|Cell)\.(.+)\.(\w+)\.(forward|backward)\.([0-9]+)")
_GRADIENT = re.compile(r"(?:Module|Cell)\.(.+)\.(\w+)\.parameters_grad(?:\.([0-9]+))?")
_DUNDER = re.compile(r"__(i|r)?(\w+?)__")
_IN_PLACE = frozenset({"add", "sub", "mul", "div", "truediv", "floordiv", "matmul", "pow", "mod"})
_STATISTICS = {"Max": "max", "Min": "min", "Mean": "avg", "Norm": "l2norm"}
_DTYPES = {"half": "float16", "float": "float32", "double": "float64", "int": "int32"}
_STACK_LINE = re.compile(r"File (.+?), line ([0-9]{1,9}), in ([^,\n]*),?\s*\n?\s*(.*)", re.DOTALL)
_MAX_DEPTH = 20
_MAX_TEXT = 200

Sort = Literal["api", "module", "gradient"]


@dataclass(frozen=True, slots=True)
class ProbedTensor:
    """One tensor of an entry; ``file`` is its name in ``dump_tensor_data``, if it was saved."""

    io: Io
    slot: int
    dtype: DType
    shape: tuple[int, ...]
    values: dict[str, Number]
    file: str | None
    requires_grad: bool
    checksum: str

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self.dtype.name, self.shape)

    @property
    def identity(self) -> tuple[object, ...] | None:
        """Equal for tensors with equal dtype, shape and statistics, where NaN is equal to NaN, or
        without statistics those with equal checksums: msprobe may compute the checksum of a tensor
        after it has changed. None where this does not identify a tensor: with neither, and if all
        elements are the same, as those of new biases."""
        values = self.values
        if not values:
            return (self.spec, self.checksum) if self.checksum else None
        if prod(self.shape) > 1 and values.get("max") == values.get("min"):
            return None
        return (self.spec, *(repr(number) for number in values.values()))


@dataclass(slots=True)
class ProbedCall:
    """One entry: a call of an API or a module, forward or backward, or gradients of parameters.

    ``module`` is the path of the module (``layer1.0.conv1``) and ``class_name`` its class, both
    empty for an API. ``parameters`` are those of a module by their names in it.
    """

    name: str
    sort: Sort
    type: str
    phase: Phase
    module: str = ""
    class_name: str = ""
    tensors: list[ProbedTensor] = field(default_factory=list)
    parameters: dict[str, ProbedTensor] = field(default_factory=dict)
    attributes: list[tuple[str, str]] = field(default_factory=list)

    def of(self, io: Io) -> list[ProbedTensor]:
        return [tensor for tensor in self.tensors if tensor.io == io]


@dataclass(frozen=True, slots=True)
class ProbedStep:
    """The calls of one step of one rank, in about the order in which they ended.

    ``structure`` is equal for steps with the same calls on tensors of the same shapes.
    """

    path: Path
    task: str
    level: str
    framework: str
    structure: int
    data: dict[str, Any] = field(repr=False, compare=False)

    @property
    def calls(self) -> tuple[ProbedCall, ...]:
        """Made anew each time: this takes longer than reading the file."""
        return tuple(
            _call(name, entry) for name, entry in self.data.items() if isinstance(entry, dict)
        )


def read_step(directory: Path) -> ProbedStep:
    """The ``dump.json`` of a rank's directory; DumpError if it is not one of msprobe."""
    path = directory / DOCUMENT
    found = read_json(path)
    data = found.get("data") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(data, dict):
        raise DumpError(f"{path}: not a dump.json of msprobe: it has no 'data'", slug="json-file")
    shapes: list[object] = []
    _collect_shapes(data, shapes, 0)
    task, level, framework = (str(found.get(key) or "") for key in ("task", "level", "framework"))
    return ProbedStep(path, task, level, framework, hash((*data, *shapes)), data)


def _collect_shapes(value: Any, found: list[object], depth: int) -> None:
    """The shapes and dtypes of all tensors, in order."""
    if isinstance(value, dict) and "shape" in value:
        found.append((str(value["shape"]), str(value.get("dtype"))))
    elif isinstance(value, dict | list) and depth <= _MAX_DEPTH:
        for each in value.values() if isinstance(value, dict) else value:
            _collect_shapes(each, found, depth + 1)


def read_parents(directory: Path) -> dict[str, str]:
    """The module call in which each call ran, from ``construct.json``; empty without it."""
    path = directory / CONSTRUCT
    found = read_json(path) if path.is_file() else {}
    parents: dict[str, str] = {}
    if isinstance(found, dict):
        for name, parent in found.items():
            parent = parent[0] if isinstance(parent, list) and parent else parent
            if isinstance(parent, str):
                parents[str(name)] = parent
    return parents


def read_stacks(directory: Path) -> dict[str, tuple[Source, ...]]:
    """The lines of code of each call, innermost first, from ``stack.json``; empty without it.

    Later versions have each stack once, with the names of its calls.
    """
    path = directory / STACK
    found = read_json(path) if path.is_file() else {}
    stacks: dict[str, tuple[Source, ...]] = {}
    if not isinstance(found, dict):
        return stacks
    for name, entry in found.items():
        if isinstance(entry, list) and len(entry) == 2 and all(isinstance(e, list) for e in entry):
            lines = _sources(entry[1])
            stacks.update((str(call), lines) for call in entry[0])
        elif isinstance(entry, list):
            stacks[str(name)] = _sources(entry)
    return stacks


def _sources(lines: list[Any]) -> tuple[Source, ...]:
    found = []
    for line in lines:
        match = _STACK_LINE.match(str(line))
        if match is not None:
            code = match[4].strip()
            found.append(Source(match[1].strip('"'), int(match[2]), match[3].strip(), code))
    return tuple(found)


def _call(name: str, entry: dict[str, Any]) -> ProbedCall:
    call = _named_call(name)
    if call.sort == "gradient":
        tensors = _tensors(list(entry.values()), "output", call)
    else:
        given = (entry.get("input_args"), entry.get("input_kwargs"), entry.get("input"))
        tensors = _tensors([each for each in given if each is not None], "input", call)
        tensors += _tensors(entry.get("output"), "output", call)
    call.tensors = tensors
    parameters = entry.get("parameters")
    for key, value in parameters.items() if isinstance(parameters, dict) else ():
        for tensor in _tensors(value, "output", call)[:1]:
            call.parameters[str(key)] = tensor
    return call


def _named_call(name: str) -> ProbedCall:
    if (match := _MODULE.fullmatch(name)) is not None:
        phase: Phase = "forward" if match[3] == "forward" else "backward"
        kind = match[2] if phase == "forward" else f"{match[2]}_backward"
        return ProbedCall(name, "module", kind, phase, match[1], match[2])
    if (match := _GRADIENT.fullmatch(name)) is not None:
        return ProbedCall(name, "gradient", "parameters_grad", "backward", match[1], match[2])
    if (match := _API.fullmatch(name)) is not None:
        kind = op_type(match[2])
        if match[4] == "backward":
            return ProbedCall(name, "api", f"{kind}_backward", "backward")
        return ProbedCall(name, "api", kind, "forward")
    return ProbedCall(name, "api", name.rpartition(".")[2] or name, "forward")


def op_type(api: str) -> str:
    """The type of an op from the name of an API: ``__add__`` and ``__radd__`` are ``add``,
    ``__iadd__`` is ``add_``."""
    last = api.rpartition(".")[2]
    match = _DUNDER.fullmatch(last)
    if match is None:
        return last
    mark, word = match[1] or "", match[2]
    if mark and word not in _IN_PLACE:  # ``__invert__`` is not the in-place form of ``nvert``.
        mark, word = "", mark + word
    word = {"truediv": "div"}.get(word, word)
    return f"{word}_" if mark == "i" else word


def _tensors(value: Any, io: Io, call: ProbedCall) -> list[ProbedTensor]:
    """The tensors in a value, in order; what is no tensor becomes an attribute of the call."""
    found: list[ProbedTensor] = []
    _collect(value, io, call, (), found)
    return found


def _collect(
    value: Any, io: Io, call: ProbedCall, place: tuple[str, ...], found: list[ProbedTensor]
) -> None:
    if len(place) > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for number, each in enumerate(value):
            _collect(each, io, call, (*place, str(number)), found)
    elif isinstance(value, dict) and "shape" in value and "dtype" in value:
        tensor = _tensor(value, io, len(found))
        if tensor is not None:
            found.append(tensor)
    elif isinstance(value, dict) and isinstance(value.get("type"), str):
        if "value" in value and io == "input":
            name = ".".join(place[1:]) or "value"  # The first is the kind: arguments, keywords.
            call.attributes.append((name, str(value["value"])[:_MAX_TEXT]))
    elif isinstance(value, dict):
        for key, each in value.items():
            _collect(each, io, call, (*place, str(key)), found)


def _tensor(value: dict[str, Any], io: Io, slot: int) -> ProbedTensor | None:
    dtype = _dtype(str(value["dtype"]))
    shape = value["shape"]
    if dtype is None or not isinstance(shape, list):
        return None
    if not all(type(size) is int and 0 <= size < 1 << 62 for size in shape):
        return None
    values: dict[str, Number] = {}
    for theirs, ours in _STATISTICS.items():
        number = _number(value.get(theirs))
        if number is not None:
            values[ours] = number
    file = value.get("data_name")
    return ProbedTensor(
        io,
        slot,
        dtype,
        tuple(shape),
        values,
        file if isinstance(file, str) and _is_plain_name(file) else None,
        value.get("requires_grad") is True,
        str(value.get("md5") or ""),
    )


def _dtype(text: str) -> DType | None:
    """The dtype of ``torch.float32``, ``Float32`` or ``<class 'float'>``."""
    word = text.rpartition(".")[2].strip("'> ").lower()
    return BY_NAME.get(_DTYPES.get(word, word))


def _number(value: Any) -> float | None:
    if isinstance(value, bool | int | float):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def _is_plain_name(name: str) -> bool:
    return "/" not in name and "\\" not in name and "\0" not in name and name not in ("", ".", "..")
