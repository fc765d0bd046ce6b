"""The settings in which two trainings differ: arguments of ops, initial weights, hyper-parameters.

A comparison names the first op that diverges; a difference before it hides those after it. The
settings are read from the graphs, so that all of them are found, whatever the values became.
Hyper-parameters of an optimizer are found by what its ops do with a parameter: see `_role`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sonde.compare.runs.result import OpPair, RunComparison
from sonde.compare.runs.tensor_pairs import differing_names
from sonde.core.finding import Finding
from sonde.core.graph import Graph, OpNode, Source
from sonde.core.text.number_text import count_text
from sonde.dump.reader import Dump

KIND = "differs-from-reference"
_MOST_NAMES = 4


@dataclass(slots=True)
class _Difference:
    """One setting with its values, and everything that has it."""

    name: str
    here: str
    there: str
    places: dict[str, None] = field(default_factory=dict)
    lines: dict[Source, None] = field(default_factory=dict)
    count: int = 0


def differing_settings(a: Dump, b: Dump, found: RunComparison) -> list[Finding]:
    """What differs in ``a`` from the reference ``b``, as ``found`` has paired their ops; of the
    first step that both have. If no setting does, the first divergence itself, if there is one."""
    if not found.pairs:
        return []
    step = found.pairs[0].step
    first = [pair for pair in found.pairs if pair.step == step]
    findings = [*_initial_weights(first, step)]
    graphs = a.graphs(step=step), b.graphs(step=step)
    differences = [*_arguments(first, *graphs), *_hyper_parameters(*graphs)]
    findings += [_finding(each, step) for each in differences]
    divergence = found.first_divergence
    if not findings and divergence is not None:
        cause = divergence.finding
        findings.append(
            Finding(
                KIND,
                cause.severity,
                f"{divergence.pair.a} differs from the reference in step {divergence.pair.step}: "
                f"{cause.message}",
                status=cause.status,
                source=cause.source,
                lines=() if cause.source is None else (cause.source,),
                evidence={"error": divergence.tensor.error, "allowed": divergence.pair.allowed},
                advice=cause.advice,
                detail=cause.rule,
                step=divergence.pair.step,
                places=_places(cause.source, [divergence.pair.a]),
            )
        )
    return findings


def _initial_weights(pairs: list[OpPair], step: int) -> Iterator[Finding]:
    wrong = [pair for pair in pairs if pair.kind == "parameter" and pair.status == "diverged"]
    if not wrong:
        return
    worst = max(wrong, key=lambda each: each.error)
    listed = ", ".join(pair.a for pair in wrong[:_MOST_NAMES])
    norms = next((each.distances for each in worst.tensors if each.distances is not None), None)
    values: dict[str, object] = {}
    if norms is not None:
        values = {"here": f"norm {norms.norm_a:.4g}", "reference": f"norm {norms.norm_b:.4g}"}
    yield Finding(
        KIND,
        "error",
        f"{count_text(len(wrong), 'parameter')} of other values than in the reference before step "
        f"{step} begins: {listed}"
        + (f"; {worst.a} has {values['here']}, and {values['reference']} there" if values else ""),
        status="established",
        parameter=worst.a,
        evidence={
            **values,
            "parameters": len(wrong),
            "largest_relative_difference": worst.error,
        },
        advice="start from the same weights: the same initialisation and seed, or one checkpoint; "
        "'sonde params' compares them",
        detail="initial-weights",
        step=step,
        places=tuple(pair.a for pair in wrong[:_MOST_NAMES]),
    )


def _arguments(
    pairs: list[OpPair], here: tuple[Graph, ...], there: tuple[Graph, ...]
) -> list[_Difference]:
    """Arguments of forward ops that differ between ops of one type."""
    left, right = _nodes(here), _nodes(there)
    found: dict[tuple[str, str, str], _Difference] = {}
    for pair in pairs:
        one, other = left.get(pair.a), right.get(pair.b)
        if pair.phase != "forward" or one is None or other is None or one.type != other.type:
            continue
        values, reference = dict(one.attributes), dict(other.attributes)
        for name in differing_names(values, reference):
            key = name, values.get(name, "not given"), reference.get(name, "not given")
            _note(found.setdefault(key, _Difference(*key)), one)
    return list(found.values())


def _hyper_parameters(here: tuple[Graph, ...], there: tuple[Graph, ...]) -> list[_Difference]:
    left, right = _roles(here), _roles(there)
    found = []
    for name in {**left, **right}:
        one, other = left.get(name), right.get(name)
        values = [sorted({} if each is None else each) for each in (one, other)]
        if values[0] == values[1]:
            continue
        shown = [", ".join(each) or "none" for each in values]
        made = _Difference(name, shown[0], shown[1])
        # Of a setting that only the reference has, the ops of the optimizer here show the place.
        here_nodes = _optimizer_ops(here) if one is None else one
        for nodes in here_nodes.values():
            for node in nodes:
                _note(made, node)
        found.append(made)
    return found


def _optimizer_ops(graphs: tuple[Graph, ...]) -> dict[str, list[OpNode]]:
    """The ops that write to parameters in the optimizer."""
    writes = [
        node
        for graph in graphs
        for node in graph.nodes
        if node.kind == "op" and node.phase == "optimizer" and node.type.endswith("_")
    ]
    return {"": writes}


def _roles(graphs: tuple[Graph, ...]) -> dict[str, dict[str, list[OpNode]]]:
    """The hyper-parameters of the optimizers in these graphs: the ops that use each value."""
    found: dict[str, dict[str, list[OpNode]]] = {}
    for graph in graphs:
        weights = {node.name for node in graph.nodes if node.kind == "parameter"}
        types = {node.name: node.type for node in graph.nodes}
        for node in graph.nodes:
            if node.kind != "op" or node.phase != "optimizer" or not node.inputs:
                continue
            for name, value in _role(node, weights, types):
                found.setdefault(name, {}).setdefault(value, []).append(node)
            if node.inputs[0].producer in weights and node.type.endswith("_"):
                weights.add(node.name)  # The parameter after this op wrote to it.
    return found


def _role(node: OpNode, weights: set[str], types: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What a scalar argument of an optimizer's op is: ``grad + alpha * weight`` and ``weight *
    other`` are decays, ``weight + alpha * update`` is a rate, ``sqrt(...) + other`` an eps."""
    kind = node.type.removeprefix("_foreach_").removesuffix("_")
    values = dict(node.attributes)
    takes_weight = node.inputs[0].producer in weights
    reads_weight = any(each.producer in weights for each in node.inputs)
    scalar = values.get("other", values.get("scalar"))
    if node.type.startswith("_fused_"):
        yield from ((key.replace("_", " "), each) for key, each in values.items() if key in _FUSED)
    elif kind == "add" and reads_weight and not takes_weight and "alpha" in values:
        yield "weight decay", values["alpha"]
    elif kind == "mul" and takes_weight and scalar is not None:
        yield "weight decay", f"{_complement(scalar)} of the weight in each step"
    elif kind == "add" and takes_weight and len(node.inputs) > 1 and "alpha" in values:
        yield "learning rate", values["alpha"].removeprefix("-")
    elif kind == "addcdiv" and takes_weight and "value" in values:
        yield "learning rate", values["value"].removeprefix("-")
    elif kind == "add" and scalar is not None and len(node.inputs) == 1:
        if types.get(str(node.inputs[0].producer), "").strip("_") in _ROOTS:
            yield "eps", scalar
    elif kind == "mul" and not reads_weight and scalar is not None:
        yield "momentum", scalar
    elif kind == "lerp" and "weight" in values:
        yield "momentum", _complement(values["weight"])


