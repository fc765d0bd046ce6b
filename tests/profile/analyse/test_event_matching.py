import itertools

from hypothesis import given
from hypothesis import strategies as st
from tests.profile.made import event, graph, node

from sonde.profile.analyse.event_matching import align, inherited, name_events, op_type
from sonde.profile.record.events import nest

WORDS = st.lists(st.sampled_from("abcd"), max_size=30)


@given(WORDS)
def test_equal_sequences_are_paired_whole(words: list[str]) -> None:
    assert align(words, words) == [(i, i) for i in range(len(words))]


@given(WORDS, WORDS)
def test_pairs_are_equal_words_in_increasing_order(a: list[str], b: list[str]) -> None:
    pairs = align(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(p[0] < q[0] and p[1] < q[1] for p, q in itertools.pairwise(pairs))


@given(WORDS, WORDS)
def test_as_many_words_are_paired_as_there_can_be(a: list[str], b: list[str]) -> None:
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            longest[i + 1][j + 1] = (
                longest[i][j] + 1 if x == y else max(longest[i][j + 1], longest[i + 1][j])
            )
    assert len(align(a, b)) == longest[-1][-1]


def test_sequences_that_have_little_in_common_are_paired_as_far_as_is_quick() -> None:
    assert align(["a", *"bc" * 1000], ["a", *"de" * 1000]) == [(0, 0)]


@given(WORDS, WORDS)
def test_words_put_in_the_middle_do_not_stop_the_rest_from_being_paired(
    words: list[str], more: list[str]
) -> None:
    head, tail = ["x", *words, "y"], ["z", *words, "w", "v"]
    pairs = align(head + tail, [*head, *(word + "!" for word in more), *tail])
    assert len(pairs) == len(head) + len(tail)


def test_an_op_is_named_and_its_inner_ops_belong_to_it() -> None:
    main = nest(
        [
            event("aten::linear", 0, 50),
            event("aten::t", 1, 5),
            event("aten::addmm", 6, 48),
            event("aten::copy_", 10, 20),
            event("aten::relu", 60, 70),
            event("c10d::allreduce_", 80, 90),
        ]
    )
    made = [node("t", "t0"), node("addmm", "m0"), node("relu", "r0"), node("c10d_allreduce_", "a0")]
    names = name_events(main, graph(made))
    found = {main.events[index].name: op.name for index, op in names.items()}
    assert found == {
        "aten::t": "t0",
        "aten::addmm": "m0",
        "aten::relu": "r0",
        "c10d::allreduce_": "a0",
    }
    owners = [op.name if op is not None else None for op in inherited(main, names)]
    assert owners == [None, "t0", "m0", "m0", "r0", "a0"]


def test_gradients_added_in_place_are_the_additions_of_the_graph() -> None:
    main = nest([event("aten::add_", 0, 5)])
    assert [op.name for op in name_events(main, graph([node("add", "a0")])).values()] == ["a0"]


def test_an_op_of_another_name_inside_a_named_one_is_not_taken_for_the_next() -> None:
    main = nest([event("aten::mean", 0, 9), event("aten::sum", 1, 5), event("aten::sum", 10, 12)])
    names = name_events(main, graph([node("mean", "m"), node("sum", "s")]))
    assert {main.events[i].start: op.name for i, op in names.items()} == {0: "m", 10: "s"}


def test_without_a_graph_nothing_has_a_name() -> None:
    assert name_events(nest([event("aten::add", 0, 5)]), None) == {}


def test_types_are_those_of_the_graph() -> None:
    assert op_type("aten::addmm") == "addmm"
    assert op_type("c10d::allreduce_") == "c10d_allreduce_"
    assert op_type("detach") == "detach"
