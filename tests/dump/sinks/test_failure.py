"""``op_debug_mode: 4``: the inputs of an op that raises, and the unchanged exception."""

from __future__ import annotations

import contextlib
import json
import re
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.dumping import arrays, dumping
from tests.adapters.torch.watching import same
from tests.e2e.running import run
from torch import nn
from torch.nn import functional

import sonde


def failing(path: Path, body: Callable[[], Any], **options: Any) -> BaseException:
    """What ``body`` raises, observed."""
    with (
        dumping(path, step_by="manual", debug_mode="exception", **options),
        pytest.raises(BaseException) as caught,  # noqa: PT011
    ):
        body()
    return caught.value


def said(capfd: pytest.CaptureFixture[str]) -> list[tuple[str, str, Path]]:
    """Op, exception and place of every line about an op that raised; places exist."""
    *lines, end = capfd.readouterr().err.splitlines()
    assert end.startswith("sonde: dumped step")
    found = []
    for line in lines:
        match = re.fullmatch(
            r"sonde: (\S+) at \S+:\d+ raised (\w+); its inputs(?: and those of \S+)? are in (.+) "
            r"\[op-raised\]",
            line,
        )
        assert match is not None, line
        assert Path(match[3]).is_dir()
        found.append((match[1], match[2], Path(match[3])))
    return found


# ----------------------------------------------------------------------- what is saved


