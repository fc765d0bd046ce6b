"""Copies of tensors that were made early are used only while they are those of the step."""

from __future__ import annotations

import torch

from sonde.adapters.torch.replay.storage.copy_memory import CopyMemory
from sonde.adapters.torch.replay.storage.tensor_files import TensorWriter, Weights


def collected(*tensors: torch.Tensor) -> Weights:
    writer = TensorWriter()
    for number, each in enumerate(tensors):
        writer.add(each, "weights", f"w{number}")
    return writer.collected()[1]


def copied(memory: CopyMemory, *tensors: torch.Tensor) -> list[list[float]]:
    weights = memory.copy(collected(*tensors))["weights"]
    with torch.no_grad():
        for each in tensors:
            each.zero_()  # the copies must not change with them
    return [each.bits().tolist() for each in weights]


def test_an_early_copy_is_used() -> None:
    memory, weight = CopyMemory(), torch.nn.Parameter(torch.ones(3))
    memory.copy_early([weight.detach()])
    weight.data.fill_(2)  # torch does not count this write, so it shows which copy is used
    assert copied(memory, weight) == [[1, 1, 1]]


def test_a_tensor_that_was_written_to_is_copied_again() -> None:
    memory, one, other = CopyMemory(), torch.ones(3), torch.ones(2)
    memory.copy_early([one, other])
    one.add_(1)
    assert copied(memory, one, other) == [[2, 2, 2], [1, 1]]


def test_other_memory_is_copied_again() -> None:
    memory, weight = CopyMemory(), torch.nn.Parameter(torch.ones(3))
    memory.copy_early([weight.detach()])
    weight.data = torch.full((3,), 5.0)
    assert copied(memory, weight) == [[5, 5, 5]]


def test_memory_is_used_again_for_tensors_of_any_type_and_shape() -> None:
    memory = CopyMemory()
    for value in (1, 2):
        wide = torch.full((2, 2), value, dtype=torch.bfloat16)
        part = torch.full((4, 2), float(value))[::2]
        memory.copy_early([wide, part, torch.empty(0)])
        stored = memory.copy(collected(wide, part, torch.empty(0), torch.tensor(value)))["weights"]
        assert [each.nbytes for each in stored] == [8, 24, 0, 8]
        bits = {each.name: each.bits().tobytes() for each in stored}
        assert bits["w0"] == wide.view(torch.uint8).numpy().tobytes()
        assert bits["w3"] == torch.tensor(value).numpy().tobytes()
