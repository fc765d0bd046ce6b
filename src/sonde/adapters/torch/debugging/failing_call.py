"""The call that raised the error of a failed program: the op, its module and its tensors."""

from __future__ import annotations

import ast
import linecache
import os
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Final

import torch
from torch import nn

import sonde
from sonde.adapters.torch.tensors.view import name_of
from sonde.core.interruption import pass_on
from sonde.wire.shapes import FailedCall, NamedTensor, TensorType

_SONDE: Final = os.path.dirname(os.path.abspath(sonde.__file__)) + os.sep
_INTERCEPTED: Final = ("__torch_dispatch__", "__torch_function__")
_PASSING_ON: Final = (
    "/torch/_compile.py",
    "/torch/_dynamo/eval_frame.py",
    "/torch/_ops.py",
    "/torch/overrides.py",
)
_OPERATORS: Final[dict[type[ast.operator], str]] = {
    ast.MatMult: "matmul",
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
}
_MOST_TENSORS: Final = 6
_MOST_TEXT: Final = 60


def failing_call(error: BaseException | None) -> FailedCall | None:
    """What raised ``error``, read from the frames of its traceback; runs no code of the program.
    None if neither the op nor the module is known."""
    if not isinstance(error, Exception):
        return None
    try:
        return _found(error)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as failure:
        pass_on(failure)
        return None


def _found(error: Exception) -> FailedCall | None:
    frames = _frames(error)
    if not frames:
        return None
    modules = [owner for frame, _ in frames if (owner := _module_of(frame)) is not None]
    module, root = (modules[-1], modules[0]) if modules else (None, None)
    operator, tensors = "", tuple[NamedTensor, ...]()
    call = _expression(frames[-1][1])
    if call is not None:
        tensors = tuple(_tensors(call, frames[-1][0]))[:_MOST_TENSORS]
        operator = _operator(call) if tensors else ""
    if module is None and not operator:
        return None
    name = "" if module is None or root is None else _path(root, module)
    return FailedCall(operator, name, "" if module is None else type(module).__name__, tensors)


def _frames(error: Exception) -> list[tuple[FrameType, traceback.FrameSummary]]:
    """The frames down to the call of the op, without those that only pass it on."""
    walked = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    found = list(zip(walked, traceback.extract_tb(error.__traceback__), strict=True))
    intercepted = [at for at, (_, each) in enumerate(found) if each.name in _INTERCEPTED]
    del found[intercepted[0] if intercepted else len(found) :]
    while found and found[-1][1].filename.replace(os.sep, "/").endswith(_PASSING_ON):
        del found[-1]
    return [each for each in found if not each[1].filename.startswith(_SONDE)]


def _module_of(frame: FrameType) -> nn.Module | None:
    owner = frame.f_locals.get("self")
    return owner if isinstance(owner, nn.Module) else None


def _path(root: nn.Module, wanted: nn.Module) -> str:
    return next((name for name, module in root.named_modules() if module is wanted), "")


# ------------------------------------------------------------------ the expression


def _expression(frame: traceback.FrameSummary) -> ast.expr | None:
    """The expression that was evaluated when the error was raised, from the columns that Python
    keeps of each instruction."""
    first, last = frame.lineno, getattr(frame, "end_lineno", None)
    start, end = getattr(frame, "colno", None), getattr(frame, "end_colno", None)
    if first is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(frame.filename, each).encode() for each in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        return ast.parse(f"({b''.join(lines).decode()})", mode="eval").body
    except (SyntaxError, UnicodeDecodeError) as error:
        pass_on(error)
        return None


def _operator(call: ast.expr) -> str:
    match call:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            return name
        case ast.BinOp(op=operator):
            return _OPERATORS.get(type(operator), "")
        case ast.Subscript():
            return "index"
    return ""


def _operands(call: ast.expr) -> Iterator[ast.expr]:
    match call:
        case ast.Call(func=function, args=arguments, keywords=named):
            if isinstance(function, ast.Attribute):
                yield function.value
            yield from arguments
            yield from (each.value for each in named)
        case ast.BinOp(left=left, right=right):
            yield from (left, right)
        case ast.Subscript(value=value, slice=places):
            yield value
            yield from places.elts if isinstance(places, ast.Tuple) else (places,)


def _tensors(call: ast.expr, frame: FrameType) -> Iterator[NamedTensor]:
    for each in _operands(call):
        for name, value in _values(each, frame):
            if isinstance(value, torch.Tensor):
                kind = TensorType(name_of(value.dtype), tuple(map(int, value.shape)))
                yield NamedTensor(name[:_MOST_TEXT], kind)


def _values(operand: ast.expr, frame: FrameType) -> Sequence[tuple[str, Any]]:
    """The value of an operand with its text; the members of a list or tuple one by one."""
    value, text = _value(operand, frame), ast.unparse(operand)
    if isinstance(value, list | tuple):
        return [(f"{text}[{at}]", each) for at, each in enumerate(value)]
    if isinstance(operand, ast.List | ast.Tuple):
        return [pair for each in operand.elts for pair in _values(each, frame)]
    return [(text, value)]


def _value(operand: ast.expr, frame: FrameType) -> object:
    """The value of a name, or of an attribute in the dictionary of its owner; else None."""
    if isinstance(operand, ast.Name):
        return frame.f_locals.get(operand.id)
    if not isinstance(operand, ast.Attribute):
        return None
    owner = _value(operand.value, frame)
    held = getattr(owner, "__dict__", None)
    if type(held) is not dict:
        return None
    for each in (held, held.get("_parameters"), held.get("_buffers")):
        if isinstance(each, dict) and operand.attr in each:
            return each[operand.attr]
    return None
