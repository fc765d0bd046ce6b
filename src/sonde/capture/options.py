"""The configuration of a dump from command-line options instead of a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from sonde.capture.config import CaptureConfig, SavedData, refuse_unwritable
from sonde.capture.config_fields import (
    DEBUG_MODES,
    DUMP_MODES,
    INPUT_OUTPUT,
    keeps_useless_outputs,
    why_not_a_net_name,
)
from sonde.core.errors import SondeError, UsageError
from sonde.core.operators.patterns import OpPattern
from sonde.core.own_code import VARIABLE, parse_packages
from sonde.core.selection import Selection, parse_steps
from sonde.core.settings import Problems

SHORT_FORM_CATEGORIES = (
    *("max", "min", "avg", "l2norm"),
    *("nan count", "negative inf count", "positive inf count"),
)
STORE_CATEGORIES = (*SHORT_FORM_CATEGORIES, "zero count")
"""Of statistics in Parquet files, where zeros cost little: dead layers are seen by them."""
STORE_FULL_STEPS = 10_000
"""The last steps that statistics in Parquet files keep in full without a configuration file."""
SHORT_FORM_OVERFLOWS = 100
"""Ops that an overflow dump saves without a configuration file: NaN spreads to every later op."""

_NOT_OF_TENSORS = (
    *("overflow_number", "statistic_category", "own_packages"),
    *("statistic_format", "statistic_full_steps"),
)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

DEFAULT_DIRECTORY: Final = "sonde_dump"
"""Where a dump goes if the user names no directory."""


def _refuse_beside_steps(problems: Problems, given: Mapping[str, bool]) -> None:
    """Refuse the options that have no meaning for a dump of captured steps."""
    for name, is_given in given.items():
        if is_given:
            problems.add(
                f"--as-steps cannot be combined with {name}: it keeps steps to execute them again "
                "when a tensor is asked for",
                slug="config-combination",
            )


def config_from_options(
    directory: str | os.PathLike[str],
    environ: Mapping[str, str],
    *,
    steps: str = "all",
    ops: Sequence[str] = (),
    stats: bool = False,
    overflow: bool = False,
    graph: bool = False,
    as_steps: bool = False,
    parquet: bool = False,
    full_steps: int = STORE_FULL_STEPS,
    net_name: str = "Net",
    memory_budget: int | None = None,
) -> CaptureConfig:
    """The configuration that options ask for; a `ConfigError` names every option that is wrong.

    ``directory`` may be relative. ``environ`` has the number of ranks. ``parquet`` has an effect on
    ``stats``, ``full_steps`` on both.
    """
    problems = Problems("command line")
    selection = _selection(steps, ops, problems)
    reason = why_not_a_net_name(net_name)
    if reason is not None:
        problems.add(f"--net-name {net_name!r} {reason}", slug="config-net-name")
    _refuse_combinations(problems, stats=stats, overflow=overflow, graph=graph, ops=bool(ops))
    if as_steps:
        beside = {"--stats": stats, "--overflow": overflow, "--graph": graph}
        _refuse_beside_steps(problems, {**beside, "--dump-memory": memory_budget is not None})
    keeps_useless = keeps_useless_outputs(environ, problems)
    is_store = stats and parquet
    path = _directory(directory, problems)
    problems.raise_if_any()
    config = CaptureConfig(
        selection=selection,
        path=path,
        net_name=net_name,
        text="",
        dump_mode="kernels" if ops else "all",
        saved_data=_saved_data(graph=graph, stats=stats, as_steps=as_steps),
        statistic_categories=STORE_CATEGORIES if is_store else SHORT_FORM_CATEGORIES,
        statistic_format="parquet" if is_store else "csv",
        statistic_full_steps=full_steps if is_store else 0,
        debug_mode="overflow" if overflow else "off",
        overflow_number=SHORT_FORM_OVERFLOWS if overflow else 0,
        memory_budget=memory_budget,
        own_packages=parse_packages(environ.get(VARIABLE, "")),
        keeps_useless_outputs=keeps_useless,
    )
    return replace(config, text=_as_json(config, _world_size(environ)))


def _saved_data(*, graph: bool, stats: bool, as_steps: bool) -> SavedData:
    if graph:
        return "graph"
    return "statistic" if stats else "step" if as_steps else "tensor"


def _refuse_combinations(
    problems: Problems, *, stats: bool, overflow: bool, graph: bool, ops: bool
) -> None:
    if overflow and (stats or ops):
        other = "--stats" if stats else "--dump-ops"
        problems.add(
            f"--overflow cannot be combined with {other}: it finds the ops itself and saves their "
            "tensors",
            slug="config-combination",
        )
    if graph and (stats or overflow or ops):
        other = "--stats" if stats else "--overflow" if overflow else "--dump-ops"
        problems.add(
            f"--graph cannot be combined with {other}: it writes graphs and no values; every dump "
            "writes them",
            slug="config-combination",
        )


def _directory(directory: str | os.PathLike[str], problems: Problems) -> Path:
    path = Path(os.path.abspath(directory))
    if not os.fspath(directory):
        problems.add("--dump-to is empty; write a directory", slug="config-path")
    elif not problems:  # refused options must not touch the disk
        refuse_unwritable(path, "--dump-to", problems)
    return path


def _selection(steps: str, ops: Sequence[str], problems: Problems) -> Selection:
    selection = Selection()
    try:
        selection = replace(selection, steps=parse_steps(steps))
    except SondeError as error:
        problems.add(f"--dump-steps {error.message}", slug="config-iteration")
    patterns = []
    for text in ops:
        try:
            patterns.append(OpPattern.parse(text))
        except SondeError as error:
            problems.add(f"--dump-ops {error.message}", slug="config-kernels")
    return replace(selection, ops=tuple(patterns) if ops else None)


def parse_size(text: str) -> int:
    """Bytes, from ``"512M"``, ``"1.5 GiB"`` or ``"4096"``; units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size < 1:
        raise UsageError(f"{text!r} is not a size such as '512M' or '4G'", slug="size")
    return size


