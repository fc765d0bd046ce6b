"""A graph as the page shows it first: the parts of a step, without what no user wrote."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.graph.test_levels import edges, op

from sonde.server.graph.index import GraphIndex
from sonde.server.graph.initial_view import opening_of_model
from sonde.server.graph.labels import group_label, leaf_label, scope_label
from sonde.server.graph.levels import level
from sonde.server.graph.search import PageWindow, op_view, scopes, tree
from sonde.server.graph.step_parts import part_of_scope
from sonde.testing.sample_graph import sample_graph
from sonde.wire.shapes import Node, Phase, SourceLine

LOOP = "/home/me/train.py"


def at(node: Node, *frames: tuple[int, str, str], phase: Phase = "forward") -> Node:
    """``node`` with a stack of frames, each as line, function and code, innermost first."""
    sources = tuple(SourceLine(LOOP, line, function, code) for line, function, code in frames)
    return msgspec.structs.replace(node, sources=sources, phase=phase)


def numbered(nodes: Sequence[Node]) -> GraphIndex:
    return GraphIndex(
        0, "g", [msgspec.structs.replace(node, order=n) for n, node in enumerate(nodes)]
    )


def training_step() -> list[Node]:
    main = "<module>"
    return [
        at(op("Default/randn-op0"), (1, main, "x = torch.randn(8, 4)")),
        at(op("Default/randint-op0"), (2, main, "y = torch.randint(0, 4, (8,))")),
        op("fc.weight", kind="parameter", type_="Parameter", scope=""),
        at(op("Default/network-Net/fc-Linear/addmm-op0", "Default/randn-op0", "fc.weight")),
        at(op("Default/network-Net/tanh-op0", "Default/network-Net/fc-Linear/addmm-op0")),
        at(op("Default/network-Net/detach-op0", "Default/network-Net/tanh-op0")),
        at(
            op("Default/_log_softmax-op0", "Default/network-Net/tanh-op0"),
            (3, main, "loss = F.cross_entropy(net(x), y)"),
        ),
        at(
            op("Default/nll_loss_forward-op0", "Default/_log_softmax-op0", "Default/randint-op0"),
            (3, main, "loss = F.cross_entropy(net(x), y)"),
        ),
        at(
            op(
                "Gradients/Default/network-Net/tanh_backward-op0",
                "Default/network-Net/detach-op0",
                "Default/nll_loss_forward-op0",
            ),
            phase="backward",
        ),
        op("data-7", kind="constant", type_="Constant", scope=""),
        at(
            op("Default/_foreach_norm-op0", "Gradients/Default/network-Net/tanh_backward-op0"),
            (5, main, "nn.utils.clip_grad_norm_(net.parameters(), 1.0)"),
        ),
        at(
            op("Default/mul-op0", "Default/_foreach_norm-op0", "data-7"),
            (5, main, "nn.utils.clip_grad_norm_(net.parameters(), 1.0)"),
        ),
        at(
            op("Default/optimizer-SGD/add_-op0", "fc.weight", "Default/mul-op0"),
            (6, main, "opt.step()"),
            phase="optimizer",
        ),
    ]


def test_targets_are_data_and_terms_of_weights_are_a_part_of_their_own() -> None:
    data, labels, *rest = training_step()
    weight, network = rest[0], rest[1:]
    decay = at(op("Default/pow-op0", "fc.weight"), (8, "<module>", "l2 = (weight ** 2).sum()"))
    ones = at(op("Default/ones-op0"), (9, "<module>", "real = bce(D(x), torch.ones(8, 1))"))
    judge = at(op("Default/D-Net/mul-op0", "Default/network-Net/tanh-op0"))
    nodes = [data, labels, weight, decay, *network[:3], ones, judge, *network[3:]]
    summary = numbered(nodes).summary
    found = {node.path: node.part for node in level(summary, "").nodes}
    assert found["Default/regularizer/"] == "loss"
    assert "Default/ones-op0" not in found
    inside = [node.path for node in level(summary, "Default/data/").nodes if node.what == "op"]
    assert inside == ["Default/randn-op0", "Default/randint-op0", "Default/ones-op0"]


def test_terms_added_to_the_result_of_a_loss_module_are_not_named_by_its_call() -> None:
    data, labels, weight, *network = training_step()[:6]
    line = (3, "<module>", "loss = criterion(net(x), y) + 1e-4 * weight.pow(2).sum()")
    nodes = [
        *(data, labels, weight, *network),
        at(op("Default/loss-CrossEntropyLoss/nll-op0", "Default/network-Net/tanh-op0"), line),
        at(op("Default/pow-op0", "fc.weight"), line),
        at(op("Default/add-op0", "Default/loss-CrossEntropyLoss/nll-op0", "Default/pow-op0"), line),
        *training_step()[8:],
    ]
    found = {node.path: node.part for node in level(numbered(nodes).summary, "").nodes}
    assert found["Default/loss-CrossEntropyLoss/"] == found["Default/loss/"] == "loss"
    assert "Default/criterion/" not in found


def test_ops_outside_of_modules_are_in_scopes_of_the_functions_that_ran_them() -> None:
    summary = numbered(training_step()).summary
    found = {node.path: node for node in level(summary, "").nodes}
    assert {path: node.part for path, node in found.items()} == {
        "Default/data/": "data",
        "Default/network-Net/": "network",
        "Default/cross_entropy/": "loss",
        "Gradients/": "backward",
        "Default/clip_grad_norm_/": "gradients",
        "Default/optimizer-SGD/": "optimizer",
    }
    loss = found["Default/cross_entropy/"]
    assert loss.is_function
    assert loss.members == ("Default/_log_softmax-op0", "Default/nll_loss_forward-op0")
    assert found["Gradients/"].label == "Backward"
    assert not found["Default/network-Net/"].is_function


def test_everything_is_shown_as_it_is_named() -> None:
    index = numbered(training_step())
    assert index.seen_as("everything") is index
    assert index.seen_as("model") is index.seen_as("step") is index.summary
    assert [node.label for node in level(index, "").nodes if node.what == "scope"] == [
        "Forward",
        "Backward",
    ]


def test_a_function_of_the_user_names_its_ops() -> None:
    nodes = training_step()
    loop = (9, "train", "loss = my_loss(net(x), y)")
    nodes[6] = at(nodes[6], (20, "my_loss", "p = log_softmax(x)"), loop)
    nodes[7] = at(nodes[7], (21, "my_loss", "return -p[y]"), loop)
    nodes[12] = at(nodes[12], (11, "train", "opt.step()"), phase="optimizer")
    assert "Default/my_loss/" in {node.path for node in level(numbered(nodes).summary, "").nodes}


def test_helpers_and_constants_are_folded_and_edges_lead_past_them() -> None:
    index = numbered(training_step())
    summary = index.summary
    inner = level(summary, "Default/network-Net/")
    assert not any("detach" in node.path for node in inner.nodes)
    assert "data-7" not in {entry.path for entry in tree(summary, "", PageWindow(), {}).entries}
    between = edges(level(summary, ""))
    assert ("Default/network-Net/", "Gradients/", 1) in between
    assert {name for name, hidden in zip(index.numbers, summary.hidden, strict=True) if hidden} == {
        "Default/network-Net/detach-op0",
        "data-7",
    }
    view = op_view(index, "Default/network-Net/detach-op0", 0)
    assert (view.shown_in, view.is_folded) == ("Default/network-Net/", True)
    assert op_view(index, "Default/mul-op0", 0).shown_in == "Default/clip_grad_norm_/"


def test_an_op_is_shown_with_its_neighbours_past_the_ops_that_nobody_wrote() -> None:
    index = numbered(training_step())
    detach, tanh = "Default/network-Net/detach-op0", "Default/network-Net/tanh-op0"
    reader = "Gradients/Default/network-Net/tanh_backward-op0"
    whole, short = (op_view(index, tanh, 0, view) for view in ("everything", "model"))
    assert {name for _, name in whole.consumers} == {detach, "Default/_log_softmax-op0"}
    assert {name for _, name in short.consumers} == {reader, "Default/_log_softmax-op0"}
    whole, short = (op_view(index, reader, 0, view) for view in ("everything", "model"))
    assert whole.node.inputs[0].producer == detach
    assert (short.node.inputs[0].producer, short.node.inputs[0].slot) == (tanh, 0)
    assert short.node.inputs[1:] == whole.node.inputs[1:]
    folded = op_view(index, detach, 0, "model")
    assert [name for _, name in folded.consumers] == [reader]


@pytest.mark.parametrize("has_reader", [True, False])
def test_a_detach_that_the_user_wrote_stays(has_reader: bool) -> None:
    written = at(op("Default/detach-op0", "Default/a-op0"), (1, "f", "y = x.detach()"))
    nodes = [op("Default/a-op0"), written]
    if has_reader:
        nodes[1] = op("Default/detach-op0", "Default/a-op0")
        nodes.append(op("Default/b-op0", "Default/detach-op0"))
    assert not numbered(nodes).summary.hidden.any()


def test_nodes_that_only_order_others_are_folded_and_parameters_are_in_their_modules() -> None:
    net = "Default/network-Net"
    nodes = [
        op("fc.weight", kind="parameter", type_="Parameter", scope=""),
        op(f"{net}/Load-op0", "fc.weight", type_="Load"),
        op(f"{net}/fc-Dense/MatMul-op0", f"{net}/Load-op0", type_="MatMul"),
        op("Default/MakeTuple-op0", f"{net}/fc-Dense/MatMul-op0", type_="MakeTuple"),
        op("Default/UpdateState-op0", "Default/MakeTuple-op0", type_="UpdateState"),
        op(
            "Default/Depend-op0", "Default/MakeTuple-op0", "Default/UpdateState-op0", type_="Depend"
        ),
        op(f"{net}/out-Dense/ReLU-op0", "Default/Depend-op0", type_="ReLU"),
    ]
    summary = numbered(nodes).summary
    assert summary.hidden.tolist() == [False, True, False, True, True, True, False]
    dense = level(summary, f"{net}/fc-Dense/")
    assert "fc.weight" in {node.path for node in dense.nodes if node.what != "outside"}
    assert edges(level(summary, net)) == {(f"{net}/fc-Dense/", f"{net}/out-Dense/", 1)}


@given(st.integers(1, 20))
def test_a_summary_loses_no_op_and_no_scope_of_the_network(blocks: int) -> None:
    index = GraphIndex(0, "g", sample_graph(blocks))
    summary = index.summary
    kept = sum(
        node.kind == "op"
        for node, hidden in zip(index.nodes, summary.hidden, strict=True)
        if not hidden
    )
    assert sum(node.ops for node in level(summary, "").nodes if node.what == "scope") <= kept
    names = {scope.path for scope in index.scopes if "network-" in scope.path}
    assert names <= {scope.path for scope in summary.scopes}
    assert (summary.edges.source < len(index)).all()
    assert not summary.hidden[summary.edges.source].any()
    assert not summary.hidden[summary.edges.target].any()


def test_only_networks_are_opened_at_first_and_the_core_of_a_wrapper_with_it() -> None:
    net = "Default/network-WithLoss"
    inner = [op(f"{net}/back-Net/k{n}-Linear/k{n}-op0") for n in range(9)]
    index = numbered([*inner, op(f"{net}/loss_fn-CE/nll-op0", inner[-1].name)])
    assert opening_of_model(index.summary, 60).depths[0] == (f"{net}/", f"{net}/back-Net/")
    step = numbered(training_step())
    opened = {scope for depth in opening_of_model(step.summary, 60).depths for scope in depth}
    assert opened == {"Default/network-Net/", "Default/network-Net/fc-Linear/"}


def test_parts_of_a_step_by_their_scopes() -> None:
    assert part_of_scope("Gradients/") == "backward"
    assert part_of_scope("recompute_Default/") == "recomputed"
    assert part_of_scope("Default/optimizer-Adam/") == "optimizer"
    assert part_of_scope("Default/loss-Mine/") == "loss"
    assert part_of_scope("Default/bce-BCEWithLogitsLoss_1/") == "loss"
    assert part_of_scope("Default/G-Generator/") == "network"
    assert part_of_scope("Default/network-NetWithLoss/") == "network"


def test_labels_are_those_that_people_read() -> None:
    assert [scope_label(each) for each in ("Default", "Gradients", "recompute_Default", "fc")] == [
        "Forward",
        "Backward",
        "Recomputed",
        "fc",
    ]
    assert leaf_label("data-3", "constant") == "constant 3"
    assert leaf_label("Default_data-0", "input") == "input 0"
    assert leaf_label("fc.weight", "parameter") == "fc.weight"
    assert group_label([f"{n}-Block" for n in range(6)]) == "Block 0-5"
    assert group_label(["0-Block", "2-Block"]) == "Block"
    assert group_label(["fc1-Dense", "fc2-Dense", "fc3-Dense"]) == "Dense fc1-fc3"
    assert group_label(["conv1", "conv2"]) == "conv"


def test_scopes_are_found_by_words_of_their_path() -> None:
    summary = numbered(training_step()).summary
    found = scopes(summary, "net LINEAR", 10)
    assert [each.path for each in found.scopes] == ["Default/network-Net/fc-Linear/"]
    assert scopes(summary, "", 2).total == len(summary.scopes) - 1
    assert scopes(summary, "nothing", 2).scopes == ()
