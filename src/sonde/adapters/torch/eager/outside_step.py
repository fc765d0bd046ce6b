"""Decides which ops belong to no training step: those of evaluations and of data loading.

An evaluation: all networks that an optimizer trains are in eval mode, and the op records no
gradients; where gradients are enabled, it also runs inside a network, reads a result of the
evaluation, or is called by the function that called ``eval()``. Data loading: the op runs while a
DataLoader makes its next batch, and not inside a network (a module with parameters).
docs/capture.md has the reasons.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import CodeType
from typing import Any, Literal

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.source_lines import find_user_frame
from sonde.adapters.torch.eager.op_outputs import argument_slots
from sonde.adapters.torch.eager.op_schema import is_bookkeeping, op_info, tensors_in
from sonde.adapters.torch.eager.step_inputs import storage_key
from sonde.adapters.torch.eager.step_tables import Tables
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.living_objects import living_objects
from sonde.adapters.torch.tensors.lending import Loans
from sonde.core.interruption import pass_on
from sonde.core.patching import call_before, wrap
from sonde.core.weak_table import WeakTable

_CAST = torch.ops.aten._to_copy.default

Observed = Literal["evaluation", "data"]
"""What is observed although it belongs to no training step."""


class OutsideStep:
    """Knows, while ops run, whether they belong to a training step.

    ``observe`` is what the user wants to be part of the steps all the same. ``changed`` is called
    when `is_asked` may have changed; ``module`` returns the outermost module that runs. Used from
    the thread that made it; in other threads nothing is noted.
    """

    def __init__(
        self,
        observe: Collection[Observed],
        changed: Callable[[], None],
        module: Callable[[], nn.Module | None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._observe = frozenset(observe)
        self._changed = changed
        self._module = module
        self._guard = FailureGuard(failed)
        self._thread = threading.get_ident()
        self._networks: dict[int, weakref.ref[nn.Module]] = {}
        self._optimizers: WeakTable[torch.optim.Optimizer, None] = WeakTable()
        # Those made before the capture began; None: not searched for yet.
        self._older: WeakTable[torch.optim.Optimizer, None] | None = None
        self._switching = 0
        self._loading = 0
        # Whether the trained networks are in eval mode; None: not determined yet.
        self._is_evaluating: bool | None = False
        # The function that last set a network to eval mode.
        self._evaluator: CodeType | None = None
        # What evaluations have computed, outside of networks and as their results.
        self._results: WeakTable[torch.UntypedStorage, None] = WeakTable()

    def install(self, undo: ExitStack) -> None:
        """Follow modes, optimizers and data loaders until ``undo`` is closed."""
        patches = []
        if "evaluation" not in self._observe:
            patches.append(wrap(nn.Module, "train", self._switched, undo))
            optimizer = torch.optim.Optimizer
            patches.append(call_before(optimizer, "add_param_group", self._knows, undo))
        if "data" not in self._observe:
            patches.append(wrap(_BaseDataLoaderIter, "__next__", self._loaded, undo))
            patches.append(wrap(DataLoader, "__iter__", self._loaded, undo))
        private.hide_from_compiler(*(patch.replacement for patch in patches))

    @property
    def is_here(self) -> bool:
        """Whether compiled code that runs now runs outside of the step."""
        if self._loading and not self._runs_network():
            return True
        return self.is_evaluating and not torch.is_grad_enabled()

    @property
    def is_asked(self) -> bool:
        """Whether `contains` must be called for each op."""
        return bool(self._loading) or self.is_evaluating

    @property
    def is_evaluating(self) -> bool:
        """Whether ops that record no gradients are those of an evaluation."""
        if self._is_evaluating is None:
            self._is_evaluating = self._are_networks_in_eval_mode()
        return self._is_evaluating

    def contains(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None) -> bool:
        """Whether an op with these arguments runs outside of the step."""
        if self._loading and not self._runs_network():
            return True
        if not self.is_evaluating:
            return False
        tensors = list(tensors_in((args, tuple(kwargs.values()) if kwargs else ())))
        records = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
        if records and not _is_cast_of_weight(func, args):
            self.trains_in_this_mode()
            return False
        return not torch.is_grad_enabled() or self._continues_evaluation(tensors)

    def _continues_evaluation(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether an op with these inputs, with gradients enabled, is one of an evaluation: it may
        also be the first of the next step, before the networks are in training mode again."""
        if self._module() is not None:
            return True
        frames = private.frames_from(sys._getframe(1))
        if any(frame.f_code is self._evaluator for frame in frames):
            return True
        storages = map(_storage_of, inputs)
        return any(each is not None and each in self._results for each in storages)

    @property
    def notes_results(self) -> bool:
        """Whether the results of an op that runs outside of the step are to be given to
        `note_results`."""
        return self.is_evaluating and not self._loading and self._module() is None

    def note_results(self, results: Iterable[torch.Tensor]) -> None:
        """Note what an evaluation has computed."""
        for result in results:
            storage = _storage_of(result)
            if storage is not None:
                self._results[storage] = None

    def trains_in_this_mode(self) -> None:
        """Take the modes that the networks have now for those of training, until they change: an
        op records gradients, or an optimizer steps."""
        if self._is_evaluating is not False:
            self._is_evaluating = False
            self._changed()

    def know_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Note an optimizer that steps."""
        self._optimizers[optimizer] = None
        self.trains_in_this_mode()

    # ---------------------------------------------------------------- modes

    def _are_networks_in_eval_mode(self) -> bool:
        """Whether all parameters of an optimizer belong to modules in eval mode; without any
        optimizer, all parameters that have gradients."""
        resting: set[int] = set()
        for network in self._living():
            if not network.training:
                for module in network.modules():
                    if not module.training:
                        resting.update(map(id, module._parameters.values()))
        if not resting:
            return False
        optimizers = list(self._optimizers) or self._older_optimizers()
        if not optimizers:
            with_gradients = self._parameters_with_gradients()
            return bool(with_gradients) and with_gradients <= resting
        return any(_are_all_among(optimizer, resting) for optimizer in optimizers)

    def _living(self) -> Iterator[nn.Module]:
        for key, reference in list(self._networks.items()):
            network = reference()
            if network is None:
                del self._networks[key]
            else:
                yield network

    def _parameters_with_gradients(self) -> set[int]:
        return {
            id(parameter)
            for network in self._living()
            for parameter in network.parameters()
            if parameter.grad is not None
        }

    def _older_optimizers(self) -> list[torch.optim.Optimizer]:
        """Optimizers of the known networks that were made before the capture began. Python's
        objects are searched once; others among them may be of no use any more."""
        if self._older is None:
            self._older = WeakTable()
            for each in living_objects(torch.optim.Optimizer):
                self._older[each] = None
        known = {id(each) for network in self._living() for each in network.parameters()}
        return [
            optimizer
            for optimizer in list(self._older)
            if any(id(parameter) in known for parameter in _trained(optimizer))
        ]

    def _switched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Follow ``Module.train``, which ``eval`` calls, too, and which calls itself for the parts
        of a module."""

        def train(this: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._switching or threading.get_ident() != self._thread:
                return original(this, *args, **kwargs)
            self._switching += 1
            try:
                return original(this, *args, **kwargs)
            finally:
                self._switching -= 1
                with self._guard, private.without_torch_functions():
                    self._note_network(this)

        return train

    def _note_network(self, network: nn.Module) -> None:
        if not network.training:
            _, frame = find_user_frame(sys._getframe(1))
            self._evaluator = None if frame is None else frame.f_code
        known = self._networks.get(id(network))
        if known is None or known() is not network:
            self._networks[id(network)] = weakref.ref(network)
        if network.training and not self._is_evaluating and self._is_evaluating is not None:
            return  # What is not an evaluation does not become one.
        self._is_evaluating = None
        self._changed()

    def _knows(self, optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> None:
        if threading.get_ident() == self._thread:
            with self._guard, private.without_torch_functions():
                self._optimizers[optimizer] = None
                self._is_evaluating = None
                self._changed()

    # ------------------------------------------------------------ data loading

    def _loaded(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return original(*args, **kwargs)
            self._load(1)
            try:
                return original(*args, **kwargs)
            finally:
                self._load(-1)

        return load

    def _load(self, change: int) -> None:
        self._loading += change
        with self._guard, private.without_torch_functions():
            self._changed()

    def _runs_network(self) -> bool:
        module = self._module()
        return module is not None and next(module.parameters(), None) is not None


def forget_written(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None, tables: Tables, loans: Loans
) -> None:
    """Forget the memory that an op is about to change which is not observed."""
    for key in written_storages(func, args, kwargs):
        loans.notify_holds(key)
        tables.drop(key)


def written_storages(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None
) -> Iterator[int]:
    """The keys of the storages that an op is about to write to."""
    if is_bookkeeping(func) or not (info := op_info(func)).writes:
        return
    tensors = list(tensors_in((*args, *kwargs.values()) if kwargs else args))
    for slot in argument_slots(info.writes, info, args, kwargs):
        yield storage_key(tensors[slot])


def _storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError) as error:
        pass_on(error)
        return None


def _is_cast_of_weight(func: Any, args: Sequence[Any]) -> bool:
    """Whether this may be a cast by autocast, which keeps casts of weights for later and therefore
    records their gradients, even inside ``no_grad``."""
    return func is _CAST and bool(args) and args[0].is_leaf


def _are_all_among(optimizer: torch.optim.Optimizer, known: Collection[int]) -> bool:
    """Whether the optimizer has parameters to train, and all of them are among ``known``."""
    trained = _trained(optimizer)
    return bool(trained) and all(id(parameter) in known for parameter in trained)


def _trained(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [
        parameter
        for group in getattr(optimizer, "param_groups", ())
        for parameter in group["params"]
        if parameter.requires_grad
    ]
