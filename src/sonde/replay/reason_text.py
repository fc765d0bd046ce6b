"""Why a part of a step cannot be executed again, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

_REASONS = {
    "closure": "the optimizer computes the gradients itself, in a closure",
    "compiled_function": "a compiled function runs modules",
    "input_changed": "an input was overwritten",
    "buffer_changed": "a buffer was overwritten",
    "weights_changed": "weights were changed within the step",
    "gradient_unknown": "gradients from before the step are not known",
    "gradient_changed": "gradients were changed in a way that is not recorded",
    "call_failed": "the call of a module raised",
    "call_not_kept": "there were too many calls",
    "outside_op": "an op outside the modules cannot be executed again",
    "outside_unseen": "the loss does not come from recorded ops only",
    "other_thread": "a module ran in another thread",
    "backward_inside": "a module ran a backward pass in its forward",
    "optimizer_inside": "an optimizer stepped inside a module or a backward pass",
    "collective": "it would have to wait for other ranks",
    "reduced_gradients": "gradients are this rank's, as before the exchange between ranks",
    "random_state": "a random generator of the program is not restored",
    "recording_failed": "recording failed",
}


class ReplayReason(Protocol):
    """A `ReplayProblem` of a running training, or a `StoredReason` of a captured step."""

    @property
    def kind(self) -> str: ...

    @property
    def subject(self) -> str: ...


def reasons_text(reasons: Sequence[ReplayReason]) -> str:
    """The reasons, each once."""
    texts = dict.fromkeys(
        _REASONS.get(each.kind, each.kind) + (f" ({each.subject})" if each.subject else "")
        for each in reasons
    )
    return ", ".join(texts) or "nothing of it was recorded"
