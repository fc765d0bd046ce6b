"""The watchpoints that a training starts with: those of files, and the recommended ones."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import msgspec
from msgspec import structs

from sonde.core.errors import SondeError, UsageError
from sonde.core.files.input_file import read_input
from sonde.core.operators.patterns import OpPattern
from sonde.watch.conditions import Recommended, parse_condition, watchpoints_of
from sonde.wire.shapes import ConditionSpec, WatchpointSpec
from sonde.wire.watchpoints import WatchpointDraft, WatchpointFile


def starting_set(
    files: tuple[str, ...], *, recommended: bool = False, presets: Collection[str] = ()
) -> tuple[WatchpointSpec, ...]:
    """The watchpoints of files and presets, numbered from 1; UsageError for a file or a preset that
    cannot be used. ``recommended``: the preset of this name, too."""
    drafts = [draft for file in files for draft in read_drafts(Path(file))]
    wanted = (*presets, "recommended") if recommended else presets
    drafts += [recommended_draft(each) for each in watchpoints_of(wanted)]
    return tuple(numbered(number, draft) for number, draft in enumerate(drafts, 1))


def numbered(number: int, draft: WatchpointDraft) -> WatchpointSpec:
    return WatchpointSpec(number, **structs.asdict(draft))


def read_drafts(path: Path) -> tuple[WatchpointDraft, ...]:
    """The watchpoints of a file that the page or ``sonde ctl`` saved."""
    try:
        drafts = msgspec.json.decode(read_input(path), type=WatchpointFile).watchpoints
        for draft in drafts:
            check_contents(draft)
    except OSError as error:
        reason = error.strerror or str(error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = f"not a watchpoint file: {error}"
    except SondeError as error:
        reason = error.message
    else:
        return drafts
    raise UsageError(f"{path}: {reason}", slug="watchpoint-file")


def check_contents(draft: WatchpointDraft) -> None:
    """SondeError if a condition or a pattern is not valid."""
    for condition in draft.conditions:
        parse_condition(condition.id, condition.parameters, condition.expression)
    for op in draft.ops:
        OpPattern.parse(op)


def recommended_draft(recommended: Recommended) -> WatchpointDraft:
    """The watchpoint in the form in which a user would set it."""
    condition = ConditionSpec(recommended.condition, dict(recommended.parameters))
    ops: tuple[str, ...] = ()
    if recommended.functions:
        names = "|".join(map(re.escape, recommended.functions))
        ops = (rf"name-regex((?i)(.*/)?({names})_?(-op\d+)?|.*-({names})/[^/]+)",)
    elif recommended.names:
        ops = (f"name-regex({recommended.names})",)
    return WatchpointDraft(recommended.name, (condition,), ops)