def mindspore_text(config: CaptureConfig) -> str:
    """The configuration file with which MindSpore dumps the same steps and ops: tensors, while the
    ops run. It can dump neither statistics nor overflows alone on a CPU."""
    plain = replace(config, asynchronous=False, saved_data="tensor", debug_mode="off")
    content = json.loads(_as_json(plain, 1))
    for key in _NOT_OF_TENSORS:  # MindSpore refuses some of them where they have no effect.
        content["common_dump_settings"].pop(key, None)
    return json.dumps(content, indent=4, ensure_ascii=False)


def _world_size(environ: Mapping[str, str]) -> int:
    text = environ.get("WORLD_SIZE", "1")
    return int(text) if text.isascii() and text.isdigit() else 1


def _as_json(config: CaptureConfig, world_size: int) -> str:
    """The configuration file with the same meaning, so that every dump can be repeated."""
    common: dict[str, object] = {
        "op_debug_mode": _number_of(DEBUG_MODES, config.debug_mode),
        "dump_mode": _number_of(DUMP_MODES, config.dump_mode),
        "path": str(config.path),
        "net_name": config.net_name,
        "iteration": str(config.selection.steps),
        "saved_data": config.saved_data,
        "input_output": _number_of(INPUT_OUTPUT, config.ios),
        "kernels": [str(pattern) for pattern in config.selection.ops or ()],
        "support_device": list(range(max(8, world_size))),
        "statistic_category": list(config.statistic_categories),
        "overflow_number": config.overflow_number,
    }
    if config.statistic_format == "parquet":
        common["statistic_format"] = config.statistic_format
        common["statistic_full_steps"] = config.statistic_full_steps
    if config.own_packages:
        common["own_packages"] = list(config.own_packages)
    sync = {"enable": not config.asynchronous, "trans_flag": config.transpose_to_nchw}
    content = {"common_dump_settings": common, "e2e_dump_settings": sync}
    return json.dumps(content, indent=4, ensure_ascii=False)


def _number_of(numbers: Mapping[int, object], meaning: object) -> int:
    return next(number for number, value in numbers.items() if value == meaning)
