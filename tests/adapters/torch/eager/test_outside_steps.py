"""Which ops belong to no training step: those of evaluations and of data loading."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.watching import Watched, same, watch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset

Between = Callable[[nn.Module], object]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))


def train(between: dict[int, Between], *, steps: int = 4) -> list[torch.Tensor]:
    """Train ``steps`` steps; ``between[n]`` is called just before step n."""
    torch.manual_seed(0)
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.train()
    for step in range(steps):
        if step in between:
            state = torch.get_rng_state()
            between[step](net)
            torch.set_rng_state(state)
        x, y = torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
        loss = functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in net.parameters()]


def counts(seen: Watched) -> list[int]:
    return [len(seen.graph(step).ops) for step in sorted(seen.steps)]


def names(seen: Watched, step: int) -> list[str]:
    """A function, because pytest would print ``seen``, which is large."""
    return seen.names(step)


def validate(net: nn.Module) -> None:
    """As in pytorch/examples: a loss and a number of hits, summed up."""
    net.eval()
    total = torch.zeros(())
    with torch.no_grad():
        for _ in range(3):
            x, y = torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
            output = net(x)
            total += functional.cross_entropy(output, y, reduction="sum")
            output.argmax(dim=1, keepdim=True).eq(y.view(-1, 1)).sum().item()
    net.train()


@torch.no_grad()
def estimate(net: nn.Module) -> None:
    """As in nanoGPT: without gradients from the first line, before eval()."""
    net.eval()
    losses = torch.zeros(2)
    for i in range(2):
        x, y = torch.stack([torch.randn(4) for _ in range(8)]), torch.zeros(8, dtype=torch.long)
        losses[i] = functional.cross_entropy(net(x), y).item()
    losses.mean()
    net.train()


def autocast(net: nn.Module) -> None:
    """In low precision: autocast casts weights with gradients, even inside no_grad."""
    net.eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        net(torch.randn(8, 4))
    net.train()


def predict(net: nn.Module) -> None:
    """As the Trainer does: results are collected outside of no_grad."""
    net.eval()
    found = []
    for _ in range(2):
        x = torch.randn(8, 4)
        with torch.inference_mode():
            output = net(x)
        found.append(output.repeat(2, 1))
    torch.cat(found).softmax(-1)
    net.train()


@pytest.mark.parametrize("evaluate", [validate, estimate, autocast, predict])
@pytest.mark.parametrize("when", [0, 2])
def test_a_step_has_the_same_ops_whether_or_not_an_evaluation_precedes_it(
    evaluate: Between, when: int
) -> None:
    bare = train({when: evaluate})
    with watch(starts_at_once=False) as plain:
        train({})
    with watch(starts_at_once=False) as seen:
        weights = train({when: evaluate})
    # The first step also makes the state of the optimizer, and begins with the first network.
    assert counts(seen)[1:] == counts(plain)[1:]
    assert counts(seen)[0] == counts(plain)[0]
    assert names(seen, when) == names(plain, when)
    assert same(weights, bare)
    assert sum("[evaluation-not-observed]" in line for line in seen.reports) == 1


def measure(net: nn.Module) -> torch.Tensor:
    """Leaves the network in eval mode, as a trainer does that calls ``train()`` in each step."""
    net.eval()
    with torch.no_grad():
        found = net(torch.ones(8, 4))
    return found.mean()


@pytest.mark.parametrize("is_decorated", [False, True])
def test_ops_before_the_network_is_in_training_mode_again_belong_to_the_next_step(
    is_decorated: bool,
) -> None:
    evaluate = torch.no_grad()(measure) if is_decorated else measure
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watch() as seen:
        for step in range(4):
            if step == 2:
                figure = evaluate(net)
                assert figure.add(1).isfinite().item()  # What reads a result is not of the step.
            x = torch.ones(8, 4).mul(0.5)
            net.train()
            net(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert names(seen, 1) == names(seen, 2) == names(seen, 3)
    assert any("mul" in name for name in names(seen, 2))


def test_the_line_about_evaluations_is_the_users_own(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "trainer.py"
    library.parent.mkdir()
    library.write_text("def run(net, x):\n    return net(x)\n")
    code: dict[str, Any] = {}
    exec(compile(library.read_text(), str(library), "exec"), code)

    def evaluate(net: nn.Module) -> None:
        net.eval()
        with torch.no_grad():
            code["run"](net, torch.ones(8, 4))
        net.train()

    with watch() as seen:
        train({2: evaluate})
    (line,) = [each for each in seen.reports if "[evaluation-not-observed]" in each]
    number = evaluate.__code__.co_firstlineno + 3
    assert f"({__file__}:{number} (in trainer.py:2))" in line


def test_an_evaluation_is_observed_if_the_user_asks_for_it() -> None:
    with watch(observe=("evaluation",)) as seen:
        train({2: validate})
    assert len(seen.graph(2).ops) > len(seen.graph(1).ops) + 20
    assert seen.reports == []


def test_an_evaluation_in_the_middle_of_an_accumulated_step_leaves_the_step_whole() -> None:
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watch() as seen:
        for step in range(3):
            for part in range(2):
                net(torch.ones(8, 4)).sum().backward()
                if step == 2 and part == 0:
                    validate(net)
            optimizer.step()
            optimizer.zero_grad()
    assert names(seen, 1) == names(seen, 2)


def test_a_program_without_an_optimizer_shows_its_inference() -> None:
    net = network().eval()
    with watch() as seen, torch.no_grad():
        net(torch.ones(8, 4))
    assert len(seen.graph(0).ops) >= 4
    assert seen.reports == []


def test_an_own_update_loop_is_trained_as_well() -> None:
    net, other = network(), network()
    unused = torch.optim.SGD(other.parameters())  # says nothing about ``net``
    with watch(step_by="manual") as seen:
        for step in range(3):
            if step == 2:
                validate(net)
            net.zero_grad()
            net(torch.ones(8, 4)).sum().backward()
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter.sub_(0.1 * parameter.grad)
            assert seen.adapter is not None
            seen.adapter.end_step()
    assert names(seen, 1) == names(seen, 2)
    assert len(unused.param_groups) == 1


def in_step(run: Callable[[nn.Module, nn.Module, torch.Tensor], Any]) -> Watched:
    """Two steps in which ``run`` gets the network, a copy that is not trained, and the batch."""
    net = network()
    teacher = copy.deepcopy(net).eval().requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.train()
    with watch() as seen:
        for _ in range(2):
            x = torch.ones(8, 4)
            target = run(net, teacher, x)
            (net(x) - target).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return seen


def test_a_teacher_in_eval_mode_belongs_to_the_step() -> None:
    def distil(net: nn.Module, teacher: nn.Module, x: torch.Tensor) -> torch.Tensor:
        teacher.eval()
        with torch.no_grad():
            for mine, theirs in zip(teacher.parameters(), net.parameters(), strict=True):
                mine.lerp_(theirs, 0.1)
            return teacher(x)

    seen = in_step(distil)
    for step in (0, 1):
        assert sum("addmm" in name for name in names(seen, step) if "Gradients" not in name) == 4
        assert any("lerp_" in name for name in names(seen, step))


def test_rollouts_without_gradients_belong_to_the_step() -> None:
    def roll_out(net: nn.Module, teacher: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return net(x) + torch.rand(8, 2)

    seen = in_step(roll_out)
    assert sum("addmm" in name for name in names(seen, 1) if "Gradients" not in name) == 4


def test_batch_norm_statistics_computed_anew_belong_to_the_step() -> None:
    def recalibrate(net: nn.Module, teacher: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            net.train()
            net(x)
        return torch.zeros(())

    seen = in_step(recalibrate)
    assert sum("native_batch_norm" in name for name in names(seen, 1)) >= 2


def test_metrics_without_gradients_belong_to_the_step() -> None:
    def measure(net: nn.Module, teacher: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            (x > 0).float().mean()
        return torch.zeros(())

    seen = in_step(measure)
    assert any("gt" in name for name in names(seen, 1))


def test_a_part_in_eval_mode_does_not_make_a_step_an_evaluation() -> None:
    def freeze(net: nn.Module, teacher: nn.Module, x: torch.Tensor) -> torch.Tensor:
        net[1].eval()  # type: ignore[index]
        with torch.no_grad():
            return teacher(x)

    seen = in_step(freeze)
    assert sum("addmm" in name for name in names(seen, 1) if "Gradients" not in name) == 4


def test_a_network_that_trains_in_eval_mode_keeps_its_steps() -> None:
    net = nn.Linear(4, 2).eval()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watch() as seen:
        for _ in range(3):
            with torch.no_grad():
                x = torch.ones(8, 4) * 2
            net(x).sum().backward()
            optimizer.step()
    assert any("mul" in name for name in names(seen, 1))
    assert names(seen, 1) == names(seen, 2)


def test_nan_in_an_evaluation_is_reported() -> None:
    def spoil(net: nn.Module) -> None:
        net.eval()
        with torch.no_grad():
            net(torch.full((8, 4), float("nan")))
        net.train()

    with watch() as seen:
        train({2: spoil})
    (line,) = [each for each in seen.reports if "[evaluation-nan]" in each]
    assert all(text in line for text in ("before step 2", "Sequential", "--observe evaluation"))


def test_values_that_an_evaluation_changes_are_read_anew() -> None:
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    held = torch.ones(8, 4)
    with watch() as seen:
        net.train()
        first = held * 1
        net.eval()
        with torch.no_grad():
            net(first)
            first.add_(5)
        net.train()
        net(first).sum().backward()
        optimizer.step()
    inputs = seen.call("Default/network-Linear/addmm-op0").inputs
    assert any(value is not None and value.shape == (8, 4) and value[0, 0] == 6 for value in inputs)


# ------------------------------------------------------------------- data loading


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, transform: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._transform = transform

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._transform(torch.arange(4).float() + index), 0


class Normalize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sub(0.5).div(2)


def load_and_train(loader: Any, *, epochs: int = 2) -> None:
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(epochs):
        for x, y in loader:
            functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize("starts_at_once", [True, False])
def test_the_transforms_of_a_data_loader_belong_to_no_step(starts_at_once: bool) -> None:
    loader = DataLoader(Pictures(Normalize()), batch_size=4, shuffle=True)
    with watch(starts_at_once=starts_at_once) as seen:
        load_and_train(loader)
    assert not any("sub" in name or "stack" in name for name in names(seen, 3))
    # Also between two epochs, where the loader draws a new order.
    assert names(seen, 3) == names(seen, 4) == names(seen, 1)
    assert len([node for node in seen.graph(3).nodes if node.kind == "input"]) == 2


def test_transforms_are_observed_if_the_user_asks_for_it() -> None:
    loader = DataLoader(Pictures(Normalize()), batch_size=4)
    with watch(observe=("data",)) as seen:
        load_and_train(loader)
    assert any("sub" in name for name in names(seen, 3))


def test_a_network_that_makes_the_data_is_observed() -> None:
    policy = nn.Linear(4, 4)

    class Rollouts(IterableDataset[tuple[torch.Tensor, int]]):
        def __iter__(self) -> Any:
            for _ in range(4):
                with torch.no_grad():
                    found = policy(torch.ones(4))
                yield found, 0

    with watch() as seen:
        load_and_train(DataLoader(Rollouts(), batch_size=2), epochs=1)
    assert sum("network-Linear" in name for name in names(seen, 1)) >= 3
    assert len({name.split("/")[1] for name in names(seen, 1) if "/network-" in name}) >= 2
