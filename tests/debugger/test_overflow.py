"""NaN and Inf: stopped at the op that made them, with the way they came."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
import torch
from tests.debugger.driving import TANH, driven, make_net, train
from tests.debugger.hub import Hub, RankConnection, watchpoint
from torch import nn
from torch.utils.checkpoint import checkpoint

import sonde
from sonde.wire.questions import AskTable, Table
from sonde.wire.shapes import ConditionSpec, Hit, WatchpointSpec

OVERFLOW = watchpoint(1, "tensor_overflow")


def spoil_step_3(step: int, hidden: torch.Tensor) -> torch.Tensor:
    return torch.log(hidden - 2) if step == 3 else hidden


class _BadGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient / torch.zeros_like(gradient)


def watched(*watchpoints: WatchpointSpec) -> Hub:
    return Hub(paused=False, watchpoints=watchpoints)


@pytest.mark.document(
    244,
    says="once the condition is satisfied, the training will pause",
    how="the same, at the op that made the values",
)
def test_it_stops_in_the_forward_pass_at_the_op_that_made_it() -> None:
    def person(rank: RankConnection) -> None:
        status = rank.paused()
        assert (status.step, status.op) == (3, "Default/network-Net/log-op0")
        (hit,) = rank.hits
        assert (hit.part, hit.origin, hit.chain) == ("producer", status.op, (status.op,))
        assert hit.why == "512 NaN among 512 elements"
        assert hit.source is not None
        assert hit.source.code == "return torch.log(hidden - 2) if step == 3 else hidden"
        taken = rank.answer("Default/network-Net/log-op0", AskTable("[0, :]"), Table, io="input")
        assert all(isinstance(each, float) and each < 0 for each in taken.values)
        rank.control("terminate")

    driven(lambda: train(make_net(spoil_step_3), 9), person, hub=watched(OVERFLOW))


def test_carriers_of_later_steps_are_counted_not_listed() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step", steps=2)
        assert rank.paused().step == 5
        listed = {hit.number for hit in rank.hits}
        rank.control("step", steps=4)
        assert rank.paused().step == 9
        assert {hit.number for hit in rank.hits} == listed
        latest = {hit.number: hit for hit in rank.hits}
        assert {hit.step for hit in latest.values()} == {3, 4}
        forward = [hit for hit in latest.values() if hit.op.endswith("fc2-Linear/addmm-op0")]
        assert [hit.count for hit in forward] == [6]
        rank.control("terminate")

    driven(lambda: train(make_net(spoil_step_3), 20), person, hub=watched(OVERFLOW))


def test_carriers_are_listed_and_do_not_pause_again() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step")
        assert rank.paused().reason == "step"
        carriers = [hit for hit in rank.hits if hit.part == "carrier"]
        assert len(carriers) > 10
        assert {hit.origin for hit in carriers} == {"Default/network-Net/log-op0"}
        assert carriers[0].chain == (
            "Default/network-Net/log-op0",
            "Default/network-Net/fc2-Linear/addmm-op0",
        )
        assert all(hit.chain[0] == "Default/network-Net/log-op0" for hit in carriers)
        orders = [hit.order for hit in rank.hits]
        assert orders == sorted(orders)
        rank.control("terminate")

    driven(lambda: train(make_net(spoil_step_3), 9), person, hub=watched(OVERFLOW))


def test_where_it_stands_is_in_the_graph_also_at_a_leaf_or_behind_an_op_that_is_new() -> None:
    """Neither the leaf nor the op is in the graph of the steps before."""
    poison = torch.full((16,), torch.nan)

    def spoil(step: int, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.mul(2).add(poison) if step == 3 else hidden

    def person(rank: RankConnection) -> None:
        stops = []
        for command in ("next", "next", "terminate"):
            status = rank.paused()
            assert status.op is not None
            assert status.graph is not None
            nodes = rank.nodes(status.graph)
            assert status.op in nodes
            assert "Default/network-Net/mul-op0" in nodes
            stops.append(status.op.rpartition("/")[2])
            rank.control(command)
        assert stops == ["poison", "add-op0", "t-op0"]

    driven(lambda: train(make_net(spoil), 4), person, hub=watched(OVERFLOW))


def test_a_loss_or_gradient_of_an_earlier_step_does_not_pause_again() -> None:
    net = make_net()

    def training() -> list[float]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        losses = []
        for step in range(6):
            optimizer.zero_grad(set_to_none=False)
            loss = net(torch.ones(4, 8)).mean()
            loss = torch.log(loss - 9) * loss if step == 3 else loss
            loss.backward()
            if torch.isfinite(loss):
                optimizer.step()
            else:  # as GradScaler does
                sonde.step()
            losses.append(loss.item())
        return losses

    def person(rank: RankConnection) -> None:
        assert rank.paused().op == "Default/log-op0"
        rank.control("continue")

    losses, rank = driven(training, person, hub=watched(OVERFLOW))
    assert losses is not None
    assert [step for step, loss in enumerate(losses) if loss != loss] == [3]
    left = {hit.op: hit for hit in rank.hits if hit.step == 4}
    assert left.keys() == {"loss", *(f"{name}.grad" for name, _ in net.named_parameters())}
    assert {(hit.part, hit.origin) for hit in left.values()} == {("carrier", "Default/log-op0")}
    assert left["loss"].why == "1 NaN among 1 elements; since step 3"


def test_a_gradient_of_a_watched_scope_is_listed_and_does_not_pause_again() -> None:
    spec = watchpoint(1, "tensor_overflow", "Default/network-Net/", "Gradients/")

    def person(rank: RankConnection) -> None:
        assert rank.paused().op == "Default/network-Net/log-op0"
        rank.control("step")
        assert rank.paused().reason == "step"
        listed = {hit.op: hit for hit in rank.hits}
        assert listed["fc1.weight.grad"].origin == "Default/network-Net/log-op0"
        rank.control("terminate")

    driven(lambda: train(make_net(spoil_step_3), 9), person, hub=watched(spec))


def test_next_after_a_hit_goes_to_the_next_op_and_the_values_of_the_hit_stay() -> None:
    def person(rank: RankConnection) -> None:
        hit = rank.paused().op
        rank.control("next")
        status = rank.paused()
        assert (status.reason, status.op) == ("op", "Default/network-Net/fc2-Linear/t-op0")
        rank.control("step")
        rank.paused()
        assert hit is not None
        assert rank.answer(hit, AskTable("[0, 0:1]"), Table, step=3).values == ("nan",)
        rank.control("terminate")

    driven(lambda: train(make_net(spoil_step_3), 9), person, hub=watched(OVERFLOW))


def test_it_stops_in_the_middle_of_the_backward_pass() -> None:
    net = make_net(lambda step, hidden: _BadGradient.apply(hidden))  # type: ignore[no-untyped-call]

    def person(rank: RankConnection) -> None:
        status = rank.paused()
        assert status.step == 0
        assert status.op is not None
        assert status.op.rpartition("/")[2] == "div-op0"
        assert status.op.startswith("Gradients/")
        assert rank.hits[0].part == "producer"
        assert net.fc1.weight.grad is None
        rank.control("terminate")

    driven(lambda: train(net, 2), person, hub=watched(OVERFLOW))


def test_spoiled_gradients_stop_it_before_the_weights_are_changed() -> None:
    net = make_net(lambda step, hidden: _BadGradient.apply(hidden))  # type: ignore[no-untyped-call]
    before = net.fc1.weight.detach().clone()

    def person(rank: RankConnection) -> None:
        status = rank.paused()
        assert status.hit is not None
        assert (status.hit.condition, status.hit.op) == ("gradient_exploding", "fc1.weight.grad")
        # The step is observed for its graph, so that the op is known without a watch on ops.
        assert status.message.startswith(
            "div made 512 Inf of 512 values in step 0, backward of clone, at test_overflow.py:"
        )
        assert status.hit.origin == "Gradients/Default/network-Net/div-op0"
        assert [hit.op for hit in rank.hits] == ["fc1.weight.grad", "fc1.bias.grad"]
        assert torch.equal(net.fc1.weight, before)
        gradient = rank.answer("fc1.weight.grad", AskTable("[0, 0:1]"), Table, step=0)
        assert isinstance(gradient.values[0], str)
        rank.control("terminate")

    driven(lambda: train(net, 2), person, hub=watched(watchpoint(1, "gradient_exploding")))


@pytest.mark.parametrize("keeps_memory", [False, True])
def test_hits_of_gradients_come_after_the_backward_pass(keeps_memory: bool) -> None:
    def training() -> None:
        net = make_net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            optimizer.zero_grad(set_to_none=not keeps_memory)
            for _ in range(2):
                loss = (net(torch.ones(4, 8)) ** 2).mean() * (1e10 if step == 3 else 1)
                loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1e6)
            optimizer.step()

    specs = [
        watchpoint(1, "expression", "Gradients/", "Default/optimizer-SGD/", expression="step == 3"),
        watchpoint(2, "gradient_too_large", abs_mean_gt=10),
    ]
    quiet = [msgspec.structs.replace(each, break_after=0) for each in specs]
    _, rank = driven(training, lambda rank: None, hub=watched(*quiet))
    orders = [(hit.step, hit.order) for hit in rank.hits]
    assert orders == sorted(orders)
    gradients = [hit for hit in rank.hits if hit.watchpoint == 2]
    updates = [hit for hit in rank.hits if "/optimizer-SGD/" in hit.op]
    backward = [hit for hit in rank.hits if hit.op.startswith("Gradients/")]
    assert len(gradients) == 4
    assert max(each.order for each in backward) < min(each.order for each in gradients)
    assert max(each.order for each in gradients) < min(each.order for each in updates)


def test_weights_and_gradients_are_watched_without_looking_at_ops() -> None:
    specs = [
        watchpoint(1, "weight_overflow"),
        watchpoint(2, "gradient_exploding"),
        watchpoint(3, "weight_change_too_large", abs_mean_update_ratio_gt=1e9),
        watchpoint(4, "gradient_vanishing", abs_mean_lt=0.0),
        watchpoint(5, "weight_not_changed"),
    ]
    _, rank = driven(lambda: train(make_net(), 6), lambda rank: None, hub=watched(*specs))
    assert rank.hits == []
    assert [step.point.observed for step in rank.steps] == [True] * 2 + [False] * 4


def test_infinities_put_in_on_purpose_do_not_stop_it() -> None:
    def mask(step: int, hidden: torch.Tensor) -> torch.Tensor:
        scores = hidden.masked_fill(hidden > 0.5, float("-inf"))
        return torch.softmax(scores, -1)

    _, rank = driven(lambda: train(make_net(mask), 3), lambda rank: None, hub=watched(OVERFLOW))
    assert {hit.verdict for hit in rank.hits} == {"undecided"}
    assert "value=-inf" in rank.hits[0].why
    assert len(rank.steps) == 3


def test_infinities_that_a_nan_comes_of_are_hits_after_all() -> None:
    def spoil(step: int, hidden: torch.Tensor) -> torch.Tensor:
        data = torch.full((16,), torch.inf if step == 2 else 1.0)
        return (hidden + data) * 2 - data

    def person(rank: RankConnection) -> None:
        assert rank.paused().op == "Default/network-Net/sub-op0"
        found = [(hit.op.rpartition("/")[2], hit.verdict, hit.part) for hit in rank.hits]
        assert sorted(found) == [
            ("add-op0", "hit", "carrier"),
            ("full-op0", "hit", "producer"),
            ("mul-op0", "hit", "carrier"),
            ("sub-op0", "hit", "carrier"),
        ]
        assert [hit.order for hit in rank.hits] == sorted(hit.order for hit in rank.hits)
        rank.control("terminate")

    _, rank = driven(lambda: train(make_net(spoil), 3), person, hub=watched(OVERFLOW))
    assert {hit.verdict for hit in rank.hits} == {"hit"}


def test_an_op_with_infinities_that_was_named_is_a_hit() -> None:
    spec = watchpoint(1, "tensor_overflow", "Default/network-Net/masked_fill-op0")

    def person(rank: RankConnection) -> None:
        assert rank.paused().op == "Default/network-Net/masked_fill-op0"
        rank.control("terminate")

    driven(
        lambda: train(make_net(lambda _, h: h.masked_fill(h > 0.5, float("-inf"))), 3),
        person,
        hub=watched(spec),
    )


def test_the_operator_condition_lists_producers_alone() -> None:
    spec = watchpoint(1, "operator_overflow")

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step")
        rank.paused()
        assert [hit.op for hit in rank.hits] == ["Default/network-Net/log-op0"]
        rank.control("terminate")

    driven(lambda: train(make_net(spoil_step_3), 9), person, hub=watched(spec))


def test_break_after_counts_hits_and_none_never_stops() -> None:
    third = msgspec.structs.replace(
        watchpoint(1, "tensor_too_large", TANH, max_gt=0), break_after=3
    )
    never = msgspec.structs.replace(third, id=2, break_after=0)

    def person(rank: RankConnection) -> None:
        assert rank.paused().step == 2
        assert [hit.watchpoint for hit in rank.hits] == [1, 2, 1, 2, 1, 2]
        rank.control("continue")
        assert rank.paused().step == 5
        rank.control("terminate")

    driven(lambda: train(make_net(), 9), person, hub=watched(third, never))


def found(training: Callable[[], object], *specs: WatchpointSpec) -> list[Hit]:
    """The hits of ``specs`` in a training that they do not pause."""
    never = tuple(msgspec.structs.replace(spec, break_after=0) for spec in specs)
    _, rank = driven(training, lambda rank: None, hub=watched(*never))
    return rank.hits


def test_nan_that_an_op_computes_with_a_nan_number_is_a_hit_at_that_op() -> None:
    net = make_net(lambda step, hidden: hidden * float("nan") if step == 1 else hidden)
    hits = found(lambda: train(net, 2), OVERFLOW)
    first = hits[0]
    assert (first.step, first.op) == (1, "Default/network-Net/mul-op0")
    assert (first.verdict, first.part) == ("hit", "producer")
    assert {hit.verdict for hit in hits} == {"hit"}


def test_zero_times_an_infinite_number_is_a_hit_and_one_times_it_a_mask() -> None:
    mask = make_net(lambda _, hidden: hidden + torch.triu(torch.ones(32, 16) * -torch.inf, 99))
    assert {hit.verdict for hit in found(lambda: train(mask, 1), OVERFLOW)} == {"undecided"}
    zero = make_net(lambda _, hidden: hidden + torch.zeros(32, 16) * -torch.inf)
    hits = found(lambda: train(zero, 1), OVERFLOW)
    assert (hits[0].op, hits[0].verdict) == ("Default/zero-Net/mul-op0", "hit")


def test_a_mask_in_what_is_computed_again_for_backward_does_not_stop_it() -> None:
    mask = torch.triu(torch.full((16, 16), -torch.inf), 1)

    def scores(hidden: torch.Tensor) -> torch.Tensor:
        return torch.softmax(hidden.T @ hidden + mask, -1)

    def spoil(_: int, hidden: torch.Tensor) -> torch.Tensor:
        weights = checkpoint(scores, hidden, use_reentrant=False)
        result: torch.Tensor = hidden @ weights
        return result

    hits = found(lambda: train(make_net(spoil), 3), OVERFLOW)
    assert {hit.verdict for hit in hits} == {"undecided"}


def test_an_infinite_learning_rate_is_found_in_the_optimizer_and_the_chain_begins_there() -> None:
    net = make_net()

    def training() -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            optimizer.param_groups[0]["lr"] = torch.inf if step == 1 else 0.1
            optimizer.zero_grad()
            net(torch.ones(3, 8)).pow(2).sum().backward()
            optimizer.step()

    hits = found(training, OVERFLOW, watchpoint(2, "weight_overflow"))
    origin = "Default/optimizer-SGD/add_-op0"
    assert (hits[0].step, hits[0].op, hits[0].part) == (1, origin, "producer")
    weight = next(hit for hit in hits if hit.watchpoint == 2)
    assert (weight.op, weight.origin) == ("fc1.weight", origin)
    assert weight.chain == (origin, "fc1.weight")
    later = next(hit for hit in hits if hit.step == 2 and hit.op.endswith("fc1-Linear/t-op0"))
    assert later.chain == (origin, "fc1.weight", later.op)


def test_a_gradient_has_the_chain_through_backward() -> None:
    net = make_net(lambda step, hidden: _BadGradient.apply(hidden))  # type: ignore[no-untyped-call]
    hits = found(lambda: train(net, 1), OVERFLOW, watchpoint(2, "gradient_exploding"))
    gradient = next(hit for hit in hits if hit.watchpoint == 2 and hit.op == "fc1.weight.grad")
    assert gradient.part == "carrier"
    assert gradient.chain[0] == gradient.origin
    assert gradient.chain[0].endswith("/div-op0")
    assert gradient.chain[-1] == "fc1.weight.grad"
    assert len(gradient.chain) > 2


def test_data_with_nan_is_no_overflow_of_an_operator() -> None:
    def training() -> None:
        net = make_net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        data = torch.ones(3, 8)
        data[0, 0] = torch.nan
        for _ in range(2):
            net(data).sum().backward()
            optimizer.step()

    assert [hit.op for hit in found(training, watchpoint(1, "operator_overflow"))] == []
    assert found(training, OVERFLOW)[0].part == "producer"


def test_the_operator_condition_joined_with_another_looks_at_the_inputs() -> None:
    both = WatchpointSpec(
        1,
        "",
        (ConditionSpec("operator_overflow"), ConditionSpec("expression", {}, "count > 1")),
        join="all",
    )
    hits = found(lambda: train(make_net(spoil_step_3), 4), both)
    assert [(hit.op, hit.verdict) for hit in hits] == [("Default/network-Net/log-op0", "hit")]
