"""No file name is too long, and no two ops share one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.dump import layout
from sonde.dump.file_names import FileNamer, mapping_line, read_mapping


def _assign(namer: FileNamer, op_type: str, op_name: str, timestamp: int = 1) -> tuple[str, str]:
    head, tail = layout.name_parts(op_type, op_name, "output", 0, "DefaultFormat", "Float32")
    given_name = namer.tensor(op_name, head, timestamp, tail)
    return given_name.name, given_name.mapping or ""


def test_a_usual_name_is_used_as_it_is() -> None:
    assert _assign(FileNamer(), "mm", "Default/mm-op1") == (
        "mm.Default_mm-op1.0.0.1.output.0.DefaultFormat.Float32.npy",
        "",
    )


@pytest.mark.document(
    45,
    says="dump failure because of file name is too long",
    how="no failure: the file is called `0.npy`, and `mapping.csv` has the full name",
)
def test_a_name_of_256_bytes_becomes_a_number_and_255_does_not() -> None:
    fixed = len("mm..0.0.1.output.0.DefaultFormat.Float32.npy")
    fits, too_long = "a" * (255 - fixed), "a" * (256 - fixed)
    assert len(_assign(FileNamer(), "mm", fits)[0].encode()) == 255
    name, line = _assign(FileNamer(), "mm", too_long)
    assert name == "0.npy"
    assert line == f"0.npy,mm.{too_long}.0.0.1.output.0.DefaultFormat.Float32.npy\n"


def test_the_limit_counts_bytes_not_letters() -> None:
    assert _assign(FileNamer(), "mm", "é" * 120)[0] == "0.npy"


def test_two_ops_with_the_same_escaped_name_are_distinguished_by_the_mapping() -> None:
    namer = FileNamer()
    first, first_line = _assign(namer, "mm", "Default/a/b", 1)
    second, second_line = _assign(namer, "mm", "Default/a_b", 2)
    again, again_line = _assign(namer, "mm", "Default/a/b", 3)
    assert first.startswith("mm.Default_a_b.0.0.1.")
    assert again.startswith("mm.Default_a_b.0.0.3.")
    assert first_line == again_line == ""
    assert second == "0.npy"
    assert second_line == "0.npy,mm.Default/a_b.0.0.2.output.0.DefaultFormat.Float32.npy\n"


def test_odd_names_survive_the_mapping() -> None:
    namer = FileNamer()
    _assign(namer, "mm", 'a/"b,\rc\n')
    name, line = _assign(namer, "mm", 'a_"b,\rc\n')
    assert read_mapping(line)[name].startswith('mm.a_"b,\rc\n.0.0.1.')


def test_long_kernel_argument_files_keep_their_ending() -> None:
    given_name = FileNamer().shorten("mm." + "a" * 300 + ".json")
    assert given_name.name == "0.json"
    assert given_name.mapping is not None


def test_a_mapping_line_cut_off_by_a_kill_is_left_out() -> None:
    text = mapping_line("0.npy", "a") + mapping_line("1.npy", "b,c") + "2.npy,not the whole na"
    assert read_mapping(text) == {"0.npy": "a", "1.npy": "b,c"}


@given(st.lists(st.tuples(st.sampled_from(["mm", "Parameter"]), st.text(min_size=1, max_size=300))))
def test_each_file_name_in_a_directory_leads_back_to_its_op(ops: list[tuple[str, str]]) -> None:
    namer, on_disk, mapping = FileNamer(), {}, ""
    for timestamp, (op_type, op_name) in enumerate(ops):
        name, line = _assign(namer, op_type, op_name, timestamp)
        assert len(name.encode()) <= 255
        assert name not in on_disk
        on_disk[name] = (op_type, op_name, timestamp)
        mapping += line
    names = read_mapping(mapping)
    for name, (op_type, op_name, timestamp) in on_disk.items():
        parsed = layout.parse_tensor_file_name(names.get(name, name))
        assert parsed is not None
        assert parsed.timestamp == timestamp
        assert parsed.op_type == op_type
        assert layout.escape_op(op_type, parsed.op_name) == layout.escape_op(op_type, op_name)


@given(st.text())
def test_any_text_is_a_mapping(text: str) -> None:
    read_mapping(text)
