"""Eager capture: a dispatch mode that recognises every op that runs.

The mode is entered only for wanted steps. An op that is known is only compared with its record; a
new one is learned, see ``op_learning``. docs/capture.md shows both with an example.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from types import FrameType, MethodType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.eager import matcher
from sonde.adapters.torch.eager.call_sites import CallSites
from sonde.adapters.torch.eager.evaluation_report import EvaluationReport, tensors_of
from sonde.adapters.torch.eager.input_matching import InputMatcher
from sonde.adapters.torch.eager.naming.scope_stack import ScopeStack
from sonde.adapters.torch.eager.naming.scopes import ScopeRegistry
from sonde.adapters.torch.eager.naming.source_lines import engine_code, is_same_call
from sonde.adapters.torch.eager.op_calls import function_of
from sonde.adapters.torch.eager.op_learning import Learner
from sonde.adapters.torch.eager.op_outputs import count_writes, uncounted_writes
from sonde.adapters.torch.eager.op_schema import is_bookkeeping, op_info, tensors_in
from sonde.adapters.torch.eager.op_tree import FRESH, OpRecord, Structures
from sonde.adapters.torch.eager.outside_step import (
    Observed,
    OutsideStep,
    forget_written,
    written_storages,
)
from sonde.adapters.torch.eager.step_inputs import StepInputRegistry, storage_key
from sonde.adapters.torch.eager.step_tables import Tables
from sonde.adapters.torch.tensors.emission import Emitter, Seen
from sonde.adapters.torch.tensors.lending import Loans
from sonde.capture.session import Session
from sonde.core.graph import Source

_Tensor = torch.Tensor

_DETACH = torch.ops.aten.detach.default
# Steps whose order of ops is remembered, and ops of one that are learned because it repeats: a
# program whose steps all differ, or have a million ops, does not fill the memory.
_MOST_TRAILS = 10_000
_MOST_LEARNED = 50_000
# To make the records of a step takes as long as they save in some thirty steps. Most programs
# have a few kinds of steps, which repeat for ever: these are learned at once.
_FEW_KINDS = 8
_REPEATED, _OFTEN_REPEATED = 2, 32
# Takes the place of the record of an op of an evaluation whose results are noted.
_OF_EVALUATION: Any = ()


class Observer(private.TorchDispatchMode):  # type: ignore[misc]
    """Recognises ops, names them, and passes wanted ones to the session.

    One per session, used from the training thread only. ``failed`` gets exceptions of Sonde's own
    code; the op then runs unobserved. Known ops are recognised by the native matcher. New ops, and
    all ops where the matcher is not built, go through ``_before_op`` and ``_after`` here.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        session: Session,
        scopes: ScopeRegistry,
        structures: Structures,
        failed: Callable[[Exception], None],
        *,
        starts_at_once: bool,
        observe: Collection[Observed] = (),
        notify: Callable[..., None],
    ) -> None:
        super().__init__()
        self._is_suspended = False
        self.is_interrupted = False
        self._has_started = starts_at_once
        # Whether a compiled graph ran in this step.
        self.has_run_graph = False
        self._session = session
        self._trails: Counter[int] = Counter()
        self._learned_trails = 0
        self._structures = structures
        self._failed = failed
        self._native = matcher.load()
        # Frames of Sonde between an op's caller and ``_record_of``; the native matcher has none.
        self._own_frames = 3 if self._native is None else 1
        self.tables: Any = Tables() if self._native is None else self._native.Matcher()
        self.tables.scope = scopes.default
        self.tables.started = int(starts_at_once)
        self.scopes = ScopeStack(scopes, self.tables)
        self.outside = OutsideStep(
            observe, self._update_started, lambda: self.scopes.outermost_module, failed
        )
        self.evaluations = EvaluationReport(notify)
        self.loans = Loans(self.tables)
        self.emitter = Emitter(session, self.tables, self.loans)
        leaves = StepInputRegistry(scopes)
        self.inputs = InputMatcher(self.tables, leaves, self.loans.foreign)
        self.learner = Learner(scopes, structures, self.tables, self.inputs, self.scopes)
        if self._native is not None:
            self._connect_native(self.emitter)
        self.set_current(structures.begin())

    def _connect_native(self, emitter: Emitter) -> None:
        sites = CallSites(self.tables, self.learner, self.inputs, self.scopes, emitter.find_wants)
        self.tables.connect(
            tensor_type=_Tensor,
            parameter_type=nn.Parameter,
            overload_type=private.OpOverload,
            untyped_storage=_Tensor.untyped_storage,
            sequence_number=private.sequence_number,
            is_same_call=is_same_call,
            before_op=self._before_op,
            bind_inputs=self.inputs.bind_new,
            inputs_match=self.inputs.is_exact,
            find_wants=emitter.find_wants,
            emit_leaves=emitter.emit_leaves,
            keep_written=emitter.keep_written,
            restore_written=emitter.restore_written,
            op_raised=self._report_raised,
            after_op=self._after,
            emit_op=emitter.emit,
            failed=self._failed,
            uncounted_writes=uncounted_writes,
            count_writes=count_writes,
            set_eval_frame=private.set_eval_frame,
            autograd_node=private.current_autograd_node,
            engine_code=engine_code(),
            function_of=function_of,
            op_writes=lambda func: bool(op_info(func).writes),
            describe_site=sites.describe,
            describe_new=sites.describe_new,
            meet_input=sites.meet_input,
            complete_node=sites.complete,
        )
        # An attribute of the instance replaces the method of the class. Torch requires a method
        # that is bound to the mode.
        self.__dict__["__torch_dispatch__"] = MethodType(self.tables.dispatch, self)

    def install(self, undo: ExitStack) -> None:
        """Prepare torch for this mode; ``undo`` restores it."""
        self.outside.install(undo)
        if self._native is not None:
            private.answer_for_mode(Observer, self._native.rule_finder, undo)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True would wrap __torch_dispatch__ in a slow guard: see hide_from_compiler below.
        return False

    # ------------------------------------------------------------------ steps

    def begin_step(self) -> None:
        self.set_current(self._structures.begin())
        self.scopes.begin_step()
        self._session.begin_step()
        self.refresh()
        self.emitter.begin_step()
        self.inputs.begin_step()

    @property
    def last(self) -> OpRecord:
        """The record of the op that ran last in this step; the root if none did."""
        at = self.tables.at
        return at if self._native is None else at.record  # type: ignore[no-any-return]

    @property
    def is_every_op_wanted(self) -> bool:
        """Whether ops of steps that do not repeat are told by their call sites: records are then
        made only for what asks for them."""
        return self._native is not None and self.tables.every_op is not None

    @property
    def ops_at_call_sites(self) -> int:
        """How many ops so far matched no record, but a call site."""
        return 0 if self._native is None else self.tables.provisional_count

    @property
    def ops(self) -> int:
        """How many ops ran so far under the native matcher; 0 without it."""
        return 0 if self._native is None else self.tables.op_count

    @property
    def is_learned(self) -> bool:
        """Whether all ops of this step so far have records."""
        return self._native is None or self.tables.at.has_record

    @property
    def has_ops(self) -> bool:
        """Whether an op has run in this step."""
        return self.tables.at is not (self._structures.root.native or self._structures.root)

    def ran_graph(self, record: OpRecord) -> None:
        """Note that a compiled graph ran; ``record`` represents its ops."""
        self.has_run_graph = True
        self.set_current(record)
        self.tables.note(record)

    def set_current(self, record: OpRecord) -> None:
        """Make ``record`` the op that ran last in this step."""
        if self._native is None:
            self.tables.at = record
            return
        if record.native is None:
            matcher.add_node(self._native, record)
        self.tables.at = record.native

    def end_step(self) -> None:
        """Empty the tables of this step."""
        self.inputs.note_filled()
        self.has_run_graph = False
        self.tables.forget()
        self.loans.end_step()
        self.learner.end_step()
        self.inputs.end_step()
        self.set_current(self._structures.begin())

    def learn_if_repeated(self) -> None:
        """Make the records of a step that ends if ops without one ran in the same order as in two
        earlier steps, or in more if other kinds of steps repeated before: from the next such step
        on they are matched, which costs less.

        Called before the session ends the step, while it says which ops are wanted.
        """
        if self._native is None or not self.tables.waiting:
            return
        trail = self.tables.trail
        if trail in self._trails or len(self._trails) < _MOST_TRAILS:
            self._trails[trail] += 1
        needed = _REPEATED if self._learned_trails < _FEW_KINDS else _OFTEN_REPEATED
        if self._trails[trail] > needed and self.tables.waiting <= _MOST_LEARNED:
            self._learned_trails += 1
            try:
                _ = self.last
            except Exception as error:
                self._failed(error)

    def interrupt(self) -> None:
        """Observe nothing until the step ends: an exception of the program has left Sonde's code
        in the middle. The records, which may be incomplete, are dropped with the step."""
        self.is_interrupted = True
        self.is_suspended = True
        # Writes to memory that pending files will be written from now go unnoticed.
        self.loans.notify_all_holds()

    def drop_step(self) -> None:
        """Empty the tables after an interruption, and drop the records learned so far."""
        self.is_interrupted = False
        self._structures.drop_records()
        self.end_step()

    def close(self) -> None:
        self.end_step()
        self.inputs.close()

    def refresh(self) -> None:
        """Take over what the session's consumers want now."""
        self.tables.generation = self._session.generation
        if self._native is not None:
            # The frames of ops that were traced do not show their lines.
            is_traced = bool(self.learner.traced)
            self.tables.every_op = None if is_traced else self.emitter.every_op()

    def set_traced(self, sources: tuple[Source, ...]) -> None:
        """Set the lines of the ops that run next; none if their frames show them."""
        was_traced = bool(self.learner.traced)
        self.learner.traced = sources
        if was_traced != bool(sources):
            self.refresh()

    def begin_at_once(self) -> None:
        """Count every op from here on as part of a step, even outside of modules."""
        self._has_started = True
        self._update_started()

    @property
    def is_suspended(self) -> bool:
        """Whether ops run unobserved although the mode is entered."""
        return self._is_suspended

    @is_suspended.setter
    def is_suspended(self, value: bool) -> None:
        self._is_suspended = value
        self._update_started()

    def _update_started(self) -> None:
        """Let the native matcher handle known ops, unless each op must be looked at first."""
        is_free = self._has_started and not self._is_suspended and not self.outside.is_asked
        self.tables.started = int(is_free)

    def module_ended(self, module: nn.Module, result: Any) -> None:
        """Leave the scope of ``module``, which returned ``result``."""
        self.scopes.leave(module)
        if self.outside.is_evaluating and not self.scopes.is_inside_module:
            self.outside.note_results(tensors_of(result))
            self.evaluations.network_ran(module, result, self._session.step)

    # ------------------------------------------------------------ ops, one by one

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        compiler = private.set_eval_frame(None)
        try:
            return self._dispatch(func, args, kwargs)
        finally:
            private.set_eval_frame(compiler)

    def _dispatch(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None) -> Any:
        try:
            seen = self._before_op(func, args, kwargs)
        except Exception as error:
            self._failed(error)
            seen = None
        written = uncounted_writes(func, args, kwargs)
        try:
            run = function_of(func) if type(func) is private.OpOverload else func
            result = run(*args, **kwargs) if kwargs else run(*args)
        except BaseException as error:
            if seen is not None:
                self._report_raised(seen, args, kwargs, error)
            raise
        if written:
            count_writes(written)
        if seen is not None:
            try:
                self._after(seen, result, args, kwargs)
            except Exception as error:
                self._failed(error)
        return result

    def _report_raised(
        self, seen: Seen, args: Sequence[Any], kwargs: dict[str, Any] | None, raised: BaseException
    ) -> None:
        """Emit an op that raised; the program gets what the op raised."""
        if seen is _OF_EVALUATION:
            return
        try:
            self.emitter.op_raised(seen, args, kwargs, raised)
        except Exception as error:
            self._failed(error)

    def _before_op(
        self, func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None
    ) -> Seen | None:
        """Find or make the record of an op that is about to run; None if it is not observed."""
        # Tensor subclasses of the program are read as plain tensors: their own code must not run.
        with private.without_torch_functions():
            if not self.tables.started and not self._is_in_step(func, args, kwargs):
                is_noted = not self._is_suspended and self.outside.notes_results
                return _OF_EVALUATION if is_noted else None
            return self._record_of(func, args, kwargs)

    def _record_of(
        self, func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None
    ) -> Seen | None:
        if is_bookkeeping(func):
            return None
        tensors = list(tensors_in((*args, *kwargs.values()) if kwargs else args))
        keys = [storage_key(tensor) for tensor in tensors]
        caller = sys._getframe(self._own_frames + 1)
        record = self._recognise(func, tensors, keys, caller)
        if record is None and self.scopes.drop_stale(caller):
            record = self._recognise(func, tensors, keys, caller)
        if record is None:
            if private.is_tracing():
                return None
            record = self.learner.learn(self.last, func, tensors, keys, args, kwargs, caller)
        if record.wants_generation != self._session.generation:
            self.emitter.find_wants(record)
        if record.leaves:
            self.emitter.emit_leaves(record, tensors)
        before = self.emitter.keep_written(record, tensors, keys) if record.writes else tensors
        return record, tensors, keys, before

    def _recognise(
        self, func: Any, tensors: list[_Tensor], keys: list[int], caller: FrameType
    ) -> OpRecord | None:
        """The known record that this op matches, or None."""
        for record in self.last.next:
            if record.func is not func or len(record.in_refs) != len(keys):
                continue
            if record.depth:
                if record.scope is not self.tables.scope:
                    continue
                frame: FrameType | None = caller
                for _ in range(record.depth - 1):
                    frame = frame and frame.f_back
                if frame is None or frame.f_code is not record.code:
                    continue
                if not is_same_call(frame.f_code, frame.f_lasti, record.last):
                    continue
            if self.inputs.matches(record, tensors, keys):
                return record
        return None

    def _after(
        self, seen: Seen, result: Any, args: Sequence[Any], kwargs: dict[str, Any] | None
    ) -> None:
        with private.without_torch_functions():
            if seen is _OF_EVALUATION:
                self.outside.note_results(tensors_in(result))
                return
            record, tensors, keys, before = seen
            results = list(tensors_in(result))
            results.extend(tensors[slot] for slot in record.returned)
            if record.order < 0 or len(results) != len(record.outs):
                record = self.learner.learn_outputs(record, results, tensors, keys)
            for tensor, (kind, ref) in zip(results, record.outs, strict=True):
                key = storage_key(tensor)
                if key < 0:
                    self.tables.watch(key, tensor)
                elif kind == FRESH:
                    self.tables.add_fresh(key)
                    self.tables.watch(key, tensor.untyped_storage())
                self.tables.put(kind, ref, key, private.tensor_id(tensor))
            self.set_current(record)
            self.tables.note(record)
            if record.wants_generation != self._session.generation:
                self.emitter.find_wants(record)
            if record.info.is_collective:
                self.emitter.settle(record, result, keys)
            if record.wants is not None:
                self.emitter.emit(record, before, results, args, kwargs)

    def _is_in_step(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None) -> bool:
        """Whether an op belongs to the running step, or begins the first one."""
        if self._is_suspended:
            # A signal handler that runs between two steps may write to what the last one made.
            if self.tables.lends:
                for key in written_storages(func, args, kwargs):
                    self.loans.notify_holds(key)
            return False
        if self.outside.is_asked and self.outside.contains(func, args, kwargs):
            forget_written(func, args, kwargs, self.tables, self.loans)
            return False
        return self._has_started or self._starts_here(func, args)

    def _starts_here(self, func: Any, args: Sequence[Any]) -> bool:
        """Whether the first step begins with this op.

        It begins inside a module, or with an op on a tensor that requires a gradient. Earlier ops
        make data and initial weights. ``detach`` begins no step: copying a module calls it to read
        a weight's ``data``. Nor do tensors on the meta device, which have no values: FSDP2 splits
        weights there.
        """
        if self.scopes.is_inside_module or (
            torch.is_grad_enabled()
            and func is not _DETACH
            and any(each.requires_grad and each.device.type != "meta" for each in tensors_in(args))
        ):
            self.begin_at_once()
        return self._has_started


class CompiledAwareObserver(Observer):
    """Lets compiled code run compiled; its ops are captured by ``compiled/capture``."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True


private.hide_from_compiler(
    Observer.__torch_dispatch__,
    Observer._before_op,
    Observer._after,
    Emitter.find_wants,
    Emitter.emit_leaves,
    Emitter.keep_written,
    Observer._report_raised,
    Emitter.emit,
    uncounted_writes,
    count_writes,
)
