"""The tools: each runs one command of Sonde below the root, and returns a short answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from sonde.core.errors import UsageError
from sonde.core.selection import ALL_STEPS, parse_steps
from sonde.integrations.mcp import file_answers, program_answers
from sonde.integrations.mcp.answer import ToolAnswer
from sonde.integrations.mcp.command import Workspace
from sonde.integrations.mcp.control_answers import control_answer
from sonde.integrations.mcp.findings import Facts, without_nothing

_RUNS: Final = "sonde_runs"
_MOST_NAME: Final = 60
_MOST_TENSORS: Final = 24
_READING_SECONDS: Final = 120.0
_STATISTIC: Final = re.compile(r"[a-z0-9_]+")
_WITHOUT_TRAINING: Final = 60.0

Script = Annotated[str, Field(description="Path of the script, below the root of the server")]
Module = Annotated[str, Field(description="A module to run in place of a script, like python -m")]
Arguments = Annotated[list[str] | None, Field(description="Arguments of the program")]
Seconds = Annotated[float, Field(description="Time limit; what was found until then is reported")]
Directory = Annotated[str, Field(description="Directory of a run: 'run' in the answer of run")]
Op = Annotated[str, Field(description="Full name of an op, or a module (fc1), class or operator")]
Step = Annotated[str, Field(description="Directory of a kept step: id in kept_steps of run")]
Steps = Annotated[str, Field(description="Steps, such as 7 or '0|5-8'; empty: all")]

Question = Literal["origin", "rounding", "compiler", "rows", "dropout", "deterministic", "tensors"]

_OBSERVE: Final[dict[str, list[str]]] = {
    "guard": ["--guard", "--guard-to"],
    "overflow": ["--overflow", "--dump-to"],
    "stats": ["--stats", "--dump-to"],
    "tensors": ["--dump-to"],
}
_QUESTIONS: Final[dict[str, list[str]]] = {
    "origin": [],
    "rounding": ["--fp64"],
    "compiler": ["--eager"],
    "rows": ["--rows"],
    "dropout": ["--no-dropout"],
    "deterministic": ["--times", "3"],
    "tensors": [],
}


class Tools:
    """The functions that the server offers; their names and docstrings are those of the tools."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._root = workspace.root

    async def run(
        self,
        script: Script = "",
        arguments: Arguments = None,
        module: Module = "",
        observe: Annotated[
            Literal["guard", "overflow", "stats", "tensors"],
            Field(
                description="guard: cheap, finds the step that goes wrong and keeps it for verify; "
                "overflow: every op, for NaN and Inf; stats: statistics of every op, for series; "
                "tensors: all values, large, give steps"
            ),
        ] = "guard",
        steps: Steps = "",
        until_finding: Annotated[bool, Field(description="End at the first certain fault")] = True,
        seconds: Seconds = 600.0,
    ) -> ToolAnswer:
        """Run an unmodified training script and find its first fault: the op, line and step where
        NaN or Inf begin, or why it does not learn. Start here."""
        words = self._workspace.program(script, module, arguments)
        directory = self._fresh_directory(Path(script).stem or module.rpartition(".")[2])
        options = [*_OBSERVE[observe], directory, "--diagnose"]
        if steps:
            if observe == "guard":
                raise UsageError(
                    "steps needs observe overflow, stats or tensors; a guard observes all steps",
                    slug="usage",
                )
            options.append(f"--dump-steps={steps}")
        if until_finding:
            options += ["--until-finding", *(["--on-trigger", "stop"] * (observe == "guard"))]
        done = await self._workspace.run("run", [*options, *words], seconds)
        program = _program(script, module, arguments)
        return program_answers.run_answer(done, self._root, program, directory)

    async def findings(
        self,
        path: Directory,
        start: Annotated[int, Field(description="Number of the first finding shown", ge=0)] = 0,
    ) -> ToolAnswer:
        """What is wrong with a run on disk: findings, ops with NaN or Inf, kept steps."""
        place = self._workspace.path(path)
        return file_answers.findings_answer(await self._shown(place), self._root, place, start)

    async def op(self, path: Directory, op: Op, steps: Steps = "") -> ToolAnswer:
        """Inputs and outputs of ops of a dump: shapes, statistics, source line."""
        place = self._workspace.path(path)
        words = [f"--op={op}", f"--limit={_MOST_TENSORS}", *([f"--step={steps}"] if steps else [])]
        return file_answers.op_answer(await self._shown(place, *words), self._root, place)

    async def tensor(
        self,
        path: Directory,
        op: Op,
        step: Annotated[int, Field(description="The step", ge=0)],
        io: Literal["input", "output"] = "output",
        slot: Annotated[int, Field(description="Which input or output", ge=0)] = 0,
        index: Annotated[str, Field(description="Such as '[0, :8]'; empty: the first")] = "",
    ) -> ToolAnswer:
        """At most 64 elements of one tensor of a dump."""
        words = [f"--op={op}", f"--step={step}", f"--io={io}", "--values", f"--index={index}"]
        document = await self._shown(self._workspace.path(path), *words)
        return file_answers.tensor_answer(document, self._root, path, slot)

    async def series(
        self,
        path: Directory,
        statistic: Annotated[
            str,
            Field(description="Of a guard: loss, grad_norm, weight_norm, ...; of an op: l2norm"),
        ] = "loss",
        op: Annotated[str, Field(description="Name of an op; empty: the whole training")] = "",
        io: Literal["input", "output"] = "output",
        slot: Annotated[int, Field(description="Which input or output", ge=0)] = 0,
        steps: Steps = "",
    ) -> ToolAnswer:
        """One number over the steps: a signal of a guarded run, or a statistic of an op."""
        place = self._workspace.path(path)
        if not _STATISTIC.fullmatch(statistic):
            raise UsageError(f"{statistic!r} is not a statistic, such as l2norm", slug="usage")
        wanted = parse_steps(steps) if steps else ALL_STEPS
        if op:
            name = op.replace("'", "''")
            sql = (
                f"select step, value from series('{name}', '{statistic}') "
                f"where io = '{io}' and slot = {slot} order by step"
            )
            done = await self._workspace.run("query", [place, sql], _READING_SECONDS)
            rows = [(each["step"], each["value"]) for each in done.document]
        else:
            rows = _signal(await self._shown(place), statistic)
        rows = [(at, value) for at, value in rows if at in wanted]
        if not rows:
            within = f" in steps {steps}" if steps else ""
            raise UsageError(
                f"{path} has no values of {statistic} of {op!r}{within}", slug="no-statistic"
            )
        asked: Facts = {"path": place, "statistic": statistic, "op": op, "steps": steps}
        if op:
            asked |= {"io": io, "slot": slot}
        return file_answers.series_answer(rows, without_nothing(asked))

    async def compare(self, a: Directory, b: Directory, steps: Steps = "") -> ToolAnswer:
        """Compare two dumps op by op, and name the first op at fault. Make the dumps with run
        (observe stats or tensors)."""
        places = [self._workspace.path(a), self._workspace.path(b)]
        words = [*places, *([f"--steps={steps}"] if steps else [])]
        done = await self._workspace.run("compare", words, 5 * _READING_SECONDS)
        return file_answers.compare_answer(done.document, self._root, *places)

    async def ranks(self, path: Directory) -> ToolAnswer:
        """Compare the ranks of a distributed training in a dump."""
        place = self._workspace.path(path)
        done = await self._workspace.run("ranks", [place], 5 * _READING_SECONDS)
        return file_answers.ranks_answer(done.document, self._root, place)

    async def compile_check(
        self,
        script: Script = "",
        arguments: Arguments = None,
        module: Module = "",
        step: Annotated[int, Field(description="The step to check", ge=0)] = 0,
        seconds: Seconds = 900.0,
    ) -> ToolAnswer:
        """Check that what torch.compile makes of a script computes the right values."""
        words = [f"--step={step}", *self._workspace.program(script, module, arguments)]
        done = await self._workspace.run("compile-check", words, seconds)
        return program_answers.compile_check_answer(done, _program(script, module, arguments))

    async def repeat(
        self,
        script: Script = "",
        arguments: Arguments = None,
        module: Module = "",
        steps: Steps = "",
        seconds: Seconds = 900.0,
    ) -> ToolAnswer:
        """Run a script twice and name the first op at which the runs differ."""
        words = [*([f"--steps={steps}"] if steps else [])]
        words += self._workspace.program(script, module, arguments)
        done = await self._workspace.run("repeat", words, seconds)
        asked = _program(script, module, arguments)
        return program_answers.repeat_answer(done, self._root, asked)

    async def replay(
        self,
        step: Step,
        question: Annotated[
            Question,
            Field(
                description="origin: where NaN and Inf begin; rounding: is it, in float64? "
                "compiler: is it? rows: which rows of the batch suffice? dropout: is it? "
                "deterministic: is it? tensors: dump the values of every op"
            ),
        ] = "origin",
        settings: Annotated[
            list[str] | None, Field(description="Changes to try: lr=1e-4, encoder.norm.eps=1e-3")
        ] = None,
        seconds: Seconds = 600.0,
    ) -> ToolAnswer:
        """Execute a kept step again, forward and backward, and answer a question about it."""
        place = self._workspace.path(step)
        words = [*_QUESTIONS[question], *(f"--set={each}" for each in settings or ())]
        done = await self._workspace.run("replay", [place, *words], seconds)
        dumped = ""
        if question == "tensors":
            dumped = self._fresh_directory("replay")
            await self._workspace.run("replay", [place, "--dump-to", dumped], seconds)
        return program_answers.replay_answer(done, self._root, place, dumped)

    async def verify(
        self,
        step: Step,
        script: Script = "",
        arguments: Arguments = None,
        module: Module = "",
        seconds: Seconds = 600.0,
    ) -> ToolAnswer:
        """After a fix: does the changed script still fail on a kept step? It gets the weights, the
        batch and the random states of that step. Without a script: the code of the network as it
        is now."""
        place = self._workspace.path(step)
        words: list[str] = []
        if script or module:
            program = self._workspace.program(script, module, arguments)
            words = program if program[0] == "--" else ["--", *program]
        done = await self._workspace.run("verify", [place, *words], seconds)
        return program_answers.verify_answer(done, place, _program(script, module, arguments))

    async def control(
        self,
        action: Annotated[
            Literal["status", "hits", "continue", "pause", "step", "next", "to", "watch"],
            Field(description="step: run N steps; to: run to an op; watch: add a watchpoint"),
        ],
        argument: Annotated[
            str, Field(description="step: N; to: an op; watch: a condition such as 'abs_max > 10'")
        ] = "",
        seconds: Seconds = _WITHOUT_TRAINING,
    ) -> ToolAnswer:
        """Control a training that the user has started with sonde debug, at ops and steps."""
        needs = action in ("to", "watch")
        if needs != bool(argument) and action != "step":
            wanted = "needs an argument" if needs else "takes no argument"
            raise UsageError(f"control {action} {wanted}", slug="usage")
        waits = [f"--timeout={seconds:g}"] if action in ("pause", "step", "next", "to") else []
        command = "ctl watch add" if action == "watch" else f"ctl {action}"
        words = [*waits, *(["--", argument] if argument else [])]
        limit = seconds + _WITHOUT_TRAINING
        done = await self._workspace.run(command, words, limit)
        return control_answer(done.document, self._root)

    async def _shown(self, place: str, *words: str) -> Any:
        done = await self._workspace.run("show", [*words, "--", place], _READING_SECONDS)
        return done.document

    def _fresh_directory(self, name: str) -> str:
        """A directory of the root that is not there yet, made for one run."""
        folder = self._root / self._workspace.path(_RUNS)  # It may be a link that leads out.
        word = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:_MOST_NAME] or "run"
        number = 1
        while True:
            place = folder / f"{word}_{number}"
            try:
                place.mkdir(parents=True)
            except FileExistsError:
                number += 1
                continue
            return str(place.relative_to(self._root))


def _program(script: str, module: str, arguments: list[str] | None) -> Facts:
    return without_nothing({"script": script, "module": module, "arguments": arguments})


def _signal(document: Any, name: str) -> list[tuple[int, Any]]:
    """The steps and the values of a signal of a guarded run."""
    signals = document.get("signals")
    if signals is None:
        raise UsageError(
            "this run has no signals; give an op, or a directory of a run with observe guard",
            slug="no-statistic",
        )
    columns = signals["columns"]
    if name not in columns:
        raise UsageError(
            f"{name!r} is not a signal; there are {', '.join(columns)}", slug="no-statistic"
        )
    return list(zip(map(int, columns["step"]), columns[name], strict=True))
