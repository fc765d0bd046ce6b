"""A small graph made by hand that has one of everything the graph files can hold, and signals."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sonde.core.graph import Edge, Graph, OpNode, Source, TensorSpec
from sonde.monitor.ring import SignalRing
from sonde.monitor.signals import Signals

_CONV = Source("/home/ada/net.py", 26, "forward", "        x = self.bn(self.conv(x))")
_CALL = Source("/home/ada/train.py", 41, "<module>", "    loss = criterion(net(images), labels)")
_LOSS = Source("/home/ada/net.py", 29, "forward", "        return x.sum() / 2  # mean of two")
_STEP = Source("/home/ada/train.py", 43, "<module>", "    optimizer.step()")

_IMAGE = TensorSpec("float32", (2, 3, 8, 8))
_WEIGHT = TensorSpec("bfloat16", (4, 3, 3, 3))
_FEATURE = TensorSpec("float32", (2, 4, 6, 6))
_CHANNEL = TensorSpec("float32", (4,))
_SCALAR = TensorSpec("float32", ())

_SCOPE = "Default/network-Net"
_GRADIENT = f"Gradients/{_SCOPE}"


def _leaves() -> dict[str, OpNode]:
    return {
        "image": OpNode("input0", "Input", "", "forward", "input", (), (_IMAGE,)),
        "weight": OpNode(
            f"{_SCOPE}/conv.weight",
            "Parameter",
            _SCOPE,
            "forward",
            "parameter",
            (),
            (_WEIGHT,),
            (("requires_grad", "True"),),
        ),
        "two": OpNode(
            "data-0",
            "Constant",
            _SCOPE,
            "forward",
            "constant",
            (),
            (TensorSpec("int64", ()),),
            (("value", "2"),),
            (_LOSS,),
        ),
        "odd": OpNode(
            "prüfung",
            "Constant",
            "",
            "forward",
            "constant",
            (),
            (TensorSpec("float8_e4m3fn", (0, 7)), TensorSpec("complex32", (2,))),
        ),
    }


def sample_graph() -> Graph:
    leaf = _leaves()
    conv = OpNode(
        f"{_SCOPE}/conv-Conv2d/convolution-op1",
        "convolution",
        f"{_SCOPE}/conv-Conv2d",
        "forward",
        "op",
        (Edge("input0", 0, _IMAGE), Edge(leaf["weight"].name, 0, _WEIGHT)),
        (_FEATURE,),
        (("stride", "[1, 1]"), ("transposed", "False"), ("note", 'a "b", {c}: d\ne')),
        (_CONV, _CALL),
    )
    norm = OpNode(
        f"{_SCOPE}/bn-BatchNorm2d/native_batch_norm-op2",
        "native_batch_norm",
        f"{_SCOPE}/bn-BatchNorm2d",
        "forward",
        "op",
        (Edge(conv.name, 0, _FEATURE), Edge(None, 0, _CHANNEL)),
        (_FEATURE, _CHANNEL, _CHANNEL),
        (("eps", "1e-05"),),
        (_CONV, _CALL),
    )
    total = OpNode(
        f"{_SCOPE}/sum-op3",
        "sum",
        _SCOPE,
        "forward",
        "op",
        # The same values seen with another shape than their producer gave them.
        (Edge(norm.name, 0, TensorSpec("float32", (288,))),),
        (_SCALAR,),
        (),
        (_LOSS, _CALL),
    )
    half = OpNode(
        f"{_SCOPE}/div-op4",
        "div",
        _SCOPE,
        "forward",
        "op",
        (Edge(total.name, 0, _SCALAR), Edge("data-0", 0, TensorSpec("int64", ()))),
        (_SCALAR,),
        (),
        (_LOSS, _CALL),
    )
    back = OpNode(
        f"{_GRADIENT}/bn-BatchNorm2d/native_batch_norm_backward-op5",
        "native_batch_norm_backward",
        f"{_GRADIENT}/bn-BatchNorm2d",
        "backward",
        "op",
        (Edge(half.name, 0, _SCALAR), Edge(norm.name, 2, _CHANNEL), Edge("gone", 1, _CHANNEL)),
        (_FEATURE, _CHANNEL),
        (),
        (_CONV, _CALL),
    )
    update = OpNode(
        "Default/optimizer-SGD/_foreach_add_-op6",
        "_foreach_add_",
        "Default/optimizer-SGD",
        "optimizer",
        "op",
        (Edge(leaf["weight"].name, 0, _WEIGHT), Edge(back.name, 1, _CHANNEL)),
        (),
        (("alpha", "-0.1"),),
        (_STEP,),
    )
    return Graph(
        3,
        "Net",
        (
            leaf["image"],
            leaf["weight"],
            conv,
            norm,
            total,
            leaf["two"],
            half,
            back,
            leaf["odd"],
            update,
        ),
    )


def sample_signals() -> bytes:
    """The file with the signals of six steps, which has room for four."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "signals.rank_2.ring"
        ring = SignalRing(path, 2, rows=4)
        ring.know(["fc.weight", "fc.bias"])
        for step in range(6):
            signals = Signals(step, time=1000.0 + step, loss=step + 0.5, grad_norm=2.0)
            signals.weight_norm, signals.update_ratio, signals.learning_rate = 3.0, 0.125, 0.01
            signals.loss_scale, signals.step_seconds = 1024.0, 0.5
            signals.batch_hash = 2**64 - 1 - step
            signals.gradients = np.array([step / 4, np.inf], np.float32)
            ring.write(signals)
        ring.close()
        return path.read_bytes()
