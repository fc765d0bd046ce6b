"""The order of hits, and what is kept of very many."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.server import hit_store
from sonde.server.graph.search import PageWindow
from sonde.server.hit_store import HitFilter, HitStore
from sonde.wire.shapes import Hit, TensorType


def hit(number: int, step: int = 0, order: int = 0, op: str = "op", **more: object) -> Hit:
    made = Hit(
        number,
        1,
        "tensor_overflow",
        0,
        step,
        order,
        op,
        "output",
        0,
        TensorType("float32", ()),
        "hit",
        "",
        (),
    )
    return msgspec.structs.replace(made, **more)


def book() -> HitStore:
    return HitStore(lambda each: each.op.startswith("leaf"))


hits = st.lists(
    st.builds(
        hit,
        st.integers(0, 30),
        st.integers(0, 3),
        st.integers(0, 5),
        st.sampled_from(["op", "leaf"]),
        rank=st.integers(0, 1),
        part=st.sampled_from(["producer", "carrier", "other"]),
        verdict=st.sampled_from(["hit", "undecided"]),
    ),
    max_size=20,
)


@pytest.mark.document(245)
@given(st.lists(hits, max_size=5))
def test_hits_are_in_order_however_they_come(parts: list[list[Hit]]) -> None:
    found = book()
    latest: dict[tuple[int, int], Hit] = {}
    for part in parts:
        found.add(part)
        latest.update({(each.rank, each.number): each for each in part})
        found.in_order()

    def place(each: Hit) -> tuple[object, ...]:
        first = each.op == "leaf" and each.part != "carrier"
        return each.step, not first, each.order, each.rank, each.number

    assert list(found.in_order()) == sorted(latest.values(), key=place)
    assert len(found) == len(latest)
    for rank in (0, 1):
        counted = [h for h in latest.values() if h.rank == rank and h.verdict == "hit"]
        assert found.count(rank) == len(counted)
        assert found.counts(rank) == Counter(each.op for each in counted)
    found.clear(0)
    assert {each.rank for each in found.in_order()} <= {1}
    found.clear()
    assert found.in_order() == ()


def test_of_very_many_the_first_and_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hit_store, "MOST_HITS", 8)
    found = book()
    for number in range(20):
        found.add([hit(number, step=number, rank=number % 2)])
    kept = [each.number for each in found.in_order()]
    assert kept[:4] == [0, 1, 2, 3]
    assert kept[4:] == list(range(20 - len(kept[4:]), 20))
    assert 6 <= len(kept) <= 8
    assert found.dropped() == 20 - len(kept)
    assert found.dropped(0) + found.dropped(1) == found.dropped()
    assert (found.count(0), found.count(1)) == (10, 10)
    found.clear(0)
    assert (found.count(0), found.count(1), found.dropped(0)) == (0, 10, 0)


def test_a_message_with_more_hits_than_are_kept_leaves_the_first_and_the_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hit_store, "MOST_HITS", 8)
    found = book()
    found.add([hit(99, verdict="undecided"), *(hit(number) for number in range(30))])
    assert [each.number for each in found.in_order()] == [0, 1, 2, 28, 29, 99]
    assert (found.dropped(), found.count(0)) == (25, 30)


def test_pages_are_filtered() -> None:
    found = book()
    found.add(hit(number, step=number, rank=number % 2, op=f"op{number}") for number in range(10))
    assert found.page(HitFilter(), PageWindow(8, 5)).total == 10
    page = found.page(HitFilter(rank=1), PageWindow(1, 2))
    assert (page.total, [each.number for each in page.hits]) == (5, [3, 5])
    assert found.page(HitFilter(step=3, op="op3"), PageWindow()).total == 1
    in_graph = HitFilter(is_in_graph=lambda hit: hit.op in {"op1", "op2"})
    assert found.page(in_graph, PageWindow()).total == 2
    assert found.page(HitFilter(verdict="undecided"), PageWindow()).total == 0
    assert found.page(HitFilter(watchpoint=2), PageWindow()).total == 0


def test_origins_are_those_that_hits_name() -> None:
    found = book()
    found.add([hit(0, op="a", part="producer"), hit(1, op="b", part="carrier", origin="a")])
    found.add([hit(2, op="c", part="producer", rank=1)])
    assert found.origins(0) == {"a"}
    assert found.origins(1) == {"c"}


def test_what_hits_have_alike_is_kept_once() -> None:
    found = book()
    for number in range(3):
        fresh = msgspec.msgpack.decode(
            msgspec.msgpack.encode(hit(number, number, op="scope/op", chain=("a/b", "c/d"))),
            type=Hit,
        )
        found.add([fresh])
    first, *others = found.in_order()
    assert first.chain == ("a/b", "c/d")
    for other in others:
        assert other.chain is first.chain
        assert other.op is first.op
        assert other.type is first.type
    found.clear()
    found.add([hit(0, chain=("e",))])
    assert found.in_order()[0].chain == ("e",)


def test_a_hit_with_a_new_count_takes_the_place_of_the_old_one() -> None:
    found = book()
    carriers = [
        hit(number, step=2, op=f"op{number}", part="carrier", origin="op0") for number in (1, 2)
    ]
    found.add([hit(0, step=2, op="op0", part="producer", origin="op0"), *carriers])
    found.add([msgspec.structs.replace(each, count=400) for each in carriers])
    (cause,) = found.causes.list().causes
    assert (cause.hits, cause.others) == (801, 2)
    assert [each.count for each in found.in_order()] == [1, 400, 400]
    assert found.counts(0) == Counter({"op0": 1, "op1": 1, "op2": 1})
