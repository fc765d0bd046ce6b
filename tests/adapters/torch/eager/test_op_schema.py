"""The inputs that an op writes to are known, also if its schema does not declare them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.adapters.torch.trainings import TRAININGS
from torch.utils._python_dispatch import TorchDispatchMode

from sonde.adapters.torch.eager.op_schema import attributes_of, op_info


def plain_tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from plain_tensors(item)
    elif (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and value.layout is torch.strided
        and not value.is_nested
        and value.device.type == "cpu"
    ):
        yield value


def contents(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.untyped_storage())


class Witness(TorchDispatchMode):  # type: ignore[misc]
    """Looks for inputs that change although they should not."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        info = op_info(func)
        given = [*zip(info.arguments, args, strict=False), *(kwargs or {}).items()]
        written = {
            tensor.untyped_storage()._cdata
            for name, value in given
            if name in info.writes
            for tensor in plain_tensors(value)
        }
        before = [
            (name, tensor, contents(tensor))
            for name, value in given
            for tensor in plain_tensors(value)
            if tensor.untyped_storage()._cdata not in written
        ]
        result = func(*args, **(kwargs or {}))
        self.found.update(
            (info.type, name) for name, tensor, old in before if contents(tensor) != old
        )
        return result


@pytest.mark.parametrize("name", TRAININGS)
def test_no_op_writes_to_an_input_that_is_not_known_to_be_written(name: str) -> None:
    torch.manual_seed(0)
    with Witness() as witness:
        TRAININGS[name]()
    assert witness.found == set()


def test_a_nested_list_of_tensors_is_no_attribute() -> None:
    """``all_gather`` takes a list of lists of tensors: inputs, not options."""
    info = op_info(torch.ops.c10d.allgather_.default)
    outputs = [[torch.zeros(2), torch.zeros(2)]]
    assert attributes_of(info, (outputs, [torch.ones(2)], None, True, -1), None) == (
        ("process_group", "None"),
        ("async_op", "True"),
        ("timeout", "-1"),
    )


def test_the_text_of_a_storage_runs_no_op() -> None:
    given = torch.ones(1000)
    info = op_info(torch.ops.aten.set_.source_Storage)
    with CountOps() as counted:
        text = dict(attributes_of(info, (given, given.untyped_storage()), None))
    assert text == {"source": "UntypedStorage"}
    assert counted.ops == 0


class CountOps(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.ops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops += 1
        return func(*args, **(kwargs or {}))
