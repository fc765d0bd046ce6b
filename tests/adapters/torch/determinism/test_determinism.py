"""Seeds, and the randomness that is removed from a program while it runs."""

from __future__ import annotations

import os
import random
import secrets
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
)

import sonde
from sonde.adapters.torch.determinism import Determinism
from sonde.adapters.torch.determinism.random_sources import is_clock
from sonde.adapters.torch.determinism.randomness import Randomness
from sonde.adapters.torch.determinism.switch import deterministic
from sonde.core.errors import UsageError


@pytest.fixture(autouse=True)
def _states_put_back() -> Iterator[None]:
    python, numpy, torchs = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(python)
    np.random.set_state(numpy)
    torch.set_rng_state(torchs)


def draws() -> list[float]:
    loader = DataLoader(TensorDataset(torch.arange(8.0)), shuffle=True)
    return [
        random.random(),
        float(np.random.rand()),
        torch.rand(1).item(),
        *(batch.item() for (batch,) in loader),
    ]


@pytest.mark.document(
    82,
    says="set the same randomness seed",
    how="`sonde.set_seed(7)`, `sonde run --deterministic --seed 7 train.py`",
)
@pytest.mark.document(
    197,
    says="ms.set_seed(1): the random seeds of MindSpore, NumPy, and dataset are fixed",
    how="`sonde.set_seed(1)`: Python, NumPy, torch and the order of data",
)
def test_a_seed_fixes_python_numpy_torch_and_the_order_of_data() -> None:
    sonde.set_seed(7)
    first = draws()
    sonde.set_seed(7)
    assert draws() == first
    sonde.set_seed(np.int64(8))  # type: ignore[arg-type]
    assert draws() != first
    sonde.set_seed(7)
    assert random.random() == random.Random(7).random()
    assert np.random.rand() == np.random.RandomState(7).rand()
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(7)))


class Draw(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([random.random(), np.random.rand(), torch.rand(1).item()])


def test_workers_of_a_data_loader_follow_the_seed() -> None:
    def from_workers() -> torch.Tensor:
        return torch.cat(list(DataLoader(Draw(), num_workers=2, multiprocessing_context="fork")))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forking a process with threads
        sonde.set_seed(3)
        first = from_workers()
        sonde.set_seed(3)
        assert torch.equal(from_workers(), first)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "1", True, None])
def test_an_invalid_seed_is_refused(seed: object) -> None:
    with pytest.raises(UsageError, match="whole number from 0 to 4294967295"):
        sonde.set_seed(seed)  # type: ignore[arg-type]


def ran(wanted: Determinism = Determinism()) -> tuple[Randomness, list[str]]:  # noqa: B008
    said: list[str] = []
    with deterministic(wanted, said.append) as found:
        values = [
            random.Random().random(),
            float(np.random.default_rng().random()),
            random.Random(5).random(),
            float(np.random.default_rng(5).random()),
        ]
        random.seed()
        np.random.seed()
        torch.seed()
        torch.manual_seed(int(time.time()))
        values += [random.random(), float(np.random.rand()), torch.rand(1).item()]
        found.removed[f"values {values}"] = 1
    return found, said


def test_generators_without_a_seed_get_one_that_repeats_and_seeds_of_ones_own_stay() -> None:
    first, said = ran()
    second, _ = ran()
    other, _ = ran(Determinism(seed=1))
    assert first.removed == second.removed
    assert first.removed != other.removed
    removed = " ".join(said)
    for what in (
        "random.Random without a seed at",
        "numpy.random.default_rng without a seed at",
        "random without a seed at",
        "numpy.random without a seed at",
        "torch without a seed at",
        "torch seeded from the clock at",
    ):
        assert what in removed
    (values,) = (eval(key.removeprefix("values ")) for key in first.removed if "values" in key)
    assert values[2] == random.Random(5).random()
    assert values[3] == np.random.default_rng(5).random()
    assert len(set(values)) == len(values)


def replaceable() -> tuple[object, ...]:
    """What ``deterministic`` puts others in the place of."""
    return (
        random.seed,
        random.Random.seed,
        np.random.default_rng,
        torch.manual_seed,
        os.urandom,
        nn.functional.dropout,
        RandomSampler.__iter__,
        nn.LSTM.forward,
        warnings.showwarning,
        torch.are_deterministic_algorithms_enabled(),
        os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    )


def test_everything_is_put_back_afterwards() -> None:
    before = replaceable()
    with deterministic(Determinism(no_shuffle=True, no_dropout=True), lambda line: None):
        assert torch.are_deterministic_algorithms_enabled()
        assert nn.functional.dropout is not before[5]
    assert replaceable() == before


def test_random_numbers_of_the_system_are_reported_and_stay_random() -> None:
    said: list[str] = []
    with deterministic(Determinism(), said.append) as found:
        assert os.urandom(16) != os.urandom(16)
        assert tempfile.mktemp() != tempfile.mktemp()
    assert any("random numbers of the operating system at" in what for what in found.left)
    assert any(line.startswith("not removed: random numbers of the operating") for line in said)
    assert not any("tempfile" in what for what in (*found.left, *found.removed))


