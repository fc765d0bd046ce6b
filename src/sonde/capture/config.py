"""The configuration of a dump: the documented JSON, translated once into a `CaptureConfig`."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from sonde.capture import config_fields as fields
from sonde.capture.config_fields import DEFAULT_CATEGORIES, DebugMode, DumpMode
from sonde.capture.settings_file import read_settings
from sonde.core.keys import Io
from sonde.core.selection import Selection
from sonde.core.settings import Problems, Section
from sonde.core.statistics import HASHES

SavedData = Literal["tensor", "statistic", "full", "graph", "step"]
StatCalcMode = Literal["host", "device"]
StatPrecision = Literal["high", "low"]
StatisticFormat = Literal["csv", "parquet"]


@dataclass(frozen=True, slots=True)
class CaptureConfig:
    """What to dump, where and how; always valid.

    - ``selection``: steps, ops (None unless ``dump_mode`` is "kernels"), inputs or outputs, ranks;
    - ``path``: absolute; writable when the config was made; it need not exist;
    - ``text``: the JSON this was made from, or JSON that says the same;
    - ``dump_mode``: "set_dump" leaves the choice of ops to ``sonde.set_dump``;
    - ``initial_step``: the number of the first step;
    - ``transpose_to_nchw``: channels-last tensors are saved in the order of their shape, else in
      the order of memory;
    - ``debug_mode``: "overflow" dumps only ops with non-finite values, at most
      ``overflow_number`` of them (0: all); "exception" only the inputs of an op that raises;
    - ``saved_data``: "graph" writes graphs and the order of execution, and no values; "step"
      captured steps, of which the other settings say what is computed when the dump is read;
    - ``statistic_format``: "parquet" writes the statistics of all steps to Parquet files, of which
      the last ``statistic_full_steps`` steps are kept in full and older ones thinned (0: all kept);
    - ``keeps_useless_outputs``: outputs that ops return empty are saved, too;
    - ``sample_num``: how many elements of a tensor are kept, if ``sample_mode``;
    - ``memory_budget``: bytes an asynchronous dump may hold; None leaves it to the sink;
    - ``own_packages``: installed packages that count as the user's own code.
    """

    selection: Selection
    path: Path
    net_name: str
    text: str
    dump_mode: DumpMode = "all"
    initial_step: int = 0
    asynchronous: bool = True
    transpose_to_nchw: bool = True
    save_kernel_args: bool = False
    saved_data: SavedData = "tensor"
    statistic_categories: tuple[str, ...] = DEFAULT_CATEGORIES
    statistic_format: StatisticFormat = "csv"
    statistic_full_steps: int = 0
    debug_mode: DebugMode = "off"
    overflow_number: int = 0
    sample_mode: bool = False
    sample_num: int = 100
    stat_calc_mode: StatCalcMode = "host"
    device_stat_precision_mode: StatPrecision = "high"
    memory_budget: int | None = None
    own_packages: tuple[str, ...] = ()
    keeps_useless_outputs: bool = False

    @property
    def ios(self) -> frozenset[Io]:
        return self.selection.ios

    @property
    def ranks(self) -> frozenset[int] | None:
        """The ranks that dump; None means every one."""
        return self.selection.ranks

    @property
    def saves_tensors(self) -> bool:
        return self.saved_data in ("tensor", "full")

    @property
    def saves_statistics(self) -> bool:
        return self.saved_data in ("statistic", "full")


def load_config(
    path: str | os.PathLike[str],
    environ: Mapping[str, str],
    *,
    memory_budget: int | None = None,
) -> CaptureConfig:
    """The configuration in the JSON file ``path``; a `ConfigError` has all its problems at once.

    ``environ`` gives the dump directory when the file names none. Nothing is created.
    """
    content, text = read_settings(Path(path))
    problems = Problems(os.fspath(path))
    sections = fields.split_sections(content, problems)
    config = replace(_read(*sections, problems, environ), text=text, memory_budget=memory_budget)
    _refuse_combinations(config, problems)
    if not problems:  # a refused file must not touch the disk
        refuse_unwritable(config.path, "path", problems)
    problems.raise_if_any()
    return config


def _read(
    common: Section,
    sync: Section,
    older: Section,
    problems: Problems,
    environ: Mapping[str, str],
) -> CaptureConfig:
    """The configuration in these sections; where a setting is unusable, with its default."""
    dump_mode = fields.dump_mode(common)
    debug_mode = fields.debug_mode(common, older, problems)
    initial_step = common.whole("initial_iteration", 0, accepted="0 or a greater number")
    saved_data = common.word("saved_data", ("tensor", "statistic", "full", "graph", "step"))
    calc_mode = sync.word("stat_calc_mode", ("host", "device"))
    precision = sync.word("device_stat_precision_mode", ("high", "low"))
    form = common.word("statistic_format", ("csv", "parquet"))
    return CaptureConfig(
        selection=Selection(
            steps=fields.steps(common, debug_mode, initial_step),
            ops=fields.ops(common, dump_mode),
            ios=fields.input_output(common),
            ranks=fields.ranks(common),
        ),
        path=fields.directory(common, environ),
        net_name=fields.net_name(common),
        text="",
        dump_mode=dump_mode,
        initial_step=initial_step,
        asynchronous=fields.is_asynchronous(sync, older, problems),
        transpose_to_nchw=sync.flag("trans_flag", True),
        save_kernel_args=sync.flag("save_kernel_args", False),
        saved_data=cast(SavedData, saved_data),
        statistic_categories=fields.statistic_categories(common),
        statistic_format=cast(StatisticFormat, form),
        statistic_full_steps=common.whole(
            "statistic_full_steps", 0, accepted="0 (all steps) or how many of the last steps"
        ),
        debug_mode=debug_mode,
        overflow_number=common.whole("overflow_number", 0, accepted="0 (all) or how many at most"),
        sample_mode=sync.choice("sample_mode", {0: False, 1: True}, accepted="0 or 1"),
        sample_num=sync.whole("sample_num", 100, accepted="1 or a greater number", minimum=1),
        stat_calc_mode=cast(StatCalcMode, calc_mode),
        device_stat_precision_mode=cast(StatPrecision, precision),
        own_packages=fields.own_packages(common),
        keeps_useless_outputs=fields.keeps_useless_outputs(environ, problems),
    )


def refuse_unwritable(path: Path, key: str, problems: Problems) -> None:
    reason = _why_not_writable(path)
    if reason is not None:
        problems.add(f"{key} {str(path)!r} cannot be written to: {reason}", slug="config-path")


_Rule = tuple[bool, tuple[str, ...], str]
"""Whether a rule is broken, the keys it is about, and the message."""


def _refuse_combinations(config: CaptureConfig, problems: Problems) -> None:
    """Refuse the combinations that the documented format forbids, unless only for its hardware."""
    for broken, keys, message in (*_debug_mode_rules(config), *_saving_rules(config)):
        if broken and problems.none_with(*keys):
            problems.add(message, slug="config-combination")


def _debug_mode_rules(config: CaptureConfig) -> tuple[_Rule, ...]:
    debugging = config.debug_mode != "off"
    overflow = config.debug_mode == "overflow"
    return (
        (
            debugging and config.dump_mode != "all",
            ("op_debug_mode", "dump_mode"),
            "dump_mode must be 0 with op_debug_mode 3 or 4, which choose the ops themselves",
        ),
        (
            debugging and config.saved_data != "tensor",
            ("op_debug_mode", "saved_data"),
            f'saved_data "{config.saved_data}" goes only with op_debug_mode 0; 3 and 4 save '
            'tensors: write "tensor"',
        ),
        (
            overflow and len(config.ios) != 2,
            ("op_debug_mode", "input_output"),
            "input_output must be 0 with op_debug_mode 3, which saves inputs and outputs",
        ),
        (
            config.debug_mode == "exception" and config.ios != {"input"},
            ("op_debug_mode", "input_output"),
            "input_output must be 1 with op_debug_mode 4: an op that raised has only inputs",
        ),
        (
            overflow and config.stat_calc_mode == "device",
            ("op_debug_mode", "stat_calc_mode"),
            'e2e_dump_settings.stat_calc_mode must be "host" with op_debug_mode 3',
        ),
        (
            config.overflow_number > 0 and not overflow,
            ("op_debug_mode", "overflow_number"),
            "overflow_number has a meaning only with op_debug_mode 3; remove it",
        ),
        (
            config.sample_mode and debugging,
            ("op_debug_mode", "sample_mode"),
            "e2e_dump_settings.sample_mode 1 goes only with op_debug_mode 0; write 0",
        ),
    )


def _saving_rules(config: CaptureConfig) -> tuple[_Rule, ...]:
    hashes = [name for name in config.statistic_categories if name in HASHES]
    return (
        (
            config.saved_data == "graph" and config.dump_mode != "all",
            ("saved_data", "dump_mode"),
            'dump_mode must be 0 with saved_data "graph", which saves no values of ops',
        ),
        (
            config.saved_data == "step" and config.dump_mode == "set_dump",
            ("saved_data", "dump_mode"),
            'dump_mode must be 0 or 1 with saved_data "step": what sonde.set_dump() marks in the '
            "program is not known when the step is executed again",
        ),
        (
            config.statistic_full_steps > 0 and config.statistic_format == "csv",
            ("statistic_full_steps", "statistic_format"),
            'statistic_full_steps has a meaning only with statistic_format "parquet"',
        ),
        (
            config.statistic_format == "parquet" and not config.saves_statistics,
            ("statistic_format", "saved_data"),
            'statistic_format "parquet" goes only with saved_data "statistic" or "full"',
        ),
        (
            config.save_kernel_args and config.asynchronous,
            ("save_kernel_args", "enable"),
            "e2e_dump_settings.save_kernel_args has an effect only when enable is true",
        ),
        (
            config.stat_calc_mode == "device" and config.saves_statistics and bool(hashes),
            ("stat_calc_mode", "saved_data", "statistic_category"),
            f"statistic_category {', '.join(hashes)} cannot be computed with stat_calc_mode "
            '"device"; write "host" or leave it out',
        ),
    )


def _why_not_writable(path: Path) -> str | None:
    """Why a directory at the absolute ``path`` could not be created or written to, or None.

    The test writes a file, without a name where the system has such files, to the nearest existing
    directory, so that not even a kill leaves it behind.
    """
    existing = path
    try:
        existing, mode = _nearest_existing(path)
        if not stat.S_ISDIR(mode):
            return f"{existing} is not a directory"
        longest = os.pathconf(existing, "PC_NAME_MAX")
        for part in path.relative_to(existing).parts:
            if len(os.fsencode(part)) > longest:
                return f"{part[:20]}... is longer than the {longest} bytes a name may have there"
        with tempfile.TemporaryFile(dir=existing, prefix=".sonde-"):
            return None
    except OSError as error:
        reason = error.strerror or str(error)
        return reason if existing == path else f"in {existing}: {reason}"
    except ValueError as error:  # also a NUL, or a character the file system has no encoding for
        return str(error)


def _nearest_existing(path: Path) -> tuple[Path, int]:
    """The path or its nearest parent that exists, and the mode."""
    for candidate in (path, *path.parents):
        try:
            return candidate, os.stat(candidate).st_mode
        except (FileNotFoundError, NotADirectoryError):
            if candidate.is_symlink():
                raise ValueError(f"{candidate} is a link to nothing") from None
    raise ValueError(f"{path} is not absolute")
