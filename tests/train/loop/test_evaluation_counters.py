"""What callbacks of an evaluation read in each hook."""

from __future__ import annotations

import pytest
from tests.train.nets import classifier, loader, sgd
from torch import nn

from sonde.train import Callback, Model, RunContext


class Counters(Callback):
    """Notes the counters in every hook of an evaluation, as a callback of the document might."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    def _note(self, hook: str, run_context: RunContext) -> None:
        cb_params = run_context.original_args()
        self.seen.append((hook, cb_params.cur_epoch_num, cb_params.cur_step_num))

    def on_eval_begin(self, run_context: RunContext) -> None:
        self._note("begin", run_context)

    def on_eval_epoch_begin(self, run_context: RunContext) -> None:
        self._note("epoch_begin", run_context)

    def on_eval_step_end(self, run_context: RunContext) -> None:
        self._note("step_end", run_context)

    def on_eval_end(self, run_context: RunContext) -> None:
        self._note("end", run_context)


def model() -> Model:
    network = classifier()
    return Model(network, nn.CrossEntropyLoss(), sgd(network), metrics={"accuracy"})


@pytest.mark.document(
    19,
    says="callbacks can be used in `model.eval` too",
    how="the same; `cur_epoch_num` and `cur_step_num` are 0 in `begin`, as in training",
)
def test_the_counters_of_an_evaluation_begin_at_0() -> None:
    counters = Counters()
    model().eval(loader(16), counters)
    assert counters.seen == [
        ("begin", 0, 0),
        ("epoch_begin", 1, 0),
        ("step_end", 1, 1),
        ("step_end", 1, 2),
        ("end", 1, 2),
    ]


@pytest.mark.document(19)
def test_inside_fit_the_epoch_is_that_of_the_training() -> None:
    counters = Counters()
    model().fit(2, loader(), loader(32), callbacks=counters)
    one = [("begin", 1, 0), ("epoch_begin", 1, 0), ("step_end", 1, 1), ("end", 1, 1)]
    assert counters.seen == [*one, *((hook, 2, step) for hook, _, step in one)]
