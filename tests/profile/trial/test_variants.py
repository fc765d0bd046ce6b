"""Each variant changes what its name says, and restores everything."""

import pytest
import torch
from tests.profile.record.recording import PLACES
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sonde.profile.trial.variants import NAMES, Applied, advice, variant


def test_amp_computes_in_bfloat16_up_to_backward() -> None:
    net, seen = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1)), []
    net.register_forward_hook(lambda *args: seen.append(args[2].dtype))
    applied = Applied(PLACES)
    with variant("amp", applied):
        loss = net(torch.ones(4, 8)).float().mean()
        assert torch.is_autocast_enabled("cpu")
        loss.backward()
        assert not torch.is_autocast_enabled("cpu")
    assert seen == [torch.bfloat16]
    assert applied.sources[0] is not None
    assert applied.sources[0].code == "loss = net(torch.ones(4, 8)).float().mean()"
    assert net(torch.ones(4, 8)).dtype == torch.float32


def test_amp_says_when_the_program_has_it_already() -> None:
    applied = Applied(PLACES)
    with variant("amp", applied), torch.autocast("cpu", dtype=torch.bfloat16):
        nn.Linear(8, 8)(torch.ones(4, 8))
    assert (applied.sources, applied.note) == ([], "the program uses autocast already")


def test_channels_last_reaches_weights_and_images() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 2))
    seen = []
    net[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    applied = Applied(PLACES)
    with variant("channels_last", applied):
        net(torch.ones(2, 3, 8, 8))
    assert seen[0].is_contiguous(memory_format=torch.channels_last)
    assert net[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert len(applied.sources) == 1


def test_channels_last_has_nothing_to_do_without_images() -> None:
    applied = Applied(PLACES)
    with variant("channels_last", applied):
        nn.Linear(2, 2)(torch.ones(1, 2))
    assert applied.sources == []


def test_workers_are_those_of_every_loader() -> None:
    data = TensorDataset(torch.ones(4))
    applied = Applied(PLACES)
    with variant("workers=2", applied):
        assert DataLoader(data, 2).num_workers == 2
        assert DataLoader(data, batch_size=2, num_workers=2).num_workers == 2
    assert len(applied.sources) == 1
    assert DataLoader(data).num_workers == 0


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_fused_applies_to_optimizers_without_an_explicit_setting(kind: type) -> None:
    parameters = [nn.Parameter(torch.ones(2))]
    applied = Applied(PLACES)
    with variant("fused", applied):
        assert kind(parameters, lr=0.1).defaults["fused"] is True
        assert not kind(parameters, lr=0.1, foreach=True).defaults["fused"]
    assert len(applied.sources) >= 1
    assert not kind(parameters, lr=0.1).defaults["fused"]


def test_the_number_of_threads_is_that_of_the_variant() -> None:
    before = torch.get_num_threads()
    applied = Applied(PLACES)
    with variant("threads=1", applied):
        torch.set_num_threads(7)
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


@pytest.mark.document(
    208,
    says="Enabling Graph Kernel Fusion",
    how="`torch.compile` fuses kernels; `sonde profile --try compile` measures what it brings",
)
def test_compile_compiles_what_is_called_from_outside_in_the_first_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(nn.Module, "compile", lambda self: compiled.append(type(self).__name__))
    original = nn.Module.__call__
    net, loss = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.MSELoss()
    applied = Applied(PLACES)
    with variant("compile", applied):
        for _ in range(2):
            loss(net(torch.ones(1, 2)), torch.ones(1, 2))
        applied.after_first_step()
        assert nn.Module.__call__ is original
        nn.Linear(2, 2)(torch.ones(1, 2))
    assert compiled == ["Sequential"]
    assert nn.Module.__call__ is original


def test_nothing_changes_without_a_variant() -> None:
    applied = Applied(PLACES)
    with variant("", applied):
        assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype == torch.float32
    assert applied.sources == []


def test_every_variant_has_advice() -> None:
    assert all(advice(name) for name in NAMES)
    assert advice("workers=4") == "DataLoader(..., num_workers=4)"
