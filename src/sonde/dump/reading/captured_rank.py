"""Reads the captured steps of a rank: computes the tensors of a step when it is asked for.

``steps/step_5.rank_0`` is executed again in a process of its own, under the ordinary dump. What
that writes is kept in ``.replayed/5``: ``tensors/``, ``constants/``, ``graph.pb``, ``result.json``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sonde import logs
from sonde.core.errors import DumpError
from sonde.core.graph import Graph
from sonde.core.observation_variables import CAPTURING
from sonde.core.text.problem_line import ProblemLine
from sonde.dump import layout
from sonde.dump.graph_files.pb import GraphFile, GraphWriter, read_graph_file
from sonde.dump.layout import RankLayout
from sonde.dump.reading.directories import RankTree, StepDir, scan_rank
from sonde.dump.reading.side_files import read_json
from sonde.dump.reading.step_listing import Listing, list_step

_GRAPH: Final = "graph.pb"
_TENSORS: Final = "tensors"
_MANIFEST: Final = "manifest.json"
_RESULT: Final = "result.json"
_PROGRAM: Final = "sonde.cli.step_tensors"


def scan_captured(rank: int, root: Path) -> RankTree | None:
    """The captured steps below a rank's directory; None if it has none. Each step has a graph of
    its own, with the number of the step."""
    places: dict[int, Path] = {}
    try:
        with os.scandir(root / layout.STEPS) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                parsed = layout.parse_captured_step(entry.name)
                if parsed is not None and os.path.isfile(os.path.join(entry.path, _MANIFEST)):
                    places.setdefault(parsed[0], Path(entry.path))
    except OSError:
        return None
    if not places:
        return None
    source = CapturedRank(rank, RankLayout(root), places)
    steps = sorted(places)
    return RankTree(
        rank,
        RankLayout(root),
        (source.net,),
        tuple(source.directory(step, _TENSORS) for step in steps),
        tuple(source.directory(step, layout.CONSTANTS) for step in steps),
        tuple(steps),
        (),
        source,
    )


@dataclass(frozen=True, slots=True)
class CapturedPlace:
    """The directory of a captured step; ``is_computed``: its tensors are there already."""

    path: Path
    is_computed: bool


@dataclass
class CapturedRank:
    """The captured steps of one rank. May be used from several threads."""

    rank: int
    layout: RankLayout
    places: Mapping[int, Path]
    writer: GraphWriter = "sonde"
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _failures: dict[int, DumpError] = field(default_factory=dict)
    _said: set[int] = field(default_factory=set)

    @property
    def config(self) -> dict[str, Any]:
        found = read_json(self.layout.metadata_config)
        return found if isinstance(found, dict) else {}

    @property
    def net(self) -> str:
        try:
            settings = read_json(self.layout.metadata_dump_config)
            return str(settings["common_dump_settings"]["net_name"])
        except (DumpError, KeyError, TypeError):
            return "Net"

    def directory(self, step: int, name: str) -> StepDir:
        """The tensors of a step, or its constants, whether they are computed already or not."""
        number = step if name == _TENSORS else -1
        return StepDir(self.rank, self.net, step, number, self._kept(step) / name)

    def is_computed(self, step: int) -> bool:
        return self._kept(step).is_dir()

    def graph(self, graph_id: int) -> GraphFile:
        """The graph of a step, which is executed if it was not yet."""
        file = read_graph_file(self.compute(graph_id) / _GRAPH, graph_id)
        return GraphFile(Graph(graph_id, file.graph.name, file.graph.nodes), file.writer)

    def listing(self, step: StepDir) -> Listing:
        """The tensors of a step, which is executed if it was not yet."""
        assert step.graph_id is not None
        self.compute(step.graph_id)
        if step.path.is_dir():
            return list_step(step.path)
        return Listing(step.path, [], [], {}, [])  # a graph without constants

    def _kept(self, step: int) -> Path:
        return self.layout.root / layout.REPLAYED / str(step)

    def compute(self, step: int) -> Path:
        """The directory of what is computed of a step; DumpError if it cannot be executed, which is
        not tried again."""
        if step not in self.places:
            raise DumpError(
                f"{self.layout.root}: there is no graph {step}; there are {sorted(self.places)}",
                slug="no-such-graph",
            )
        kept = self._kept(step)
        with self._lock:
            if step in self._failures:
                raise self._failures[step]
            if not kept.is_dir():
                try:
                    self._execute_into(step, kept)
                except DumpError as error:
                    self._failures[step] = error
                    raise
            if step not in self._said:
                self._say_problems(step, kept)
        return kept

    def _execute_into(self, step: int, kept: Path) -> None:
        logs.say(
            f"executing step {step} of rank {self.rank} again to compute its tensors (once; they "
            f"are kept in {kept})"
        )
        try:
            kept.parent.mkdir(exist_ok=True)
            place = Path(tempfile.mkdtemp(prefix=f".{step}-", suffix=".partial", dir=kept.parent))
        except OSError as error:
            raise _not_written(kept.parent, error) from None
        try:
            self._execute(step, place / "dump")
            _arrange(step, scan_rank(self.rank, place / "dump" / f"rank_{self.rank}"), place)
            _rename(place, kept)
        except OSError as error:
            raise _not_written(kept.parent, error) from None
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _execute(self, step: int, target: Path) -> None:
        """Execute a step in a process of its own, which dumps to ``target``."""
        settings = target.with_suffix(".json")
        settings.write_text(json.dumps(self._settings(target)))
        result = target.with_suffix(".result")
        step_path = self.places[step]
        words = [sys.executable, "-m", _PROGRAM, str(step_path), str(settings), str(result)]
        environ = {**os.environ, CAPTURING: str(os.getpid())}  # no capture beside that of Sonde
        done = subprocess.run(
            words, env=environ, capture_output=True, text=True, errors="replace", check=False
        )
        answer = read_json(result) if result.is_file() else None
        if not isinstance(answer, dict):
            last = done.stderr.strip().rpartition("\n")[2]
            answer = {"error": f"its process ended with exit code {done.returncode}: {last}"}
        if "error" in answer:
            raise DumpError(
                f"{step_path} cannot be executed again: {answer['error']} ('sonde replay "
                f"{step_path} --dump-to DIR' takes options for the network)",
                slug="step-not-computed",
            )

    def _say_problems(self, step: int, kept: Path) -> None:
        """Say, once, in which way what is kept of a step is not that of a full dump."""
        self._said.add(step)
        answer = read_json(kept / _RESULT) if (kept / _RESULT).is_file() else {}
        if problem := answer.get("optimizer_problem"):
            text = f"step {step} of rank {self.rank} has no ops of its optimizer, which cannot step"
            logs.say(ProblemLine(f"{text} again: {problem}", slug="step-without-optimizer"))
        if differences := answer.get("differences"):
            text = (
                f"step {step} of rank {self.rank} is not that of the training, bit for bit: "
                f"{differences} of {answer.get('compared')} results differ; 'sonde replay "
                f"{self.places[step]}' says where; delete {kept} to compute it anew"
            )
            logs.say(ProblemLine(text, slug="step-not-exact"))

    def _settings(self, target: Path) -> dict[str, Any]:
        """The user's dump configuration, changed to dump the tensors of one step to ``target``."""
        found = read_json(self.layout.metadata_dump_config)
        common = found.get("common_dump_settings") if isinstance(found, dict) else None
        if not isinstance(common, dict):
            raise DumpError(
                f"{self.layout.metadata_dump_config} has no common_dump_settings", slug="dump-file"
            )
        changes = {"path": str(target), "saved_data": "tensor", "iteration": "all"}
        kept = {name: value for name, value in common.items() if name != "initial_iteration"}
        ranks = {"support_device": [self.rank]}
        return {**found, "common_dump_settings": {**kept, **changes, **ranks}}


def _not_written(directory: Path, error: OSError) -> DumpError:
    return DumpError(
        f"{directory} cannot be written: {error.strerror or error}; copy the dump to a place where "
        "its tensors can be kept",
        slug="replayed-not-written",
    )


def _arrange(step: int, tree: RankTree, place: Path) -> None:
    """Give what the process has dumped the names that are known before it is."""
    found = [each for each in tree.steps if each.step == step and each.graph_id is not None]
    if not found:
        raise DumpError(f"step {step} has no op that was selected", slug="no-values")
    graph_id = found[0].graph_id
    assert graph_id is not None
    os.rename(found[0].path, place / _TENSORS)
    os.rename(tree.layout.graph_pb(graph_id), place / _GRAPH)
    for constants in tree.constants:
        if constants.graph_id == graph_id:
            os.rename(constants.path, place / layout.CONSTANTS)
    shutil.rmtree(place / "dump")
    os.rename(place / "dump.result", place / _RESULT)
    os.unlink(place / "dump.json")


def _rename(place: Path, kept: Path) -> None:
    """Make the directory appear whole; another process may have computed the same meanwhile."""
    os.chmod(place, 0o755)
    try:
        os.rename(place, kept)
    except OSError:
        if not kept.is_dir():
            raise
