"""A real notebook: cells that are observed, tables of findings, tensors as pictures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integrations.notebook.executing import Shown, execute

pytestmark = pytest.mark.slow

TRAINING = """\
torch.manual_seed(3)
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for step in range(4):
    optimizer.zero_grad()
    loss = (net(torch.rand(8, 4)) + 3 * (step != 2)).log().mean()
    loss.backward()
    if step != 2:
        optimizer.step()
    losses.append(loss.item())
(losses, net.weight.tolist())"""

PAGE = Path(__file__).parents[3] / "docs" / "notebooks.md"
BLOCKS = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text())
CELLS = {
    "load": "%load_ext sonde\nimport torch, sonde, sys",
    "plain": TRAINING,
    "observed": f"%%sonde --name found\n{TRAINING}",
    "finding": "found.findings[0]",
    "dump": "found.dump",
    "tensor of the dump": "next(iter(found.dump.tensors(op='log', io='output')))",
    "statistics": "%%sonde --stats --dump-to kept\nnet(torch.ones(1, 4)).sum().backward()\n"
    "optimizer.step()",
    "silent": "%%sonde --diagnose\n7;",
    "magic inside": "%%sonde --diagnose\nwhere = %pwd\nwhere",
    "error": "%%sonde\nbefore = 1\nraise ValueError('of the user')\nbefore = 2",
    "after error": "before",
    "syntax": "%%sonde\nif:",
    "wrong option": "%%sonde --overflw\n1",
    "wrong kind": "%%sonde --ignore nan\n1",
    "wrong name": "%%sonde --name 1a\n1",
    "both": "%%sonde --overflow --stats\n1",
    "nested": "%%sonde\nget_ipython().run_cell_magic('sonde', '', 'inner = 1')",
    "await": "%%sonde\nimport asyncio\nawait asyncio.sleep(0)",
    "tensor": "bad = torch.arange(600.).reshape(20, 30)\nbad[3, 4] = float('nan')\nbad",
    "number": "torch.tensor(1.5)",
    "meta": "torch.empty(3, device='meta')",
    "show": "sonde.show(bad, '<script>x</script>')",
    "show wrong": "sonde.show([1, 2])",
    "no page": "%sonde_page nowhere",
    "page": "%sonde_page kept --height 300",
    "page answers": "import urllib.request as web\n"
    "from sonde.integrations.notebook import page_frame\n"
    "browser = web.build_opener(web.HTTPCookieProcessor())\n"
    "address = page_frame.open_page('kept', 'localhost').address\n"
    "browser.open(address)  # Stores the token as a cookie.\n"
    "answer = browser.open(address.partition('?')[0])\n"
    "(answer.status, b'Sonde' in answer.read(), answer.headers['content-security-policy'])",
    "its dump": "import shutil\nshutil.copytree('kept', 'sonde_dump');",
    **{f"block {number}": text for number, text in enumerate(BLOCKS)},
    "unload": "%unload_ext sonde\nbad",
    "magic gone": "%%sonde\n1",
}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Shown]:
    folder = tmp_path_factory.mktemp("notebook")
    return dict(zip(CELLS, execute(list(CELLS.values()), folder), strict=True))


def test_an_observed_cell_has_the_same_results_bit_for_bit(notebook: dict[str, Shown]) -> None:
    assert "nan" in notebook["plain"].text[-1]
    assert notebook["observed"].text[-1] == notebook["plain"].text[-1]


def test_the_table_names_op_line_and_cell(notebook: dict[str, Shown]) -> None:
    table = notebook["observed"].html[0]
    assert "1 finding in 3 steps" in table
    assert "log made" in table
    assert "In[3]:8" in table
    assert "Default/log-op0" in table
    assert "loss = (net(torch.rand(8, 4)) + 3 * (step != 2)).log().mean()" in table
    assert notebook["observed"].printed == ""


def test_what_was_found_can_be_shown_again(notebook: dict[str, Shown]) -> None:
    assert "established: non-finite-origin" in notebook["finding"].html[0]
    shown = notebook["dump"].html[0]
    assert "1 rank, 1 step" in shown
    assert "log made" in shown
    assert "is not part of a dump" not in shown
    tensor = notebook["tensor of the dump"].html[0]
    assert "<img" in tensor
    assert "<svg" in tensor


def test_the_page_of_a_dump_is_in_a_frame_and_answers(notebook: dict[str, Shown]) -> None:
    (frame,) = notebook["page"].html
    address = re.search(r'<iframe src="(http://localhost:\d+/\?token=[\w-]+)"', frame)
    assert address is not None, frame
    assert "height:300px" in frame
    answer = " ".join(notebook["page answers"].text[0].split())
    assert answer.startswith("(200, True, ")
    assert "frame-ancestors http://localhost:*" in answer


def test_the_cells_of_the_page_run(notebook: dict[str, Shown]) -> None:
    loaded, observed, shown = [notebook[f"block {number}"] for number in range(len(BLOCKS))]
    assert (loaded.error, observed.error, shown.error) == ("", "", "")
    assert "log made" in observed.html[0]
    assert "non-finite-origin" in shown.html[0]
    assert "<iframe" in shown.html[1]


def test_a_cell_without_a_fault_says_so(notebook: dict[str, Shown]) -> None:
    assert "no finding" in notebook["statistics"].html[0]
    assert "/kept" in notebook["statistics"].html[0]


def test_the_value_of_the_last_line_is_shown_as_ever(notebook: dict[str, Shown]) -> None:
    assert [each for each in notebook["silent"].text if each == "7"] == []
    assert notebook["magic inside"].text[-1].startswith("'/")


def test_an_error_of_the_cell_stays_the_users(notebook: dict[str, Shown]) -> None:
    found = re.sub(r"\x1b\[[0-9;]*m", "", notebook["error"].error)
    assert "ValueError: of the user" in found
    assert "raise ValueError('of the user')" in found
    assert "sonde/integrations" not in found
    assert notebook["after error"].text == ["1"]
    assert "SyntaxError" in notebook["syntax"].error


def test_wrong_use_is_one_line(notebook: dict[str, Shown]) -> None:
    expected = {
        "wrong option": "UsageError: unrecognized arguments: --overflw",
        "wrong kind": "UsageError: ignore: 'nan' is not a kind of finding",
        "wrong name": "UsageError: --name '1a' is not the name of a variable",
        "both": "--overflow cannot be combined with --stats",
        "nested": "UsageError: a capture is running already",
        "await": "UsageError: %%sonde cannot observe a cell with 'await' outside a function",
        "no page": "nowhere does not exist",
        "magic gone": "UsageError: Cell magic `%%sonde` not found",
    }
    for name, text in expected.items():
        assert text in notebook[name].printed, name
        assert len(notebook[name].printed.strip().splitlines()) == 1, name


def test_a_tensor_is_a_picture_with_nan_marked(notebook: dict[str, Shown]) -> None:
    for name in ("tensor", "show"):
        (shown,) = notebook[name].html
        assert "1 nan" in shown
        assert "data:image/png;base64," in shown
        assert "<script" not in shown
        assert len(shown) < 20_000
    assert "&lt;script&gt;" in notebook["show"].html[0]
    assert notebook["number"].html == []
    assert notebook["meta"].html == []
    assert "show takes a torch tensor or a numpy array, not list" in notebook["show wrong"].error


def test_unloading_shows_tensors_as_before(notebook: dict[str, Shown]) -> None:
    assert notebook["unload"].html == []
    assert notebook["unload"].text[0].startswith("tensor(")


def test_importing_sonde_does_not_import_ipython() -> None:
    program = "import sonde, sys; sonde.show; print('IPython' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout == "False\n", ended.stderr
