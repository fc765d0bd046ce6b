"""Networks have the name of the variable that holds them; modules that are built anew in every step
have the same name in every step."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from tests.adapters.torch.watching import Watched, watch
from torch import nn
from torch.nn import functional


def train(
    loss_of: Callable[[], torch.Tensor], weights: Iterable[nn.Parameter], steps: int = 4
) -> Watched:
    optimizer = torch.optim.SGD(weights, lr=0.01)
    with watch(values=False) as seen:
        for _ in range(steps):
            loss_of().backward()
            optimizer.step()
            optimizer.zero_grad()
    return seen


def scopes_of(seen: Watched, kind: str, step: int = 0) -> list[str]:
    """The scopes of the forward ops of type ``kind``, in order."""
    ops = seen.graph(step).ops
    return [node.scope for node in ops if node.type == kind and node.phase == "forward"]


def has_one_graph(seen: Watched) -> bool:
    names = {tuple(seen.names(step)) for step in seen.steps}
    return len(names) == 1 and {seen.graph(step).id for step in seen.steps} == {0}


# ------------------------------------------------------- modules built anew in every step


def test_a_loss_that_the_loop_builds_has_the_name_of_one_that_is_built_once() -> None:
    net = nn.Linear(4, 3)
    x, y = torch.ones(2, 4), torch.tensor([0, 1])
    criterion = nn.CrossEntropyLoss()
    once = train(lambda: criterion(net(x), y), net.parameters(), steps=50)
    anew = train(lambda: nn.CrossEntropyLoss()(net(x), y), net.parameters(), steps=50)
    assert has_one_graph(anew)
    assert anew.names() == once.names()
    assert scopes_of(anew, "nll_loss_forward") == ["Default/loss-CrossEntropyLoss"]


class Building(nn.Module):
    """Builds modules in forward: two on a line, in a comprehension, in a helper, nested."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def activate(self, x: torch.Tensor) -> torch.Tensor:
        return nn.ELU()(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x)
        x = nn.Tanh()(x) + nn.Tanh()(x + 1)
        x = sum([nn.Sigmoid()(each) for each in x.chunk(2)])
        x = self.activate(x) * self.activate(-x)
        x = nn.Sequential(nn.Softplus(), nn.Sequential(nn.GELU()))(x)
        built = [nn.Linear(4, 4) for _ in range(2)]
        for layer in built:
            x = layer(x)
        return x.sum()


BUILT = {
    "addmm": ["fc-Linear", "linear-Linear", "linear-Linear_1"],
    "tanh": ["tanh-Tanh", "tanh-Tanh_1"],
    "sigmoid": ["sigmoid-Sigmoid", "sigmoid-Sigmoid_1"],
    "elu": ["elu-ELU", "elu-ELU_1"],
    "softplus": ["sequential-Sequential/0-Softplus"],
    "gelu": ["sequential-Sequential/1-Sequential/0-GELU"],
}


