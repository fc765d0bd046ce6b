"""``op_debug_mode: 4``: when an op raises, its inputs are saved; the exception goes on its way."""

from __future__ import annotations

from collections.abc import Callable

from sonde.core.sink import OpCall, Sink, StepEnd, TensorView


class FailureDump:
    """Saves the inputs of ops that raise through ``tensors``. Used from the training thread."""

    def __init__(self, tensors: Sink, place: Callable[[int], str], report: Callable[[str], None]):
        self._tensors = tensors
        self._place = place
        self._report = report
        self._last: BaseException | None = None

    def begin_step(self, step: int) -> None:
        self._tensors.begin_step(step)

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        """An op that ran well is of no interest."""

    def op_failed(self, call: OpCall, error: BaseException) -> None:
        if error is self._last or not isinstance(error, Exception):
            return
        self._last = error
        self._tensors.write(call)
        source = call.node.source
        where = f" at {source}" if source is not None else ""
        self._report(
            f"sonde: {call.node.name}{where} raised {type(error).__name__}; its inputs are in "
            f"{self._place(call.step)} [op-raised]"
        )

    def end_step(self, end: StepEnd) -> None:
        self._tensors.end_step(end)

    def drop_step(self) -> None:
        self._tensors.drop_step()

    def close(self) -> None:
        self._tensors.close()
