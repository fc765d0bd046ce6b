"""Levels of a graph, the tree, searches: small graphs by hand, and properties of random ones."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.core.errors import UsageError
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.levels import Marks, level
from sonde.server.graph.scopes import MOST_DEPTH
from sonde.server.graph.search import (
    PageWindow,
    find_op,
    find_target,
    op_view,
    search,
    sources,
    tree,
)
from sonde.server.graph.wiring import MOST_OUTSIDE
from sonde.testing.sample_graph import sample_graph
from sonde.wire.graphs import Level
from sonde.wire.queries import NodesQuery
from sonde.wire.shapes import InputEdge, Node, TensorType

ROWS = TensorType("float32", (32, 64))
BLOCKS = "Default/network-Net/blocks-ModuleList"


def op(
    name: str, *inputs: str, type_: str = "", kind: str = "op", scope: str | None = None
) -> Node:
    found = name.rpartition("/")[0] if scope is None else scope
    label = type_ or name.rpartition("/")[2].partition("-")[0]
    edges = tuple(InputEdge(each, 0, ROWS) for each in inputs)
    return Node(name, label, found, "forward", kind, 0, edges, (ROWS,))  # type: ignore[arg-type]


def graph(*nodes: Node) -> GraphIndex:
    return GraphIndex(
        0, "g", [msgspec.structs.replace(node, order=n) for n, node in enumerate(nodes)]
    )


def drawn(found: Level) -> dict[str, tuple[str, int]]:
    return {node.path: (node.what, node.stands_for) for node in found.nodes}


def edges(found: Level) -> set[tuple[str, str, int]]:
    return {(edge.source, edge.target, edge.tensors) for edge in found.edges}


def test_the_whole_graph_is_its_outermost_boxes() -> None:
    found = level(GraphIndex(0, "g", sample_graph(4)), "")
    assert drawn(found) == {
        "data": ("op", 1),
        "Default/": ("scope", 1),
        "Gradients/": ("scope", 1),
    }
    default = next(node for node in found.nodes if node.path == "Default/")
    assert default.ops == 4 * 3 + 2 + 4 * 2
    assert ("data", "Default/", 1) in edges(found)


def test_equal_blocks_are_drawn_once_and_can_be_opened() -> None:
    index = GraphIndex(0, "g", sample_graph(4))
    found = level(index, BLOCKS)
    assert drawn(found)[f"{BLOCKS}/*0-Block/"] == ("group", 4)
    group = next(node for node in found.nodes if node.what == "group")
    assert group.members == tuple(f"{BLOCKS}/{number}-Block/" for number in range(4))
    opened = level(index, BLOCKS, group.path)
    inside = [node.path for node in opened.nodes if node.what != "outside"]
    assert inside == list(group.members)
    assert (f"{BLOCKS}/0-Block/", f"{BLOCKS}/1-Block/", 1) in edges(opened)


def test_blocks_that_differ_inside_are_drawn_apart() -> None:
    nodes = [op(f"Net/{n}-Block/relu-op{n}") for n in range(3)]
    assert drawn(level(graph(*nodes), "Net")) == {"Net/*0-Block/": ("group", 3)}
    nodes.append(op("Net/3-Block/tanh-op3"))
    assert set(drawn(level(graph(*nodes), "Net"))) == {"Net/*0-Block/", "Net/3-Block/"}
    named = [op(f"Net/{name}-Block/relu-op0") for name in ("encoder", "decoder", "head")]
    assert len(level(graph(*named), "Net").nodes) == 3


def test_blocks_with_others_in_between_are_drawn_apart_unless_they_are_twelve() -> None:
    def net(count: int) -> Level:
        pairs = [
            (f"Net/{2 * n}-Linear/mm-op0", f"Net/{2 * n + 1}-Act/relu-op0") for n in range(count)
        ]
        leaf = op("w", kind="parameter", scope="Net")
        return level(graph(leaf, *(op(name) for pair in pairs for name in pair)), "Net")

    assert {what for what, _ in drawn(net(11)).values()} == {"op", "scope"}
    assert drawn(net(12))["Net/*0-Linear/"] == ("group", 12)
    ends = [op(f"Net/{n}-Block/relu-op0") for n in range(7)]
    ends.insert(3, op("Net/add-op0"))
    assert drawn(level(graph(*ends), "Net")) == {
        "Net/*0-Block/": ("group", 3),
        "Net/add-op0": ("op", 1),
        "Net/*3-Block/": ("group", 4),
    }


def test_twelve_ops_of_a_type_are_drawn_once_and_eleven_are_not() -> None:
    eleven = [op(f"Net/add-op{n}") for n in range(11)]
    assert len(level(graph(*eleven), "Net").nodes) == 11
    twelve = [*eleven, op("Net/add-op11"), op("Net/mul-op0", "Net/add-op11")]
    found = level(graph(*twelve), "Net")
    assert drawn(found) == {"Net/*add-op0": ("group", 12), "Net/mul-op0": ("op", 1)}
    assert edges(found) == {("Net/*add-op0", "Net/mul-op0", 1)}


def test_leaves_numbered_through_are_drawn_once_from_three_on() -> None:
    names = ("data-0", "data-1", "data-2", "batch", "x-0", "x-1", "fc1", "fc2", "fc3")
    leaves = [op(name, type_="Constant", kind="constant", scope="") for name in names]
    reader = op("S/add-op0", *names)
    found = drawn(level(graph(*leaves, reader), "S/"))
    assert found["S/*data-0"] == ("group", 3)
    assert {path for path, (what, _) in found.items() if what == "op"} == {
        *("batch", "x-0", "x-1", "fc1", "fc2", "fc3", "S/add-op0")
    }


def test_what_exchanges_data_with_a_scope_is_shown_outside_it() -> None:
    nodes = [
        op("x", kind="input"),
        op("A/B/relu-op0", "x"),
        op("A/C/D/add-op0", "A/B/relu-op0"),
        op("A/C/mul-op0", "A/C/D/add-op0"),
        op("E/sum-op0", "A/C/mul-op0"),
    ]
    found = level(graph(*nodes), "A/C")
    assert drawn(found) == {
        "A/C/D/": ("scope", 1),
        "A/C/mul-op0": ("op", 1),
        "A/B/": ("outside", 1),
        "E/": ("outside", 1),
    }
    assert edges(found) == {
        ("A/B/", "A/C/D/", 1),
        ("A/C/D/", "A/C/mul-op0", 1),
        ("A/C/mul-op0", "E/", 1),
    }


def test_many_boxes_outside_are_drawn_together() -> None:
    sources_ = [op(f"Net/Other/s{n}-op", type_="s", scope="Net") for n in range(MOST_OUTSIDE + 5)]
    reader = op("Net/In/cat-op0", *(node.name for node in sources_))
    found = level(graph(*sources_, reader), "Net/In")
    outside = [node for node in found.nodes if node.what == "outside"]
    assert [node.stands_for for node in outside] == [MOST_OUTSIDE + 5]
    assert found.edges[0].tensors == MOST_OUTSIDE + 5


def test_an_edge_has_its_type_if_all_its_tensors_have_it() -> None:
    other = TensorType("int64", (2,))
    a = op("A/a-op0")
    b = Node("A/b-op0", "b", "A", "forward", "op", 1, (), (other,))
    both = Node(
        "B/c-op0",
        "c",
        "B",
        "forward",
        "op",
        2,
        (InputEdge("A/a-op0", 0, ROWS), InputEdge("A/b-op0", 0, other)),
        (ROWS,),
    )
    assert level(graph(a, b, both), "").edges[0].label == ""
    assert level(graph(a, b, both), "A").edges[0].label == "float32 [32, 64]"


def test_a_tensor_read_twice_is_one() -> None:
    nodes = [op("A/a-op0"), op("B/x-op0", "A/a-op0"), op("B/y-op0", "A/a-op0")]
    assert level(graph(*nodes), "").edges[0].tensors == 1


def test_a_leaf_without_a_scope_is_where_it_is_read() -> None:
    nodes = [
        op("w", kind="parameter", scope=""),
        op("Net/A/B/mm-op0", "w"),
        op("Net/A/C/mm-op0", "w"),
    ]
    assert "w" in drawn(level(graph(*nodes), "Net/A"))
    assert "w" not in drawn(level(graph(*nodes), "Net"))


def test_a_scope_is_of_the_phase_of_its_first_op_whatever_it_reads() -> None:
    weight = op("w", kind="parameter", scope="A/B")
    first = op("A/B/mul-op0", "w")
    index = graph(weight, msgspec.structs.replace(first, phase="optimizer"), op("C/add-op0"))
    found = {node.path: node for node in level(index, "").nodes}
    assert {path: node.phase for path, node in found.items()} == {
        "A/": "optimizer",
        "C/": "forward",
    }
    assert (found["A/"].first_order, found["A/"].last_order) == (1, 1)


def test_hits_and_origins_are_counted_up_to_the_outermost_box() -> None:
    index = GraphIndex(0, "g", sample_graph(4))
    name = f"{BLOCKS}/2-Block/act-Tanh/tanh-op0"
    marks = Marks({name: 3, "gone": 9}, {name})
    for scope in ("", "Default", "Default/network-Net", BLOCKS):
        found = level(index, scope, marks=marks)
        marked = [(node.hits, node.has_origin) for node in found.nodes if node.hits]
        assert marked == [(3, True)]
    page = tree(index, BLOCKS, PageWindow(), marks.hits)
    assert [entry.hits for entry in page.entries] == [0, 0, 3, 0]


def test_a_scope_or_group_that_is_not_there_is_refused() -> None:
    index = GraphIndex(0, "g", sample_graph(1))
    for scope, group in (("Nowhere", ""), ("Default", "Default/*none")):
        with pytest.raises(UsageError, match=r"no (scope|group)"):
            level(index, scope, group)


def test_scopes_of_any_depth_are_shown() -> None:
    deep = "/".join(f"s{n}" for n in range(3 * MOST_DEPTH))
    index = graph(op(f"{deep}/relu-op0"), op("top-op0", f"{deep}/relu-op0", scope=""))
    scope = ""
    for _ in range(MOST_DEPTH):
        scope = next(n.path for n in level(index, scope).nodes if n.what == "scope")
    assert f"{deep}/relu-op0" in drawn(level(index, scope))


names = st.lists(st.sampled_from(["A", "B", "0-X", "1-X", "2-X"]), max_size=4).map("/".join)


@st.composite
def graphs(draw: st.DrawFn) -> GraphIndex:
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, 40))):
        scope = draw(names)
        kind = draw(st.sampled_from(["op", "op", "op", "parameter"]))
        count = draw(st.integers(0, min(3, number)))
        inputs = [nodes[draw(st.integers(0, number - 1))].name for _ in range(count)]
        type_ = draw(st.sampled_from(["add", "mul"]))
        name = f"{scope}/{type_}-op{number}" if scope else f"{type_}-op{number}"
        nodes.append(op(name, *inputs, kind=kind, type_=type_, scope=scope))
    return graph(*nodes)


@settings(deadline=None, max_examples=60)
@given(graphs())
def test_every_node_is_in_one_box_and_every_edge_is_drawn(index: GraphIndex) -> None:
    for scope in index.scopes:
        found = level(index, scope.path)
        inside = [node for node in found.nodes if node.what != "outside"]
        members = [
            member
            for node in inside
            for member in (node.members if node.stands_for > 1 else [node.path])
        ]
        assert Counter(members) == Counter(
            index.nodes[child].name if child >= 0 else index.scopes[~child].path
            for child in scope.children
        )
        assert sum(node.ops for node in inside) == scope.ops
        paths = {node.path for node in found.nodes}
        assert all({edge.source, edge.target} <= paths for edge in found.edges)
        assert all(edge.source != edge.target for edge in found.edges)
        assert all(
            any(node.path in (edge.source, edge.target) for edge in found.edges)
            for node in found.nodes
            if node.what == "outside"
        )
        assert tree(index, scope.path, PageWindow(), {}).total == len(scope.children)


@settings(deadline=None, max_examples=60)
@given(graphs())
def test_at_the_outermost_level_the_drawn_edges_are_those_of_the_graph(index: GraphIndex) -> None:
    found = level(index, "")
    box = {
        member: node.path
        for node in found.nodes
        for member in (node.members if node.stands_for > 1 else [node.path])
    }

    def place(name: str) -> str:
        number = index.numbers[name]
        top = index.ancestors[1][number] if len(index.ancestors) > 1 else -1
        return box[index.scopes[top].path if top >= 0 else name]

    expected = {
        (place(edge.producer), place(node.name))
        for node in index.nodes
        for edge in node.inputs
        if edge.producer is not None
    }
    assert {(edge.source, edge.target) for edge in found.edges} == {
        (a, b) for a, b in expected if a != b
    }


# ------------------------------------------------------------------ lists


INDEX = GraphIndex(0, "g", sample_graph(4))


def found(query: NodesQuery) -> list[str]:
    return [node.name for node in search(INDEX, query, {"data": 1}).nodes]


@pytest.mark.document(
    231,
    says="the search bar: search for nodes in the graph by node name",
    how="field `Search ops`, key /",
)
def test_a_search_takes_words_in_any_case() -> None:
    assert found(NodesQuery(query="LOG-op")) == ["Default/network-Net/loss-Loss/log-op0"]
    assert found(NodesQuery(query="2-block tanh-op")) == [f"{BLOCKS}/2-Block/act-Tanh/tanh-op0"]
    assert found(NodesQuery(query="no such thing")) == []


@pytest.mark.document(
    232,
    says="Node List: finding nodes among many",
    how="filters by kind, phase, hits, source line and graph",
)
def test_a_search_can_be_narrowed() -> None:
    assert len(found(NodesQuery(category="weight"))) == 4
    assert len(found(NodesQuery(category="gradient"))) == 4
    assert len(found(NodesQuery(category="activation"))) == 4
    assert len(found(NodesQuery(category="tensor"))) == len(INDEX)
    assert len(found(NodesQuery(phase="optimizer"))) == 8
    assert found(NodesQuery(hits=True)) == ["data"]
    assert found(NodesQuery(file="/home/me/train.py", line=20)) == [
        "Default/network-Net/loss-Loss/log-op0"
    ]
    every_op = found(NodesQuery(file="/home/me/train.py", line=99))
    assert len(every_op) == len([node for node in INDEX.nodes if node.kind == "op"])
    assert found(NodesQuery(file="/home/me/train.py")) == every_op


def test_what_an_optimizer_keeps_is_found_in_its_phase() -> None:
    scope = "Default/optimizer-Adam"
    nodes = [
        op("exp_avg", kind="parameter", type_="Parameter", scope=scope),
        op("fc.weight", kind="parameter", type_="Parameter", scope="Default/network-Net"),
        op(f"{scope}/lerp_-op0", "exp_avg"),
    ]
    phases = {"optimizer": ["exp_avg"], "forward": ["fc.weight", f"{scope}/lerp_-op0"]}
    index = GraphIndex(0, "g", nodes)
    for phase, names in phases.items():
        found = search(index, NodesQuery(phase=phase), {}).nodes
        assert [node.name for node in found] == names


def test_lists_come_in_pages() -> None:
    page = search(INDEX, NodesQuery(offset=3, limit=2), {})
    assert page.total == len(INDEX)
    assert [node.order for node in page.nodes] == [3, 4]
    with pytest.raises(UsageError, match=r"page size must be at most 1000 \(got 10000\)"):
        PageWindow(0, 10_000)


def test_lines_of_code_have_the_ops_they_made() -> None:
    lines = sources(INDEX, "train.py:1")
    assert {(use.line, use.ops) for use in lines.lines} == {(10, 13), (11, 4), (12, 4), (13, 4)}
    assert sources(INDEX, "LOSS = MODEL").lines[0].line == 99


def test_an_op_knows_who_reads_it() -> None:
    view = op_view(INDEX, "blocks.0.linear.weight", 0)
    assert [name.rpartition("/")[2] for _, name in view.consumers] == ["addmm-op0", "sub_-op3"]
    with pytest.raises(UsageError, match="no op 'nothing' in graph 0"):
        op_view(INDEX, "nothing", 0)


def test_an_op_is_found_by_as_much_of_its_name_as_only_it_has() -> None:
    name = "Default/network-Net/loss-Loss/log-op0"
    for text in (name, "log-op0", "LOG-OP"):
        assert find_op(INDEX, text) == name
    with pytest.raises(UsageError, match="4 ops match"):
        find_op(INDEX, "tanh-op")
    with pytest.raises(UsageError, match="no op matches"):
        find_op(INDEX, "xyz")


def test_of_a_scope_and_its_gradients_the_scope_is_meant() -> None:
    block = "blocks-ModuleList/1-Block/"
    assert find_target(INDEX, block) == f"Default/network-Net/{block}"
    backward = f"Gradients/Default/network-Net/{block}"
    assert find_target(INDEX, backward) == backward


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("blocks.1.act", "blocks-ModuleList/1-Block/act-Tanh/"),
        ("blocks.2", "blocks-ModuleList/2-Block/"),
        ("Loss", "loss-Loss/"),
    ],
)
def test_a_module_to_run_to_is_found_by_its_path_or_class(text: str, target: str) -> None:
    assert find_target(INDEX, text) == f"Default/network-Net/{target}"


def test_words_that_several_ops_fit_name_no_target() -> None:
    with pytest.raises(UsageError, match="ops match"):
        find_target(INDEX, "Tanh")


def test_leaves_of_two_networks_are_distinguished_and_short_inside_their_own() -> None:
    first, second = "Default/network-Sequential", "Default/network-Sequential_1"
    index = graph(
        op("0.weight", kind="parameter", scope=f"{first}/0-Linear"),
        op("network-Sequential_1.0.weight", kind="parameter", scope=second),
        op(f"{first}/0-Linear/addmm-op0", "0.weight"),
        op(f"{second}/0-Linear/addmm-op0", "network-Sequential_1.0.weight"),
    )
    shown = {
        scope: [(node.path, node.label) for node in level(index, scope).nodes if node.what == "op"]
        for scope in (f"{first}/0-Linear", second)
    }
    assert shown == {
        f"{first}/0-Linear": [
            ("0.weight", "0.weight"),
            (f"{first}/0-Linear/addmm-op0", "addmm-op0"),
        ],
        second: [("network-Sequential_1.0.weight", "0.weight")],
    }
    entry = tree(index, second, PageWindow(), {}).entries[0]
    assert (entry.path, entry.label) == ("network-Sequential_1.0.weight", "0.weight")
