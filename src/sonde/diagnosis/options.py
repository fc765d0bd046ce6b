"""What a diagnosis is asked to do: its options, checked once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sonde.core.errors import UsageError
from sonde.core.settings import nearest


@dataclass(frozen=True, slots=True)
class DiagnosisOptions:
    """``ignored`` kinds are not reported. The training ends after ``steps`` steps, or with
    ``until_finding`` when a finding that is established or supported is confirmed. ``html`` and
    ``sarif`` are files to write."""

    ignored: tuple[str, ...] = ()
    steps: int | None = None
    until_finding: bool = False
    html: Path | None = None
    sarif: Path | None = None


def diagnosis_options(
    *,
    ignore: str | Iterable[str] = (),
    steps: int | None = None,
    until_finding: bool = False,
    html: str | os.PathLike[str] | None = None,
    sarif: str | os.PathLike[str] | None = None,
) -> DiagnosisOptions:
    """Check the options that a user gave; UsageError for the first that cannot be."""
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
        raise UsageError(
            f"steps must be a number of steps from 1 on (got {steps!r})", slug="diagnosis-option"
        )
    kinds = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    _check_kinds(kinds)
    if until_finding and int(os.environ.get("WORLD_SIZE") or 1) > 1:
        raise UsageError(
            "until-finding cannot be used with several ranks: the others would wait for the one "
            "that ends; use --steps, which ends all of them in the same step",
            slug="diagnosis-option",
        )
    return DiagnosisOptions(
        kinds, steps, until_finding, _target("html", html), _target("sarif", sarif)
    )


def _check_kinds(kinds: Iterable[str]) -> None:
    if not kinds:
        return
    from sonde.diagnosis.catalogue import rules  # imports every rule: not at the start

    for kind in kinds:
        if kind not in rules():
            hint = nearest(str(kind), list(rules())) or "; docs/diagnosis.md lists the kinds"
            raise UsageError(
                f"ignore: {kind!r} is not a kind of finding{hint}", slug="diagnosis-option"
            )


def _target(name: str, given: str | os.PathLike[str] | None) -> Path | None:
    """The file to write. A file that could only fail at the end of a long training is refused."""
    if given is None:
        return None
    path = Path(given).absolute()
    if path.is_dir():
        raise UsageError(
            f"{name}: {given} is a directory; give the name of a file", slug="diagnosis-option"
        )
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(
            f"{name}: {path.parent} is no directory to write to", slug="diagnosis-option"
        )
    return path
