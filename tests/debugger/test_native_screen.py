"""Ops that native code clears and ops that Python evaluates give the same hits."""

from __future__ import annotations

import threading

import msgspec
import pytest
import torch
from tests.debugger.driving import driven, make_net
from tests.debugger.hub import Hub, RankConnection, watchpoint
from torch import nn

from sonde.adapters.torch.eager import matcher
from sonde.debugger.sink import DebuggerSink
from sonde.wire.shapes import ConditionSpec, Hit, WatchpointSpec

FIVE = (
    watchpoint(1, "tensor_overflow"),
    watchpoint(2, "tensor_too_large", abs_mean_gt=0.5),
    watchpoint(3, "tensor_too_small", max_lt=0.2),
    watchpoint(4, "tensor_all_zero", zero_percentage_ge=40.0),
    watchpoint(5, "tensor_deviation", sd_lt=0.3),
)
MORE = (
    watchpoint(6, "tensor_all_zero"),
    watchpoint(
        7,
        "activation_range",
        range_start_inclusive=-1,
        range_end_inclusive=0,
        range_percentage_gt=50.0,
    ),
    watchpoint(8, "tensor_range", max_min_gt=3.0),
    watchpoint(9, "expression", "relu", expression="std > 0.4 and step > 0"),
    watchpoint(10, "expression", "addmm", expression="abs_max > prev.abs_max"),
    watchpoint(11, "tensor_too_large", "0.weight", "relu", min_gt=-0.4),
    WatchpointSpec(
        12,
        "",
        (ConditionSpec("tensor_overflow"), ConditionSpec("tensor_too_large", {"mean_gt": 0.0})),
        join="all",
    ),
    WatchpointSpec(
        13,
        "",
        (
            ConditionSpec("tensor_too_large", {"max_gt": 0.5}),
            ConditionSpec("tensor_too_small", {"min_lt": -0.5}),
        ),
        join="all",
    ),
)


def train() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    data, target = torch.randn(16, 6), torch.randint(0, 3, (16,))
    for step in range(5):
        optimizer.zero_grad()
        out = net(data)
        expanded = (out.t().contiguous().t()[:, :2].mean() * 0).expand(4, 2)
        scale = torch.log(-out.detach().abs()).sum() * 0 if step == 3 else expanded.sum()
        loss = nn.functional.cross_entropy(out, target) + scale
        nn.functional.relu_(loss.clone())
        loss.backward()
        optimizer.step()


def hits_of(specs: tuple[WatchpointSpec, ...]) -> list[Hit]:
    never = tuple(msgspec.structs.replace(spec, break_after=0) for spec in specs)
    _, rank = driven(train, lambda rank: None, hub=Hub(paused=False, watchpoints=never))
    return rank.hits


@pytest.mark.parametrize("specs", [FIVE, FIVE[1:], MORE, FIVE + MORE], ids=len)
def test_the_native_screen_changes_no_hit(
    specs: tuple[WatchpointSpec, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    screened = hits_of(specs)
    monkeypatch.setattr(matcher, "load", lambda: None)
    one_by_one = hits_of(specs)
    assert screened
    assert screened == one_by_one


def test_ops_within_all_limits_are_not_passed_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    if matcher.load() is None:
        pytest.skip("the native matcher is not built")
    handed: list[str] = []
    write = DebuggerSink.write

    def spy(sink: DebuggerSink, call: object) -> None:
        handed.append(call.node.name)  # type: ignore[attr-defined]
        write(sink, call)  # type: ignore[arg-type]

    monkeypatch.setattr(DebuggerSink, "write", spy)
    net = make_net()

    def training() -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(6):
            if step == 4:
                handed.clear()
            optimizer.zero_grad()
            net(torch.ones(3, 8)).pow(2).sum().backward()
            optimizer.step()

    quiet = (
        watchpoint(1, "tensor_overflow"),
        watchpoint(2, "tensor_too_large", abs_mean_gt=1e9),
        watchpoint(3, "tensor_range", max_min_gt=1e9),
    )
    driven(training, lambda rank: None, hub=Hub(paused=False, watchpoints=quiet))
    assert handed == []


def test_a_watchpoint_set_while_the_training_runs_is_evaluated_at_once() -> None:
    set_now, go_on = threading.Event(), threading.Event()
    net = make_net()

    def training() -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            loss = net(torch.ones(3, 8)).pow(2).sum()
            if step == 2:
                set_now.set()
                go_on.wait(60)
                while not running.is_over and not heard():
                    loss = loss + 0.0  # ops, one after another, of one step that does not end
            loss.backward()
            optimizer.step()

    running: RankConnection

    def heard() -> bool:
        return any(hit.watchpoint == 2 for hit in running.hits)

    def person(rank: RankConnection) -> None:
        nonlocal running
        running = rank
        set_now.wait(60)
        rank.watch(watchpoint(1, "tensor_overflow"), watchpoint(2, "tensor_too_large", max_gt=0.0))
        go_on.set()
        status = rank.paused()
        assert (status.step, status.reason) == (2, "hit")
        rank.control("terminate")

    quiet = (watchpoint(1, "tensor_overflow"),)
    driven(training, person, hub=Hub(paused=False, watchpoints=quiet))
