"""``sonde compile-check``: its report and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import click
import pytest
from tests.warm_python.starting import warm_python

from sonde.adapters.torch.compile_check.agreement import (
    CompileVerdict,
    GraphVerdict,
    Member,
    ResultComparison,
    WrongGroup,
    WrongOp,
)
from sonde.cli.compile_check import compile_check
from sonde.cli.compile_check_text import as_document, as_lines
from sonde.cli.main import main
from sonde.core.graph import Source

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "compile-check.md").read_text()

SCRIPT = """\
import sys
import torch
from torch import nn

if "plant" in sys.argv:
    from torch._inductor.decomposition import decompositions
    decompositions[torch.ops.aten.silu.default] = lambda x: x * torch.sigmoid(1.01 * x)

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 2))
run = torch.compile(net, backend="aot_eager_decomp_partition")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    run(torch.randn(3, 4)).square().sum().backward()
    optimizer.step()
    print("finished step", step)
print("the end")
"""


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    (cwd / "train.py").write_text(SCRIPT)
    return subprocess.run(
        [warm_python(), "-m", "sonde", "compile-check", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=800,
    )


def test_code_that_agrees_ends_with_0_and_the_program_continues_on_request(tmp_path: Path) -> None:
    done = run("--step", "1", "--continue", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["finished step 0", "finished step 1", "the end"]
    assert lines[3] == "step 1: relative error to float64"
    assert lines[-2:] == [
        "Sequential (aot_eager_decomp_partition): 20 of 20 ops judged one by one",
        "compiled code agrees",
    ]
    numbers = r"\d\.\de-0[78]"
    for line, name, count in zip(
        lines[5:8], ("outputs", "gradients", "updated weights"), (1, 4, 4), strict=True
    ):
        assert re.fullmatch(
            rf"  {name:16} +{numbers} +{numbers} +{numbers}   [a-z ]+ \({count}, all agree\)", line
        ), line
    assert done.stderr == "sonde: checking Sequential: 9 nodes, aot_eager_decomp_partition\n"


@pytest.mark.document(
    74,
    says="the same script works in PyNative mode, but reports bugs in Graph mode",
    how="`sonde compile-check train.py`: compares eager, compiled and float64, and names the op "
    "that is wrong",
)
def test_code_that_deviates_ends_with_1_and_json_names_the_op(tmp_path: Path) -> None:
    done = run("--json", "--step", "1", "train.py", "plant", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert (found["step"], found["agrees"], found["complete"]) == (1, False, True)
    assert "finished step 0\n" in done.stderr
    (graph,) = found["graphs"]
    wrong = graph["wrong_op"]
    assert wrong["op"] == "aten.silu.default"
    assert (wrong["phase"], wrong["fault"]) == ("forward", "decomposition")
    assert (wrong["dtype"], wrong["shape"]) == ("float32", [3, 8])
    assert wrong["compiled"] > wrong["allowed"] > wrong["eager"]
    output = graph["comparisons"][0]
    assert (output["kind"], output["agrees"]) == ("output", False)
    assert output["compiled"] > output["allowed"]


def test_a_step_that_never_comes_ends_with_2(tmp_path: Path) -> None:
    done = run("--step", "9", "train.py", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "sonde: the program ended after 2 steps, without a backward through compiled code in step "
        "9; choose an earlier --step, or find out why it ended [compile-check-no-step]\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no program given"),
        (("--memory", "much", "x.py"), "'much' is not a size such as '512M' or '4G'"),
        (("--step", "-1", "x.py"), "invalid value for '--step'"),
        (("no_such_file.py",), "can't open file"),
    ],
)
def test_mistakes_in_the_command_end_with_2(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile-check", *words]) == 2
    assert message in capsys.readouterr().err


def test_every_option_is_on_the_page() -> None:
    for option in compile_check.params:
        if isinstance(option, click.Option) and option.name not in ("help", "module"):
            assert option.opts[0] in PAGE, option.opts


OFF = ResultComparison(
    kind="output",
    name="output 0",
    dtype="float32",
    norm=2.0,
    group_norm=2.0,
    epsilon=0.0,
    eager=0.0,
    interpreted=float("nan"),
    compiled=0.5,
    shift=0.0,
    broken=3,
)
WRONG = WrongOp(
    op="aten.tanh.default",
    phase="backward",
    module="encoder.0",
    source=Source("train.py", 7, "forward", "h = torch.tanh(h)"),
    dtype="float32",
    shape=(2, 3),
    compiled=float("inf"),
    eager=0.0,
    allowed=1e-6,
    broken=0,
    fault="lowering",
)


def test_the_wrong_op_is_reported_with_its_place() -> None:
    graph = GraphVerdict("Net", "inductor", 9, 4, (OFF,), WRONG, random_ops=2, problems=("odd",))
    assert list(as_lines(CompileVerdict(3, (graph,), (), ("strange",)))) == [
        "step 3: relative error to float64",
        "                        eager  interpreted   compiled   closer to float64",
        "  outputs                   0            -    2.5e-01   eager (1, 1 deviate)",
        "Net (inductor): 4 of 9 ops judged one by one",
        "  2 random ops, given the same numbers in all ways",
        "  output output 0 (float32) deviates: off by 2.5e-01, 0 allowed, 3 elements not finite",
        "  note: odd",
        "note: strange",
        "the first wrong op is aten.tanh.default, backward in module encoder.0 at train.py:7: "
        "h = torch.tanh(h)",
        "  float32 [2, 3] off by inf from float64 on the same inputs; eager 0, allowed 1.0e-06",
        "  the code generated for it is wrong: its decomposition, if it has one, is right",
    ]


def test_random_numbers_that_could_not_be_matched_are_reported() -> None:
    graph = GraphVerdict(
        "Net", "inductor", 9, 0, (OFF,), None, random_ops=1, is_random_matched=False
    )
    lines = list(as_lines(CompileVerdict(0, (graph,))))
    assert lines[4] == (
        "  1 random op drew different numbers in different ways: results prove nothing, only ops "
        "were judged"
    )
    assert lines[-1] == "the check is not complete: see the notes"


def test_a_deviation_without_an_op_is_reported() -> None:
    graph = GraphVerdict("Net", "inductor", 9, 9, (OFF,), None)
    assert list(as_lines(CompileVerdict(0, (graph,))))[-1].startswith(
        "compiled code deviates, but no op does by itself"
    )


def test_ops_that_are_wrong_together_are_reported_by_line() -> None:
    line = Source("train.py", 7, "forward", "h = h * h + 1")
    members = (
        Member("aten.mul.Tensor", "", line),
        Member("aten.add.Tensor", "", line),
        Member("aten.exp.default", "last", None),
    )
    made = GraphVerdict("Net", "inductor", 9, 9, (OFF,), None)
    graph = replace(made, together=WrongGroup("forward", members))
    assert list(as_lines(CompileVerdict(0, (graph,))))[-4:] == [
        "compiled code deviates, but no op does by itself",
        "the values of these 3 ops are wrong where they are fused into one kernel, and right where "
        "they are kept (forward)",
        "  aten.mul.Tensor, aten.add.Tensor at train.py:7: h = h * h + 1",
        "  aten.exp.default",
    ]
    alone = replace(made, together=WrongGroup("forward and backward", members[:1]))
    assert list(as_lines(CompileVerdict(0, (alone,))))[-2] == (
        "the value of this op is wrong where it is fused, or computed again in backward, and right "
        "where it is kept (forward and backward)"
    )
    document = as_document(CompileVerdict(0, (graph,)))["graphs"][0]["wrong_together"]
    assert document["phase"] == "forward"
    assert document["ops"][0] == {
        "op": "aten.mul.Tensor",
        "module": "",
        "source": "train.py:7",
        "line": "h = h * h + 1",
    }


def test_json_has_no_numbers_it_cannot_hold() -> None:
    graph = GraphVerdict("Net", "inductor", 9, 4, (OFF,), WRONG)
    text = json.dumps(as_document(CompileVerdict(3, (graph,))), allow_nan=False)
    assert json.loads(text)["graphs"][0]["wrong_op"]["compiled"] == "inf"
    assert json.loads(text)["graphs"][0]["comparisons"][0]["interpreted"] is None
    assert json.loads(text)["graphs"][0]["wrong_op"]["source"] == "train.py:7"
