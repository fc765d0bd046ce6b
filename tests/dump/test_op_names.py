"""From the text in a file name back to the op."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sonde.core.graph import Graph, OpNode
from sonde.dump.file_names import FileNamer, read_mapping
from sonde.dump.layout import escape_op, parse_tensor_file_name
from sonde.dump.op_names import OpNames, OpText


def _graph(*names: str, kind: str = "op", type: str = "mm") -> Graph:
    return Graph(0, "g", tuple(OpNode(name, type, "", "forward", kind) for name in names))


def _resolve(graph: Graph, *texts: OpText) -> dict[OpText, str]:
    return {text: node.name for text, node in OpNames(graph).resolve(texts).items()}


def test_an_escaped_name_leads_to_its_op() -> None:
    text = OpText("mm", "Default_a_mm-op1", False)
    assert _resolve(_graph("Default/a/mm-op1", "Default/b/mm-op1"), text) == {
        text: "Default/a/mm-op1"
    }


def test_the_type_is_part_of_the_name() -> None:
    assert _resolve(_graph("Default/a-op1"), OpText("relu", "Default_a-op1", False)) == {}


def test_an_input_may_be_called_a_parameter() -> None:
    text = OpText("Parameter", "inputs0", False)
    assert _resolve(_graph("inputs0", kind="input", type="Input"), text) == {text: "inputs0"}


def test_another_number_leads_to_the_only_op_left_of_its_scope() -> None:
    text = OpText("mm", "Default_a_mm-op0", False)
    assert _resolve(_graph("Default/a/mm-op1", "Default/b/mm-op0"), text) == {
        text: "Default/a/mm-op1"
    }


def test_other_numbers_are_paired_in_their_order() -> None:
    texts = [OpText("mm", f"a_mm-op{number}", False) for number in (9, 10)]
    assert _resolve(_graph("a/mm-op3", "a/mm-op12"), *texts) == {
        texts[0]: "a/mm-op3",
        texts[1]: "a/mm-op12",
    }


def test_other_numbers_are_not_paired_when_there_are_fewer_or_more_ops() -> None:
    text = OpText("mm", "a_mm-op9", False)
    assert _resolve(_graph("a/mm-op1", "a/mm-op2"), text) == {}


def test_two_ops_with_the_same_escaped_name_are_distinguished_by_the_full_name() -> None:
    graph = _graph("a/b", "a_b")
    plain, full = OpText("mm", "a_b", False), OpText("mm", "a_b", True)
    assert _resolve(graph, plain, full) == {plain: "a/b", full: "a_b"}
    slashed = OpText("mm", "a/b", True)
    assert _resolve(graph, plain, slashed) == {plain: "a_b", slashed: "a/b"}


def test_two_ops_of_one_escaped_text_are_never_guessed() -> None:
    assert _resolve(_graph("a/b", "a_b"), OpText("mm", "a_b", False)) == {}


@given(
    st.lists(st.text("ab/_.", min_size=1, max_size=5), unique=True, min_size=1, max_size=8),
    st.data(),
)
def test_assigned_names_lead_back_to_their_ops(names: list[str], data: st.DataObject) -> None:
    kind, type = data.draw(st.sampled_from([("op", "mm"), ("parameter", "Parameter")]))
    graph = _graph(*names, kind=kind, type=type)
    book, files, mapping = FileNamer(), [], ""
    for timestamp, name in enumerate(names):
        head = f"{escape_op(type, name)}.0.0."
        given_name = book.tensor(name, head, timestamp, ".output.0.DefaultFormat.Float32.npy")
        files.append(given_name.name)
        mapping += given_name.mapping or ""
    full_names = read_mapping(mapping)
    texts = []
    for file in files:
        parsed = parse_tensor_file_name(full_names.get(file, file))
        assert parsed is not None
        texts.append(OpText(parsed.op_type, parsed.op_name, file in full_names))
    found = _resolve(graph, *texts)
    assert [found[text] for text in texts] == names
