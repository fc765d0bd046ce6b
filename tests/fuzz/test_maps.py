"""Hundreds of mutated maps of pairs: each is taken, or refused with its name; never a traceback."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest
from tests.server import written_dumps as dumps

from sonde.cli.main import main
from sonde.compare.runs.pairing.map_file import read_map
from sonde.core.errors import SondeError
from sonde.dump.reader import Dump

PIECES = (
    *("pairs:", "- a:", "b:", "how:", "&x", "*x", "<<:", "{", "}", "[", "]", ",", "?", "!!python"),
    *("!!binary", "|", ">", "'", '"', "---", "...", "\\U99999999", '"\\UFFFFFFFF"', '"\\xZZ"'),
    *("\t", "\n", "\n  ", "\x00", "\ud7ff", "\u2028", "%YAML 9.9\n", "1e999", "~", "null", "#"),
    *(
        "&a [*a]",
        "? [a, b]\n: c",
        "{a: {b: {c: }}}",
        "!!set {a}",
        "a: &a {a: *a}",
        "]" * 9,
        "[" * 9,
    ),
)
HOSTILE = (
    b"",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b"- " * 50_000,
    b"{a: " * 5_000,
    b'pairs: ["\\UFFFFFFFF"]',
    b"pairs: &p\n- a: *p\n  b: *p\n",
    b"? &k {? *k : x}\n: pairs\n",
    b"pairs:\n- ? [a]\n  : b\n- 5\n- a: {}\n  b: []\n",
    b"".join(
        b"? &k%d [%s]\n: x\n" % (n, b", ".join([b"*k%d" % (n - 1)] * 9 if n else [b"x"]))
        for n in range(30)
    ),
    b"pairs: !!python/object/apply:os.system ['touch hacked']\n",
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("maps")
    values = {node.name: np.ones((2, 3), np.float32) for node in dumps.GRAPH}
    return (
        dumps.write_dump(root / "a", {0: dumps.outputs(values)}),
        dumps.write_dump(root / "b", {0: dumps.outputs(values)}),
    )


def whole_map() -> str:
    lines = ["pairs:"]
    for node in dumps.GRAPH:
        lines += [f"  - a: {node.name}", f"    b: {node.name}", "    how: name"]
    return "\n".join(lines) + "\n"


def mutated(text: str, rng: random.Random) -> bytes:
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(text) + 1)
        what = rng.randrange(4)
        if what == 0:
            text = text[:place] + rng.choice(PIECES) + text[place:]
        elif what == 1:
            text = text[:place] + text[place + rng.randrange(1, 30) :]
        elif what == 2:
            text = text[:place]
        else:
            text = text[:place] + chr(rng.randrange(1, 0xD7FF)) + text[place + 1 :]
    return text.encode("utf-8", "surrogatepass")


def test_mutated_maps_are_accepted_or_refused_with_their_name(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    a, b = (Dump(path) for path in pair)
    rng, file = random.Random(20261116), tmp_path / "map.yaml"
    taken = refused = 0
    texts = [mutated(whole_map(), rng) for _ in range(600)]
    for data in (*HOSTILE, *texts, whole_map().encode()):
        file.write_bytes(data)
        said = ""
        try:
            read_map(file, a, b)
            taken += 1
        except SondeError as error:
            said = str(error)
            refused += 1
        assert not said or str(file) in said, data[:200]
    assert taken + refused == 600 + len(HOSTILE) + 1
    assert taken > 5
    assert refused > 300


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_maps_end_the_command_with_one_message(
    data: bytes, pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "map.yaml"
    file.write_bytes(data)
    assert main(["compare", *map(str, pair), "--map", str(file)]) == 2
    said = capsys.readouterr().err
    assert str(file) in said
    assert "Traceback" not in said
    assert not Path("hacked").exists()


def test_a_pipe_or_a_directory_in_place_of_a_map_is_refused(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, tmp_path / "none.yaml"):
        assert main(["compare", *map(str, pair), "--map", str(path)]) == 2
        assert str(path) in capsys.readouterr().err
