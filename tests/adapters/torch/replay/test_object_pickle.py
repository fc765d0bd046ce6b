"""Networks are pickled without their tensors, also with functions that pickle cannot name."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.replay.written_files import write_objects, written_tensors
from torch import nn

from sonde.adapters.torch.replay.storage.object_pickle import (
    ObjectWriter,
    read_objects,
    unpicklable_hooks,
)
from sonde.adapters.torch.replay.storage.tensor_files import TensorWriter, read_tensors
from sonde.replay.errors import ReplayError


def rebuilt(directory: Path, *objects: Any) -> list[Any]:
    tensors = TensorWriter()
    writer = ObjectWriter("objects.pickle", tensors, lambda kept: None)
    indices = [writer.keep(each) for each in objects]
    assert indices == list(range(len(objects)))
    write_objects(writer, directory)
    read = read_tensors(directory, written_tensors(tensors, directory))
    return read_objects(directory / "objects.pickle", read, lambda plain: plain, trust=False)


def test_a_network_shares_what_it_shared(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    other = nn.Sequential(model[0], nn.ReLU())
    found, also = rebuilt(tmp_path, model, other)
    assert found[1].weight is found[0].weight is also[0].weight
    assert torch.equal(found[0].weight, model[0].weight)
    assert (tmp_path / "objects.pickle").stat().st_size < 3000  # no tensors in it


def test_lambdas_and_closures_are_kept_with_their_variables(tmp_path: Path) -> None:
    factor = 3.0

    def countdown(n: int, *, by: int = 1) -> list[int]:
        return [n, *(countdown(n - by) if n > 0 else [])]

    model = nn.Linear(2, 2)
    model.scale = lambda x: x * factor  # type: ignore[assignment]
    model.register_forward_hook(lambda module, args, output: output + factor)
    found, function = rebuilt(tmp_path, model, countdown)
    x = torch.randn(4, 2)
    assert torch.equal(found.scale(found(x)), model.scale(model(x)))  # type: ignore[operator]
    assert function(2) == [2, 1, 0]
    assert unpicklable_hooks(model) == []


def test_a_hook_that_cannot_be_kept_is_left_out_and_named(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    stream = (tmp_path / "log").open("w")
    handle = model[0].register_forward_hook(lambda *_: stream.write("called"))
    model.handle = handle  # type: ignore[assignment]
    assert len(unpicklable_hooks(model)) == 1
    (found,) = rebuilt(tmp_path, model)
    assert not found[0]._forward_hooks
    assert len(model[0]._forward_hooks) == 1
    stream.close()


class Counting(nn.Module):
    """Has hooks that are its own methods."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(6))
        self.calls = 0
        for each in self.modules():
            each.register_forward_hook(self.count)
            each.register_forward_pre_hook(functools.partial(Counting.note, owner=self))

    def count(self, *_: object) -> None:
        self.calls += 1

    @staticmethod
    def note(*_: object, owner: nn.Module) -> None:
        """Nothing is to be done."""


def test_hooks_that_refer_to_their_own_module_are_kept(tmp_path: Path) -> None:
    model = Counting()
    assert unpicklable_hooks(model) == []
    (found,) = rebuilt(tmp_path, model)
    found.layers[0](torch.zeros(1, 2))
    assert found.calls == 1
    assert model.calls == 0


def test_what_cannot_be_pickled_has_a_reason(tmp_path: Path) -> None:
    writer = ObjectWriter("objects.pickle", TensorWriter(), lambda kept: None)

    class Local(nn.Module):
        pass

    reason = writer.keep(Local())
    assert isinstance(reason, str)
    assert "Local" in reason
    write_objects(writer, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_pickle_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "objects.pickle"
    for content in (b"", b"\x80\x05junk", b"\x80\x05N."):
        path.write_bytes(content)
        with pytest.raises(ReplayError) as error:
            read_objects(path, [], lambda plain: plain, trust=False)
        assert error.value.slug == "step-damaged"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"\x80\x05].")
    (tmp_path / "objects.pickle").symlink_to(tmp_path / "real")
    with pytest.raises(ReplayError, match="cannot be read"):
        read_objects(tmp_path / "objects.pickle", [], lambda plain: plain, trust=True)
