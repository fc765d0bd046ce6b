"""Recording leaves the program alone: its modes, its hooks, its memory, its compiler."""

from __future__ import annotations

import copy
import weakref
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from tests.adapters.torch.fitting import batch, fit, mlp, weights
from tests.adapters.torch.replay.recording import Recorded, bare_and_recorded, recording
from tests.adapters.torch.watching import same
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from sonde.adapters.torch import private
from sonde.adapters.torch.replay import module_calls, step_record
from sonde.adapters.torch.replay.execution import FATAL, execute
from sonde.adapters.torch.replay.module_state import ModuleWatch
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.recording import step_events
from sonde.adapters.torch.replay.step_record import StepRecord
from sonde.core.patching import wrap


def nothing(*_: Any) -> None:
    """Record only."""


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.1)


def test_nothing_is_left_behind() -> None:
    backward, zero_grad = torch.autograd.backward, torch.optim.Optimizer.zero_grad
    net = mlp()
    with recording(nothing):
        fit(net, sgd(net), batch)
        functional.mse_loss(net(batch()[0]), batch()[1])
    assert torch.autograd.backward is backward
    assert torch.optim.Optimizer.zero_grad is zero_grad
    assert private.function_modes() == []
    assert not any(private.module_hooks())
    assert not net._forward_hooks