@pytest.mark.parametrize("matcher", ["native", "python"])
def test_modules_that_forward_builds_are_told_apart_and_named_alike_in_every_step(
    matcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONDE_MATCHER", matcher)
    net = Building()
    x = torch.ones(4, 4)
    seen = train(lambda: net(x), net.parameters())
    assert has_one_graph(seen)
    for kind, expected in BUILT.items():
        assert scopes_of(seen, kind) == [f"Default/network-Building/{name}" for name in expected]


def test_the_names_do_not_change_where_a_step_skips_one_of_the_built_modules() -> None:
    net = nn.Linear(4, 4)
    x = torch.ones(2, 4)
    numbers = iter(range(4))

    def loss() -> torch.Tensor:
        out = net(x)
        if next(numbers) % 2:
            out = nn.Tanh()(out)
        out = nn.Tanh()(out)
        return out.sum()

    seen = train(loss, net.parameters())
    last = "Default/network-Tanh"
    assert [scopes_of(seen, "tanh", step) for step in range(4)] == [
        [last],
        [f"{last}_1", last],
        [last],
        [f"{last}_1", last],
    ]
    assert [seen.graph(step).id for step in range(4)] == [0, 1, 0, 1]


def test_a_shared_module_builds_modules_of_one_name_in_each_of_its_calls() -> None:
    net = Building()
    x = torch.ones(4, 4)
    seen = train(lambda: net(x) + net(x), net.parameters())
    assert has_one_graph(seen)
    assert scopes_of(seen, "tanh") == [
        *["Default/network-Building/tanh-Tanh", "Default/network-Building/tanh-Tanh_1"] * 2
    ]


@pytest.mark.parametrize("kept_by", ["a list", "a cycle"])
def test_built_modules_that_stay_alive_do_not_change_the_names(kept_by: str) -> None:
    net = nn.Linear(4, 4)
    x = torch.ones(2, 4)
    kept: list[nn.Module] = []

    def loss() -> torch.Tensor:
        act = nn.Tanh()
        if kept_by == "a list":
            kept.append(act)
        else:
            act.__dict__["me"] = act
        return act(net(x)).sum()

    gc.disable()
    try:
        seen = train(loss, net.parameters())
    finally:
        gc.enable()
    assert has_one_graph(seen)


def test_a_module_that_is_called_in_several_steps_shares_its_name_with_no_other() -> None:
    net = nn.Linear(4, 4)
    x = torch.ones(2, 4)
    kept: list[nn.Module] = []

    def loss() -> torch.Tensor:
        kept.append(nn.Tanh())
        out = net(x)
        for act in kept:
            out = act(out)
        return out.sum()

    seen = train(loss, net.parameters())
    for step in range(4):
        scopes = scopes_of(seen, "tanh", step)
        assert len(set(scopes)) == step + 1
        assert scopes == scopes_of(seen, "tanh", 3)[: step + 1]


def test_nothing_grows_with_the_number_of_built_modules() -> None:
    net = Building()
    x = torch.ones(4, 4)
    sizes = []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with watch(values=False, step_by="manual") as seen:
        registry = seen.adapter._scopes  # type: ignore[union-attr]
        for _ in range(8):
            net(x).backward()
            nn.MSELoss()(net(x), torch.ones(()))
            optimizer.zero_grad()
            seen.adapter.end_step()  # type: ignore[union-attr]
            tables = (registry._modules, registry._scopes, registry._roots)
            sizes.append((*map(len, tables), len(registry._names._holders)))
    assert sizes[2:] == [sizes[2]] * 6


# ----------------------------------------------------------- names by variable


class Encoder(nn.Sequential):
    pass


def test_networks_have_the_name_of_their_variable() -> None:
    G, D = nn.Linear(3, 3), nn.Linear(3, 3)  # noqa: N806
    pixel_loss = nn.L1Loss()
    x = torch.ones(2, 3)
    seen = train(lambda: pixel_loss(D(G(x)), x), [*G.parameters(), *D.parameters()])
    assert scopes_of(seen, "addmm") == ["Default/G-Linear", "Default/D-Linear"]
    assert scopes_of(seen, "mean") == ["Default/pixel_loss-L1Loss"]
    assert has_one_graph(seen)


@pytest.mark.parametrize("name", ["net", "model", "network", "module", "_model"])
def test_the_usual_name_of_the_only_network_is_network(name: str) -> None:
    scope: dict[str, Any] = {"torch": torch, "nn": nn, "watch": watch}
    program = f"""
def run():
    {name} = nn.Linear(2, 2)
    criterion = nn.MSELoss()
    with watch() as seen:
        criterion({name}(torch.ones(1, 2)), torch.zeros(1, 2))
    return seen
"""
    exec(compile(program, "<program>", "exec"), scope)
    seen = scope["run"]()
    assert scopes_of(seen, "addmm") == ["Default/network-Linear"]
    assert scopes_of(seen, "mse_loss") == ["Default/loss-MSELoss"]


class Trainer:
    def __init__(self) -> None:
        self.teacher = nn.Linear(3, 3)
        self._student = nn.Linear(3, 3)
        self.heads = {"a": nn.Linear(3, 3)}

    def loss(self) -> torch.Tensor:
        x = torch.ones(2, 3)
        return functional.mse_loss(self._student(x), self.heads["a"](self.teacher(x)))


def test_networks_that_an_object_holds_have_the_name_of_its_attribute() -> None:
    trainer = Trainer()
    seen = train(trainer.loss, trainer._student.parameters())
    assert scopes_of(seen, "addmm") == [
        "Default/student-Linear",
        "Default/teacher-Linear",
        "Default/heads_a-Linear",
    ]


class Lit(nn.Module):
    """Like a LightningModule: another method than forward calls its modules."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder(nn.Linear(3, 2), nn.ReLU())
        self.decoder = nn.Linear(2, 3)
        self.loss = nn.MSELoss()

    def training_step(self, x: torch.Tensor) -> torch.Tensor:
        return self.loss(self.decoder(self.encoder(x)), x)


def test_modules_that_another_method_than_forward_calls_have_their_place_in_the_tree() -> None:
    lit = Lit()
    seen = train(lambda: lit.training_step(torch.ones(2, 3)), lit.parameters())
    assert scopes_of(seen, "addmm") == [
        "Default/lit-Lit/encoder-Encoder/0-Linear",
        "Default/lit-Lit/decoder-Linear",
    ]
    assert scopes_of(seen, "mse_loss") == ["Default/lit-Lit/loss-MSELoss"]
    parameters = {node.name for node in seen.graph() if node.kind == "parameter"}
    assert {"encoder.0.weight", "decoder.bias"} <= parameters
    assert has_one_graph(seen)


def test_a_submodule_called_by_itself_has_its_place_in_the_tree() -> None:
    net = Lit()
    with watch(step_by="manual") as seen:
        for block in net.encoder:
            block(torch.ones(1, 3)[:, : 3 if block is net.encoder[0] else 2])
    assert scopes_of(seen, "addmm") == ["Default/network-Lit/encoder-Encoder/0-Linear"]


def test_what_is_held_by_no_variable_is_named_by_its_class_and_numbered() -> None:
    def nets() -> Iterator[Callable[..., torch.Tensor]]:
        return iter((nn.Linear(2, 2).forward.__self__.__call__, nn.Linear(2, 2).__call__))  # type: ignore[attr-defined]

    with watch() as seen:
        x = torch.ones(1, 2)
        for call in nets():
            x = call(x)
    assert scopes_of(seen, "addmm") == ["Default/network-Linear", "Default/network-Linear_1"]


def test_a_name_stays_when_the_module_is_called_from_elsewhere_or_becomes_part_of_another() -> None:
    encoder, decoder = nn.Linear(3, 3), nn.Linear(3, 3)

    def run(part: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return part(x)

    with watch(step_by="manual") as seen:
        x = torch.ones(2, 3)
        run(encoder, x)
        seen.adapter.end_step()  # type: ignore[union-attr]
        renamed, encoder = encoder, None  # type: ignore[assignment]
        both = nn.Sequential(renamed, decoder)
        both(x)
    assert scopes_of(seen, "addmm", 0) == ["Default/encoder-Linear"]
    assert scopes_of(seen, "addmm", 1) == [
        "Default/encoder-Linear",
        "Default/both-Sequential/1-Linear",
    ]


def test_a_wrapper_has_the_name_of_the_network_in_it() -> None:
    generator = nn.Linear(2, 2)
    with watch(step_by="manual") as seen:
        generator(torch.ones(1, 2))
        seen.adapter.end_step()  # type: ignore[union-attr]
        parallel = nn.DataParallel(generator)
        parallel(torch.ones(1, 2))
    assert seen.names(0) == seen.names(1)
    assert scopes_of(seen, "addmm", 1) == ["Default/generator-Linear"]


def test_a_network_that_replaces_one_that_died_takes_its_name() -> None:
    def fold(seen: Watched) -> None:
        network = nn.Linear(2, 2)
        network(torch.ones(1, 2))
        seen.adapter.end_step()  # type: ignore[union-attr]

    with watch(step_by="manual") as seen:
        for _ in range(3):
            fold(seen)
    assert [seen.graph(step).id for step in range(3)] == [0, 0, 0]


def test_the_search_for_the_variable_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    from sonde.adapters.torch.eager.naming import scopes

    searches: list[nn.Module] = []
    search = scopes.find_holder

    def counted(module: nn.Module, *rest: Any) -> Any:
        searches.append(module)
        return search(module, *rest)

    monkeypatch.setattr(scopes, "find_holder", counted)
    net = nn.Linear(4, 3)
    x, y = torch.ones(2, 4), torch.tensor([0, 1])
    train(lambda: nn.CrossEntropyLoss()(net(x), y), net.parameters(), steps=5)
    assert list(map(type, searches)) == [nn.Linear, nn.CrossEntropyLoss]
