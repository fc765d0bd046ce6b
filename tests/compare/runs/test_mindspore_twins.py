"""A real MindSpore dump against PyTorch ports of its script, run under Sonde; answers known."""

import lzma
import subprocess
import tarfile
from pathlib import Path

import pytest
from tests.warm_python.starting import warm_python

from sonde.compare.runs.compare import compare
from sonde.compare.runs.result import OpPair, RunComparison
from sonde.dump.reader import Dump

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "bn_compare.tar.xz"
SCOPE = "Default/network-WithLossCell/_backbone-ConvBN"

LAYERS = {
    f"{SCOPE}/conv1-Conv2d/BiasAdd-op0": "conv1-Conv2d/convolution-op0",
    f"{SCOPE}/bn1-BatchNorm2d/BatchNorm-op0": "bn1-BatchNorm2d/native_batch_norm-op0",
    f"{SCOPE}/relu1-ReLU/ReLU-op0": "relu1-ReLU/relu-op0",
    f"{SCOPE}/pool-MaxPool2d/MaxPool-op0": "pool-MaxPool2d/max_pool2d_with_indices-op0",
    f"{SCOPE}/conv2-Conv2d/BiasAdd-op0": "conv2-Conv2d/convolution-op0",
    f"{SCOPE}/bn2-BatchNorm2d/BatchNorm-op0": "bn2-BatchNorm2d/native_batch_norm-op0",
    f"{SCOPE}/relu2-ReLU/ReLU-op0": "relu2-ReLU/relu-op0",
    f"{SCOPE}/flatten-Flatten/Flatten-op0": "flatten-Flatten/view-op0",
    f"{SCOPE}/fc-Dense/BiasAdd-op0": "fc-Linear/addmm-op0",
}
PARAMETERS = {
    f"{layer}.{ours}": f"{layer}.{theirs}"
    for layer in ("bn1", "bn2")
    for ours, theirs in (
        ("gamma", "weight"),
        ("beta", "bias"),
        ("moving_mean", "running_mean"),
        ("moving_variance", "running_var"),
    )
} | {
    f"{layer}.{name}": f"{layer}.{name}"
    for layer in ("conv1", "conv2", "fc")
    for name in ("weight", "bias")
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("twins")
    with lzma.open(DATA) as data, tarfile.open(fileobj=data) as archive:
        archive.extractall(place, filter="data")
    return place


@pytest.fixture(scope="module")
def comparisons(place: Path) -> dict[str, RunComparison]:
    """MindSpore's run against each port."""
    found = {}
    for twin in ("ok", "wrong_eps", "wrong_momentum"):
        words = ["-m", "sonde", "run", "--dump-to", str(place / twin), f"torch_{twin}.py"]
        subprocess.run([warm_python(), *words], cwd=place, check=True, capture_output=True)
        found[twin] = compare(Dump(place / "dump"), Dump(place / twin))
    return found


def pairs_of(found: RunComparison, step: int) -> dict[str, OpPair]:
    return {pair.a: pair for pair in found.pairs if pair.step == step and pair.how != "update"}


@pytest.mark.parametrize("step", [0, 1])
def test_every_layer_is_paired_with_its_counterpart(
    comparisons: dict[str, RunComparison], step: int
) -> None:
    pairs = pairs_of(comparisons["ok"], step)
    twins = {name: pairs[name].b.removeprefix("Default/network-ConvBN/") for name in LAYERS}
    assert twins == LAYERS
    assert {name: pairs[name].b for name in PARAMETERS} == PARAMETERS


def test_small_ops_are_members_of_the_fused_pair(comparisons: dict[str, RunComparison]) -> None:
    pairs = pairs_of(comparisons["ok"], 0)
    assert pairs[f"{SCOPE}/conv1-Conv2d/BiasAdd-op0"].members_a == (
        f"{SCOPE}/conv1-Conv2d/Conv2D-op0",
    )
    loss = next(pair for pair in pairs.values() if pair.b == "Default/nll_loss_forward-op0")
    assert loss.type_a == "SparseSoftmaxCrossEntropyWithLogits"
    assert loss.members_b == ("Default/_log_softmax-op0",)


def test_gradients_named_after_one_layer_are_paired_by_their_wiring(
    comparisons: dict[str, RunComparison],
) -> None:
    """MindSpore calls the gradient of conv1's bias fc-Dense/Grad_BiasAdd/BiasAddGrad-op2."""
    pairs = comparisons["ok"].pairs
    scope = "Gradients/Default/network-WithLossCell/_backbone-ConvBN"
    twins = {
        pair.b
        for pair in pairs
        if pair.a == f"{scope}/fc-Dense/Grad_BiasAdd/BiasAddGrad-op2" and pair.step == 0
    }
    ours = "Gradients/Default/network-ConvBN/conv1-Conv2d/convolution_backward-op0"
    assert twins == {ours}


def test_the_correct_port_is_aligned_within_the_known_error(
    comparisons: dict[str, RunComparison],
) -> None:
    found = comparisons["ok"]
    assert (found.verdict, found.first_divergence) == ("aligned", None)
    worst = max(
        tensor.distances.max_abs_error
        for pair in found.pairs
        if pair.a in LAYERS or pair.how == "update"
        for tensor in pair.tensors
        if tensor.distances is not None
    )
    assert 0 < worst < 1e-5  # 7.1e-6 where the fixture was made
    losses = [(loss.a, loss.b) for loss in found.losses]
    assert losses[0] == pytest.approx((5.68907356262207, 5.6890716552734375))
    assert losses[1] == pytest.approx((2.46785306930542, 2.4678523540496826))


@pytest.mark.document(
    88,
    says="a benchmark script of another framework",
    how="`sonde compare MINDSPORE_DUMP TORCH_DUMP` pairs the ops of both frameworks",
)
def test_a_wrong_eps_diverges_first_at_its_batch_norm(
    comparisons: dict[str, RunComparison],
) -> None:
    found = comparisons["wrong_eps"]
    first = found.first_divergence
    assert found.verdict == "diverged"
    assert first is not None
    assert first.pair.step == 0
    assert first.pair.a == f"{SCOPE}/bn2-BatchNorm2d/BatchNorm-op0"
    assert first.pair.b == "Default/network-ConvBN/bn2-BatchNorm2d/native_batch_norm-op0"
    assert first.tensor.distances is not None
    assert first.tensor.distances.max_abs_error == pytest.approx(0.2942054271697998, rel=1e-6)
    assert str(first.pair.source_a).endswith("make.py:31")
    assert str(first.pair.source_b).endswith("torch_ok.py:27")
    assert "the forward pass is wrong" in found.reasons[0]


def test_a_wrong_momentum_diverges_first_in_the_running_mean(
    comparisons: dict[str, RunComparison],
) -> None:
    found = comparisons["wrong_momentum"]
    first = found.first_divergence
    assert found.verdict == "diverged"
    assert first is not None
    assert (first.pair.step, first.pair.a, first.pair.b) == (
        0,
        "bn1.moving_mean",
        "bn1.running_mean",
    )
    assert first.tensor.distances is not None
    assert first.tensor.distances.max_abs_error == pytest.approx(0.1164407329633832, rel=1e-6)
    at_fault = [pair.b for pair in found.pairs if pair.status == "diverged"]
    assert at_fault == [
        "bn1.running_mean",
        "bn1.running_var",
        "bn2.running_mean",
        "bn2.running_var",
    ]
    assert [loss.agrees for loss in found.losses] == [True, True]


def test_ops_without_a_counterpart_are_listed(comparisons: dict[str, RunComparison]) -> None:
    unpaired = {(each.side, each.name) for each in comparisons["ok"].unpaired if each.step == 0}
    assert ("a", "global_step") in unpaired
    assert ("b", "bn1.num_batches_tracked") in unpaired
    names_b = {pair.b for pair in comparisons["ok"].pairs if pair.step == 0}
    names_b |= {each for pair in comparisons["ok"].pairs for each in pair.members_b}
    dump = Dump(Path(comparisons["ok"].b.path))
    ops = {node.name for node in dump.graph(0).ops}
    assert ops - names_b - {name for side, name in unpaired if side == "b"} == set()


def test_the_sides_may_be_swapped(place: Path, comparisons: dict[str, RunComparison]) -> None:
    swapped = compare(Dump(place / "wrong_eps"), Dump(place / "dump"))
    first, there = comparisons["wrong_eps"].first_divergence, swapped.first_divergence
    assert first is not None
    assert there is not None
    assert (there.pair.a, there.pair.b) == (first.pair.b, first.pair.a)
    assert compare(Dump(place / "ok"), Dump(place / "dump")).verdict == "aligned"
