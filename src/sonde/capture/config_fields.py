"""Reads, checks and translates each field of the documented dump configuration.

Only this module and ``capture/config.py`` know the keys of the file (``iteration``, ``kernels``,
``common_dump_settings``). ``docs/config.md`` has a heading for every key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from sonde.core.errors import SondeError
from sonde.core.keys import Io
from sonde.core.operators.patterns import OpPattern
from sonde.core.own_code import refuse_other_than_package
from sonde.core.selection import ALL_STEPS, StepSet, parse_steps
from sonde.core.settings import Problems, Rule, Section, is_text, is_whole, kind_of, nearest
from sonde.core.statistics import CATEGORIES

DumpMode = Literal["all", "kernels", "set_dump"]
DebugMode = Literal["off", "overflow", "exception"]

DEFAULT_CATEGORIES = ("max", "min", "l2norm")
_OTHER_NAMES = {
    **dict.fromkeys(("mean", "average"), "avg"),
    **dict.fromkeys(("maximum", "amax"), "max"),
    **dict.fromkeys(("minimum", "amin"), "min"),
    **dict.fromkeys(("norm", "l2", "l2 norm", "l2_norm"), "l2norm"),
    **dict.fromkeys(("stddev", "standard deviation"), "std"),
    **dict.fromkeys(("size", "numel", "shape"), "count"),
    **dict.fromkeys(("nan", "nan_count"), "nan count"),
    **dict.fromkeys(("inf", "inf count"), "positive inf count"),
    "zeros": "zero count",
}
"""What users call statistics that have another name."""

CONFIG_KEYS: Mapping[str, tuple[str, ...]] = {
    "common_dump_settings": (
        *("op_debug_mode", "dump_mode", "path", "net_name", "iteration", "saved_data"),
        *("input_output", "kernels", "support_device", "statistic_category"),
        *("statistic_format", "statistic_full_steps"),
        *("overflow_number", "initial_iteration", "own_packages"),
    ),
    "e2e_dump_settings": (
        *("enable", "trans_flag", "stat_calc_mode", "device_stat_precision_mode"),
        *("sample_mode", "sample_num", "save_kernel_args"),
    ),
    "async_dump_settings": ("enable", "op_debug_mode"),
}

DUMP_MODES: Mapping[int, DumpMode] = {0: "all", 1: "kernels", 2: "set_dump"}
DEBUG_MODES: Mapping[int, DebugMode] = {0: "off", 3: "overflow", 4: "exception"}
OLDER_DEBUG_MODES: Mapping[int, DebugMode] = {
    0: "off",
    **dict.fromkeys((1, 2, 3), "overflow"),  # MindSpore divides them by hardware unit
}
INPUT_OUTPUT: Mapping[int, frozenset[Io]] = {
    0: frozenset({"input", "output"}),
    1: frozenset({"input"}),
    2: frozenset({"output"}),
}
_RANKS = "a list of ranks such as [0, 1, 2, 3, 4, 5, 6, 7]"
_STEPS = 'a text such as "0|5-8|100-120", "all", or "all/10" for every tenth step'
_KERNELS = 'a list of names of ops or modules, op types or "name-regex(...)"'
_DIRECTORY_VARIABLES = ("SONDE_DIAGNOSTIC_DATA_PATH", "MS_DIAGNOSTIC_DATA_PATH")
_USELESS_VARIABLES = (
    "SONDE_DUMP_IGNORE_USELESS_OUTPUT",
    "MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT",
)
_NET_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}")
_RESERVED_NET_NAMES = ("graphs", "execution_order", "statistics")  # folders beside the net's own


def split_sections(content: dict[str, Any], problems: Problems) -> tuple[Section, Section, Section]:
    """The common, synchronous and older asynchronous sections, empty where the file has none.

    Unknown sections and keys are noted.
    """
    for name in content:
        if name not in CONFIG_KEYS:
            _refuse_unknown(name, CONFIG_KEYS, "", problems)
    if "common_dump_settings" not in content:
        problems.add("common_dump_settings is missing", slug="config-missing-key")
        problems.raise_if_any()  # the keys missing with it would only drown the reason
    sections = []
    for name, keys in CONFIG_KEYS.items():
        values = content.get(name, {})
        if not isinstance(values, dict):
            problems.add(f"{name} is {kind_of(values)}; accepted: an object", slug="config-type")
            values = {}
        for key in values:
            if key not in keys:
                _refuse_unknown(key, keys, f"{name}.", problems)
        prefix = "" if name == "common_dump_settings" else f"{name}."
        sections.append(Section(values, problems, prefix=prefix))
    return sections[0], sections[1], sections[2]


def _refuse_unknown(key: str, known: Iterable[str], prefix: str, problems: Problems) -> None:
    home = next((name for name, keys in CONFIG_KEYS.items() if key in keys), None)
    if home is not None:
        hint = f"; it belongs in {home}"
    else:
        everything = (*CONFIG_KEYS, *(name for keys in CONFIG_KEYS.values() for name in keys))
        hint = nearest(key, known) or nearest(key, everything)
        hint = hint or nearest(key, known, "accepted:")
    problems.add(f"{prefix}{key} is not a known key{hint}", slug="config-unknown-key")


def dump_mode(common: Section) -> DumpMode:
    accepted = "0 (every op), 1 (the ops in kernels) or 2 (what sonde.set_dump marks)"
    common.demand("dump_mode", accepted)
    return common.choice("dump_mode", DUMP_MODES, accepted=accepted)


def debug_mode(common: Section, older: Section, problems: Problems) -> DebugMode:
    accepted = "0 (off), 3 (only ops that overflow) or 4 (only the op that raises)"
    mode = common.choice("op_debug_mode", DEBUG_MODES, accepted=accepted)
    if "op_debug_mode" not in older:
        return mode
    accepted = "0 (off), or 1, 2 or 3 (only ops that overflow)"
    older_mode = older.choice("op_debug_mode", OLDER_DEBUG_MODES, accepted=accepted)
    if "op_debug_mode" not in common:
        return older_mode
    if mode != older_mode and problems.none_with("op_debug_mode"):
        older.refuse(
            "op_debug_mode",
            "contradicts op_debug_mode in common_dump_settings; keep only the latter",
            slug="config-combination",
        )
    return mode


def is_asynchronous(sync: Section, older: Section, problems: Problems) -> bool:
    synchronous = sync.flag("enable", False)
    if "enable" in older:
        enabled = older.flag("enable", True)
        if problems.none_with("enable") and enabled == synchronous:
            older.refuse(
                "enable",
                "and e2e_dump_settings.enable are both true; keep the former for an asynchronous "
                "dump, the latter for a synchronous one"
                if enabled
                else "is false and e2e_dump_settings.enable is not true, so nothing would be "
                "dumped; set one of them to true",
                slug="config-combination",
            )
    return not synchronous


def input_output(common: Section) -> frozenset[Io]:
    accepted = "0 (inputs and outputs), 1 (inputs) or 2 (outputs)"
    common.demand("input_output", accepted)
    return common.choice("input_output", INPUT_OUTPUT, accepted=accepted)


def ranks(common: Section) -> frozenset[int]:
    common.demand("support_device", _RANKS)
    numbers = common.entries(
        "support_device", [*range(8)], Rule(_RANKS, is_whole, lambda rank: rank >= 0)
    )
    if not numbers:
        common.refuse("support_device", f"is empty; accepted: {_RANKS}", slug="config-value")
    return frozenset(numbers)


def steps(common: Section, mode: DebugMode, initial_step: int) -> StepSet:
    if "iteration" not in common:
        if mode != "exception":  # any step may be the one that raises
            common.demand("iteration", _STEPS)
        return ALL_STEPS
    text = common.text("iteration", "all", accepted=_STEPS, number_too=True)
    try:
        found = parse_steps(text)
    except SondeError as error:
        common.refuse("iteration", error.message, slug="config-iteration")
        return ALL_STEPS
    if mode == "exception" and found != ALL_STEPS:
        common.refuse(
            "iteration",
            f"'{found}' cannot be chosen with op_debug_mode 4, which waits for an exception in "
            'any step; write "all"',
            slug="config-combination",
        )
    elif found.last is not None and found.last < initial_step:
        common.refuse(
            "iteration",
            f"'{found}' lies before initial_iteration {initial_step}: nothing would be dumped",
            slug="config-iteration",
        )
    return found


def ops(common: Section, mode: DumpMode) -> tuple[OpPattern, ...] | None:
    """The patterns of ``kernels`` if the mode uses them, else None; all are checked."""
    common.demand("kernels", f"{_KERNELS}, or [] where dump_mode is not 1")
    patterns = []
    texts: tuple[str, ...] = common.entries("kernels", (), Rule(_KERNELS, is_text))
    for index, text in enumerate(texts):
        try:
            patterns.append(OpPattern.parse(text))
        except SondeError as error:
            slug = error.slug if error.slug == "regex" else "config-kernels"
            common.refuse("kernels", f"entry {index}: {error.message}", slug=slug)
    if mode != "kernels":
        return None
    if not texts and common.is_sound("kernels"):
        common.refuse(
            "kernels", f"is empty with dump_mode 1; write {_KERNELS}", slug="config-kernels"
        )
    return tuple(patterns)


def statistic_categories(common: Section) -> tuple[str, ...]:
    """In the order of the file, each once."""
    accepted = 'a list such as ["max", "min", "l2norm"]'
    rule = Rule(accepted, is_text)
    names = common.entries("statistic_category", DEFAULT_CATEGORIES, rule)
    for index, name in enumerate(names):
        if name not in CATEGORIES:
            meant = _OTHER_NAMES.get(name.strip().lower())
            hint = f"; did you mean {meant!r}?" if meant else nearest(name, CATEGORIES, "accepted:")
            common.refuse(
                "statistic_category",
                f"entry {index}: {name!r} is not a statistic{hint}",
                slug="config-statistic-category",
            )
    if not names:
        common.refuse(
            "statistic_category",
            f"is empty; leave it out for {', '.join(DEFAULT_CATEGORIES)}",
            slug="config-statistic-category",
        )
    return tuple(dict.fromkeys(names))


def directory(common: Section, environ: Mapping[str, str]) -> Path:
    """Where the dump goes: ``path``, or the environment's directory when ``path`` is empty."""
    text = common.text("path", "", accepted="an absolute path")
    origin = ""
    if not text:
        variable = next((name for name in _DIRECTORY_VARIABLES if environ.get(name)), None)
        if variable is not None:
            origin = f" (from {variable})"
            text = os.path.join(environ[variable], "debug_dump")
    if not common.is_sound("path"):
        return Path("/")
    if not text:
        common.refuse(
            "path",
            f"is empty; write an absolute path, or set {' or '.join(_DIRECTORY_VARIABLES)}",
            slug="config-path",
        )
    elif not os.path.isabs(text):
        absolute = os.path.abspath(os.path.expanduser(os.path.expandvars(text)))
        common.refuse(
            "path", f"{text!r}{origin} is not absolute; write {absolute!r}", slug="config-path"
        )
    return Path(os.path.normpath(text))


