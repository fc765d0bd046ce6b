"""A study as plain values and as a page; tests/report looks at the page in a browser."""

import json
import re
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState, create_trial

from sonde.tune.errors import TuneError
from sonde.tune.store.listing import (
    SEARCH,
    StudyListing,
    is_study,
    list_study,
    read_study,
    write_pointer,
)
from sonde.tune.store.outcome import OUTCOME
from sonde.tune.store.storage import open_study
from sonde.tune.trials.search import study_page, write_results

SPACE = {
    "learning_rate": FloatDistribution(1e-4, 1.0, log=True),
    "optimizer": CategoricalDistribution(("sgd", "</script><b>")),
}
ORIGIN = {
    "step": 1,
    "op": "Default/exp-op0",
    "made": "Inf",
    "file": "t.py",
    "line": 9,
    "code": "exp(x)",
}


def example() -> StudyListing:
    study = optuna.create_study(study_name="a <study>")
    study.set_user_attr(SEARCH, {"target": "loss", "tuner": "gp, ucb", "command": "python t.py"})
    for number in range(8):
        values = {
            "learning_rate": 10 ** -(number / 2),
            "optimizer": SPACE["optimizer"].choices[number % 2],
        }  # type: ignore[attr-defined]
        study.add_trial(
            create_trial(
                value=(number - 4) ** 2 + 0.5,
                params=values,
                distributions=SPACE,
                user_attrs={
                    OUTCOME: {"ending": "finished", "seconds": 2.0, "command": f"run {number}"}
                },
                intermediate_values={0: 9.0, 1: (number - 4) ** 2 + 0.5},
            )
        )
    study.add_trial(
        create_trial(
            state=TrialState.PRUNED,
            params={"learning_rate": 1.0, "optimizer": "sgd"},
            distributions=SPACE,
            user_attrs={OUTCOME: {"ending": "diverged", "reason": "loss is nan", "origin": ORIGIN}},
        )
    )
    return list_study(study)


def test_the_page_has_the_title_and_few_points_of_a_long_trial() -> None:
    listing = example()
    long = replace(listing.trials[0], course=tuple((step, 1.0) for step in range(1000)))
    text = study_page(replace(listing, trials=(long, *listing.trials[1:])))
    assert "<title>a &lt;study&gt;: loss</title>" in text
    data = re.search(r'id="data"[^>]*>(.*?)</script>', text)
    assert data is not None
    assert 100 <= len(json.loads(data[1])["trials"][0]["course"]) <= 130


def test_the_listing_has_what_people_ask_for() -> None:
    listing = example()
    assert listing.best == 4
    assert listing.best_trial is not None
    assert (listing.best_trial.value, listing.best_trial.command) == (0.5, "run 4")
    assert listing.counts() == {"finished": 8, "diverged": 1}
    assert listing.trials[-1].origin == ORIGIN
    assert [one.name for one in listing.parameters] == ["learning_rate", "optimizer"]
    assert listing.parameters[0].log
    assert listing.parameters[1].choices == ("sgd", "</script><b>")
    assert sum(share for _, share in listing.importance) == pytest.approx(1)


def test_a_study_without_trials_has_a_page_and_no_best(tmp_path: Path) -> None:
    listing = list_study(optuna.create_study())
    write_results(listing, tmp_path)
    assert not (tmp_path / "best.yaml").exists()
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_a_directory_has_the_address_of_its_study(tmp_path: Path) -> None:
    assert not is_study(tmp_path)
    with pytest.raises(TuneError, match=r"holds no search.*\[tune-study\]"):
        read_study(tmp_path)
    url = f"sqlite:///{tmp_path}/study.db"
    sampler, pruner = optuna.samplers.RandomSampler(), optuna.pruners.NopPruner()
    for name in ("one", "two"):
        open_study(url, name, "minimize", sampler, pruner)
    assert is_study(tmp_path)
    assert is_study(tmp_path / "study.db")
    with pytest.raises(TuneError, match="several studies; name one: one, two"):
        read_study(tmp_path)
    assert read_study(tmp_path, study="two").study == "two"
    write_pointer(tmp_path, url, "one")
    assert read_study(tmp_path).study == "one"
    with pytest.raises(TuneError, match="has no study three"):
        read_study(tmp_path, study="three")
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(TuneError, match="is not a pointer to a study"):
        read_study(tmp_path)
