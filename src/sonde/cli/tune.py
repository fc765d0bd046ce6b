"""``sonde tune``: searches for the best hyper-parameters of a training command."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from sonde.cli.json_output import json_option, print_document
from sonde.core.errors import UsageError
from sonde.logs import say

if TYPE_CHECKING:
    from sonde.tune.config.search_config import TuneConfig
    from sonde.tune.trials.search import SearchSession

EPILOG = """\b
Examples:
  sonde tune config.yaml --iter 50                  fifty trials, one after the other
  sonde tune config.yaml --iter 50 --parallel 4     four at a time
  sonde tune config.yaml --time 2h                  as many as fit into two hours
  sonde tune config.yaml --check                    the command of a trial, without running it
  sonde tune config.yaml --iter 500 --storage postgresql://user@host/db
                                                    run on many machines: one study

To continue a search that was killed, run the same command: the limits count for the study.
docs/tune.md describes the configuration.
"""


@click.command(epilog=EPILOG)
@click.argument("config", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option(
    "--iter",
    "trials",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run until the study has N trials. Default: the limits of CONFIG, else one more trial.",
)
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    metavar="K",
    help="Run K trials at a time. Default: as in CONFIG, else 1.",
)
@click.option("--time", metavar="TIME", help="Stop after this time, such as 90, 10m or 1h30m.")
@click.option(
    "--storage",
    metavar="URL",
    help="Where the study is stored: sqlite:///file, postgresql://user@host/name, mysql://..., "
    "journal:///file, grpc://host:port. Default: study.db in summary_base_dir.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Watch every trial for overflow, so that a trial that diverges need not be run a second "
    "time to find the cause. Slows the trials down.",
)
@click.option(
    "--no-explain",
    is_flag=True,
    help="Stop trials that diverge, but do not search for the op that caused it.",
)
@click.option("--check", is_flag=True, help="Run nothing; show how values reach the command.")
@json_option
def tune(
    config: Path,
    trials: int | None,
    parallel: int | None,
    time: str | None,
    storage: str | None,
    watch: bool,
    no_explain: bool,
    check: bool,
    as_json: bool,
) -> int:
    """Search for the best hyper-parameters of a training command.

    CONFIG is a YAML file as for MindOptimizer, with extensions (docs/tune.md). Each trial runs the
    command with different values; the study, report.html and best.yaml are written to
    summary_base_dir.
    """
    from sonde.tune.config.file import load_config

    settings = _with_options(load_config(config), trials, parallel, time, storage, no_explain)
    if check:
        return _check(settings, as_json=as_json)
    return _search(settings, is_watched=watch, as_json=as_json)


def _with_options(
    config: TuneConfig,
    trials: int | None,
    parallel: int | None,
    time: str | None,
    storage: str | None,
    no_explain: bool,
) -> TuneConfig:
    """The configuration with the options of the command line applied."""
    from sonde.tune.config.section import parse_duration

    limits = config.limits
    if trials is not None:
        limits = replace(limits, trials=trials)
    if time is not None:
        seconds = parse_duration(time)
        if seconds is None:
            raise UsageError(
                f"--time {time!r} is not a time such as 90, 10m or 1h30m", slug="usage"
            )
        limits = replace(limits, time=seconds)
    return replace(
        config,
        limits=limits,
        parallel=config.parallel if parallel is None else parallel,
        storage=config.storage if storage is None else storage,
        divergence=replace(config.divergence, explain=config.divergence.explain and not no_explain),
    )


def _check(config: TuneConfig, *, as_json: bool) -> int:
    from sonde.cli.tune_text import check_json, show_check
    from sonde.tune.trials.command import CommandTemplate, check_program

    check_program(config.command)
    if as_json:
        print_document(check_json(config, CommandTemplate(config)))
    else:
        show_check(config, CommandTemplate(config))
    return 0


def _search(config: TuneConfig, *, is_watched: bool, as_json: bool) -> int:
    from sonde.cli.tune_text import SearchProgress, warn_unused
    from sonde.tune.trials.progress import Progress
    from sonde.tune.trials.runner import Runner
    from sonde.tune.trials.search import open_session, with_default_limit

    session = open_session(config)
    warn_unused(session.template)
    is_limited = with_default_limit(config, 0) is config
    config = with_default_limit(config, Progress(config, session.study).done())
    asked: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        """Note the signal; the search checks for it several times a second. Raising here could
        interrupt an import and leave its lock held, so only a second signal raises."""
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    with SearchProgress(config, session) as screen:
        runner = Runner(
            config,
            session.study,
            session.template,
            screen,
            read_scalars=read_scalars,
            is_watched=is_watched,
            is_interrupted=lambda: bool(asked),
        )
        try:
            reason = runner.run()
        except KeyboardInterrupt:
            reason = ""
    return _close(session, screen, reason, is_limited=is_limited, as_json=as_json)


def _close(
    session: SearchSession, screen: Any, reason: str, *, is_limited: bool, as_json: bool
) -> int:
    """Write and print the results; 0 if there is a best trial, 1 if not, 130 if interrupted."""
    listing = session.write()
    screen.results(listing, reason)
    if as_json:
        print_document(listing.as_dict())
    if not reason:
        say("interrupted; the same command continues the search")
        return 130
    if not is_limited:
        say("that was one trial; --iter N runs more")
    return 0 if listing.best is not None else 1


def read_scalars(directory: Path) -> Mapping[str, tuple[int, float]]:
    """The newest scalars of a summary directory; none if it is not one, or is being written."""
    from sonde.summary.errors import SummaryError
    from sonde.summary.listing import is_summary, read_summary

    if not is_summary(directory):
        return {}
    try:
        scalars = read_summary(directory).scalars
    except SummaryError:
        return {}
    return {tag: (one.last_step, one.last) for tag, one in scalars.items()}