def net_name(common: Section) -> str:
    common.demand("net_name", 'a name for the network, such as "ResNet50"')
    name = common.text("net_name", "Net", accepted='a text such as "ResNet50"')
    reason = why_not_a_net_name(name)
    if reason is not None:
        common.refuse("net_name", f"{name!r} {reason}", slug="config-net-name")
    return name


def keeps_useless_outputs(environ: Mapping[str, str], problems: Problems) -> bool:
    """Whether outputs that ops return empty are dumped: if a variable of the environment is 0."""
    variable = next((name for name in _USELESS_VARIABLES if environ.get(name)), None)
    value = "1" if variable is None else environ[variable].strip()
    if value not in ("0", "1"):
        problems.add(
            f"{variable} is {value!r}; accepted: 0 (dump outputs that ops return empty) or 1 "
            "(leave them out, the default)",
            slug="config-value",
        )
    return value == "0"


def own_packages(common: Section) -> tuple[str, ...]:
    """The installed packages whose lines are shown as the user's own code."""
    names: tuple[str, ...] = common.entries(
        "own_packages", (), Rule('names of packages such as "transformers"', is_text)
    )
    for index, name in enumerate(names):
        try:
            refuse_other_than_package(name)
        except SondeError as error:
            common.refuse("own_packages", f"entry {index}: {error.message}", slug="own-packages")
    return names


def why_not_a_net_name(name: str) -> str | None:
    """Why this cannot be the name of a net, which is a folder of the dump; None if it can."""
    if _NET_NAME.fullmatch(name) is None:
        return "is not 1 to 200 letters, digits, '-' or '_'"
    if name in _RESERVED_NET_NAMES:
        return "is the name of another folder of a dump; choose another"
    return None
