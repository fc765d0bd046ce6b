"""The file of ``--placements``: what it declares, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sonde.ranks.placement_file import PlacementError, read_placements

RIGHT = """
groups:
  tp: {role: tensor, ranks: [[0, 1], [2, 3]]}
  dp: {role: data, ranks: [[0, 2], [1, 3]]}
tensors:
  "*.qkv.weight": {tp: shard(1), dp: replicate}
  "experts.*": {tp: replicate}
  "*": {tp: replicate, dp: partial}
"""


def test_the_first_pattern_that_matches_counts(tmp_path: Path) -> None:
    path = tmp_path / "placements.yaml"
    path.write_text(RIGHT)
    found = read_placements(path)
    qkv, experts, other = (found.of(name) for name in ("a.qkv.weight", "experts.0", "norm.bias"))
    assert qkv is not None
    assert experts is not None
    assert other is not None
    assert [(each.group.name, each.kind, each.dim) for each in qkv] == [
        ("tp", "sharded", 1),
        ("dp", "replicated", 0),
    ]
    assert [each.kind for each in experts] == ["replicated"]
    assert [each.kind for each in other] == ["replicated", "partial"]
    assert qkv[0].group.of(3) == (2, 3)
    assert qkv[0].group.of(9) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "is not YAML"),
        ("groups: {}", "has to have the keys 'groups' and 'tensors'"),
        (RIGHT.replace("role: tensor", "role: expert"), "the role of group 'tp' is 'expert'"),
        (RIGHT.replace("[[0, 1], [2, 3]]", "[0, 1]"), "have to be lists such as"),
        (RIGHT.replace("[2, 3]]", "[1, 3]]", 1), "group 'tp' has rank 1 twice"),
        (RIGHT.replace("shard(1)", "shard"), "write replicate, shard(DIM) or partial"),
        (RIGHT.replace('"experts.*": {tp', '"experts.*": {ep'), "names group 'ep'"),
        (RIGHT.replace("tensors:", "tensor:"), "has to have the keys"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "placements.yaml"
    path.write_text(text)
    with pytest.raises(PlacementError) as caught:
        read_placements(path)
    assert said in caught.value.message
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlacementError, match="does not exist"):
        read_placements(tmp_path / "none.yaml")
