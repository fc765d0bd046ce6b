"""The scopes that are open at first: as many as a screen shows, the network first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.graph.test_levels import graph, op

from sonde.server.graph.boxes import grouped
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.initial_view import opening
from sonde.server.graph.levels import level
from sonde.testing.sample_graph import sample_graph


def boxes(index: GraphIndex, scopes: tuple[str, ...]) -> int:
    """How many boxes are seen with these scopes open."""
    return sum(
        sum(node.what != "outside" for node in level(index, scope).nodes) for scope in ("", *scopes)
    )


def opened(index: GraphIndex, most: int) -> tuple[str, ...]:
    """All depths one after the other."""
    return tuple(scope for depth in opening(index, most).depths for scope in depth)


def test_a_small_network_is_open_to_its_ops() -> None:
    found = opening(GraphIndex(3, "g", sample_graph(2)), 60)
    assert found.graph == 3
    blocks = "Default/network-Net/blocks-ModuleList/"
    assert found.depths[:4] == (
        ("Default/",),
        ("Default/network-Net/",),
        (blocks, "Default/network-Net/loss-Loss/"),
        (f"{blocks}0-Block/", f"{blocks}1-Block/"),
    )


@given(st.integers(1, 40), st.integers(0, 120))
def test_at_most_the_requested_boxes_are_open_and_outer_scopes_come_first(
    blocks: int, most: int
) -> None:
    index = GraphIndex(0, "g", sample_graph(blocks))
    scopes = opened(index, most)
    # The first may be larger, for it is more than the few boxes round it.
    assert boxes(index, scopes) <= max(most, boxes(index, scopes[:1]))
    seen = {""}
    for scope in scopes:
        parent = scope.rstrip("/").rpartition("/")[0]
        assert (f"{parent}/" if parent else "") in seen
        seen.add(scope)


def test_a_single_scope_opens_beyond_the_limit_unless_it_has_very_many_boxes() -> None:
    kinds = [f"k{n}" for n in range(200)]
    forty = graph(*(op(f"Default/{kind}-op0", type_=kind) for kind in kinds[:40]))
    assert opened(forty, 30) == ("Default/",)
    assert opened(graph(*(op(f"Default/{kind}-op0", type_=kind) for kind in kinds)), 30) == ()


def test_leaves_do_not_count_among_the_few_small_boxes() -> None:
    leaves = [op(f"leaf{n}", kind="constant", type_=f"t{n}", scope="") for n in range(20)]
    inner = [op(f"Default/{n}-op0", "leaf0", type_=f"k{n}") for n in range(40)]
    outer = [op(f"O/add-op{n}", *(leaf.name for leaf in leaves)) for n in range(2)]
    assert opened(graph(*leaves, *inner, *outer), 30) == ("Default/",)


@pytest.mark.parametrize("most", [-1, 0, 10**9])
def test_any_number_of_boxes_may_be_requested(most: int) -> None:
    index = GraphIndex(0, "g", sample_graph(3))
    assert set(opened(index, most)) <= {scope.path for scope in index.scopes}
    assert len(grouped(index, 0)) == 3
