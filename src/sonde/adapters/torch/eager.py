"""Eager capture: a dispatch mode that recognises every op that runs.

The mode is entered only for steps somebody wants. For an op that was learned before, nothing is
done but to compare; what is learned of a new one is in ``learning``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, MethodType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import matcher, private
from sonde.adapters.torch.emission import Emitter, Seen
from sonde.adapters.torch.learning import Learner
from sonde.adapters.torch.leaves import storage_key
from sonde.adapters.torch.lending import Loans
from sonde.adapters.torch.memory import Memory
from sonde.adapters.torch.own_work import OwnWork
from sonde.adapters.torch.schema import is_bookkeeping
from sonde.adapters.torch.scope_stack import ScopeStack
from sonde.adapters.torch.scopes import ScopeBook
from sonde.adapters.torch.structure import FRESH, Record, Ref, Structures
from sonde.capture.session import Session

_Tensor = torch.Tensor

_DETACH = torch.ops.aten.detach.default


class Observer(private.TorchDispatchMode):  # type: ignore[misc]
    """Recognises ops, names them, and hands them to the session.

    One per session, used from the training thread only. ``failed`` is called with an exception of
    our own; the op then runs as if nobody looked. Known ops are recognised by the native matcher;
    where it is not built, by ``_before`` and ``_after`` here, which are also the way of ops that
    are new.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        session: Session,
        scopes: ScopeBook,
        structures: Structures,
        failed: Callable[[Exception], None],
        *,
        starts_at_once: bool,
    ) -> None:
        super().__init__()
        self._is_asleep = False
        self._has_started = starts_at_once
        self._session = session
        self._structures = structures
        self._failed = failed
        self._native = matcher.load()
        # Frames of ours between an op's caller and ``_before``: the native matcher has none.
        self._own_frames = 3 if self._native is None else 1
        self.tables: Any = Memory() if self._native is None else self._native.Matcher()
        self.tables.scope = scopes.default
        self.tables.started = starts_at_once
        self.own_work = OwnWork(self.tables)
        self.scopes = ScopeStack(scopes, self.tables)
        self.loans = Loans(self.tables)
        self.emitter = Emitter(session, self.tables, self.loans)
        if self._native is not None:
            self._connect_native(self.emitter)
        self.learner = Learner(scopes, structures, self.tables, self.loans.foreign)
        self._stand(structures.begin())

    def _connect_native(self, emitter: Emitter) -> None:
        assert self._native is not None
        private.answer_for_mode(Observer, self._native.rule_finder)
        self.tables.connect(
            tensor_type=_Tensor,
            parameter_type=nn.Parameter,
            overload_type=torch._ops.OpOverload,
            untyped_storage=_Tensor.untyped_storage,
            sequence_number=private.sequence_number,
            getframe=sys._getframe,
            look=self._look,
            bind=self._bind,
            exact=self._is_exact,
            ask=emitter.ask,
            leaves=emitter.leaves,
            kept=emitter.kept,
            restored=emitter.restored,
            raised=emitter.raised,
            after=self._after,
            emit=emitter.emit,
            failed=self._failed,
            set_eval_frame=private.set_eval_frame,
        )
        # An instance's attribute is found before the method of the class; torch insists that it
        # is a method bound to the mode.
        self.__dict__["__torch_dispatch__"] = MethodType(self.tables.dispatch, self)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True would wrap __torch_dispatch__ in a slow guard: see hide_from_compiler below.
        return False

    # ------------------------------------------------------------------ steps

    def begin_step(self) -> None:
        self._stand(self._structures.begin())
        self._session.begin_step()
        self.tables.generation = self._session.generation
        self.emitter.begin_step()
        self.learner.begin_step()

    @property
    def last(self) -> Record:
        """The record of the op that ran last in this step; the root if none did."""
        at = self.tables.at
        return at if self._native is None else at.record  # type: ignore[no-any-return]

    @property
    def raisers(self) -> list[Record]:
        """The wanted ops that raised in this step."""
        return self.emitter.raisers

    def ran_graph(self, record: Record) -> None:
        """A compiled graph ran: ``record`` stands for its ops."""
        self.tables.note(record)
        self._stand(record)

    def ran_unwatched(self, record: Record) -> None:
        """The ops up to ``record`` ran as they did before, while nobody looked."""
        self._stand(record)

    def _stand(self, record: Record) -> None:
        """Make ``record`` the op that ran last."""
        if self._native is None:
            self.tables.at = record
            return
        if record.native is None:
            func = record.func
            record.native = self._native.Node(
                record,
                func,
                func._op if type(func) is torch._ops.OpOverload else func,
                record.scope,
                record.depth,
                record.code,
                record.last,
                record.in_refs,
                record.sources,
                record.outs,
                record.returned,
                bool(record.leaves),
                bool(record.writes),
                record.info.is_collective,
            )
            if record.parent is not None:
                record.parent.native.add(record.native)
        self.tables.at = record.native

    def end_step(self) -> None:
        """Forget what was known of this step's memory."""
        self.tables.forget()
        self.loans.end_step()
        self.learner.end_step()
        self._stand(self._structures.begin())

    def close(self) -> None:
        self.end_step()
        self.learner.close()

    def refresh(self) -> None:
        self.tables.generation = self._session.generation

    def begin_at_once(self) -> None:
        """The first step is over, or begins now: what runs from here on belongs to a step."""
        self._has_started = True
        if not self._is_asleep:
            self.tables.started = 1

    @property
    def is_asleep(self) -> bool:
        """Whether ops run unobserved although the mode is entered."""
        return self._is_asleep

    @is_asleep.setter
    def is_asleep(self, value: bool) -> None:
        if value and not self._is_asleep:
            self._has_started = bool(self.tables.started)
            self.tables.started = 0
        elif not value and self._is_asleep:
            self.tables.started = self._has_started
        self._is_asleep = value

    # ------------------------------------------------------------ ops, one by one

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        compiler = private.set_eval_frame(None)
        self.tables.visits += 1
        try:
            return self._dispatch(func, args, kwargs)
        finally:
            private.set_eval_frame(compiler)

    def _dispatch(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None) -> Any:
        with self.own_work:
            try:
                seen = self._look(func, args, kwargs)
            except Exception as error:
                self._failed(error)
                seen = None
        try:
            result = func(*args, **kwargs) if kwargs else func(*args)
        except BaseException as error:
            if seen is not None:
                with self.own_work:
                    self.emitter.raised(seen, args, kwargs, error)
            raise
        if seen is not None:
            with self.own_work:
                try:
                    self._after(seen, result, args, kwargs)
                except Exception as error:
                    self._failed(error)
        return result

    def _look(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None) -> Seen | None:
        """What is to be known before the op runs; None if it is not observed."""
        if not self.tables.started and (self._is_asleep or not self._starts_here(func, args)):
            return None
        # The program's tensor subclasses are looked at as they are: their own code does not run.
        with torch._C.DisableTorchFunctionSubclass():
            return self._before(func, args, kwargs)

    def _before(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None) -> Seen | None:
        tensors = list(_tensors_in((*args, *kwargs.values()) if kwargs else args))
        keys = [storage_key(tensor) for tensor in tensors]
        caller = sys._getframe(self._own_frames + 1)
        record = self._recognise(func, tensors, keys, caller)
        if record is None and self.scopes.drop_stale(caller):
            record = self._recognise(func, tensors, keys, caller)
        if record is None:
            if is_bookkeeping(func) or private.is_tracing():
                return None
            record = self.learner.learn(
                self.last, self.tables.scope, func, tensors, keys, args, kwargs, caller
            )
        if record.wants_generation != self._session.generation:
            self.emitter.ask(record)
        if record.leaves:
            self.emitter.leaves(record, tensors)
        before = self.emitter.kept(record, tensors, keys) if record.writes else tensors
        return record, tensors, keys, before

    def _recognise(
        self, func: Any, tensors: list[_Tensor], keys: list[int], caller: FrameType
    ) -> Record | None:
        """The known record this op is, or None."""
        for record in self.last.next:
            if record.func is not func or len(record.in_refs) != len(keys):
                continue
            if record.depth:
                if record.scope is not self.tables.scope:
                    continue
                frame: FrameType | None = caller
                for _ in range(record.depth - 1):
                    frame = frame and frame.f_back
                if frame is None or frame.f_code is not record.code or frame.f_lasti != record.last:
                    continue
            if self.takes(record, tensors, keys):
                return record
        return None

    def takes(self, record: Record, tensors: list[_Tensor], keys: list[int]) -> bool:
        """Whether the memory of ``tensors`` holds what ``record`` expects of its inputs."""
        entries = [self.tables.entry(key) for key in keys]
        if any(
            entry is not None and entry[0] is not expected
            for entry, expected in zip(entries, record.in_refs, strict=True)
        ):
            return False
        if self._is_doubtful(record, tensors, entries) and not self._is_exact(
            record, tensors, keys
        ):
            return False
        return None not in entries or self._bind(record, tensors, keys)

    def _is_doubtful(
        self, record: Record, tensors: list[_Tensor], entries: list[list[Ref] | None]
    ) -> bool:
        """Whether an input may be another view of its memory than ``record`` expects."""
        for tensor, entry, source in zip(tensors, entries, record.sources, strict=True):
            if entry is not None and len(entry) > 1 and source is not None:
                known = self.tables.tensor(tensor._cdata)
                if known is not None and known is not source:
                    return True
        return False

    def _is_exact(self, record: Record, tensors: list[_Tensor], keys: list[int]) -> bool:
        """Whether each input is the very tensor ``record`` expects, as far as that is known."""
        for tensor, key, source in zip(tensors, keys, record.sources, strict=True):
            entry = self.tables.entry(key)
            if entry is not None and source is not None:
                exact = self.learner.exact(tensor, entry)
                if exact is not None and exact is not source:
                    return False
        return True

    def _after(
        self, seen: Seen, result: Any, args: Sequence[Any], kwargs: dict[str, Any] | None
    ) -> None:
        with torch._C.DisableTorchFunctionSubclass():
            record, tensors, keys, before = seen
            results = list(_tensors_in(result))
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
                self.tables.put(kind, ref, key, tensor._cdata)
            self.tables.note(record)
            self._stand(record)
            if record.wants_generation != self._session.generation:
                self.emitter.ask(record)
            if record.info.is_collective:
                self.emitter.settle(record, result, keys)
            if record.wants is not None:
                self.emitter.emit(record, before, results, args, kwargs)

    # ------------------------------------------------------------ cold corners

    def _starts_here(self, func: Any, args: Sequence[Any]) -> bool:
        """Whether the first step begins with this op: inside a module, or on what is trained.

        What a script does before, making data and initial weights, belongs to no step; nor does
        taking a weight's ``data``, as copying a module does.
        """
        if self.scopes.is_inside_module or (
            torch.is_grad_enabled()
            and func is not _DETACH
            and any(tensor.requires_grad for tensor in _tensors_in(args))
        ):
            self.tables.started = 1
        return bool(self.tables.started)

    def _bind(self, record: Record, tensors: list[_Tensor], keys: list[int]) -> bool:
        """Accept tensors met for the first time in this step, if ``record`` expects them here."""
        found: dict[int, Ref] = {}
        for tensor, key, expected in zip(tensors, keys, record.in_refs, strict=True):
            if self.tables.entry(key) is not None:
                continue
            leaf = expected.leaf
            if leaf is None or found.get(key, expected) is not expected:
                return False
            if self.learner.bound.get(expected, key) != key:
                return False
            if not self.learner.leaves.may_be(leaf, tensor, key):
                return False
            found[key] = expected
        if len(set(found.values())) != len(found):
            return False
        for tensor, key in zip(tensors, keys, strict=True):
            if key in found:
                self.learner.enter(found[key], key, tensor)
        return True


class CompiledAwareObserver(Observer):
    """Lets compiled code run compiled: what it does is seen by others (``compiled``)."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True


private.hide_from_compiler(
    Observer.__torch_dispatch__,
    Observer._look,
    Observer._bind,
    Observer._is_exact,
    Observer._after,
    Emitter.ask,
    Emitter.leaves,
    Emitter.kept,
    Emitter.raised,
    Emitter.emit,
)


def _tensors_in(value: Any) -> Iterator[_Tensor]:
    if isinstance(value, _Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors_in(item)
