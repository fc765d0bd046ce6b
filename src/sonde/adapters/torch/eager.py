"""Eager capture: a dispatch mode that recognises every op that runs.

The mode is entered only for steps somebody wants. For an op that was learned before, nothing is
done but to compare; what is learned of a new one is in ``learning``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import matcher, private
from sonde.adapters.torch.learning import Learner
from sonde.adapters.torch.leaves import storage_key
from sonde.adapters.torch.memory import Memory
from sonde.adapters.torch.schema import is_bookkeeping
from sonde.adapters.torch.scopes import Scope, ScopeBook
from sonde.adapters.torch.structure import FRESH, Record, Ref, Structures
from sonde.adapters.torch.views import TorchCall, TorchHold, TorchView
from sonde.capture.session import Session

_Tensor = torch.Tensor

_Seen = tuple[Record, list[torch.Tensor], list[int], list[torch.Tensor]]


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
        self._session = session
        self._structures = structures
        self._failed = failed
        self._scopes = scopes
        self.modules: list[nn.Module] = []
        self._scope_stack: list[Scope] = [scopes.default]
        self._lent: dict[int, list[TorchHold]] = {}
        self._bound: dict[Ref, int] = {}
        self._timestamp = 0
        self._native = matcher.load()
        self.tables: Any = self._make_tables()
        self.tables.started = starts_at_once
        self.learner = Learner(scopes, structures, self.tables)
        self._stand(structures.begin())

    def _make_tables(self) -> Any:
        if self._native is None:
            return Memory(self._scopes.default)
        native = self._native.Matcher(
            tensor_type=_Tensor,
            parameter_type=nn.Parameter,
            untyped_storage=_Tensor.untyped_storage,
            weak_ref=torch.UntypedStorage._weak_ref,
            free_weak=private.free_weak_storage,
            sequence_number=private.sequence_number,
            getframe=sys._getframe,
            slow=self._dispatch,
            bind=self._bind,
            ask=self._ask,
            leaves=self._emit_leaves,
            kept=self._kept,
            raised=self._op_raised,
            after=self._after,
            emit=self._emit,
            settle=self._settle,
            failed=self._failed,
        )
        native.scope = self._scopes.default
        # An instance's attribute is found before the method of the class; torch insists that it
        # is a method bound to the mode.
        self.__dict__["__torch_dispatch__"] = MethodType(native.dispatch, self)
        return native

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True would wrap __torch_dispatch__ in a slow guard; nothing compiles under this mode.
        return False

    # ------------------------------------------------------------------ steps

    def begin_step(self) -> None:
        self._stand(self._structures.begin())
        self._session.begin_step()
        self.tables.generation = self._session.generation
        self.learner.begin_step()

    @property
    def last(self) -> Record:
        """The record of the op that ran last in this step; the root if none did."""
        at = self.tables.at
        return at if self._native is None else at.record  # type: ignore[no-any-return]

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
        self._lent.clear()
        self.tables.lends = 0
        self._bound.clear()
        self.learner.end_step()
        self._stand(self._structures.begin())

    def close(self) -> None:
        self.end_step()
        self.learner.close()

    def refresh(self) -> None:
        self.tables.generation = self._session.generation

    # ----------------------------------------------------------------- scopes

    def enter_scope(self, scope: Scope) -> None:
        self._scope_stack.append(scope)
        self.tables.scope = scope

    def leave_scope(self) -> None:
        if len(self._scope_stack) > 1:
            self._scope_stack.pop()
        self.tables.scope = self._scope_stack[-1]

    def enter_module(self, module: nn.Module) -> None:
        caller = self.modules[-1] if self.modules else None
        self.modules.append(module)
        self.enter_scope(self._scopes.of_module(module, caller))

    def leave_module(self, module: nn.Module) -> None:
        """Leave ``module``, and whatever inside it was left without our being told."""
        if any(entered is module for entered in self.modules):
            while self.modules:
                self.leave_scope()
                if self.modules.pop() is module:
                    break

    def forget_scopes(self) -> None:
        self.modules.clear()
        del self._scope_stack[1:]
        self.tables.scope = self._scope_stack[0]

    # ------------------------------------------------------------ ops, one by one

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self._dispatch(func, args, kwargs)

    def _dispatch(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None) -> Any:
        if not self.tables.started and not self._starts_here(args):
            return func(*args, **kwargs) if kwargs else func(*args)
        try:
            with torch._C.DisableTorchFunctionSubclass():
                seen = self._before(func, args, kwargs)
        except Exception as error:
            self._failed(error)
            seen = None
        try:
            result = func(*args, **kwargs) if kwargs else func(*args)
        except BaseException as error:
            if seen is not None:
                self._op_raised(seen, args, kwargs, error)
            raise
        if seen is not None:
            try:
                with torch._C.DisableTorchFunctionSubclass():
                    self._after(seen, result, args, kwargs)
            except Exception as error:
                self._failed(error)
        return result

    def _before(
        self, func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None
    ) -> _Seen | None:
        tensors = list(_tensors_in((*args, *kwargs.values()) if kwargs else args))
        keys = [storage_key(tensor) for tensor in tensors]
        record = self._recognise(func, tensors, keys)
        if record is None:
            if is_bookkeeping(func):
                return None
            scope = self.tables.scope
            record = self.learner.learn(self.last, scope, func, tensors, keys, args, kwargs)
        if record.wants_generation != self._session.generation:
            self._ask(record)
        if record.leaves:
            self._emit_leaves(record, tensors)
        before = self._kept(record, tensors, keys) if record.writes else tensors
        return record, tensors, keys, before

    def _recognise(self, func: Any, tensors: list[_Tensor], keys: list[int]) -> Record | None:
        """The known record this op is, or None."""
        entry_of = self.tables.entry
        for record in self.last.next:
            if record.func is not func or len(record.in_refs) != len(keys):
                continue
            if record.depth:
                if record.scope is not self.tables.scope:
                    continue
                try:
                    frame = sys._getframe(record.depth + 1)
                except ValueError:
                    continue
                if frame.f_code is not record.code or frame.f_lasti != record.last:
                    continue
            entries = [entry_of(key) for key in keys]
            if any(
                entry is not None and entry[0] is not expected
                for entry, expected in zip(entries, record.in_refs, strict=True)
            ):
                continue
            if None not in entries or self._bind(record, tensors, keys):
                return record
        return None

    def _after(
        self, seen: _Seen, result: Any, args: Sequence[Any], kwargs: dict[str, Any] | None
    ) -> None:
        record, tensors, keys, before = seen
        results = list(_tensors_in(result))
        results.extend(tensors[slot] for slot in record.returned)
        if record.order < 0 or len(results) != len(record.outs):
            record = self.learner.learn_outputs(record, results, tensors, keys)
        for tensor, (kind, ref) in zip(results, record.outs, strict=True):
            key = storage_key(tensor)
            if kind == FRESH and key > 0 and self.tables.add_fresh(key):
                tensor.untyped_storage()._weak_ref()
            self.tables.put(kind, ref, key, tensor._cdata)
        self.tables.note(record)
        self._stand(record)
        if record.wants_generation != self._session.generation:
            self._ask(record)
        if record.info.is_collective:
            self._settle(record, result, keys)
        if record.wants is not None:
            self._emit(record, before, results, args, kwargs)

    # ------------------------------------------------------------ cold corners

    def _starts_here(self, args: Sequence[Any]) -> bool:
        """Whether the first step begins with this op: inside a module, or on what is trained.

        What a script does before, making data and initial weights, belongs to no step.
        """
        if self.modules or (
            torch.is_grad_enabled() and any(tensor.requires_grad for tensor in _tensors_in(args))
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
            if self._bound.get(expected, key) != key:
                return False
            if not self.learner.leaves.may_be(leaf, tensor, key):
                return False
            found[key] = expected
        if len(set(found.values())) != len(found):
            return False
        for tensor, key in zip(tensors, keys, strict=True):
            if key in found:
                self._bound[found[key]] = key
                self.learner.enter(found[key], key, tensor)
        return True

    def _ask(self, record: Record) -> None:
        session = self._session
        record.wants_generation = session.generation
        record.wants = session.wants(record.node)
        is_leaf_wanted = False
        for _, leaf, _ in record.leaves:
            leaf.wants_generation = session.generation
            leaf.wants = session.wants(leaf.node)
            is_leaf_wanted |= leaf.wants is not None
        if record.native is not None:
            record.native.asked(session.generation, record.wants is not None, is_leaf_wanted)

    def _now(self) -> int:
        self._timestamp = max(self._timestamp + 1, time.time_ns() // 1000)
        return self._timestamp

    def _kept(self, record: Record, tensors: list[_Tensor], keys: list[int]) -> list[_Tensor]:
        """Before an op that writes: make lent memory safe, and keep the old values if wanted."""
        for slot in record.writes:
            for hold in self._lent.pop(keys[slot], ()):
                if hold.on_change is not None:
                    hold.on_change(hold.job)
        if record.wants is None:
            return tensors
        written = {keys[slot] for slot in record.writes}
        return [
            _copy(tensor) if key in written else tensor
            for tensor, key in zip(tensors, keys, strict=True)
        ]

    def _settle(self, record: Record, result: Any, keys: list[int]) -> None:
        """A collective may still be writing: wait if its values are wanted, then trust nothing."""
        if record.wants is not None:
            for item in result if isinstance(result, (tuple, list)) else (result,):
                wait = getattr(item, "wait", None)
                if callable(wait) and not isinstance(item, _Tensor):
                    wait()
        for key in set(keys):
            # Memory that may change unseen is never lent again.
            if self.tables.remove_fresh(key):
                private.free_weak_storage(key)

    def _emit_leaves(self, record: Record, tensors: list[_Tensor]) -> None:
        for slot, leaf, order in record.leaves:
            if leaf.wants is not None:
                view = TorchView(tensors[slot], "output", 0, leaf.ref, None)
                call = TorchCall(leaf.node, self._session.step, order, self._now(), (), (view,))
                self._session.write(leaf.wants, call)

    def _emit(
        self,
        record: Record,
        before: list[_Tensor],
        results: list[_Tensor],
        args: Sequence[Any],
        kwargs: dict[str, Any] | None,
    ) -> None:
        assert record.wants is not None
        call = TorchCall(
            record.node,
            self._session.step,
            record.order,
            self._now(),
            self._input_views(record, before),
            [
                TorchView(tensor, "output", slot, ref, self._lender(tensor))
                for slot, (tensor, (_, ref)) in enumerate(zip(results, record.outs))  # noqa: B905
            ],
            record,
            args,
            kwargs,
        )
        self._session.write(record.wants, call)

    def _input_views(self, record: Record, before: list[_Tensor]) -> list[TorchView]:
        return [
            TorchView(tensor, "input", slot, source, None)
            for slot, (tensor, source) in enumerate(zip(before, record.sources))  # noqa: B905
        ]

    def _lender(self, tensor: _Tensor) -> Callable[[_Tensor, TorchHold], None] | None:
        return self._lend if self.tables.is_fresh(storage_key(tensor)) else None

    def _lend(self, tensor: _Tensor, hold: TorchHold) -> None:
        self._lent.setdefault(storage_key(tensor), []).append(hold)
        self.tables.lends = 1

    def _op_raised(
        self,
        seen: _Seen,
        args: Sequence[Any],
        kwargs: dict[str, Any] | None,
        error: BaseException,
    ) -> None:
        record, _, _, before = seen
        if record.wants is None:
            return
        call = TorchCall(
            record.node,
            self._session.step,
            record.order,
            self._now(),
            self._input_views(record, before),
            (),
            record,
            args,
            kwargs,
        )
        self._session.op_failed(record.wants, call, error)


def _tensors_in(value: Any) -> Iterator[_Tensor]:
    if isinstance(value, _Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors_in(item)


def _copy(tensor: _Tensor) -> _Tensor:
    """The values as they are now; what cannot be copied is left to the view to explain."""
    try:
        return tensor.detach().clone()
    except (NotImplementedError, RuntimeError):
        return tensor
