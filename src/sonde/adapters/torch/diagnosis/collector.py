"""Attaches all collectors to a training, and hands over the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.diagnosis.batch_reshapes import BatchReshapes
from sonde.adapters.torch.diagnosis.data import DataCalls
from sonde.adapters.torch.diagnosis.loaders import LoaderCalls
from sonde.adapters.torch.diagnosis.loop.calls import TrainingCalls
from sonde.adapters.torch.diagnosis.loop.scaling import ScalingCalls
from sonde.adapters.torch.diagnosis.losses.functions import FunctionCalls
from sonde.adapters.torch.diagnosis.losses.loss_graph import LossGraphs
from sonde.adapters.torch.diagnosis.losses.non_finite import NonFiniteNodes
from sonde.adapters.torch.diagnosis.losses.op_explanations import OpExplanations
from sonde.adapters.torch.diagnosis.modules import ModuleCalls
from sonde.adapters.torch.diagnosis.parameters import ParameterSignals
from sonde.adapters.torch.diagnosis.permutations import Permutations
from sonde.adapters.torch.diagnosis.probes.module_probes import Probes
from sonde.adapters.torch.diagnosis.probes.targets import TargetComparison
from sonde.adapters.torch.diagnosis.ranks import RankEvidence, rank_of_process
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder
from sonde.adapters.torch.diagnosis.states.compiled_hooks import CompiledHooks
from sonde.adapters.torch.diagnosis.states.detaching import Detachments
from sonde.adapters.torch.diagnosis.states.flags import ModuleFlags
from sonde.adapters.torch.diagnosis.states.initialisation import Initialisation
from sonde.adapters.torch.diagnosis.states.kept_states import States
from sonde.adapters.torch.diagnosis.states.self_copies import SelfCopies
from sonde.adapters.torch.diagnosis.states.target_aliases import TargetAliases
from sonde.adapters.torch.diagnosis.states.ties import WeightTies
from sonde.adapters.torch.steps.step_numbers import StepNumbers
from sonde.core.finding import Finding


class Collector:
    """Collects evidence while `attached`."""

    def __init__(self) -> None:
        self.recorder = EvidenceRecorder()
        self.modules = ModuleCalls(self.recorder)
        self.training = TrainingCalls(self.recorder)
        self.scaling = ScalingCalls(self.recorder, self.training)
        self.parameters = ParameterSignals(self.recorder, self.modules)
        self.graphs = LossGraphs(self.recorder, self.parameters)
        self.nodes = NonFiniteNodes(self.recorder, self.graphs, self.modules)
        self.explanations = OpExplanations(self.recorder, self.modules, self.graphs)
        self.functions = FunctionCalls(self.recorder, self.modules)
        self.states = States(self.recorder, self.training, self.modules)
        self.copies = SelfCopies(self.recorder, self.training)
        self.initialisation = Initialisation(self.recorder, self.training, self.states)
        self.ties = WeightTies(self.recorder)
        self.targets_held = TargetAliases(self.recorder, self.modules)
        self.data = DataCalls(self.recorder)
        self.loaders = LoaderCalls(self.recorder, self.data.hashes)
        self.reshapes = BatchReshapes(self.recorder)
        self.permutations = Permutations(self.recorder, self.modules)
        self.flags = ModuleFlags(self.recorder, self.modules, self.training)
        self.detachments = Detachments(self.recorder, self.parameters)
        self.hooks = CompiledHooks(self.recorder)
        self.targets = TargetComparison(self.recorder, self.modules, self.functions)
        self.probes = Probes(self.recorder, self.modules, self.functions)
        self.ranks = RankEvidence(self.recorder, self.modules, self.training)
        self.numbers = StepNumbers(self._begin_at, self._number, self.recorder.failed)
        self._connect()

    def _connect(self) -> None:
        training = self.training
        training.before_step.append(self._find_trainer)
        training.on_backward += [self.nodes.begin, self.graphs.walk, self.nodes.walked]
        training.on_backward.append(self.explanations.backward_begins)
        training.on_backward += [self.targets.backward_begins, self.functions.backward_begins]
        training.after_backward += [self.nodes.backward_ended, self.ranks.backward_ended]
        training.after_backward.append(self.targets.backward_ended)
        training.before_step += [self.ties.before_step, self.states.first_step]
        training.before_step += [self.parameters.before_step, self.ranks.before_step]
        training.before_step += [self.targets_held.before_step, self.data.before_step]
        training.before_step += [self.initialisation.before_step, self.loaders.before_step]
        training.after_step += [self.parameters.after_step, self.targets_held.after_step]
        training.on_step_end += [
            self.flags.step_ended,
            self.detachments.step_ended,
            self.nodes.step_ended,
            self.probes.step_ended,
            self.functions.step_ended,
            self.modules.step_ended,
            self.graphs.begin_step,
        ]
        self.graphs.inspectors.append(self.nodes.inspect)
        self.modules.on_root += [self.data.root_called, self.reshapes.root_called]
        self.modules.on_first.append(self.flags.first_call)
        self.functions.on_loss.append(self.data.lost)

    def _begin_at(self, step: int) -> None:
        if not self.recorder.step:
            self.recorder.evidence.first_step = step

    def _number(self) -> int:
        return self.recorder.evidence.number(self.recorder.step)

    def _find_trainer(self, *_: object) -> None:
        if not self.recorder.step:
            self.numbers.find_trainer()

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Observe the training in this block. A part that cannot be installed, as in a version of
        torch without the function that it replaces, switches the collection off."""
        with ExitStack() as undo:
            try:
                self._install(undo)
            except Exception as error:
                self.recorder.failed(error)
            yield

    def _install(self, undo: ExitStack) -> None:
        for part in (
            self.modules,
            self.training,
            self.scaling,
            self.graphs,
            self.functions,
            self.states,
            self.copies,
            self.initialisation,
            self.ties,
            self.data,
            self.loaders,
            self.reshapes,
            self.permutations,
            self.detachments,
            self.flags,
            self.hooks,
            self.ranks,
            self.numbers,
        ):
            part.install(undo)

    @property
    def reports(self) -> bool:
        """Whether this process prints the findings: rank 0 does, for all ranks."""
        return rank_of_process()[0] == 0

    def finish(self) -> None:
        """Judge what needs the whole training."""
        if not self.recorder.is_on:
            return
        try:
            with private.without_current_modes(), torch.no_grad():
                self.probes.finish()
                self.targets.finish()
                self.data.finish()
                self.flags.note_roots()
                self.hooks.finish()
        except Exception as error:
            self.recorder.failed(error)

    def exchange(self, own: Sequence[Finding]) -> dict[int, list[Finding]]:
        """Hand over the ``own`` findings of this rank. On rank 0: add what differs between the
        ranks to the evidence, and return the findings of the others, by rank."""
        try:
            return self.ranks.exchange(own)
        except Exception as error:
            self.recorder.failed(error)
            return {}
