"""Where renamed directories are, and that renaming one visits no other."""

from __future__ import annotations

import gc
import sys
from types import FrameType

import pytest

from sonde.dump.writing.directory_tree import DirectoryTree
from sonde.dump.writing.python_writer import PythonWriter


def test_a_renamed_directory_takes_those_below_it_along() -> None:
    tree = DirectoryTree()
    below, beside = tree.at("/a/b/c"), tree.at("/a/b-x")
    tree.move("/a/b", "/z/y")
    assert below.path() == "/z/y/c"
    assert beside.path() == "/a/b-x"
    assert tree.at("/a/b/c").path() == "/a/b/c"


def test_a_directory_merged_into_another_is_found_there() -> None:
    tree = DirectoryTree()
    old, inner = tree.at("/a"), tree.at("/a/in")
    new, twin = tree.at("/b"), tree.at("/b/in")
    tree.move("/a", "/b")
    tree.move("/b", "/c")
    assert [each.path() for each in (old, inner, new, twin)] == ["/c", "/c/in", "/c", "/c/in"]


def test_a_directory_without_users_is_forgotten() -> None:
    tree = DirectoryTree()
    kept = tree.at("/a/kept")
    tree.at("/a/dropped")
    gc.collect()
    assert list(tree.at("/a").children) == [kept.name]


def test_the_end_of_a_step_costs_the_same_after_many_steps(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("steps")
    writer = PythonWriter(1, 1 << 20)
    executed: list[int] = []

    def count(frame: FrameType, event: str, argument: object) -> object:
        executed[-1] += 1
        return count

    for step in range(300):
        (root / "unfinished" / str(step)).mkdir(parents=True)
        writer.write_text(f"{root}/unfinished/{step}/file", b"x")
        executed.append(0)
        tracing = sys.gettrace()
        sys.settrace(count)
        try:
            writer.barrier_rename(f"{root}/unfinished/{step}", f"{root}/net/{step}")
        finally:
            sys.settrace(tracing)
    assert executed[250:] == [executed[10]] * 50
