"""Opens the study of a search, and writes its results: ``report.html`` and ``best.yaml``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.core.files.atomic_file import write_whole
from sonde.report import page
from sonde.report.links import write_report
from sonde.tune.config.search_config import TuneConfig
from sonde.tune.errors import require
from sonde.tune.store.listing import SEARCH, StudyListing, list_study, write_pointer
from sonde.tune.store.storage import default_url, open_study, without_password
from sonde.tune.trials.command import CommandTemplate, check_program

if TYPE_CHECKING:
    from optuna.study import Study

PAGE_FILE = "report.html"
BEST_FILE = "best.yaml"
PAGE_SECONDS = 20.0
PAGE_SHARE = 50
"""The page is rewritten after this many times the time that writing took, so it costs 2 %."""
MOST_POINTS = 120
"""The page shows at most about this many points of a trial."""


@dataclass(slots=True)
class SearchSession:
    """An open study, and the files beside it: ``study.json``, ``report.html``, ``best.yaml``."""

    config: TuneConfig
    template: CommandTemplate
    study: Study
    url: str
    _due: float = field(default=0.0)

    def listing(self) -> StudyListing:
        return list_study(self.study, path=str(self.config.directory), storage=self.url)

    def write(self) -> StudyListing:
        """Write the page and the best trial."""
        began = time.monotonic()
        listing = self.listing()
        self.config.directory.mkdir(parents=True, exist_ok=True)
        write_results(listing, self.config.directory)
        now = time.monotonic()
        self._due = now + max(PAGE_SECONDS, PAGE_SHARE * (now - began))
        return listing

    def write_if_due(self) -> None:
        """`write`, unless the last time was too recently."""
        if time.monotonic() > self._due:
            self.write()


def open_session(config: TuneConfig) -> SearchSession:
    """Open or create the study; a `TuneError` if that fails."""
    optuna = require("optuna", "Optuna", "a search")

    from sonde.tune.trials.samplers import make_pruner, make_sampler

    check_program(config.command)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    template = CommandTemplate(config)
    url = config.storage or default_url(config.directory)
    sampler, pruner = make_sampler(config.tuner), make_pruner(config.pruner)
    study = open_study(url, config.study, config.target.goal, sampler, pruner)
    described = _described(config)
    if study.user_attrs.get(SEARCH) != described:
        study.set_user_attr(SEARCH, described)
    write_pointer(config.directory, without_password(url), config.study)
    return SearchSession(config, template, study, url)


def with_default_limit(config: TuneConfig, done: int) -> TuneConfig:
    """Without other limits, a search runs one more trial than there are, like MindOptimizer."""
    limits = config.limits
    is_limited = any((limits.trials, limits.time, limits.patience, limits.value is not None))
    if is_limited or config.tuner.name == "grid":
        return config
    return replace(config, limits=replace(limits, trials=done + 1))


def _described(config: TuneConfig) -> dict[str, Any]:
    """The description of the search that is stored in the study."""
    is_gp = config.tuner.name == "gp"
    tuner = f"gp, {config.tuner.method}" if is_gp else config.tuner.name
    return {
        "target": config.target.name,
        "command": " ".join(config.command),
        "tuner": tuner,
        "pruner": config.pruner.name,
        "config": str(Path(config.path).absolute()),
    }


def write_results(listing: StudyListing, directory: Path) -> None:
    """Write the page, and the best trial if there is one; earlier files are replaced."""
    import yaml  # type: ignore[import-untyped]

    write_report(directory / PAGE_FILE, study_page(listing))
    best = listing.best_trial
    if best is None:
        return
    done = sum(1 for one in listing.trials if one.state not in ("running", "interrupted"))
    head = (
        f"# The best of {done} trials: {listing.target} {best.value!r}\n"
        f"# To run it again:\n#   {best.command}\n"
    )
    content = {
        "study": listing.study,
        "trial": best.number,
        "target": {"name": listing.target, "goal": listing.goal, "value": best.value},
        "parameters": best.parameters,
        "command": best.command,
        "directory": best.directory,
    }
    text = head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    write_whole(directory / BEST_FILE, text)


def study_page(listing: StudyListing) -> str:
    """The HTML of the page."""
    content = listing.as_dict()
    for trial in content["trials"]:
        course = trial["course"]
        trial["course"] = course[:: max(1, len(course) // MOST_POINTS)]
    return page("study", f"{listing.study}: {listing.target}", content)
