"""One diagnosis of a training: collects evidence, judges while it runs and at its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_post_hook

import sonde
from sonde.adapters.torch.attach import running_debugger
from sonde.adapters.torch.diagnosis.collector import Collector
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.adapters.torch.step_dump.dumping import keep_findings
from sonde.core.errors import UsageError
from sonde.core.files.atomic_file import write_whole
from sonde.core.finding import Finding
from sonde.core.interruption import pass_on
from sonde.core.text.problem_line import ProblemLine
from sonde.diagnosis.catalogue import MOST_FINDINGS, cause_of_bad_values, diagnose, rules
from sonde.diagnosis.document import announcement, as_lines
from sonde.diagnosis.options import DiagnosisOptions
from sonde.diagnosis.rank_findings import merged
from sonde.diagnosis.running import RunningJudgement
from sonde.logs import say
from sonde.monitor.subscribers import tell_diagnosis

_RUNNING: list[TrainingDiagnosis] = []


class TrainingEnded(BaseException):
    """Raised in the program to end it: after the steps that the user asked for, or at a finding.
    ``by``: the diagnosis whose options say so."""

    def __init__(self, by: TrainingDiagnosis) -> None:
        super().__init__()
        self.by = by


class TrainingDiagnosis:
    """The diagnosis of one training; what ``with sonde.diagnose() as d`` gives.

    ``on_finding`` is called with each finding that is confirmed while the training runs. Only one
    diagnosis collects evidence at a time. Where a command diagnoses the program (``is_shared``),
    one that the program starts itself judges the evidence of the command. Used from the thread that
    trains.
    """

    def __init__(
        self,
        options: DiagnosisOptions,
        on_finding: Callable[[Finding], None] | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        self.options = options
        self.is_shared = is_shared
        self._has_joined = False
        self.collector = Collector()
        self.running = RunningJudgement(options.ignored)
        self._on_finding = on_finding or say_finding
        self._judged_step = 0
        self._final: list[Finding] | None = None
        self._told: set[tuple[str, tuple[str, ...]]] = set()

    @property
    def recorder(self) -> EvidenceRecorder:
        return self.collector.recorder

    @property
    def steps(self) -> int:
        """The number of steps that were observed."""
        return self.recorder.evidence.steps

    @property
    def reports(self) -> bool:
        """Whether this process has the findings: rank 0 does, for all ranks."""
        return self.collector.reports

    @property
    def findings(self) -> list[Finding]:
        """At most five findings, causes first; while the training runs, those of the evidence so
        far."""
        if self._final is not None:
            return list(self._final)
        return self._judged()

    @property
    def confirmed(self) -> list[Finding]:
        """The findings that were confirmed while the training ran."""
        return list(self.running.confirmed.values())

    @contextmanager
    def attached(self) -> Iterator[TrainingDiagnosis]:
        """Diagnose the training in this block; ends it without an error where the options say."""
        self._join()
        rules()  # Imports them all: not in the middle of a step.
        _RUNNING.append(self)
        collecting: AbstractContextManager[None] = (
            nullcontext() if self._has_joined else self.collector.attached()
        )
        try:
            with collecting, self._following_steps():
                yield self
        except TrainingEnded as ended:
            if ended.by is not self:
                raise
        finally:
            _RUNNING.remove(self)
            self._finish()

    def _join(self) -> None:
        """Use the evidence of the diagnosis that runs already, if it is shared."""
        if not _RUNNING:
            return
        if not _RUNNING[-1].is_shared:
            raise UsageError(
                "this training is diagnosed already; only one diagnosis runs at a time",
                slug="diagnosis-running",
            )
        self.collector, self._told = _RUNNING[-1].collector, _RUNNING[-1]._told
        self._has_joined = True

    @contextmanager
    def _following_steps(self) -> Iterator[None]:
        # Registered last: everything else that observes the step has seen its end.
        handle = register_optimizer_step_post_hook(self._step_ended)
        try:
            yield
        finally:
            handle.remove()

    def _step_ended(self, *_: object) -> None:
        if self.steps == self._judged_step or not self.recorder.observes:
            return
        self._judged_step = self.steps
        if self.reports:
            self._judge()
            if self.steps == 1:  # The page says that the training is diagnosed.
                self._show(is_over=False)
        is_found = self.options.until_finding and bool(self.running.confirmed)
        if is_found or self.steps == self.options.steps:
            raise TrainingEnded(self)

    @shielded
    def _judge(self) -> None:
        evidence = self.recorder.evidence
        if self.running.is_due(evidence):
            for found in self.running.judge(evidence):
                if found.status == "established":
                    self._on_finding(found)
                    self._tell(found)
            self._show(is_over=False)

    def _finish(self) -> None:
        # A diagnosis that joined another one ends before it: evidence is still collected.
        if self._has_joined:
            self._final = self._judged() if self.reports else []
        else:
            self.collector.finish()
            self._final = self._of_all_ranks()
        for found in self._final:
            self._tell(found)
        if not self.reports or self._has_joined:
            return
        self._show(is_over=True)
        keep_findings(self._final, self.steps, cause_of_bad_values(self._final))
        guarding = sys.modules.get("sonde.adapters.torch.monitor.guarding")
        if guarding is not None:  # A guard may run.
            guarding.keep_findings(self._final, self.steps)
        for each in self.running.refuted(self._final):
            say(f"what was reported as {each.rule} no longer holds at the end of the training")

    def _of_all_ranks(self) -> list[Finding]:
        """The findings of all ranks, on the rank that reports; none on the others."""
        own = self._judged()
        others = self.collector.exchange(own)
        if not self.reports:
            return []
        if not others:
            return own
        known = {each.rule for each in own}
        now = self._judged()  # With what differs between the ranks.
        between = [each for each in now if each.rule not in known]
        return merged({0: [each for each in now if each.rule in known], **others}, between)

    def _judged(self) -> list[Finding]:
        return diagnose(self.recorder.evidence, self.options.ignored)

    def _tell(self, found: Finding) -> None:
        """Tell a finding to subscribers, once."""
        known = (found.rule, found.places)
        if known not in self._told:
            self._told.add(known)
            tell_diagnosis(found)

    @shielded
    def _show(self, *, is_over: bool) -> None:
        """Show the findings so far on the debugger's page, if the training is debugged."""
        debugging = None if self._has_joined else running_debugger()
        if debugging is not None:
            from sonde.diagnosis.wire_form import diagnosis_view  # needs msgspec

            shown = self._final if is_over else self.running.current
            view = diagnosis_view(shown or (), self.steps, is_over=is_over)
            debugging.debugger.session.report_diagnosis(view)

    def add(self, findings: Iterable[Finding]) -> None:
        """Put findings of another source before the own ones, when the training has ended."""
        added = [each for each in findings if each.rule not in self.options.ignored]
        self._final = [*added, *(self._final or [])][:MOST_FINDINGS]

    def write_files(self) -> None:
        """Write the page and the SARIF file, if the options have them."""
        if self._final is None or not self.reports:
            return
        if self.options.html is not None:
            from sonde.diagnosis.report_page import diagnosis_page  # needs numpy and msgspec
            from sonde.report.links import link_reports

            evidence = self.recorder.evidence
            page = diagnosis_page(self._final, evidence, Path(sys.argv[0] or "a program").name)
            _write(self.options.html, page)
            link_reports(self.options.html.parent)
        if self.options.sarif is not None:
            from sonde.diagnosis.sarif import as_sarif

            document = as_sarif(self._final, sonde.__version__, Path.cwd())
            _write(self.options.sarif, json.dumps(document, indent=2, allow_nan=False) + "\n")


@contextmanager
def diagnosing(options: DiagnosisOptions, *, prints: bool) -> Iterator[TrainingDiagnosis]:
    """Diagnose the training in this block, write the files of the options, and print the findings
    as soon as they are established and at the end."""
    diagnosis = TrainingDiagnosis(options, None if prints else lambda found: None)
    try:
        with diagnosis.attached():
            yield diagnosis
    finally:
        diagnosis.write_files()
        if prints and diagnosis.reports:
            for line in as_lines(diagnosis.findings, diagnosis.steps):
                say(line)


def say_finding(found: Finding) -> None:
    """Print the line about a finding while the training goes on."""
    say(announcement(found))


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        pass_on(error)
        reason = f"{path} cannot be written: {error.strerror}"
        say(ProblemLine(reason, slug="diagnosis-file"))
