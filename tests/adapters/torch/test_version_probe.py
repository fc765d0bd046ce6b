"""A torch that lacks a private name is refused with one message that lists what it lacks."""

import pytest
import torch

from sonde.adapters.torch import private, version_probe
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
