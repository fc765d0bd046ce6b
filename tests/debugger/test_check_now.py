""" "Check now": watchpoints evaluated on the values that a paused training has."""

from __future__ import annotations

import msgspec
import torch
from tests.debugger.driving import TANH, driven, make_net, train
from tests.debugger.hub import RankConnection, watchpoint

from sonde.wire.questions import AskCheck, Checked

CORRUPTED = "Default/network-Net/log-op0"
WEIGHTS = ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]
ALWAYS = {"max_gt": -1e9}


def check(rank: RankConnection) -> Checked:
    found = rank.answer("", AskCheck(), Checked)
    assert isinstance(found, Checked)
    return found


def corrupt(step: int, hidden: torch.Tensor) -> torch.Tensor:
    if step == 3:
        return torch.log(hidden - 2)
    mask = torch.zeros_like(hidden, dtype=torch.bool)
    mask[0, 0] = True
    return hidden + torch.zeros_like(hidden).masked_fill(mask, float("-inf")).exp()


def test_weights_and_gradients_are_evaluated_and_missing_values_are_reported() -> None:
    always = watchpoint(1, "tensor_too_large", **ALWAYS)
    never_stopping = msgspec.structs.replace(always, break_after=0)

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step", steps=3)
        rank.paused()
        assert check(rank) == Checked(2, 0, 0, 0, (), ())
        rank.watch(never_stopping, watchpoint(2, "weight_not_changed"))
        found = check(rank)
        hits = rank.hits
        weights = [hit.op for hit in hits if not hit.op.endswith(".grad")]
        gradients = [hit.op for hit in hits if hit.op.endswith(".grad")]
        assert sorted(weights) == WEIGHTS
        assert sorted(gradients) == [f"{name}.grad" for name in WEIGHTS]
        assert {hit.step for hit in hits if hit.op in weights} == {3}
        assert {hit.step for hit in hits if hit.op in gradients} == {2}
        assert (found.step, found.judged, found.hits, found.later) == (2, 8, 8, (2,))
        assert found.missing > 10
        assert found.examples
        assert not {*found.examples} & {*weights, *gradients}
        again = check(rank)
        assert (again.judged, again.hits) == (8, 0)
        assert len(rank.hits) == 8
        rank.watch(never_stopping)
        rank.control("step")
        rank.paused()
        leaves = [(hit.op, hit.step) for hit in rank.hits if hit.op in weights]
        assert len(leaves) == len({*leaves})
        rank.watch()
        rank.control("continue")

    debugged, _ = driven(lambda: train(make_net(), 6), person)
    assert debugged == train(make_net(), 6)


def test_the_current_op_and_kept_values_are_evaluated() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step", steps=2)
        rank.paused()
        rank.keep(TANH)
        rank.control("to", op="Default/network-Net/fc2-Linear/addmm-op0")
        stands = rank.paused()
        assert stands.op is not None
        rank.watch(watchpoint(1, "tensor_too_large", TANH, stands.op, **ALWAYS))
        found = check(rank)
        assert {(hit.op, hit.step) for hit in rank.hits} == {(TANH, 2), (stands.op, 2)}
        assert all(hit.source is not None for hit in rank.hits)
        assert (found.step, found.judged, found.hits, found.missing) == (2, 2, 2, 0)
        rank.watch(watchpoint(1, "tensor_too_large", "addmm", **ALWAYS))
        found = check(rank)
        assert (found.judged, found.missing) == (1, 1)
        assert found.examples == ("Default/network-Net/fc1-Linear/addmm-op0",)
        rank.control("terminate")

    driven(lambda: train(make_net(), 9), person)


def test_nan_is_a_hit_of_its_producer_and_infinities_alone_are_undecided() -> None:
    overflow = watchpoint(1, "tensor_overflow")

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step", steps=2)
        rank.paused()
        rank.control("to", op="Default/network-Net/masked_fill-op0")
        rank.paused()
        rank.watch(overflow)
        assert check(rank).hits == 0
        (mask,) = rank.hits
        assert (mask.verdict, mask.op) == ("undecided", "Default/network-Net/masked_fill-op0")
        rank.watch()
        rank.control("step")
        rank.paused()
        rank.control("to", op=CORRUPTED)
        rank.paused()
        rank.watch(overflow)
        assert check(rank).hits == 1
        hit = rank.hits[-1]
        assert (hit.op, hit.step, hit.verdict, hit.part, hit.origin) == (
            *(CORRUPTED, 3, "hit", "producer", CORRUPTED),
        )
        rank.control("terminate")

    driven(lambda: train(make_net(corrupt), 9), person)
