"""Names that contain control sequences of a terminal."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text
from tests.server.rank_conversation import RankConversation
from tests.server.serving_in_thread import Server

from sonde import logs
from sonde.cli.main import main
from sonde.cli.show_text import Page
from sonde.cli.terminal import Terminal
from sonde.core.text.terminal_text import printable
from sonde.wire.rank import Notice, Status

CLEAR = "\x1b[2J\x1b]0;owned\x07"
HIDE = "\u202eevil\u2066"


@given(st.text())
def test_what_is_printed_has_no_control_character(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
    if text.isprintable():
        assert printable(text) == text


def test_tables_and_lines_print_escapes() -> None:
    out = io.StringIO()
    terminal = Terminal(file=out, width=200, force_terminal=True, color_system=None)
    table = Table(CLEAR)
    table.add_row(CLEAR, Text(HIDE))
    terminal.print(table)
    terminal.print(f"[bold]{CLEAR}[/bold]")
    Page.on(out).line(f"{CLEAR}\nfake line", Text(CLEAR, "bold"))
    shown = out.getvalue()
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert "\\x1b[2J" in shown
    assert "\nfake line" not in shown


def test_lines_of_a_training_print_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    logs.say(f"sonde: NaN in {CLEAR}\nsonde: every value was finite")
    assert capsys.readouterr().err == (
        "sonde: NaN in \\x1b[2J\\x1b]0;owned\\x07\\nsonde: every value was finite\n"
    )


def test_texts_of_a_rank_are_escaped_by_ctl(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    with RankConversation(server, run="r") as rank:
        rank.send(Notice("x", CLEAR))
        rank.send(Status("paused", 1, None, f"op{CLEAR}", None, "op", f"{HIDE}\nok", 0))
        server.wait_for("/runs/r", lambda run: bool(run["ranks"][0]["op"]))
        assert main(["ctl", "--server", server.page, "status"]) == 0
        assert main(["ctl", "--server", server.page, "tensor", CLEAR]) == 2
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert printable(text, keep="\n") == text
    assert "\\x1b[2J" in said.out
