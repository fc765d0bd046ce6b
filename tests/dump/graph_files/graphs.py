"""Any graph: a Hypothesis strategy."""

from __future__ import annotations

from hypothesis import strategies as st

from sonde.core.dtypes import BY_NAME
from sonde.core.graph import LEAF_TYPES, Edge, Graph, OpNode, Source, TensorSpec

_text = st.text(max_size=12)
_specs = st.builds(
    TensorSpec,
    st.sampled_from([*BY_NAME, "something_new"]),
    st.lists(st.integers(0, 2**40), max_size=4).map(tuple),
)
_sources = st.builds(Source, _text, st.integers(0, 10**6), _text, _text)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    names = draw(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=8))
    producers = st.one_of(st.none(), st.just("not a node"), st.sampled_from([*names, "x"]))
    edges = st.builds(Edge, producers, st.integers(0, 3), _specs)
    nodes = []
    for name in names:
        kind = draw(st.sampled_from(["op", "op", *LEAF_TYPES]))
        nodes.append(
            OpNode(
                name,
                draw(_text),
                draw(_text),
                draw(st.sampled_from(["forward", "backward", "optimizer"])),
                kind,
                draw(st.lists(edges, max_size=3).map(tuple)),
                draw(st.lists(_specs, max_size=3).map(tuple)),
                draw(st.lists(st.tuples(_text, _text), max_size=2).map(tuple)),
                draw(st.lists(_sources, max_size=2).map(tuple)),
            )
        )
    return Graph(draw(st.integers(0, 10**6)), draw(_text), tuple(nodes))
