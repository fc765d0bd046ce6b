"""The headline of a program that an exception ended."""

from __future__ import annotations

from typing import Final

import msgspec

from sonde.wire.api import RankView, RunHeadline
from sonde.wire.shapes import FailedCall, SourceLine, TensorType

_MOST_TENSORS: Final = 20
_MOST_TEXT: Final = 500


def bounded_call(call: FailedCall) -> FailedCall:
    """The call with texts and lists of limited length."""
    tensors = tuple(
        msgspec.structs.replace(each, name=each.name[:_MOST_TEXT])
        for each in call.tensors[:_MOST_TENSORS]
    )
    return FailedCall(
        call.operator[:_MOST_TEXT],
        call.module[:_MOST_TEXT],
        call.module_class[:_MOST_TEXT],
        tensors,
    )


def crash_headline(rank: RankView, several: bool) -> RunHeadline:
    """The error that ended the program of ``rank``, its line, and the call that raised it.
    ``several``: the run has several ranks, so that the sentence names this one."""
    frame = next((each for each in reversed(rank.frames) if each.is_own), None)
    source = None if frame is None else frame.line
    prefix = f"rank {rank.rank}: " if several else ""
    title = f"{prefix}{rank.error or f'the program ended with exit code {rank.exit_code}'}"
    place = _place(source)
    where = f"{',' if place else ''} in step {rank.step}{place}"
    return RunHeadline(
        kind="crash",
        severity="error",
        title=title,
        text=f"{title}{where}{_failed_text(rank.failed)}.",
        rank=rank.rank,
        step=rank.step,
        source=source,
    )


def _failed_text(call: FailedCall | None) -> str:
    """``: linear in the module head (Linear) got input float32[20,16]``; empty if not known."""
    if call is None:
        return ""
    module = ""
    if call.module_class:
        module = f"in {call.module_class}"
        if call.module:
            module = f"in the module {call.module} ({call.module_class})"
    if not call.operator:
        return f", {module}" if module else ""
    tensors = ", ".join(f"{each.name} {_type_text(each.type)}" for each in call.tensors)
    return f": {call.operator} {module}{' ' if module else ''}got {tensors}"


def _type_text(known: TensorType) -> str:
    return f"{known.dtype}[{','.join(map(str, known.shape))}]"


def _place(source: SourceLine | None) -> str:
    if source is None:
        return ""
    name = source.file.rpartition("/")[2]
    code = f" `{source.code.strip()}`" if source.code.strip() else ""
    return f" at {name}:{source.line}{code}"
