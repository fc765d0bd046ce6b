"""Sample graphs of any size, as a training sends them."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.wire.shapes import Category, InputEdge, Node, Phase, SourceLine, TensorType

BATCH, WIDTH = 32, 64
_ROWS = TensorType("float32", (BATCH, WIDTH))
_WEIGHT = TensorType("float32", (WIDTH, WIDTH))
_SCALAR = TensorType("float32", ())
_NETWORK = "Default/network-Net"


class _Builder:
    """Adds nodes in execution order; each method returns the full name of its node."""

    def __init__(self, file: str) -> None:
        self.nodes: list[Node] = []
        self._file = file
        self._types: dict[str, TensorType] = {}
        self._counts: dict[str, int] = {}

    def leaf(self, kind: str, name: str, scope: str, type_: TensorType) -> str:
        categories: tuple[Category, ...] = ("tensor",)
        if kind == "parameter":
            categories = ("weight", "tensor")
        node = Node(
            name,
            kind.capitalize(),
            scope,
            "forward",
            "parameter" if kind == "parameter" else "input",
            len(self.nodes),
            (),
            (type_,),
            (),
            (),
            categories,
        )
        return self._add(node, type_)

    def op(
        self,
        type_: str,
        scope: str,
        inputs: Sequence[str],
        output: TensorType = _ROWS,
        phase: Phase = "forward",
        line: int = 10,
        categories: tuple[Category, ...] = ("tensor",),
    ) -> str:
        number = self._counts.get(f"{scope}/{type_}", 0)
        self._counts[f"{scope}/{type_}"] = number + 1
        edges = tuple(InputEdge(name, 0, self._types[name]) for name in inputs)
        source = SourceLine(self._file, line, "forward", f"x = self.{type_}(x)  # line {line}")
        outer = SourceLine(self._file, 99, "<module>", "loss = model(x).mean()")
        node = Node(
            f"{scope}/{type_}-op{number}",
            type_,
            scope,
            phase,
            "op",
            len(self.nodes),
            edges,
            (output,),
            (("alpha", "1"),),
            (source, outer),
            categories,
        )
        return self._add(node, output)

    def _add(self, node: Node, type_: TensorType) -> str:
        self.nodes.append(node)
        self._types[node.name] = type_
        return node.name


def sample_graph(blocks: int = 4, file: str = "/home/me/train.py") -> tuple[Node, ...]:
    """A residual network of ``blocks`` equal blocks: forward, a loss with a ``log``, backward,
    optimizer. 9 nodes per block."""
    build = _Builder(file)
    x = build.leaf("input", "data", "", _ROWS)
    weights: list[tuple[str, str, str]] = []
    for number in range(blocks):
        scope = f"{_NETWORK}/blocks-ModuleList/{number}-Block"
        linear = f"{scope}/linear-Linear"
        weight = build.leaf("parameter", f"blocks.{number}.linear.weight", linear, _WEIGHT)
        inner = build.op("addmm", linear, [x, weight], line=11)
        act = build.op(
            "tanh", f"{scope}/act-Tanh", [inner], line=12, categories=("activation", "tensor")
        )
        weights.append((weight, inner, x))
        x = build.op("add", scope, [x, act], line=13)
    log = build.op("log", f"{_NETWORK}/loss-Loss", [x], line=20)
    loss = build.op("mean", f"{_NETWORK}/loss-Loss", [log], _SCALAR, line=21)
    gradient = build.op("ones_like", "Gradients/Default", [loss], _SCALAR, "backward")
    for number, (weight, inner, read) in reversed(list(enumerate(weights))):
        scope = f"Gradients/{_NETWORK}/blocks-ModuleList/{number}-Block"
        back = build.op("tanh_backward", f"{scope}/act-Tanh", [gradient, inner], phase="backward")
        step = build.op(
            "mm",
            f"{scope}/linear-Linear",
            [back, read],
            _WEIGHT,
            "backward",
            categories=("gradient", "tensor"),
        )
        gradient = build.op("add", scope, [gradient, back], phase="backward")
        scaled = build.op("mul", "Default/optimizer-SGD", [step], _WEIGHT, "optimizer", line=30)
        build.op("sub_", "Default/optimizer-SGD", [weight, scaled], _WEIGHT, "optimizer", line=31)
    return tuple(build.nodes)
