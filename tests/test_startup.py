"""The finder that waits for the import of torch, and which processes only work for others."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde import startup


@pytest.fixture
def torch_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module called torch that is found before the real one, and is not imported yet."""
    (tmp_path / "torch.py").write_text("VALUE = 1\n")
    real = {name: module for name, module in sys.modules.items() if name == "torch"}
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("torch", None)
    yield tmp_path
    sys.modules.pop("torch", None)
    sys.modules.update(real)


class Watching(startup.TorchFinder):
    def __init__(self) -> None:
        super().__init__("")
        self.calls: list[bool] = []

    def torch_was_imported(self) -> None:
        self.calls.append(hasattr(sys.modules["torch"], "VALUE"))


@pytest.fixture
def finder(monkeypatch: pytest.MonkeyPatch) -> Watching:
    found = Watching()
    monkeypatch.setattr(sys, "meta_path", [found, *sys.meta_path])
    return found


def test_the_import_of_torch_is_followed_and_its_loader_stays(
    torch_like: Path, finder: Watching
) -> None:
    assert importlib.util.find_spec("torch") is not None  # asking is not importing
    assert finder.calls == []
    module = importlib.import_module("torch")
    assert finder.calls == [True]
    assert module.__loader__ is module.__spec__.loader
    assert "exec_module" not in vars(module.__loader__)
    assert finder.find_spec("torchvision") is None


def test_a_torch_that_fails_fails_as_without_sonde(torch_like: Path, finder: Watching) -> None:
    (torch_like / "torch.py").write_text("raise OSError('libtorch.so')\n")
    importlib.invalidate_caches()
    with pytest.raises(OSError, match=r"libtorch\.so"):
        importlib.import_module("torch")
    assert finder.calls == []


def test_without_torch_the_import_error_is_pythons(
    monkeypatch: pytest.MonkeyPatch, finder: Watching
) -> None:
    monkeypatch.setattr(sys, "meta_path", [finder])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(ModuleNotFoundError, match="No module named 'torch'"):
        importlib.import_module("torch")


def test_a_failure_of_sonde_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str) -> None:
        raise ImportError(f"no module {name}")

    monkeypatch.setattr(startup, "import_module", fail)
    monkeypatch.delitem(sys.modules, "sonde.cli.main", raising=False)
    startup.TorchFinder("").torch_was_imported()
    assert capsys.readouterr().err == (
        "sonde: the program is not observed: ImportError: no module "
        "sonde.adapters.torch.first_training [not-observed]\n"
    )


@pytest.mark.parametrize(
    ("words", "parent", "works_for_another"),
    [
        (["python", "train.py"], "", False),
        (["python", "train.py"], "1", True),
        (["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()"], "", True),
        (["python", "-c", "x", "--multiprocessing-fork"], "", True),
        (["python", "-c", "import torch"], "", False),
    ],
)
def test_workers_are_not_observed(
    words: list[str], parent: str, works_for_another: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", words)
    monkeypatch.setenv("SONDE_CAPTURING_PROCESS", parent)
    before = list(sys.meta_path)
    monkeypatch.setattr(sys, "meta_path", before.copy())
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    startup.begin()
    startup.begin()  # a second file, in another directory
    assert len(sys.meta_path) - len(before) == (not works_for_another)
