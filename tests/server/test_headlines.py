"""The headline of a run, and hits by cause, from the messages of ranks."""

from __future__ import annotations

import msgspec

from sonde.server.causes import causes_of, phase_of
from sonde.server.headlines import cause_headline, first_bad_loss, headline_of_hits
from sonde.wire.shapes import HeadlineText, Hit, LossPoint, TensorType

SQRT = "Default/net/sqrt-op0"
TOLD = HeadlineText("sqrt made 5 NaN of 6 values", "sqrt made 5 NaN of 6 values in step 2.")


def hit(number: int, op: str, **more: object) -> Hit:
    fields: dict[str, object] = {
        "part": "producer" if op == SQRT else "carrier",
        "origin": SQRT,
        "headline": TOLD,
        **more,
    }
    place = (number, 1, "tensor_overflow", 0, 2, number, op, "output", 0)
    return Hit(*place, TensorType("float32", (2, 3)), "hit", "", (), **fields)  # type: ignore[arg-type]


def test_one_nan_is_one_cause_with_its_phases_and_the_producer_first() -> None:
    names = ["fc.weight", "Gradients/Default/mul-op0", "Default/optimizer-SGD/add_-op0", SQRT]
    hits = [hit(number, op) for number, op in enumerate([*names, "Default/mul-op0"])]
    hits.append(hit(9, SQRT))
    found = causes_of(hits).list()
    (cause,) = found.causes
    assert (cause.origin, cause.first.op, cause.hits, cause.others) == (SQRT, SQRT, 6, 4)
    assert [(each.phase, each.tensors, each.hits) for each in cause.phases] == [
        ("forward", 2, 3),
        ("backward", 1, 1),
        ("optimizer", 1, 1),
        ("weights", 1, 1),
    ]


def test_hits_without_an_origin_come_after_those_with_one_by_condition() -> None:
    alike = [hit(each, f"Default/relu-op{each}", origin=None, part="other") for each in (0, 1)]
    found = causes_of([*alike, hit(7, SQRT)]).list()
    assert [(each.origin, each.hits) for each in found.causes] == [(SQRT, 1), ("", 2)]


def test_the_headline_counts_the_others_and_names_the_rank_of_several() -> None:
    found = headline_of_hits([hit(1, SQRT), hit(2, "Default/a-op0"), hit(3, "Default/b-op0")])
    assert found is not None
    assert found.text == f"{TOLD.text} 2 other ops got them from there."
    assert (found.op, found.severity, found.title) == (SQRT, "error", TOLD.title)
    (cause,) = causes_of([hit(1, SQRT)]).list().causes
    assert cause_headline(cause, is_one_of_several=True).text == f"rank 0: {TOLD.text}"
    assert headline_of_hits([]) is None


def test_a_loss_is_broken_from_its_first_bad_step_if_it_is_still_bad() -> None:
    def points(*losses: float | str | None) -> list[LossPoint]:
        return [LossPoint(step, loss, 0.1, None, True) for step, loss in enumerate(losses)]

    assert first_bad_loss(points(1.0, "nan", None, "nan")) == 1
    assert first_bad_loss(points(1.0, "inf")) == 1
    assert first_bad_loss(points(1.0, "nan", 0.5)) is None
    assert first_bad_loss(points()) is None


def test_weights_gradients_and_ops_have_their_phase() -> None:
    assert [phase_of(name) for name in ("fc.weight", "fc.weight.grad", "Default/a-op0")] == [
        "weights",
        "backward",
        "forward",
    ]


def test_the_rank_that_made_nan_comes_before_those_that_received_them() -> None:
    reduced = "Gradients/Default/c10d_allreduce_-op0"
    received = hit(1, reduced, origin=reduced, part="producer")
    made = msgspec.structs.replace(hit(5, SQRT), rank=1)
    found = causes_of([received, made]).list()
    assert [(each.rank, each.origin) for each in found.causes] == [(1, SQRT), (0, reduced)]
