"""The headline of a run, and hits by cause, from the messages of ranks."""

from __future__ import annotations

import msgspec

from sonde.server.causes import causes_of, phase_of
from sonde.server.headlines import (
    cause_headline,
    first_bad_loss,
    headline_of_hits,
    live_headline,
    stored_loss_headline,
)
from sonde.server.live.rank import LiveRank
from sonde.server.live.ranks import LiveRanks
from sonde.testing.sample_values import sample_metadata
from sonde.wire.rank import Goodbye
from sonde.wire.shapes import (
    FailedCall,
    HeadlineText,
    Hit,
    HitRef,
    LossPoint,
    NamedTensor,
    SourceLine,
    TensorType,
    TracebackFrame,
)

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


def test_values_that_are_no_fault_are_counted_apart_from_what_is_not_checkable() -> None:
    unsure = [msgspec.structs.replace(hit(each, SQRT), verdict="undecided") for each in range(3)]
    masked = msgspec.structs.replace(unsure[0], is_harmless=True)
    other = msgspec.structs.replace(masked, rank=1)
    table = causes_of([*unsure, masked, other])
    of_all, of_second = table.list(), table.list(1)
    assert (of_all.total, of_all.undecided, of_all.harmless) == (0, 3, 2)
    assert (of_second.undecided, of_second.harmless) == (0, 1)


def test_the_first_rank_to_go_is_named_and_those_after_it_are_counted() -> None:
    ranks = LiveRanks("run")
    for number in range(3):
        ranks[number] = LiveRank(msgspec.structs.replace(sample_metadata(), rank=number))
    for number in (2, 0, 1):
        ranks[number].disconnect()
    views = [rank.view(0) for rank in ranks.values()]
    found = live_headline(views, causes_of(()), {}, None, ranks.lost)
    assert found is not None
    assert (found.kind, found.rank) == ("lost", 2)
    assert found.text == (
        "rank 2: the training process is gone, last seen in step 0. 2 other ranks went after it. "
        "Its graphs, hits and losses are still shown; its tensors cannot be fetched."
    )


def test_a_constant_has_the_line_that_a_later_hit_names_and_the_pause_names_the_constant() -> None:
    line = SourceLine("/a/ddp.py", 12, "main", "x[3] = inf")
    early = HeadlineText("the constant data-0 contains Inf", "the constant data-0 contains Inf.")
    late = HeadlineText(early.title, f"{early.title}, first used at ddp.py:12.", line)
    leaf = hit(0, "data-0", origin="data-0", part="producer", headline=early)
    reached = hit(1, "Gradients/mul-op0", origin="data-0", part="carrier", headline=late)
    place = (2, "Gradients/mul-op0", "output", 0)
    stop = HitRef(1, "not finite", "tensor_overflow", *place, late, "data-0")  # type: ignore[arg-type]
    rank = LiveRank(sample_metadata())
    view = msgspec.structs.replace(rank.view(0), state="paused", hit=stop)
    found = live_headline([view], causes_of([leaf, reached]), {})
    assert found is not None
    assert (found.op, found.severity, found.source) == ("data-0", "error", line)
    assert found.text == f"{late.text} 1 other tensor got them from there."


def test_the_headline_counts_the_others_and_names_the_rank_of_several() -> None:
    found = headline_of_hits([hit(1, SQRT), hit(2, "Default/a-op0"), hit(3, "Default/b-op0")])
    assert found is not None
    assert found.text == f"{TOLD.text} 2 other tensors got them from there."
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


def gradient(number: int, name: str) -> Hit:
    place = (number, 4, "gradient_exploding", 0, 7, 60 + number, name, "output", 0)
    told = HeadlineText(
        f"the gradient of {name[:-5]} has 4 NaN of 4 values",
        f"the gradient of {name[:-5]} has 4 NaN of 4 values in step 7. The op that made them was "
        "not observed.",
    )
    return Hit(*place, TensorType("float32", (4,)), "hit", "", (), headline=told)  # type: ignore[arg-type]


def test_nan_in_gradients_of_unknown_origin_names_the_first_in_execution_order() -> None:
    hits = [gradient(1, "soil.weight.grad"), gradient(0, "river.bias.grad")]
    stop = HitRef(
        4, "gradients", "gradient_exploding", 7, hits[0].op, "output", 0, hits[0].headline
    )
    rank = LiveRank(sample_metadata())
    view = msgspec.structs.replace(rank.view(0), state="paused", hit=stop)
    found = live_headline([view], causes_of(hits), {})
    assert found is not None
    assert found.text == (
        "the gradient of river.bias has 4 NaN of 4 values in step 7. The op that made them was not "
        "observed. 1 other gradient has NaN or Inf, too."
    )
    assert (found.op, found.severity) == ("river.bias.grad", "error")
    assert found.advice.startswith("Run it again with a watchpoint for NaN and Inf of all tensors")
    script = sample_metadata().script
    assert found.command == f"sonde debug --no-pause --watch-for nan {script} --lr 0.1"
    several = msgspec.structs.replace(
        view, metadata=msgspec.structs.replace(sample_metadata(), world_size=2)
    )
    launched = live_headline([several], causes_of(hits), {})
    assert launched is not None
    assert launched.command == ""


def test_the_loss_of_each_optimizer_counts() -> None:
    points = [
        LossPoint(0, 0.5, 0.1, None, True, "Adam of Generator"),
        LossPoint(1, "nan", 0.1, None, True, "Adam of Generator"),
        LossPoint(2, 0.7, 0.1, None, True, "Adam of Discriminator"),
    ]
    assert first_bad_loss(points) == 1
    found = live_headline([LiveRank(sample_metadata()).view(0)], causes_of(()), {0: points})
    assert found is not None
    assert found.title == "the loss is nan since step 1"


def test_a_failure_names_the_op_the_module_and_the_shapes() -> None:
    rank = LiveRank(sample_metadata())
    tensors = (
        NamedTensor("input", TensorType("float32", (20, 16))),
        NamedTensor("self.weight", TensorType("float32", (4, 32))),
    )
    frames = (TracebackFrame(SourceLine("/a/net.py", 12, "forward", "self.head(x)"), True),)

    def told(call: FailedCall) -> str:
        rank.end(Goodbye(1, "RuntimeError: shapes differ", frames=frames, failed=call))
        found = live_headline([rank.view(0)], causes_of(()), {})
        assert found is not None
        return found.text.removeprefix(
            "RuntimeError: shapes differ, in step 0 at net.py:12 `self.head(x)`"
        )

    assert told(FailedCall("linear", "head", "Linear", tensors)) == (
        ": linear in the module head (Linear) got input float32[20,16], self.weight float32[4,32]."
    )
    assert told(FailedCall("matmul", "", "Net", tensors[:1])) == (
        ": matmul in Net got input float32[20,16]."
    )
    assert told(FailedCall("matmul", "", "", tensors[:1])) == ": matmul got input float32[20,16]."
    assert told(FailedCall("", "head", "Linear", ())) == ", in the module head (Linear)."


def test_a_stored_run_tells_a_broken_loss() -> None:
    points = [LossPoint(step, loss, 0.0, None, True) for step, loss in ((0, 0.5), (3, "nan"))]  # type: ignore[arg-type]
    found = stored_loss_headline({0: points[:1], 1: points}, is_one_of_several=True)
    assert found is not None
    assert (found.rank, found.step, found.severity) == (1, 3, "error")
    assert found.text == (
        "rank 1: the loss is nan since step 3; these files do not tell which op made it."
    )
    assert stored_loss_headline({0: points[:1]}, is_one_of_several=False) is None
