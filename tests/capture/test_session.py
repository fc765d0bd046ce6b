"""The session between an adapter and its sinks: which are asked, called and disabled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from sonde.capture.requests import SelectionRequest
from sonde.capture.session import Session, Subscription, Wants
from sonde.core.errors import DumpError
from sonde.core.graph import Graph, OpNode
from sonde.core.operators.patterns import OpPattern
from sonde.core.selection import Selection, parse_steps
from sonde.core.sink import StepEnd


@dataclass
class Noting:
    """A sink that records its calls, and raises where the test wants it."""

    name: str
    log: list[str] = field(default_factory=list)
    breaks_in: str = ""
    error: Exception = field(default_factory=lambda: ValueError("no"))

    def _note(self, what: str) -> None:
        self.log.append(f"{self.name} {what}")
        if what.split()[0] == self.breaks_in:
            raise self.error

    def begin_step(self, step: int) -> None:
        self._note(f"begin {step}")

    def write(self, call: Any) -> None:
        self._note(f"write {call}")

    def end_step(self, end: StepEnd) -> None:
        self._note(f"end {end.step}")

    def drop_step(self) -> None:
        self._note("drop")

    def close(self) -> None:
        self._note("close")

    def fast_path(self) -> None:
        self._note("fast path")


def op(name: str) -> OpNode:
    return OpNode(name=f"Default/{name}-op0", type=name, scope="Default", phase="forward")


def made(
    *sinks: tuple[Noting, str, tuple[str, ...] | None], initial: int = 0
) -> tuple[Session, list[str]]:
    said: list[str] = []
    subscriptions = [
        Subscription(
            sink,
            SelectionRequest(
                Selection(
                    parse_steps(steps), None if ops is None else tuple(map(OpPattern.parse, ops))
                )
            ),
        )
        for sink, steps, ops in sinks
    ]
    return Session(subscriptions, initial_step=initial, report=said.append), said


def end(step: int) -> StepEnd:
    return StepEnd(step, Graph(0, "Net", ()), True)


def names(wants: Wants | None) -> list[str]:
    return [] if wants is None else [each.sink.name for each in wants.subscriptions]  # type: ignore[attr-defined]


def test_each_step_is_reported_only_to_sinks_that_want_it() -> None:
    log: list[str] = []
    session, _ = made((Noting("a", log), "0|2", None), (Noting("b", log), "1-2", ("mul",)))
    for step in range(3):
        session.begin_step()
        session.end_step(end(step))
    session.close()
    assert log == [
        "a begin 0", "a end 0", "b begin 1", "b end 1", "a begin 2", "b begin 2", "a end 2",
        "b end 2", "a close", "b close",
    ]  # fmt: skip
    assert session.step == 3


def test_a_sink_wants_the_ops_of_its_selection() -> None:
    session, _ = made((Noting("a"), "0", None), (Noting("b"), "0-1", ("mul",)))
    assert session.wanted(0)
    assert session.wanted(1)
    assert not session.wanted(2)
    session.begin_step()
    assert names(session.wants(op("mul"))) == ["a", "b"]
    assert names(session.wants(op("add"))) == ["a"]
    session.end_step(end(0))
    session.begin_step()
    assert names(session.wants(op("mul"))) == ["b"]
    assert session.wants(op("add")) is None


def test_the_generation_changes_when_answers_may() -> None:
    session, _ = made((Noting("a"), "0-1", None), (Noting("b"), "1", None))
    session.begin_step()
    first = session.generation
    session.end_step(end(0))
    session.begin_step()
    second = session.generation
    assert second != first
    session.refresh()
    assert session.generation != second


def test_steps_count_on_from_the_first_number_whether_wanted_or_not() -> None:
    session, _ = made((Noting("a"), "11", None), initial=10)
    assert session.step == 10
    session.skip_step()
    assert session.step == 11
    session.begin_step()
    session.drop_step()
    assert session.step == 11


@pytest.mark.parametrize("method", ["begin", "write", "end", "drop", "close"])
def test_a_sink_that_raises_is_reported_once_and_gets_no_more_calls(method: str) -> None:
    log: list[str] = []
    bad = Noting("bad", log, method)
    session, said = made((bad, "all", None), (Noting("good", log), "all", None))
    for step in range(2):
        session.begin_step()
        wants = session.wants(op("mul"))
        assert wants is not None
        session.write(wants, "call")  # type: ignore[arg-type]
        if step:
            session.end_step(end(step))
        else:
            session.skip_step()
    session.close()
    assert said == [
        "sonde: Noting failed and is switched off, training goes on: ValueError: no [sink-failed]"
    ]
    told = [line for line in log if line.startswith("bad") and method in line]
    assert len(told) == 1
    after = log[log.index(told[0]) + 1 :]
    assert [line for line in after if line.startswith("bad")] in ([], ["bad close"])
    assert "good close" in log


def test_a_sonde_error_is_reported_with_its_own_message_and_once_for_all_sinks() -> None:
    error = DumpError("/x: the dump stops here", slug="dump-stopped")
    one, two = Noting("a", [], "write", error), Noting("b", [], "write", error)
    session, said = made((one, "all", None), (two, "all", None))
    session.begin_step()
    wants = session.wants(op("mul"))
    assert wants is not None
    session.write(wants, "call")  # type: ignore[arg-type]
    assert said == ["sonde: /x: the dump stops here [dump-stopped]"]
    assert not session.wanted(1)


def test_sinks_that_want_an_op_are_notified_when_it_raises() -> None:
    told: list[Any] = []
    session, _ = made((Noting("a"), "all", None))
    session.subscriptions[0].op_failed = lambda call, error: told.append((call, error))
    session.begin_step()
    wants = session.wants(op("mul"))
    assert wants is not None
    error = RuntimeError("shapes")
    session.op_failed(wants, "call", error)  # type: ignore[arg-type]
    assert told == [("call", error)]


def test_switching_off_ends_all_requests() -> None:
    session, said = made((Noting("a"), "all", None))
    session.begin_step()
    before = session.generation
    session.switch_off()
    assert not session.wanted(1)
    assert session.generation != before
    assert said == []
