"""``sonde compare`` as a command: outputs, exit codes, mistakes."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from tests.compare.runs.planted import dumped
from torch import nn

from sonde.cli.main import main
from sonde.dump.reader import Dump

SCRIPT = """
import sys, torch
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Linear(4, 2)
x = torch.randn(3, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=float(sys.argv[1]))
for step in range(int(sys.argv[2])):
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()
"""


class Net(nn.Module):
    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.activation = activation
        self.last = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.activation(self.first(x)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two dumps: a network with ReLU and one with GELU."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("compare")
    for name, activation in (("relu", nn.ReLU()), ("gelu", nn.GELU())):
        torch.manual_seed(0)
        net, x = Net(activation), torch.randn(3, 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def train(
            net: Net = net, x: torch.Tensor = x, optimizer: torch.optim.SGD = optimizer
        ) -> None:
            net(x).square().mean().backward()
            optimizer.step()

        dumped(place / name, train)
    return place


def test_equal_dumps_exit_with_0(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(place / "relu"), str(place / "relu")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("aligned  ")
    assert err == ""


def test_other_parameters_that_differ_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        torch.manual_seed(seed)

        def train(net: nn.Module = nn.Linear(4, 2)) -> None:  # noqa: B008 - one for each dump
            net(torch.ones(3, 4)).sum().backward()

        dumped(tmp_path / name, train)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "differs before the step begins; so does 1 other parameter " in text


@pytest.mark.document(
    87,
    says="compare the input and output values layer by layer, from rough to fine",
    how="`sonde compare A B`: loss, parts, layers, then the first op, with the source lines of "
    "both",
)
def test_the_first_divergence_is_on_top(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(place / "gelu"), str(place / "relu")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("diverged  ")
    assert lines[4].startswith("gelu-op0 differs first in step 0, forward, at test_compare.py:")
    assert ": gelu in a, relu in b; relative error " in lines[4]
    assert lines[6] == "First divergence: step 0, forward"
    assert lines[7] == "  a Default/network-Net/activation-GELU/gelu-op0"
    assert "return self.last(self.activation(self.first(x)))" in lines[8]
    assert lines[9] == "  b Default/network-Net/activation-ReLU/relu-op0"
    assert lines[11] == "  gelu in a, relu in b"


def test_json_has_the_verdict_the_first_divergence_pairs_and_unpaired(
    place: Path, tmp_path: Path
) -> None:
    file = tmp_path / "found.json"
    assert (
        main(["compare", str(place / "gelu"), str(place / "relu"), "--json-file", str(file)]) == 1
    )
    found = json.loads(file.read_text(), parse_constant=lambda text: pytest.fail(text))
    assert found["verdict"] == "diverged"
    first = found["first_divergence"]
    assert first["step"] == 0
    assert first["a"] == "Default/network-Net/activation-GELU/gelu-op0"
    assert first["b"] == "Default/network-Net/activation-ReLU/relu-op0"
    assert first["source_a"]["file"] == first["source_b"]["file"] == __file__
    assert first["source_a"]["code"] == "return self.last(self.activation(self.first(x)))"
    assert 0.01 < first["distances"]["max_abs_error"] < 0.5
    assert set(first["distances"]) >= {
        "max_abs_error",
        "max_relative_error",
        "mean_relative_error",
        "cosine",
        "relative_l2",
        "within_1_permille",
        "within_5_permille",
        "max_ulp",
        "non_finite_disagreed",
    }
    statuses = {pair["status"] for pair in found["pairs"]}
    assert {"diverged", "inherited", "equal"} <= statuses
    assert isinstance(found["unpaired"], list)


def test_aligned_dumps_have_no_first_divergence(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    assert (
        main(["compare", str(place / "relu"), str(place / "relu"), "--json-file", str(file)]) == 0
    )
    found = json.loads(file.read_text())
    assert (found["verdict"], found["first_divergence"]) == ("aligned", None)


def test_json_goes_to_the_terminal_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["compare", str(place / "relu"), str(place / "relu"), "--json"])
    assert json.loads(capsys.readouterr().out)["verdict"] == "aligned"


def test_csv_has_a_row_for_each_pair_of_tensors(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.csv"
    main(["compare", str(place / "gelu"), str(place / "relu"), "--csv", str(file)])
    rows = list(csv.DictReader(file.read_text().splitlines()))
    first = next(row for row in rows if row["status"] == "diverged")
    assert first["type_a"] == "gelu"
    assert float(first["relative_l2"]) == float(first["error"]) > 0.01
    assert first["shape_a"] == "[3, 8]"


def test_the_page_holds_the_pairs_as_data_that_names_cannot_break(
    place: Path, tmp_path: Path
) -> None:
    file = tmp_path / "found.html"
    main(["compare", str(place / "gelu"), str(place / "relu"), "--html", str(file)])
    page = file.read_text()
    data = re.search(r'(?s)<script type="application/json" id="data"[^>]*>(.*?)</script>', page)
    assert data is not None
    assert "<" not in data[1]
    found = json.loads(data[1])
    shown = next(
        pair for pair in found["pairs"] if pair["order"] == found["first_divergence"]["order"]
    )
    assert shown["a"].endswith("gelu-op0")


def test_a_map_is_written_and_read_back(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "map.yaml"
    sides = [str(place / "gelu"), str(place / "relu")]
    assert main(["compare", *sides, "--write-map", str(file)]) == 1
    assert "a: Default/network-Net/activation-GELU/gelu-op0\n" in file.read_text()
    before = capsys.readouterr().out
    assert main(["compare", *sides, "--map", str(file)]) == 1
    after = capsys.readouterr().out
    assert after.splitlines()[:10] == before.splitlines()[:10]


def test_a_map_overrides_evidence_against_its_pairs(place: Path, tmp_path: Path) -> None:
    file, found = tmp_path / "map.yaml", tmp_path / "found.json"
    scope = "Default/network-Net"
    a, b = f"{scope}/first-Linear/addmm-op0", f"{scope}/last-Linear/addmm-op0"
    file.write_text(f"pairs:\n  - a: {a}\n    b: {b}\n")
    sides = [str(place / "relu"), str(place / "relu")]
    assert main(["compare", *sides, "--map", str(file), "--json-file", str(found)]) == 1
    pairs = json.loads(found.read_text())["pairs"]
    assert (b, "map") in {(pair["b"], pair["how"]) for pair in pairs if pair["a"] == a}


def test_every_mistake_in_a_map_is_reported_with_its_line(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "map.yaml"
    file.write_text(
        "pairs:\n"
        "  - a: first.weigth\n"
        "    b: first.weight\n"
        "  - b: last.bias\n"
        "  - 5\n"
        "  - a: last.bias\n"
        "    b: first.weight\n"
        "    c: 1\n"
        "more: 2\n"
    )
    sides = [str(place / "relu"), str(place / "relu")]
    assert main(["compare", *sides, "--map", str(file)]) == 2
    assert capsys.readouterr().err.replace(str(file), "map.yaml").splitlines() == [
        "sonde: map.yaml:9: 'more' is not known; there is only 'pairs' [compare-map]",
        "sonde: map.yaml:4: the pair has no name called 'a' [compare-map]",
        "sonde: map.yaml:5: is not a pair; write 'a: NAME' and 'b: NAME' [compare-map]",
        "sonde: map.yaml:8: 'c' is not known; a pair has 'a' and 'b' [compare-map]",
        "sonde: map.yaml:2: a has no op called first.weigth; did you mean 'first.weight'? "
        "[compare-map]",
        "sonde: map.yaml:6: first.weight is paired twice [compare-map]",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pairs: [", "map.yaml:1: is not YAML: expected the node content"),
        ("- 1", "map.yaml:1: is not a map: it needs a list called 'pairs'"),
        ("", "map.yaml:1: is not a map: it needs a list called 'pairs'"),
        ("a: &x [*x]", "map.yaml:1: 'a' is not known"),
    ],
)
def test_a_file_that_is_no_map_is_refused(
    text: str, message: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "map.yaml"
    file.write_text(text)
    sides = [str(place / "relu"), str(place / "relu")]
    assert main(["compare", *sides, "--map", str(file)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{place}/relu"], "compare needs two sides, dumps or --run 'SCRIPT ARGS' (got 1)"),
        (["{place}/relu", "{place}/none"], "none does not exist; give the directory of a dump"),
        (["{place}/relu", "{place}/gelu", "--steps", "7-9"], "no step in common among 7-9"),
        (["{place}/relu", "{place}/gelu", "--steps", "x"], "'x' is not a list of steps"),
        (["{place}/relu", "{place}/gelu", "--rank", "2"], "rank 2 is not in both"),
        (["{place}/relu", "{place}/gelu", "--json-file", "/no/such/x.json"], "does not exist"),
        (["{place}/relu", "{place}/gelu", "--rtol", "-1"], "'--rtol'"),
        (["{place}/relu", "--run", "no_such.py"], "file no_such.py does not exist"),
        (["{place}/relu", "{place}/gelu", "--keep", "x"], "--keep needs --run"),
        (["{place}/relu", __file__], "is a script; to run it: sonde compare --run "),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    words: list[str], message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *(word.format(place=place) for word in words)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len([line for line in err.splitlines() if not line.startswith("sonde: running")]) == 1


def test_a_damaged_tensor_makes_equal_dumps_incomparable(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(place / "relu", tmp_path / "damaged")
    record = next(iter(Dump(tmp_path / "damaged").tensors(op="relu", io="output")))
    assert record.path is not None
    data = record.path.read_bytes()
    record.path.unlink()
    record.path.write_bytes(data[:-4])
    file = tmp_path / "found.json"
    sides = [str(tmp_path / "damaged"), str(place / "relu")]
    assert main(["compare", *sides, "--json-file", str(file)]) == 2
    err = capsys.readouterr().err
    assert f"{record.path}: byte {len(data) - 4}: the file ends early" in err
    assert json.loads(file.read_text())["verdict"] == "incomparable"


def test_dumps_that_cannot_be_compared_still_have_a_json_document(
    place: Path, tmp_path: Path
) -> None:
    file = tmp_path / "found.json"
    words = ["compare", str(place / "relu"), str(place / "none"), "--json-file", str(file)]
    assert main(words) == 2
    found = json.loads(file.read_text())
    assert (found["verdict"], found["first_divergence"], found["pairs"]) == (
        "incomparable",
        None,
        [],
    )


def test_a_given_tolerance_replaces_the_defaults(place: Path) -> None:
    sides = [str(place / "gelu"), str(place / "relu")]
    assert main(["compare", *sides, "--rtol", "10", "--atol", "10"]) == 0
    assert main(["compare", *sides, "--rtol", "1e-3"]) == 1


def test_scripts_are_run_compared_and_stopped_after_their_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scripts would train ten million steps."""
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    runs = ["--run", "train.py 0.1 10000000", "--run", "python train.py 0.2 10000000"]
    assert main(["compare", *runs, "--keep", "kept"]) == 1
    out = capsys.readouterr().out
    assert "a Default/optimizer-SGD/add_-op0" in out
    assert "alpha is -0.1 in a and -0.2 in b" in out
    assert Dump(tmp_path / "kept" / "a").steps() == (0, 1)


def test_a_script_that_fails_is_named_with_its_last_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit('the disk is on fire')")
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "--run", "broken.py", "--run", "broken.py"]) == 2
    err = capsys.readouterr().err
    assert "the disk is on fire" in err
    assert "'broken.py' ended with code 1 and left no finished step to compare" in err
