"""``op_debug_mode: 4``: saves the inputs of an op that raises; the exception still propagates.

Some ops of linear algebra return an error code, for which the next op raises: then the inputs of
both ops are saved.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sonde.core.sink import OpCall, Sink, StepEnd, TensorView
from sonde.core.text.problem_line import ProblemLine
from sonde.dump.sinks.steps import StepFiles

_RETURNS_ERROR_CODE = re.compile(r"_?linalg_\w+_ex")
_RAISES_FOR_ERROR_CODE = "_linalg_check_errors"


class FailureDump(Sink):
    """Saves the inputs of ops that raise through ``tensors``. Used from the training thread.

    The saved files are reported when the step ends, because only then their directory is known.
    """

    def __init__(self, files: StepFiles, tensors: Sink, report: Callable[[str], None]) -> None:
        self._files = files
        self._tensors = tensors
        self._report = report
        self._failed_call: OpCall | None = None
        self._unreported: list[str] = []
        self.ops: set[str] = set()

    def begin_step(self, step: int) -> None:
        self._tensors.begin_step(step)

    def has(self, view: TensorView) -> bool:
        return False

    def keeps_step(self) -> bool:
        """Whether an op raised in the running step."""
        return bool(self._unreported)

    def write(self, call: OpCall) -> None:
        """Remember an op that returned an error code; other ops are not recorded.

        Its tensors are borrowed until the next op is reported. That is safe: no op runs in between
        that could write to them.
        """
        has_failed = _RETURNS_ERROR_CODE.fullmatch(call.node.type) is not None and _has_failed(call)
        self._failed_call = call if has_failed else None

    def op_failed(self, call: OpCall, error: BaseException) -> None:
        if not isinstance(error, Exception):
            return  # Ctrl-C is not a failure of the op
        others = ""
        if self._failed_call is not None and call.node.type == _RAISES_FOR_ERROR_CODE:
            self._tensors.write(self._failed_call)
            others = f" and those of {self._failed_call.node.name}"
        self._failed_call = None
        self._tensors.write(call)
        self.ops.add(call.node.name)
        source = call.node.source
        where = f" at {source}" if source is not None else ""
        self._unreported.append(
            f"sonde: {call.node.name}{where} raised {type(error).__name__}; its inputs{others} are"
        )

    def end_step(self, end: StepEnd) -> None:
        self._failed_call = None
        self._tensors.end_step(end)
        for text in self._unreported:
            self._report(ProblemLine(f"{text} in {self._files.place(end)}", slug="op-raised"))
        self._unreported.clear()

    def drop_step(self) -> None:
        self._unreported.clear()
        self._tensors.drop_step()

    def close(self) -> None:
        self._tensors.close()


def _has_failed(call: OpCall) -> bool:
    """Whether the op's last output, its error codes, has a nonzero element."""
    codes = call.outputs[-1] if call.outputs else None
    return codes is not None and codes.dtype == "int32" and bool(codes.numpy().any())