_FUSED = ("lr", "weight_decay", "eps", "momentum", "beta1", "beta2", "dampening", "nesterov")
_ROOTS = ("sqrt", "div", "foreach_sqrt", "foreach_div")


def _complement(text: str) -> str:
    try:
        return f"{1 - float(text):.6g}"
    except ValueError:  # no number but the name of one
        return f"1 - {text}"


def _note(made: _Difference, node: OpNode) -> None:
    made.count += 1
    if node.source is not None and len(made.lines) < _MOST_NAMES:
        made.lines[node.source] = None
    if len(made.places) < _MOST_NAMES:
        made.places[node.scope.rpartition("/")[2].rpartition("-")[2] or node.type] = None
        made.places[node.name] = None


def _finding(each: _Difference, step: int) -> Finding:
    lines = tuple(each.lines)
    source = lines[0] if lines else None
    where = next(iter(each.places), "")
    return Finding(
        KIND,
        "error",
        f"{each.name} is {each.here} and {each.there} in the reference"
        + (f" ({where})" if where else ""),
        status="established",
        source=source,
        lines=lines,
        evidence={"here": each.here, "reference": each.there, "ops": each.count},
        advice=f"give {each.name} the same value as in the reference: {each.there}",
        detail=each.name.replace(" ", "-"),
        step=step,
        places=_places(source, list(each.places)),
    )


def _places(source: Source | None, names: list[str]) -> tuple[str, ...]:
    if source is None:
        return tuple(names)
    return (f"{source.file.rpartition('/')[2]}:{source.line}", *names)


def _nodes(graphs: tuple[Graph, ...]) -> dict[str, OpNode]:
    return {node.name: node for graph in graphs for node in graph.nodes}