class Looking(nn.Module):
    """Notes the hooks and modes that exist while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.seen: list[Any] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append((dict(private.module_hooks()[0]), private.function_modes()))
        return self.layer(x)


def test_modules_inside_an_outermost_one_run_without_hooks_and_modes() -> None:
    inner = Looking()
    net = nn.Sequential(inner, nn.ReLU())
    with recording(nothing) as found:
        fit(net, sgd(net), batch)
    assert found.errors == []
    assert inner.seen == [({}, [])] * 3


class Counting(TorchFunctionMode):
    def __init__(self) -> None:
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


def test_modes_of_the_program_see_what_they_saw_and_leave_in_order() -> None:
    def train() -> Any:
        net = mlp()
        optimizer = sgd(net)
        mode = Counting()
        for _ in range(2):
            x, y = batch()
            with torch.device("cpu"), mode:
                out = net(x)
                loss = functional.mse_loss(out, y)
            assert mode not in private.function_modes()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return mode.names, weights(net)

    bare, seen, found = bare_and_recorded(train)
    assert found.errors == []
    assert same(bare, seen)
    assert all(each.is_exact for each in found.executions)


class Ctx(torch.autograd.Function):
    alive: list[Any] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        saved = torch.ones(3)
        ctx.saved = saved
        Ctx.alive.append(weakref.ref(saved.untyped_storage()))
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0] * 2


class Doubling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> Any:
        return Ctx.apply(self.layer(x))


def test_graphs_that_are_not_differentiated_are_freed() -> None:
    """A program that evaluates with gradients enabled drops each graph when it drops the result."""
    Ctx.alive = []
    net = Doubling()
    with recording(nothing):
        for _ in range(5):
            out = net(batch()[0])
            metric = out.mean() + 1
            del out, metric
        assert [each() for each in Ctx.alive] == [None] * 5


def test_results_that_no_backward_pass_reaches_are_not_kept_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_events, "MOST_UNUSED_BYTES", 1000)
    monkeypatch.setattr(step_events, "MOST_UNUSED_CALLS", 6)
    net = mlp()
    with recording(nothing) as found:
        for _ in range(100):
            net(batch()[0]).softmax(1).mean()
        assert found.recorder is not None
        record = found.recorder.take(0)
    assert len(record.events) <= 30
    assert {each.kind for each in record.unreplayable} == {"call_not_kept"}


def test_modules_that_only_prepare_data_are_not_recorded() -> None:
    names: list[list[str]] = []

    def note(record: StepRecord, recorder: StepRecorder, found: Recorded) -> None:
        names.append([each.name for each in record.calls])
        with recorder.replaying():
            found.executions.append(execute(record))

    net, prepare, frozen = mlp(), nn.ReLU(), nn.Linear(4, 4).requires_grad_(False)

    def make() -> Any:
        x, y = batch()
        return frozen(torch.stack([prepare(row) for row in x])), y

    with recording(note) as found:
        fit(net, sgd(net), make)
    assert names == [["Default/network-Sequential"]] * 3
    assert all(each.is_exact for each in found.executions)


def test_inputs_and_weights_are_kept_by_reference() -> None:
    kept: list[tuple[int, int]] = []

    def note(record: StepRecord, *_: Any) -> None:
        (call,) = record.calls
        kept.append((next(call.inputs).alias.data_ptr(), call.outputs[0].tensor.alias.data_ptr()))

    net = mlp()
    optimizer = sgd(net)
    with recording(note):
        x, y = batch()
        out = net(x)
        functional.mse_loss(out, y).backward()
        optimizer.step()
    assert kept == [(x.data_ptr(), out.data_ptr())]


def test_a_large_gradient_is_not_kept_but_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_record, "SMALL_BYTES", 8)
    found: list[Any] = []

    def note(record: StepRecord, recorder: StepRecorder, _: Recorded) -> None:
        (output,) = record.calls[0].outputs
        found.append(output.gradient)
        with recorder.replaying():
            found.append(execute(record).is_exact)
        found.append(output.gradient)

    net = mlp()
    optimizer = sgd(net)
    with recording(note):
        x, y = batch()
        out = net(x)
        out.retain_grad()
        functional.mse_loss(out, y).backward()
        optimizer.step()
    before, is_exact, after = found
    assert before is None
    assert is_exact
    assert same(after, out.grad)


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, depth: int = 2) -> torch.Tensor:
        return self.layer(self(x, depth - 1) if depth else x)


def test_a_module_that_calls_itself_is_one_call() -> None:
    calls: list[int] = []

    def note(record: StepRecord, recorder: StepRecorder, found: Recorded) -> None:
        calls.append(len(record.calls))
        with recorder.replaying():
            found.executions.append(execute(record))

    net = Recursive()
    with recording(note) as found:
        fit(net, sgd(net), lambda: (torch.randn(3, 4), torch.randn(3, 4)))
    assert calls == [1, 1, 1]
    assert all(each.is_exact for each in found.executions)


class Leaving(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.leaves: type[BaseException] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.leaves is not None:
            raise self.leaves
        return self.inner(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_recording_goes_on_after_a_module_was_left_by_an_exception(
    error: type[BaseException],
) -> None:
    net = Leaving(mlp())
    optimizer = sgd(net)
    with recording() as found:
        fit(net, optimizer, batch, steps=1)
        net.leaves = error
        with pytest.raises(error):
            net(batch()[0])
        twin = copy.deepcopy(net)
        net.leaves = None
        fit(net, optimizer, batch, steps=2)
    assert found.errors == []
    # After an interruption torch calls no hook: the next step is not recorded as a whole.
    is_exact = [True, error is ValueError, True]
    assert [each.is_exact for each in found.executions] == is_exact
    assert not net._forward_hooks
    assert twin.leaves is error


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, torch.optim.SGD])
def test_the_step_of_a_closure_is_executed_again_when_the_closure_has_returned(kind: Any) -> None:
    """LBFGS calls its closure several times in a step, and changes the weights between."""

    def train() -> Any:
        net = mlp()
        optimizer = kind(net.parameters(), lr=0.1)
        losses = []
        x, y = batch()
        for number in range(3):

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                loss = functional.mse_loss(net(x), y)
                loss.backward()
                return loss

            loss = optimizer.step(closure=closure) if number else optimizer.step(closure)
            losses.append(float(loss.detach()))
        return losses, weights(net)

    bare, seen, found = bare_and_recorded(train)
    assert found.errors == []
    assert same(bare, seen)
    assert len(found.executions) >= (3 if kind is torch.optim.SGD else 10)
    assert all(each.is_exact for each in found.executions)


def compiled_trainings() -> Any:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    compiled = torch.compile(net, backend="aot_eager")
    found = [fit(compiled, sgd(net), batch)]
    other = Leaving(mlp())
    other.compile(backend="aot_eager")
    found.append(fit(other, sgd(other), batch))
    container = mlp()
    container.compile(backend="aot_eager")
    found.append(fit(container, sgd(container), batch))
    loss_of = torch.compile(lambda a, b: (a - b).square().mean(), backend="aot_eager")
    found.append(fit(other, sgd(other), batch, loss_of))
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    torch._dynamo.reset()
    return found, graphs


def test_compiled_code_is_repeated_exactly_and_not_compiled_again() -> None:
    bare, seen, found = bare_and_recorded(compiled_trainings)
    assert found.errors == []
    assert same(bare, seen)
    is_exact = [each.is_exact for each in found.executions]
    # The steps of a compiled container are not recorded.
    assert is_exact == [True] * 6 + [False] * 3 + [True] * 3
    assert not any(each.was_run for each in found.executions[6:9])
    assert found.reasons == {"compiled_function", "outside_unseen"}


def test_functions_that_were_compiled_before_are_not_compiled_again() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    net = mlp()
    loss_of = torch.compile(lambda a, b: (a - b).square().mean(), backend="aot_eager")
    fit(net, sgd(net), batch, loss_of)
    with recording() as found:
        fit(net, sgd(net), batch, loss_of)
    assert all(each.is_exact for each in found.executions)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    torch._dynamo.reset()


def test_a_failure_of_the_recorder_ends_recording_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ArithmeticError("planted")

    monkeypatch.setattr(module_calls, "take_random", fail)
    bare, seen, found = bare_and_recorded(lambda: fit(net := mlp(), sgd(net), batch), nothing)
    assert same(bare, seen)
    assert [str(each) for each in found.errors] == ["planted"]


def test_a_hook_that_steps_an_optimizer_in_a_replay_is_stopped() -> None:
    """It stepped none while the step was recorded, so nothing warned of it."""
    net = mlp()
    optimizer, other = sgd(net), sgd(mlp())
    is_armed = [False]
    net.register_forward_hook(lambda *_: other.step() if is_armed[0] else None)

    def note(record: StepRecord, recorder: StepRecorder, found: Recorded) -> None:
        is_armed[0] = True
        with recorder.replaying():
            found.executions.append(execute(record))
        is_armed[0] = False

    before = weights(net)
    with recording(note) as found:
        x, y = batch()
        functional.mse_loss(net(x), y).backward()
        gradients = [each.grad for each in net.parameters()]
        values = [each.clone() for each in gradients if each is not None]
        optimizer.step()
    (done,) = found.executions
    assert not done.is_exact
    assert type(done.error).__name__ == "OptimizerInReplayError"
    assert all(each.grad is old for each, old in zip(net.parameters(), gradients, strict=True))
    assert same(values, gradients)
    assert not same(before, weights(net))


def test_a_replay_changes_no_object_and_no_count_of_writes() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = sgd(net)
    calls: list[str] = []

    def listen(original: Any) -> Any:
        def backward(*args: Any, **kwargs: Any) -> Any:
            calls.append("backward")
            return original(*args, **kwargs)

        return backward

    def state() -> list[Any]:
        tensors = [*net.parameters(), *net.buffers()]
        tensors += [each.grad for each in net.parameters() if each.grad is not None]
        counts = [(id(each), each._version, each.clone()) for each in tensors]
        flags = [each.training for each in net.modules()]
        return [counts, flags, torch.is_grad_enabled(), torch.get_rng_state()]

    def compare(record: StepRecord, recorder: StepRecorder, found: Recorded) -> None:
        before, heard = state(), len(calls)
        with recorder.replaying():
            found.executions.append(execute(record))
        assert same(before, state())
        assert len(calls) == heard

    with ExitStack() as undo, recording(compare) as found:
        wrap(torch.autograd, "backward", listen, undo)
        for _ in range(2):
            x, y = batch()
            functional.mse_loss(net(x), y).backward()
            optimizer.step()
    assert [each.is_exact for each in found.executions] == [True, True]
    assert calls == ["backward"] * 2


def test_weights_that_are_sharded_over_ranks_are_not_run_by_one_rank() -> None:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        plain = ModuleWatch.of(mlp())
        assert not plain.exchanges_data
        assert ModuleWatch.of(nn.Sequential(nn.SyncBatchNorm(3))).exchanges_data
    finally:
        torch.distributed.destroy_process_group()
    assert "collective" in FATAL
