"""Weights are judged by their own optimizer's steps, and before the first of them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
import torch
from tests.debugger.driving import driven
from tests.debugger.hub import Hub, watchpoint
from torch import nn

import sonde
from sonde.wire.shapes import Hit, WatchpointSpec


def hits_of(training: Callable[[], object], *specs: WatchpointSpec) -> list[Hit]:
    """The hits of ``specs`` in a training that they do not pause."""
    never = tuple(msgspec.structs.replace(spec, break_after=0) for spec in specs)
    _, rank = driven(training, lambda rank: None, hub=Hub(paused=False, watchpoints=never))
    return rank.hits


class Maker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.made = nn.Linear(4, 4)

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.made(noise))


class Judge(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.judged = nn.Linear(4, 1)
        nn.init.zeros_(self.judged.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.judged(x))


def train_both(*, stuck: bool = False) -> None:
    """Two networks against each other, two optimizers, a step of each in turn."""
    torch.manual_seed(0)
    maker, judge = Maker(), Judge()
    ours = torch.optim.SGD(maker.parameters(), lr=0.0 if stuck else 0.5)
    theirs = torch.optim.SGD(judge.parameters(), lr=0.5)
    for _ in range(3):
        made = maker(torch.randn(8, 4))
        theirs.zero_grad()
        (judge(made.detach()).mean() - judge(torch.randn(8, 4)).mean()).backward()
        theirs.step()
        ours.zero_grad()
        (1 - judge(made).mean()).backward()
        ours.step()


def test_a_weight_need_not_move_while_another_optimizer_steps() -> None:
    hits = hits_of(
        train_both,
        watchpoint(1, "weight_not_changed"),
        watchpoint(2, "weight_change_too_small"),
    )
    assert {hit.op for hit in hits if hit.verdict == "hit"} <= {"judged.bias"}  # its gradient is 0


def test_a_weight_that_its_own_optimizer_does_not_move_is_reported() -> None:
    hits = hits_of(lambda: train_both(stuck=True), watchpoint(1, "weight_not_changed"))
    steps = [hit.step for hit in hits if hit.op == "made.weight"]
    assert steps == [2, 4, 6]  # the second step of each pair is over then


def test_a_network_that_runs_later_in_the_first_step_is_judged_before_it_is_changed() -> None:
    (hit,) = hits_of(train_both, watchpoint(1, "weight_initialization", "name-regex(.*weight)"))
    assert (hit.op, hit.step) == ("judged.weight", 0)


def test_a_step_the_scaler_leaves_out_does_not_count_as_one_without_change() -> None:
    def training() -> None:
        torch.manual_seed(0)
        net = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        for step in range(3):
            optimizer.zero_grad()
            loss = net(torch.randn(3, 4)).sum() * (float("inf") if step == 1 else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    assert hits_of(training, watchpoint(1, "weight_not_changed")) == []


def test_a_weight_no_optimizer_has_does_not_move() -> None:
    def training() -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        optimizer = torch.optim.SGD(net[1].parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.randn(3, 4)).sum().backward()
            optimizer.step()

    hits = hits_of(training, watchpoint(1, "weight_not_changed"))
    assert {(hit.step, hit.op) for hit in hits} == {
        (step, name) for step in (1, 2) for name in ("0.weight", "0.bias")
    }


def test_weights_that_a_program_changes_by_itself_are_judged() -> None:
    """Without module and optimizer; ``points`` only require a gradient, and stay as they are."""
    moved: list[float] = []

    def training() -> None:
        torch.manual_seed(0)
        fast = torch.randn(4, 4, requires_grad=True)
        slow = torch.randn(4, 1, requires_grad=True)
        points = torch.randn(8, 4, requires_grad=True)
        for _ in range(6):
            loss = (torch.sigmoid(points @ fast) @ slow).square().mean()
            for_fast, for_slow = torch.autograd.grad(loss, [fast, slow])
            with torch.no_grad():
                before = slow.double().clone()
                fast -= 0.1 * for_fast
                slow -= 1e-6 * for_slow
            change = (slow.double() - before).abs().mean() / (before.abs().mean() + 1e-9)
            moved.append(float(change.detach()))
            sonde.step()

    specs = (watchpoint(1, "weight_change_too_small"), watchpoint(2, "weight_not_changed"))
    never = tuple(msgspec.structs.replace(spec, break_after=0) for spec in specs)
    hub = Hub(paused=False, watchpoints=never)
    _, rank = driven(training, lambda rank: None, hub=hub, step_by="manual")
    small = [hit for hit in rank.hits if hit.watchpoint == 1 and hit.verdict == "hit"]
    assert [(hit.op, hit.step) for hit in small] == [("slow", step) for step in range(2, 7)]
    assert [hit.values[0].actual for hit in small] == pytest.approx(moved[1:], rel=1e-12)
    assert {hit.op for hit in rank.hits} == {"fast", "slow"}
    assert {hit.op for hit in rank.hits if hit.watchpoint == 2 and hit.verdict == "hit"} <= {"slow"}


def test_a_program_that_begins_in_inference_mode_is_debugged_to_its_end() -> None:
    def training() -> None:
        net = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        for _ in range(4):
            with torch.inference_mode():
                net(torch.ones(3, 4))
            optimizer.zero_grad()
            net(torch.ones(8, 4)).square().mean().backward()
            optimizer.step()

    hits = hits_of(training, watchpoint(1, "weight_not_changed", "weight"))
    assert [hit.step for hit in hits if hit.verdict == "hit"] == [1, 2, 3, 4]


def told_of(training: Callable[[], object]) -> list[tuple[str, bool]]:
    """The optimizer each step was of, and whether it had a loss."""
    _, rank = driven(training, lambda rank: None, hub=Hub(paused=False))
    return [(done.point.optimizer, done.point.loss is not None) for done in rank.steps]


def test_a_step_tells_whose_it_was() -> None:
    assert told_of(train_both) == [("SGD of judge", True), ("SGD of maker", True)] * 3


def test_optimizers_of_parts_of_one_network_are_distinguished() -> None:
    def training() -> None:
        # What the first has besides its weights, the buffers, belongs to no optimizer.
        both = nn.Sequential(nn.Sequential(Maker(), nn.BatchNorm1d(4)), Judge())
        ours = torch.optim.Adam(both[0].parameters())
        theirs = torch.optim.Adam(both[1].parameters())
        for _ in range(2):
            both(torch.randn(8, 4)).mean().backward()
            ours.step()
            theirs.step()

    # One loss for both: the second optimizer's steps have none.
    assert told_of(training) == [("Adam of 0-Sequential", True), ("Adam of 1-Judge", False)] * 2


def test_optimizers_that_share_a_module_are_numbered_and_a_name_is_given_again() -> None:
    def training() -> None:
        net = nn.Linear(4, 1)
        weight = torch.optim.SGD([net.weight])
        for _ in range(2):
            net(torch.randn(8, 4)).mean().backward()
            weight.step()
            torch.optim.SGD([net.bias]).step()

    assert told_of(training) == [("SGD", True), ("SGD 2", False)] * 2


def test_a_step_of_ones_own_may_have_several_optimizers_or_none() -> None:
    def training() -> None:
        net = Judge()
        first = torch.optim.SGD([net.judged.weight])
        second = torch.optim.Adam([net.judged.bias])
        for step in range(2):
            net(torch.randn(8, 4)).mean().backward()
            if step == 0:
                first.step()
                second.step()
            sonde.step()

    _, rank = driven(training, lambda rank: None, hub=Hub(paused=False), step_by="manual")
    assert [done.point.optimizer for done in rank.steps] == ["Adam + SGD", ""]


def test_a_graph_is_learned_of_an_optimizer_that_steps_after_many_of_another() -> None:
    def training() -> None:
        torch.manual_seed(0)
        maker, judge = Maker(), Judge()
        ours = torch.optim.Adam(maker.parameters())
        theirs = torch.optim.SGD(judge.parameters())
        for _ in range(4):
            for _ in range(3):
                judge(maker(torch.randn(8, 4)).detach()).mean().backward()
                theirs.step()
            judge(maker(torch.randn(8, 4))).mean().backward()
            ours.step()

    _, rank = driven(training, lambda rank: None, hub=Hub(paused=False))
    # The fourth step is the maker's first; from then on until its next all are observed, no longer.
    seen = [step for step, done in enumerate(rank.steps) if done.point.observed]
    assert seen == [0, 1, 4, 5, 6, 7]
    last = rank.steps[7].graph
    assert last is not None
    assert any("optimizer-Adam/" in name for name in rank.nodes(last))
    # The graph of the steps that follow is reported, too.
    judged = {done.graph for done in rank.steps if done.point.optimizer == "SGD of judge"}
    assert last not in judged
    made = [done.graph for done in rank.steps if done.point.optimizer == "Adam of maker"]
    assert made[1:] == [last] * 3


def test_an_optimizer_that_never_steps_again_is_not_waited_for_for_ever() -> None:
    def training() -> None:
        judge = Judge()
        often = torch.optim.SGD(judge.parameters())
        once = torch.optim.Adam(judge.parameters())
        for step in range(40):
            judge(torch.randn(8, 4)).mean().backward()
            (once if step == 4 else often).step()

    _, rank = driven(training, lambda rank: None, hub=Hub(paused=False))
    seen = [step for step, done in enumerate(rank.steps) if done.point.observed]
    assert seen == [0, 1, *range(5, 35)]
