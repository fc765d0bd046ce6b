"""What triggered the guard as a finding, for trackers and loggers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sonde.adapters.torch.monitor.step_keeping import KeptStep
from sonde.core.finding import Finding
from sonde.core.graph import Source, shown_source
from sonde.monitor.triggers import Trigger

_KINDS: Final = {
    "loss": "non-finite-loss",
    "gradient": "gradient-not-finite",
    "weight": "weight-not-finite",
}
"""The kinds of the diagnosis for quantities that are not finite."""


def trigger_finding(triggers: Sequence[Trigger], message: str, kept: KeptStep | None) -> Finding:
    """The finding about a triggered step. NaN, Inf and exceptions are established; what exceeds a
    threshold is supported; what the user asked for is information."""
    first = triggers[0]
    is_non_finite = first.kind == "non-finite"
    is_certain = is_non_finite or first.kind in ("exception", "call", "signal")
    source, op = (None, None) if kept is None else _place(kept)
    measured = {"value": first.value, "count": first.count or None, "median": first.median}
    return Finding(
        _KINDS.get(first.quantity, first.kind) if is_non_finite else first.kind,
        "info" if first.is_asked_for else "error" if is_certain else "warning",
        message,
        status="established" if is_certain else "supported",
        source=source,
        op=op,
        parameter=first.parameter,
        step=first.step,
        evidence={name: value for name, value in measured.items() if value is not None},
    )


def _place(kept: KeptStep) -> tuple[Source | None, str | None]:
    """The line and the op where it began, as far as they are known."""
    explanation = kept.explanation
    origin, extreme = explanation.replayed.origin, explanation.extreme
    if kept.bad_update is not None:
        return kept.bad_update.source or kept.update_source, None
    if origin is not None:
        return origin.source, origin.op
    if extreme is not None:
        return shown_source(extreme.sources), extreme.name
    return explanation.error_source or explanation.loss_source, None
