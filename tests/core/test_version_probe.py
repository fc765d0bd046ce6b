"""A torch that lacks a private name is refused with one message that lists what it lacks."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

import sonde
from sonde.adapters.torch import private
from sonde.core import version_probe
from sonde.core.errors import TorchVersionError


def test_a_torch_that_has_everything_passes() -> None:
    version_probe.require("observing", private.NEEDED)


def test_all_missing_names_are_in_one_message() -> None:
    names = ("torch:Tensor._cdata", "torch._gone:thing", "torch._C:_autograd._gone", "torch._gone")
    with pytest.raises(TorchVersionError) as caught:
        version_probe.require("printing", names)
    assert caught.value.slug == "torch-version"
    assert str(caught.value).startswith(
        f"torch {torch.__version__} lacks torch._gone.thing, torch._C._autograd._gone, "
        "torch._gone, which printing needs; Sonde is tested with torch "
    )


@pytest.mark.parametrize(
    ("module", "owner", "name", "lacking"),
    [
        (
            "adapters/torch/private.py",
            torch._C,
            "_current_autograd_node",
            "torch._C._current_autograd_node, which observing needs",
        ),
        (
            "train/private.py",
            torch._C,
            "_disabled_torch_function_impl",
            "torch._C._disabled_torch_function_impl, which sonde.train needs",
        ),
        (
            "summary/private.py",
            torch.utils._pytree,
            "tree_map_only",
            "torch.utils._pytree.tree_map_only, which the graph of a summary needs",
        ),
    ],
)
def test_a_missing_name_is_reported_when_its_private_module_is_imported(
    module: str, owner: Any, name: str, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(owner, name)
    with pytest.raises(TorchVersionError, match=lacking) as caught:
        runpy.run_path(str(Path(sonde.__file__).parent / module))
    assert "\n" not in str(caught.value)