def test_the_inputs_of_an_op_that_raises_are_saved_and_a_line_says_where(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    table = torch.arange(6.0).view(3, 2)
    error = failing(tmp_path, lambda: functional.embedding(torch.tensor([0, 3]) * 2, table))
    assert type(error) is IndexError
    assert str(error) == "index out of range in self"
    ((op, name, place),) = said(capfd)
    assert (op, name) == ("Default/embedding-op0", "IndexError")
    assert place == tmp_path / "rank_0" / "Net" / "0" / "0"
    assert sorted(file.suffix for file in place.iterdir()) == [".npy", ".npy"]
    values = arrays(tmp_path)
    np.testing.assert_array_equal(values[0, op, "input", 0], table.numpy())
    np.testing.assert_array_equal(values[0, op, "input", 1], [0, 6])


@pytest.mark.document(
    73,
    says="the operator execution error, such as shape mismatch and unsupported dtype",
    how="`op_debug_mode` 4: one line names the op, its source line and the directory with its "
    "inputs",
)
@pytest.mark.parametrize(
    ("action", "op"),
    [
        (lambda: torch.ones(2, 3) @ torch.ones(2, 3), "mm"),
        (lambda: torch.ones(6).view(4), "view"),
        (lambda: torch.ones(3).gather(0, torch.tensor([7])), "gather"),
        (lambda: torch.ones(3)[torch.tensor([7])], "index"),
        (lambda: torch.multinomial(torch.tensor([-1.0]), 1), "multinomial"),
        (lambda: functional.cross_entropy(torch.ones(1, 3), torch.tensor([5])), "nll_loss_forward"),
        (lambda: nn.Conv2d(3, 2, 1)(torch.ones(1, 4, 2, 2)), "convolution"),
        (lambda: torch.linalg.svd(torch.full((2, 2), torch.nan)), "_linalg_svd"),
        (lambda: torch.zeros(3).scatter_(0, torch.tensor([5]), 1.0), "scatter_"),
    ],
)
def test_ops_that_raise_inside_their_kernels_are_found(
    action: Callable[[], Any],
    op: str,
    tmp_path: Path,
    matcher: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(Exception) as bare:  # noqa: PT011
        action()
    error = failing(tmp_path, action)
    assert type(error) is bare.type
    assert str(error) == str(bare.value)
    ((name, kind, _),) = said(capfd)
    assert re.fullmatch(rf"Default/(?:\S+/)?{op}-op0", name)
    assert kind == bare.type.__name__
    assert {key[1] for key in arrays(tmp_path)} == {name}


def test_the_inputs_of_an_op_that_writes_are_from_before_it(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def body() -> None:
        x = torch.zeros(4)
        for position in (1, 2, 9):
            x.scatter_(0, torch.tensor([3, position]), torch.tensor([5.0, 7.0]))
            sonde.step()

    failing(tmp_path, body)
    ((op, _, place),) = said(capfd)
    assert place.name == "2"
    values = arrays(tmp_path)
    np.testing.assert_array_equal(values[2, op, "input", 0], [0, 7, 7, 5])
    np.testing.assert_array_equal(values[2, op, "input", 1], [3, 9])


def test_the_matrix_that_cannot_be_factored_is_saved_too(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """torch notes the failure in one op and raises in the next, which has only error codes."""
    matrix = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    error = failing(tmp_path, lambda: torch.linalg.cholesky(matrix))
    assert isinstance(error, torch.linalg.LinAlgError)
    err = capfd.readouterr().err
    assert "its inputs and those of Default/linalg_cholesky_ex-op0 are in" in err
    values = arrays(tmp_path)
    np.testing.assert_array_equal(
        values[0, "Default/linalg_cholesky_ex-op0", "input", 0], matrix.numpy()
    )
    assert values[0, "Default/_linalg_check_errors-op0", "input", 0] == 2


def test_a_failure_that_is_only_noted_is_no_failure(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with dumping(tmp_path, step_by="manual", debug_mode="exception"):
        torch.linalg.cholesky_ex(-torch.eye(2))
        sonde.step()
    assert capfd.readouterr().err == "sonde: no op raised an exception\n"
    assert arrays(tmp_path) == {}


def test_ops_of_the_programs_own_are_ops(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    class OddError(Exception):
        pass

    @torch.library.custom_op("sonde_test::picky", mutates_args=())
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 3:
            raise OddError("too much")
        return x.clone()

    def body() -> None:
        for number in range(5):
            picky(torch.full((2,), float(number)))
            sonde.step()

    error = failing(tmp_path, body)
    assert type(error) is OddError
    assert error.args == ("too much",)
    ((op, kind, place),) = said(capfd)
    assert (op, kind, place.name) == ("Default/sonde_test_picky-op0", "OddError", "2")
    np.testing.assert_array_equal(arrays(tmp_path)[2, op, "input", 0], [2, 2])


def test_nothing_is_reported_or_saved_without_a_failure(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with dumping(tmp_path, step_by="manual", debug_mode="exception"):
        for _ in range(3):
            torch.ones(3).add_(1).sum()
            sonde.step()
    assert capfd.readouterr().err == "sonde: no op raised an exception\n"
    assert not list(tmp_path.rglob("*.npy"))


# ---------------------------------------------------------------- the program goes on


def test_a_program_that_catches_the_exception_trains_on_unchanged(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def train() -> list[Any]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = torch.optim.Adam(net.parameters())
        losses: list[Any] = []
        for step in range(4):
            optimizer.zero_grad()
            if step in (1, 2):
                try:
                    net(torch.randn(2, 3))
                except RuntimeError as error:
                    losses.append(str(error))
            loss = net(torch.randn(2, 4)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return [losses, [parameter.detach().clone() for parameter in net.parameters()]]

    bare = train()
    with dumping(tmp_path, debug_mode="exception"):
        watched = train()
    assert same(bare, watched)
    op = "Default/network-Sequential/0-Linear/addmm-op0"
    assert [(name, place.name) for name, _, place in said(capfd)] == [(op, "1"), (op, "2")]
    assert sorted(arrays(tmp_path)) == [
        (step, op, "input", slot) for step in (1, 2) for slot in range(3)
    ]


def test_an_exception_that_the_program_released_is_not_kept_alive(
    tmp_path: Path, matcher: str
) -> None:
    class Big:
        """Something the frame of the failing call holds."""

    def attempt() -> weakref.ref[Big]:
        big = Big()
        with contextlib.suppress(RuntimeError):
            torch.ones(6).view(4)
        return weakref.ref(big)

    with dumping(tmp_path, step_by="manual", debug_mode="exception"):
        assert attempt()() is None


def test_the_first_op_of_a_step_may_be_the_one_that_raises(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    x = torch.ones(2, 3)
    failing(tmp_path, lambda: torch.mm(x, x))
    ((op, _, _),) = said(capfd)
    assert op == "Default/mm-op0"
    assert [key for key in arrays(tmp_path) if key[1] == op] == [
        (0, op, "input", 0),
        (0, op, "input", 1),
    ]


def test_an_op_that_raises_after_the_last_step_is_kept(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ops on plain tensors after the last step belong to none, unless one of them raises."""
    weight = nn.Parameter(torch.ones(2, 3))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def body() -> None:
        weight.sum().backward()
        optimizer.step()
        torch.mm(weight.detach(), torch.ones(2, 2))

    with dumping(tmp_path, debug_mode="exception"), pytest.raises(RuntimeError):
        body()
    ((op, _, place),) = said(capfd)
    assert (op, place.name) == ("Default/mm-op0", "1")
    assert len(arrays(tmp_path)) == 2


# --------------------------------------------------------------- exceptions left alone


def test_ctrl_c_inside_an_op_is_not_the_ops_failure(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    @torch.library.custom_op("sonde_test::interrupted", mutates_args=())
    def interrupted(x: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    error = failing(tmp_path, lambda: interrupted(torch.ones(2)))
    assert type(error) is KeyboardInterrupt
    assert capfd.readouterr().err == "sonde: no op raised an exception\n"
    assert not list(tmp_path.rglob("*.npy"))


def test_the_traceback_has_no_frame_of_sonde(tmp_path: Path) -> None:
    pytest.importorskip("sonde.adapters.torch.eager._match")

    def deep(width: int) -> torch.Tensor:
        return torch.mm(torch.ones(2, 3), torch.ones(width, 2))

    def frames() -> list[tuple[str, int | None, str]]:
        try:
            deep(2)
        except RuntimeError as error:
            return [
                (frame.filename, frame.lineno, frame.name)
                for frame in traceback.extract_tb(error.__traceback__)
            ]
        raise AssertionError("it should have raised")

    bare = frames()
    with dumping(tmp_path, step_by="manual", debug_mode="exception"):
        assert frames() == bare  # learned
        sonde.step()
        deep(3)
        sonde.step()
        assert frames() == bare  # known


# -------------------------------------------------------------------------- end to end

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Embedding(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for index in (1, 3, 4):
    optimizer.zero_grad()
    net(torch.tensor([0, index])).sum().backward()
    optimizer.step()
"""


@pytest.mark.document(
    112,
    says="`op_debug_mode` 4: only save input of the exception operator",
    how="the same; one line names the op that raised, its source line and the directory",
)
def test_a_program_under_sonde_run_ends_as_without_it_and_the_inputs_are_saved(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    config = {
        "common_dump_settings": {
            "op_debug_mode": 4,
            "dump_mode": 0,
            "path": str(tmp_path / "out"),
            "net_name": "Net",
            "iteration": "all",
            "input_output": 1,
            "kernels": [],
            "support_device": [0],
        }
    }
    (tmp_path / "dump.json").write_text(json.dumps(config))
    bare = run(str(tmp_path / "train.py"))
    assert bare.returncode == 1
    watched = run(
        "-m", "sonde", "run", "--dump", str(tmp_path / "dump.json"), str(tmp_path / "train.py")
    )
    assert watched.returncode == 1
    line, end, rest = watched.stderr.split("\n", 2)
    assert end.startswith("sonde: dumped step 2: 1 op, ")
    # Sonde's hooks lead torch through other lines of its own, not through other frames of ours.
    assert rest.splitlines()[:4] == bare.stderr.splitlines()[:4]
    assert rest.splitlines()[-1] == bare.stderr.splitlines()[-1]
    assert "src/sonde" not in rest
    assert line == (
        f"sonde: Default/network-Embedding/embedding-op0 at {tmp_path}/train.py:10 raised "
        f"IndexError; its inputs are in {tmp_path}/out/rank_0/Net/2/2 [op-raised]"
    )
    shown = run("-m", "sonde", "show", str(tmp_path / "out"), "--step", "2", "--values")
    assert shown.returncode == 0
    assert "Default/network-Embedding/embedding-op0" in shown.stdout
    assert "int64[2]" in shown.stdout.replace(" ", "")
    assert "[0 4]" in shown.stdout