class Drawing(Dataset[torch.Tensor]):
    """Draws from the operating system in three ways."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        drawn = os.urandom(1)[0]
        drawn += secrets.token_bytes(1)[0]
        return torch.tensor(drawn + uuid.uuid4().int % 7)


def test_random_numbers_of_the_system_in_workers_are_reported() -> None:
    said: list[str] = []
    line = Drawing.__getitem__.__code__.co_firstlineno
    with deterministic(Determinism(), said.append) as found:
        assert len(list(DataLoader(Drawing(), batch_size=2, num_workers=2))) == 2
    told = {what: count for what, count in found.left.items() if what.endswith("in a worker")}
    assert list(told.values()) == [4, 4, 4]
    for number in (1, 2, 3):
        assert any(f"test_determinism.py:{line + number} " in what for what in told)
    assert sum(text.endswith("in a worker, 4 times") for text in said) == 3


def test_workers_that_are_not_forked_are_reported_as_unwatched() -> None:
    loader = DataLoader(
        TensorDataset(torch.arange(4.0)), num_workers=1, multiprocessing_context="spawn"
    )
    with deterministic(Determinism(), lambda line: None) as found:
        assert len(list(loader)) == 4
    assert any("workers of a DataLoader that start by spawn" in what for what in found.left)


@pytest.mark.document(
    84,
    says="remove the effect of random operators in the network such as dropout and initializer",
    how="`sonde run --deterministic --no-dropout train.py`; the seed fixes the initializer",
)
def test_without_dropout_all_elements_pass_in_training() -> None:
    x = torch.arange(1.0, 25.0).reshape(2, 3, 4)
    attention = nn.MultiheadAttention(4, 2, dropout=0.9, batch_first=True)
    recurrent = nn.LSTM(4, 5, num_layers=2, dropout=0.9)
    with deterministic(Determinism(no_dropout=True), lambda line: None) as found:
        for module in (nn.Dropout(0.9), nn.Dropout1d(0.9), nn.AlphaDropout(0.9)):
            assert torch.equal(module(x), x)
        assert torch.equal(nn.functional.dropout(x, 0.9), x)
        assert torch.equal(attention(x, x, x)[0], attention(x, x, x)[0])
        assert torch.equal(recurrent(x)[0], recurrent(x)[0])
        query = torch.rand(1, 2, 3, 4)
        first = nn.functional.scaled_dot_product_attention(query, query, query, dropout_p=0.9)
        assert torch.equal(first, nn.functional.scaled_dot_product_attention(query, query, query))
    assert recurrent.dropout == 0.9
    assert any(what.startswith("dropout of LSTM at") for what in found.removed)
    assert not torch.equal(nn.Dropout(0.9)(x), x)


def test_dropout_is_off_in_compiled_code_too_and_breaks_no_graph() -> None:
    x = torch.ones(64)
    with deterministic(Determinism(no_dropout=True), lambda line: None):
        module = nn.Sequential(nn.Dropout(0.5), nn.ReLU())
        compiled = torch.compile(module, backend="eager", fullgraph=True)
        assert torch.equal(compiled(x), x)
    torch._dynamo.reset()


@pytest.mark.document(
    83,
    says="turn off the data shuffle",
    how="`sonde run --deterministic --no-shuffle train.py`",
)
def test_no_shuffle_keeps_the_order_and_reports_explicit_shuffling() -> None:
    data = TensorDataset(torch.arange(6))
    with deterministic(Determinism(no_shuffle=True), lambda line: None) as found:
        loaded = [int(batch) for (batch,) in DataLoader(data, shuffle=True)]
        assert loaded == list(range(6))
        assert list(SubsetRandomSampler([3, 1, 2])) == [3, 1, 2]
        assert list(RandomSampler(data, replacement=True, num_samples=8)) == [
            0,
            1,
            2,
            3,
            4,
            5,
            0,
            1,
        ]
        random.shuffle([1, 2])
        torch.randperm(3)
    assert any(what.startswith("random.shuffle at") for what in found.left)
    assert any(what.startswith("torch.randperm at") for what in found.left)


def test_an_operator_without_a_deterministic_version_is_named_with_its_line() -> None:
    with deterministic(Determinism(), lambda line: None) as found:
        for _ in range(2):
            torch.zeros(4).put_(torch.tensor([1, 1]), torch.rand(2))
    ((what, count),) = found.left.items()
    assert what.startswith("put_ has no deterministic version, at ")
    assert "test_determinism.py" in what
    assert count == 2


def test_other_warnings_are_not_intercepted() -> None:
    with deterministic(Determinism(), lambda line: None), pytest.warns(UserWarning, match="mine"):
        warnings.warn("mine", stacklevel=1)


def test_seeds_from_the_clock_are_recognised_in_every_unit() -> None:
    now = time.time()
    milliseconds = int(now * 1e3)
    cut = milliseconds % 2**32
    for value in (int(now), now, milliseconds, time.time_ns(), cut if cut > 10**8 else int(now)):
        assert is_clock(value)
    for value in (0, 42, 1234, 3_600_000, os.getpid(), "x", True, None):
        assert not is_clock(value)
