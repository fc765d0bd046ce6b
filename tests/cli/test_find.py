"""``sonde find``: MindSpore's words lead to what there is here."""

import pytest

from sonde.cli.find import _items
from sonde.cli.main import main


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("LossMonitor", "epoch: 1 step: 1, loss is"),
        ("lossmonitor", "epoch: 1 step: 1, loss is"),
        ("initial_iteration", "key initial_iteration"),
        ("initial iteration", "key initial_iteration"),
        ("Compare previous step", "Compare with"),
        ("GLOG_v level", "SONDE_LOG_V"),
        ("AllReduce", "sonde profile --ranks"),
        ("`Next Node`", "sonde ctl next"),
    ],
)
def test_words_of_the_documents_lead_to_what_to_use(
    words: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["find", *words.split()]) == 0
    out = capsys.readouterr().out
    assert line in out
    assert "`" not in out


def test_every_item_is_found_by_its_own_words(capsys: pytest.CaptureFixture[str]) -> None:
    items = _items()
    assert len(items) > 150
    for item in items:
        assert main(["find", "--", item.says]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert item.document in lines
        assert f"      {item.how.replace('`', '')}" in lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no words given: sonde find WORDS..., such as 'sonde find LossMonitor' [usage]"),
        ([" "], "no words given: sonde find WORDS..., such as 'sonde find LossMonitor' [usage]"),
        (
            ["LossMonitr"],
            "nothing in MindSpore's documents has 'LossMonitr'; did you mean 'LossMonitor'? "
            "[nothing-found]",
        ),
        (
            ["LossMonitor", "AllReduce"],
            "no item of MindSpore's documents has all of 'LossMonitor', 'AllReduce'; use fewer "
            "words [nothing-found]",
        ),
    ],
)
def test_a_search_without_a_result_is_one_line_and_exit_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["find", *words]) == 2
    assert capsys.readouterr().err == f"sonde: {said}\n"


def test_the_help_of_sonde_names_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "sonde find LossMonitor " in capsys.readouterr().out
