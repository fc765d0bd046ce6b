"""Verdicts from the times and losses of trial runs; the runs themselves are made up."""

from pathlib import Path

import pytest
from tests.profile.made import profile

from sonde.core.errors import UsageError
from sonde.profile.document import CollectiveItem, FoundItem, Gain, LoaderItem, TriedItem
from sonde.profile.trial import runs
from sonde.profile.trial.clock import TrialOrder, TrialResult
from sonde.profile.trial.runs import (
    TrialPlan,
    impossible,
    merged_findings,
    parse_names,
    run_trials,
    with_values,
    without_tried,
)


def run(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    results: dict[str, list[tuple[float, float | None]]],
    *,
    rounds: int = 3,
    applied: int = 1,
) -> tuple[dict[str, TriedItem], list[str]]:
    """Trials whose n-th round takes and loses what ``results`` say for "" and each variant."""
    import msgspec

    turns: list[str] = []

    def launch(arguments: list[str], **_: object) -> int:
        order = msgspec.json.decode(arguments[1], type=TrialOrder)
        seconds, loss = results[order.variant][turns.count(order.variant)]
        turns.append(order.variant)
        if seconds < 0:
            return 1
        result = TrialResult(order.variant, (seconds,) * 5, (loss,) * 5, applied, None, "")
        Path(order.out).write_bytes(msgspec.json.encode(result))
        return 0

    monkeypatch.setattr(runs, "launch", launch)
    plan = TrialPlan(("train.py",), 5, 10, rounds, 1, tmp_path)
    names = [name for name in results if name]
    tried = run_trials(plan, names, lambda text: None)
    return {item.name: item for item in tried}, turns


def test_faster_in_every_round_with_the_same_loss_is_faster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried, turns = run(
        monkeypatch, tmp_path, {"": [(1.0, 2.0)] * 3, "amp": [(0.5, 2.01), (0.6, 2.0), (0.5, 2.0)]}
    )
    item = tried["amp"]
    assert (item.verdict, item.before, item.after) == ("faster", 1.0, 0.5)
    assert item.ratios == (0.5, 0.6, 0.5)
    assert item.loss_difference == pytest.approx(0.005)
    assert turns == ["", "amp"] * 3  # in turns, so that a slow hour hits both


def test_a_round_is_set_against_the_program_in_the_same_round(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried, _ = run(
        monkeypatch,
        tmp_path,
        {"": [(1.0, 2.0), (2.0, 2.0), (4.0, 2.0)], "amp": [(0.99, 2.0), (2.02, 2.0), (4.0, 2.0)]},
    )
    assert tried["amp"].verdict == "no gain"


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ([(0.98, 2.0)] * 3, "no gain"),  # too little
        ([(0.5, 2.0), (1.1, 2.0), (0.5, 2.0)], "no gain"),  # not in every round
        ([(1.5, 2.0)] * 3, "slower"),
        ([(0.5, 2.5)] * 3, "the loss differs"),
        ([(0.5, None)] * 3, "the loss differs"),  # NaN or Inf
        ([(-1.0, 0.0)] * 3, "failed"),
    ],
)
def test_a_variant_that_is_not_clearly_faster_is_not_called_faster(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    rounds: list[tuple[float, float | None]],
    verdict: str,
) -> None:
    tried, _ = run(monkeypatch, tmp_path, {"": [(1.0, 2.0)] * 3, "fused": rounds})
    assert tried["fused"].verdict == verdict


def test_a_program_whose_loss_differs_from_itself_allows_as_much(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried, _ = run(
        monkeypatch,
        tmp_path,
        {"": [(1.0, 2.0), (1.0, 2.3), (1.0, 2.1)], "fused": [(0.5, 2.2)] * 3},
    )
    assert tried["fused"].verdict == "faster"


def test_a_variant_that_changes_nothing_runs_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried, turns = run(
        monkeypatch, tmp_path, {"": [(1.0, 2.0)] * 3, "fused": [(1.0, 2.0)]}, applied=0
    )
    assert tried["fused"].verdict == "not applicable"
    assert turns.count("fused") == 1


def test_a_program_that_fails_by_itself_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="the program itself failed"):
        run(monkeypatch, tmp_path, {"": [(-1.0, 0.0)], "fused": []})


def test_names_are_checked() -> None:
    assert parse_names("compile, amp,compile") == ("compile", "amp")
    assert len(parse_names("all")) == 7
    for text in ("", "fast", "amp,,fasst"):
        with pytest.raises(UsageError, match="there are compile, amp"):
            parse_names(text)


def test_values_come_from_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    import msgspec

    monkeypatch.setattr(runs.os, "cpu_count", lambda: 4)
    made = msgspec.structs.replace(
        profile(),
        loaders=(LoaderItem(None, 4, 16, False, 1.0),),
        collectives=CollectiveItem(1.0, None, 0.1, 0.1, 0.0),
    )
    assert with_values(["workers", "threads", "buckets", "amp"], made) == [
        "workers=8",
        "threads=2",
        "threads=4",
        "buckets=1",
        "buckets=5",
        "buckets=100",
        "amp",
    ]
    assert impossible(["workers", "buckets", "amp"], made) == []
    assert [item.name for item in impossible(["workers", "buckets"], profile())] == [
        "workers",
        "buckets",
    ]


def tried_item(name: str, verdict: str, after: float) -> TriedItem:
    return TriedItem(name, verdict, 1.0, after, (after,), 0.0)


def test_a_trial_confirms_or_drops_the_finding_that_says_the_same() -> None:
    found = FoundItem(
        "unfused-optimizer", "framework", "info", "m", "a", Gain(0.3, 0.3, "replayed")
    )
    other = FoundItem(
        "needless-cast", "framework", "info", "m", "a", Gain(0.2, 0.2, "in the trace")
    )
    confirmed = merged_findings([found, other], [tried_item("fused", "faster", 0.9)])
    assert [each.rule for each in confirmed] == ["needless-cast", "unfused-optimizer"]
    assert confirmed[1].gain.how == "tried"
    assert confirmed[1].gain.share == pytest.approx(0.1)
    dropped = merged_findings([found, other], [tried_item("fused", "no gain", 1.0)])
    assert dropped == (other,)


def test_the_fastest_of_several_values_is_a_finding() -> None:
    tried = [
        tried_item("threads=1", "faster", 0.8),
        tried_item("threads=4", "faster", 0.5),
        tried_item("threads=2", "slower", 1.5),
    ]
    merged = merged_findings([], tried)
    assert [(each.rule, each.gain.share) for each in merged] == [("tried-threads", 0.5)]
    assert merged[0].advice == "torch.set_num_threads(4), or OMP_NUM_THREADS=4"


def test_a_variant_that_had_a_trial_is_no_hint_any_more() -> None:
    tried = [tried_item("amp", "no gain", 1.0), tried_item("workers=4", "faster", 0.5)]
    hints = ("amp: products", "compile: chains", "workers: waits")
    assert without_tried(hints, tried) == ("compile: chains",)
