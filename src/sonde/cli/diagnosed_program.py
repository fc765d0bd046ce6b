"""A program that a command runs while its training is diagnosed; see ``sonde diagnose``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sonde.cli.json_output import print_document
from sonde.cli.option_group import with_options
from sonde.cli.script import needing_torch
from sonde.core.errors import UsageError
from sonde.diagnosis.document import as_document, as_lines
from sonde.diagnosis.options import DiagnosisOptions, diagnosis_options
from sonde.diagnosis.reference_lines import with_lines
from sonde.logs import say

if TYPE_CHECKING:
    from sonde.adapters.torch.diagnosis.session import TrainingDiagnosis
    from sonde.cli.reference_run import ReferenceRun

F = TypeVar("F", bound=Callable[..., Any])
Start = Callable[[], AbstractContextManager[object]]

FOUND = 1
"""The exit code if something is established or supported."""


def diagnosis_command_options(command: F) -> F:
    """Add the options of a diagnosis to a command, in the order of the help."""
    return with_options(
        command,
        click.option(
            "--ignore",
            metavar="KIND",
            multiple=True,
            help="Diagnosis: do not report findings of this kind. May be repeated.",
        ),
        click.option(
            "--until-finding",
            is_flag=True,
            help="Diagnosis: end the training at the first finding that is established or "
            "supported.",
        ),
        click.option(
            "--html", metavar="FILE", help="Diagnosis: also write the findings as a page."
        ),
        click.option(
            "--sarif",
            metavar="FILE",
            help="Diagnosis: also write the findings as SARIF 2.1.0, for editors and code hosts.",
        ),
    )


@dataclass(frozen=True, kw_only=True)  # No slots: a class with options has a second base.
class DiagnosisWords:
    """The options as parsed by click."""

    ignore: tuple[str, ...]
    until_finding: bool
    html: str | None
    sarif: str | None

    def requested_diagnosis(self, **more: Any) -> DiagnosisOptions:
        return diagnosis_options(
            ignore=self.ignore,
            until_finding=self.until_finding,
            html=self.html,
            sarif=self.sarif,
            **more,
        )

    def given_for_diagnosis(self) -> tuple[str, ...]:
        given = {
            "--ignore": bool(self.ignore),
            "--until-finding": self.until_finding,
            "--html": self.html is not None,
            "--sarif": self.sarif is not None,
        }
        return tuple(name for name, is_given in given.items() if is_given)

    def refuse_without_diagnose(self) -> None:
        """Raise for an option that needs ``--diagnose``."""
        for name in self.given_for_diagnosis():
            raise UsageError(f"{name} needs --diagnose", slug="usage")


@dataclass(slots=True)
class DiagnosedProgram:
    """The diagnosis of a program: what surrounds it, and what is printed when it has ended.

    ``is_debugged``: the findings are on the debugger's page, so that the terminal has them only if
    there are any, and the exit code is that of the program.
    """

    options: DiagnosisOptions
    as_json: bool = False
    reference: ReferenceRun | None = None
    is_debugged: bool = False
    diagnosis: TrainingDiagnosis | None = field(default=None, init=False)

    def around(self, start: Start) -> Start:
        """``start`` with the diagnosis inside its context."""

        @contextmanager
        def both() -> Iterator[object]:
            with needing_torch("PyTorch is not installed, so there is nothing to diagnose"):
                from sonde.adapters.torch.diagnosis.session import TrainingDiagnosis
            self.diagnosis = TrainingDiagnosis(self.options, is_shared=True)
            with start() as inner, self.diagnosis.attached():
                yield inner

        return both

    def ended(self, outcome: BaseException | None) -> BaseException | None:
        """Print the findings; returns the exception that ends this process. A program that failed
        ends as it would without Sonde."""
        if self.diagnosis is None:
            return outcome
        from sonde.adapters.torch.diagnosis.session import TrainingEnded

        if isinstance(outcome, TrainingEnded):
            outcome = None
        if self.reference is not None:
            if self.diagnosis.reports:
                evidence = self.diagnosis.recorder.evidence
                self.diagnosis.add(with_lines(self.reference.findings(), evidence))
            self.reference.discard()
        if not self.diagnosis.reports:
            return outcome
        self.diagnosis.write_files()
        findings = self.diagnosis.findings
        if self.is_debugged:
            for line in as_lines(findings, self.diagnosis.steps) if findings else ():
                say(line)
            return outcome
        if self.as_json:
            print_document(as_document(findings))
        else:
            print("\n".join(as_lines(findings, self.diagnosis.steps)))
        sys.stdout.flush()
        is_clean = isinstance(outcome, SystemExit) and not outcome.code
        if outcome is not None and not is_clean:
            return outcome
        if any(each.status != "hypothesis" for each in findings):
            return SystemExit(FOUND)
        return outcome
