"""A search from its configuration to its results on disk: everything but the screen."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.tune.config.search_config import TuneConfig
from sonde.tune.errors import TuneError
from sonde.tune.results import write_best, write_page
from sonde.tune.store.listing import SEARCH, StudyListing, list_study, write_pointer
from sonde.tune.store.storage import default_url, open_study, without_password
from sonde.tune.trials.command import CommandTemplate, check_program

if TYPE_CHECKING:
    from optuna.study import Study

PAGE_SECONDS = 20.0
PAGE_SHARE = 50
"""The page is written again after so many times the time that took, so that it costs 2 %."""


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
        """Write page and best trial as they are now."""
        began = time.monotonic()
        listing = self.listing()
        self.config.directory.mkdir(parents=True, exist_ok=True)
        write_page(listing, self.config.directory)
        write_best(listing, self.config.directory)
        now = time.monotonic()
        self._due = now + max(PAGE_SECONDS, PAGE_SHARE * (now - began))
        return listing

    def write_if_due(self) -> None:
        """The same, if the last time is long enough ago to be worth it."""
        if time.monotonic() > self._due:
            self.write()


def open_session(config: TuneConfig) -> SearchSession:
    """Open or make the study; `TuneError` says why it cannot be."""
    _require_optuna()
    import optuna

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
    """One trial more than there are, as the document says, where nothing else limits a search."""
    limits = config.limits
    is_limited = any((limits.trials, limits.time, limits.patience, limits.value is not None))
    if is_limited or config.tuner.name == "grid":
        return config
    return replace(config, limits=replace(limits, trials=done + 1))


def _described(config: TuneConfig) -> dict[str, Any]:
    """What the study should remember of the search, for people and for the page."""
    is_gp = config.tuner.name == "gp"
    tuner = f"gp, {config.tuner.method}" if is_gp else config.tuner.name
    return {
        "target": config.target.name,
        "command": " ".join(config.command),
        "tuner": tuner,
        "pruner": config.pruner.name,
        "config": str(Path(config.path).absolute()),
    }


def _require_optuna() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise TuneError(
            "a search needs Optuna: pip install 'sonde[tune]'", slug="extra-missing"
        ) from None
