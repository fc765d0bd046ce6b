"""A fault planted in one layer is named, in both directions; rounding is not."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.compare.runs.planted import dumped, gpt, resnet

from sonde.adapters.torch.attach import attach
from sonde.capture.options import config_from_options
from sonde.compare.runs.compare import compare
from sonde.dump.reader import Dump

Training = Callable[[str], Callable[[], Any]]

RESIDUAL = "Default/network-ResNet18/layers-Sequential/3-Residual"
BLOCK = "Default/network-GPT/blocks-ModuleList/2-Block"

FAULTS: list[tuple[Training, str, str, str, str]] = [
    (resnet, "weight", f"{RESIDUAL}/conv2-Conv2d/convolution-op0", "", "layers.3.conv2.weight"),
    (resnet, "eps", f"{RESIDUAL}/bn2-BatchNorm2d/native_batch_norm-op0", "", "eps is 0.001"),
    (resnet, "activation", f"{RESIDUAL}/gelu-op0", f"{RESIDUAL}/relu-op0", "gelu in a, relu in b"),
    (
        resnet,
        "residual",
        f"{RESIDUAL}/bn2-BatchNorm2d/native_batch_norm-op0",
        f"{RESIDUAL}/add-op0",
        "missing or added",
    ),
    (resnet, "bfloat16", f"{RESIDUAL}/conv2-Conv2d/convolution-op0", "", "bfloat16 in a"),
    (resnet, "rate", "Default/optimizer-SGD/add_-op0", "", "alpha is -0.11"),
    (gpt, "weight", f"{BLOCK}/fc-Linear/addmm-op0", "", "blocks.2.fc.weight"),
    (gpt, "eps", f"{BLOCK}/ln2-LayerNorm/native_layer_norm-op0", "", "eps is 0.001"),
    (gpt, "activation", f"{BLOCK}/gelu-op0", "", "approximate is 'tanh' in a"),
    (
        gpt,
        "residual",
        f"{BLOCK}/out-Linear/addmm-op0",
        f"{BLOCK}/add-op1",
        "missing or added",
    ),
    (gpt, "bfloat16", f"{BLOCK}/fc-Linear/addmm-op0", "", "bfloat16 in a"),
    (gpt, "rate", "Default/optimizer-SGD/add_-op0", "", "alpha is -0.11"),
]


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> dict[Training, Dump]:
    """Both networks without a fault, two steps."""
    torch.set_num_threads(1)  # The numbers do not depend on it, the time does.
    place = tmp_path_factory.mktemp("right")
    return {each: dumped(place / each.__name__, each("")) for each in (resnet, gpt)}


@pytest.mark.document(
    86,
    says="ensuring the same settings for the relevant hyperparameters",
    how="`sonde compare A B` names those that differ, such as eps or the learning rate",
)
@pytest.mark.parametrize(
    ("training", "fault", "a", "b", "cause"),
    FAULTS,
    ids=[f"{each[0].__name__}-{each[1]}" for each in FAULTS],
)
def test_the_op_with_the_fault_is_the_first_divergence(
    training: Training,
    fault: str,
    a: str,
    b: str,
    cause: str,
    tmp_path: Path,
    right: dict[Training, Dump],
) -> None:
    wrong = dumped(tmp_path / "wrong", training(fault), steps="0")
    found = compare(wrong, right[training])
    assert found.verdict == "diverged"
    first = found.first_divergence
    assert first is not None
    assert (first.pair.step, first.pair.a, first.pair.b) == (0, a, b or a)
    assert cause in first.cause
    assert first.confidence == "high"
    finding = first.finding
    assert (finding.severity, finding.message) == ("error", first.cause)
    assert finding.status in ("established", "supported")
    assert finding.where is not None
    assert finding.where.step == 0
    assert (finding.source, finding.evidence["rank"]) == (first.pair.source_a, 0)
    assert finding.evidence["error"] == first.tensor.error
    assert finding.advice
    assert first.inheritors > 20 or fault == "rate"
    assert first.pair.source_a is not None
    assert first.pair.source_a.file.endswith(("planted.py", "nets.py"))


@pytest.mark.parametrize("training", [resnet, gpt])
def test_equal_runs_are_aligned_and_every_tensor_is_equal(
    training: Training, tmp_path: Path, right: dict[Training, Dump]
) -> None:
    found = compare(dumped(tmp_path / "again", training("")), right[training])
    assert (found.verdict, found.first_divergence, found.unpaired) == ("aligned", None, ())
    assert {pair.status for pair in found.pairs} <= {"equal", "not dumped"}
    assert [loss.agrees for loss in found.losses] == [True, True]


@pytest.mark.parametrize("training", [resnet, gpt])
def test_lower_precision_throughout_is_attributed_to_no_op(
    training: Training, tmp_path: Path, right: dict[Training, Dump]
) -> None:
    lower = dumped(tmp_path / "lower", training("autocast"))
    for found in (compare(lower, right[training]), compare(right[training], lower)):
        assert (found.verdict, found.first_divergence) == ("aligned", None)
        assert any("lower precision" in note for note in found.notes)
        assert {growth.step for growth in found.growth} == {0, 1}
        assert all(growth.last > 1e-3 for growth in found.growth)


def test_a_wrong_weight_is_also_found_by_statistics_and_the_report_says_so(tmp_path: Path) -> None:
    for name, fault in (("a", "weight"), ("b", "")):
        train = gpt(fault)
        config = config_from_options(str(tmp_path / name), {}, stats=True, net_name="Net")
        with attach(config, starts_at_once=True, step_by="optimizer"):
            train()
    found = compare(Dump(tmp_path / "a"), Dump(tmp_path / "b"))
    assert (found.verdict, found.by) == ("diverged", "statistics")
    assert found.first_divergence is not None
    assert found.first_divergence.pair.a == f"{BLOCK}/fc-Linear/addmm-op0"
    assert any("by statistics" in note for note in found.notes)


def test_without_graphs_the_names_of_files_and_the_inputs_are_enough(tmp_path: Path) -> None:
    dumps = {}
    for name, fault in (("wrong", "activation"), ("right", "")):
        dumped(tmp_path / name, gpt(fault), steps="0")
        shutil.rmtree(tmp_path / name / "rank_0" / "graphs")
        dumps[name] = Dump(tmp_path / name)
    found = compare(dumps["wrong"], dumps["right"])
    assert found.first_divergence is not None
    assert found.first_divergence.pair.a == f"{BLOCK}/gelu-op0".replace("/", "_")
    assert found.first_divergence.pair.input_error == 0.0
