"""Reads the YAML file of a search: MindOptimizer's keys, and Sonde's additional ones."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Literal, cast

from sonde.core.settings import Problems
from sonde.tune.config.parameters import read_space
from sonde.tune.config.search_config import (
    METHODS,
    PRUNERS,
    TUNERS,
    DivergenceSettings,
    Goal,
    Limits,
    Method,
    Origin,
    Pruner,
    PrunerName,
    SearchTarget,
    TuneConfig,
    Tuner,
    TunerName,
)
from sonde.tune.config.section import TuneSection
from sonde.tune.config.space import MOST_OF_A_GRID, Space, too_large_a_grid
from sonde.tune.config.yaml_lines import LocatedValue, read_yaml
from sonde.tune.errors import TuneError

_PRUNER_ARGUMENTS = {
    "median": {"startup_trials": 0, "warmup_steps": 0, "interval_steps": 1},
    "hyperband": {"min_resource": 1, "max_resource": 1, "reduction_factor": 2},
}
"""The arguments of each pruner, and their smallest values."""
_SHELL_WORDS = ("&&", "||", "|", ";", ">", ">>", "<", "2>", "2>&1", "&")


def load_config(path: str | os.PathLike[str]) -> TuneConfig:
    """The search that a YAML file describes; a `ConfigError` lists all its problems, with lines."""
    file = Path(path)
    problems = Problems(os.fspath(path))
    node = read_yaml(file, problems)
    if node is None:
        problems.raise_if_any()
        raise AssertionError("read_yaml notes a problem for a file without content")
    top = TuneSection(node, "", problems)
    assignments, command = _command(top)
    tuner = _tuner(top)
    space_node = top.node("parameters")
    space = read_space(space_node, "parameters", problems)
    if space_node is None:
        top.refuse("parameters", "is missing: what should be tried?", slug="tune-key")
    directory = top.optional_text("summary_base_dir") or f"sonde_tune/{file.stem}"
    config = TuneConfig(
        path=file,
        command=command,
        assignments=assignments,
        environment=_environment(top),
        directory=Path(os.path.abspath(os.path.expanduser(directory))),
        space=_as_grid(space, top) if tuner.name == "grid" else space,
        tuner=tuner,
        pruner=_pruner(top),
        target=_target(top),
        limits=_limits(top),
        divergence=_divergence(top),
        parallel=top.whole("parallel", 1, minimum=1),
        storage=top.optional_text("storage"),
        study=top.optional_text("study") or file.stem,
    )
    top.finish()
    problems.raise_if_any()
    return config


def _as_grid(space: Space, top: TuneSection) -> Space:
    try:
        grid = space.as_grid()
        if grid.size(MOST_OF_A_GRID) > MOST_OF_A_GRID:
            raise too_large_a_grid()
    except TuneError as error:
        top.refuse("tuner", f"grid: {error.message}", slug=error.slug)
        return space
    return grid


def _command(top: TuneSection) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    text = top.optional_text("command")
    if text is None:
        if "command" not in top:
            top.refuse("command", "is missing, such as 'command: python train.py'", slug="tune-key")
        return (), ()
    try:
        words = shlex.split(text)
    except ValueError as error:
        top.refuse("command", f"cannot be split into words: {str(error).lower()}")
        return (), ()
    used = next((word for word in words if word in _SHELL_WORDS), None)
    if used is not None:
        top.refuse("command", f"is not run by a shell, so {used!r} means nothing; use sh -c '...'")
    assignments = []
    while words and re.match(r"[A-Za-z_][A-Za-z0-9_]*=", words[0]):
        name, _, value = words.pop(0).partition("=")
        assignments.append((name, value))
    if not words:
        top.refuse("command", "has no program in it")
    return tuple(assignments), tuple(words)


def _environment(top: TuneSection) -> tuple[tuple[str, str], ...]:
    section = top.section("environment")
    found = []
    for name in section.names:
        node = section.node(name)
        value = "" if node is None else node.value
        if isinstance(value, dict | list):
            section.refuse(name, "is not one text or number")
        else:
            found.append((name, str(value)))
    return tuple(found)


def _named(top: TuneSection, key: str) -> TuneSection:
    """A section ``{name: ..., args: {...}}``; a single word is the name."""
    node = top.node(key)
    if node is not None and isinstance(node.value, str) and ":" not in node.value:
        node = LocatedValue({"name": LocatedValue(node.value, node.line)}, node.line)
    return TuneSection(node or LocatedValue(None, top.line), key, top.problems)


def _tuner(top: TuneSection) -> Tuner:
    section = _named(top, "tuner")
    if section.names and "name" not in section:
        section.refuse("name", f"is missing: {', '.join(TUNERS)}", slug="tune-key")
    name = section.word("name", TUNERS)
    arguments = section.section("args")
    method = arguments.word("method", METHODS, "ucb" if section.names else Tuner().method)
    if name != "gp" and "method" in arguments:
        arguments.refuse("method", f"belongs to the tuner gp, not to {name}", slug="tune-key")
    tuner = Tuner(
        cast(TunerName, name),
        cast(Method, method),
        seed=arguments.whole("seed", None),
        startup_trials=arguments.whole("startup_trials", None, minimum=1),
    )
    arguments.finish()
    section.finish()
    return tuner


def _pruner(top: TuneSection) -> Pruner:
    section = _named(top, "pruner")
    name = cast(PrunerName, section.word("name", PRUNERS))
    arguments = section.section("args")
    minima = _PRUNER_ARGUMENTS.get(name, {})
    given = {key: arguments.whole(key, None, minimum=minimum) for key, minimum in minima.items()}
    arguments.finish()
    section.finish()
    return Pruner(name, **{key: value for key, value in given.items() if value is not None})


def _target(top: TuneSection) -> SearchTarget:
    section = top.section("target")
    name = section.optional_text("name") or "loss"
    if section.names and "name" not in section:
        section.refuse("name", "is missing, such as 'name: loss'", slug="tune-key")
    groups = ("metric", "system_defined")
    group = section.word("group", groups, "system_defined" if name == "loss" else "metric")
    if group == "system_defined" and name != "loss":
        section.refuse("group", f"is system_defined, which only 'loss' is; {name!r} is a metric")
    origin = cast(Origin, section.word("from", ("auto", "report", "summary", "log")))
    pattern = _pattern(section)
    if pattern is not None and origin in ("report", "summary"):
        section.refuse("pattern", f"is for the log, but the target comes from the {origin}")
    target = SearchTarget(
        name,
        cast(Literal["metric", "system_defined"], group),
        cast(Goal, section.word("goal", ("minimize", "maximize"))),
        "log" if pattern is not None else origin,
        pattern,
        cast(Literal["last", "best"], section.word("keep", ("last", "best"))),
    )
    section.finish(hints={"direction": "; did you mean 'goal'?"})
    return target


def _pattern(section: TuneSection) -> re.Pattern[str] | None:
    text = section.optional_text("pattern")
    if text is None:
        return None
    try:
        pattern = re.compile(text)
    except re.error as error:
        section.refuse("pattern", f"is not a regular expression: {error}")
        return None
    if not pattern.groups:
        section.refuse("pattern", "needs a group round the number, such as 'loss: ([0-9.]+)'")
        return None
    return pattern


def _limits(top: TuneSection) -> Limits:
    section = top.section("limits")
    limits = Limits(
        trials=section.whole("trials", None, minimum=1),
        time=section.duration("time"),
        trial_time=section.duration("trial_time"),
        patience=section.whole("patience", None, minimum=1),
        value=section.number("value"),
    )
    section.finish()
    return limits


def _divergence(top: TuneSection) -> DivergenceSettings:
    section = top.section("diverged")
    divergence = DivergenceSettings(
        stop=section.flag("stop", True),
        explain=section.flag("explain", True),
        seconds=section.duration("seconds") or DivergenceSettings().seconds,
    )
    section.finish()
    return divergence
