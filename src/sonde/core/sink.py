"""What a consumer of op calls is, and what it is handed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from sonde.core.graph import Graph, OpNode
from sonde.core.keys import Io

if TYPE_CHECKING:
    from sonde.core.statistics import Statistics


class Hold(Protocol):
    """The bytes of a tensor, to go into an ``.npy`` file, that stay as they are.

    ``strides`` (in elements) is None where they lie as the file has them. Either a copy, or the
    tensor's own memory: then ``on_change`` is called with ``job`` just before anything writes to
    it, or before nobody watches for that any more, and must not return before the bytes are safe.
    Keep the object alive as long as the bytes are needed, and no longer: it keeps the memory.
    """

    address: int
    nbytes: int
    stored: str
    shape: tuple[int, ...]
    layout: str
    strides: tuple[int, ...] | None
    is_copy: bool
    job: int
    on_change: Callable[[int], None] | None

    def is_shared(self) -> bool:
        """Whether anybody else could still write to these bytes."""
        ...


class TensorView(Protocol):
    """A tensor *borrowed* until ``write`` returns.

    ``token`` identifies contents: two views of one step with the same token have the same shape
    and, bit for bit, the same values (an input that is an earlier output, unchanged since).
    Two views with the same ``values_token`` and the same number of elements have the same elements,
    in whatever order and shape. ``problem`` says why the values cannot be had (a sparse tensor,
    say), else it is None. ``is_filled`` is False for memory that was asked for and not filled yet:
    what it holds means nothing. ``memory`` is the same object for all outputs over one piece of
    memory, in all steps, and dies with it: refer to it weakly. None where there is no such object.
    """

    @property
    def io(self) -> Io: ...
    @property
    def slot(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def numel(self) -> int: ...
    @property
    def token(self) -> object: ...
    @property
    def values_token(self) -> object: ...
    @property
    def problem(self) -> str | None: ...
    @property
    def is_filled(self) -> bool: ...
    @property
    def memory(self) -> object: ...

    def numpy(self) -> NDArray[Any]:
        """A copy the caller may keep: C-contiguous, widened where numpy lacks the dtype."""
        ...

    def hold(self, *, memory_order: bool = False, sample: int = 0) -> Hold:
        """The bytes to be written later.

        With ``memory_order`` channels-last stays as it lies. With ``sample`` at most so many
        elements, evenly spaced over the flattened tensor, first and last among them, in one
        dimension.
        """
        ...

    def statistics(self) -> Statistics:
        """Summary numbers; SondeError for complex values."""
        ...

    def summarize_into(self, row_address: int, *, outline: bool = False) -> bool:
        """Write the raw statistics row (``sonde.kernels``) there; False where there are none.

        ``outline`` leaves out what takes longest, see ``kernels.outline_into``.
        """
        ...

    def summarize_later(self, *, columns: Collection[int], high_precision: bool) -> object | None:
        """These columns of the row (``core.statistics``), computed on the tensor's device, to be
        gathered later; None where there are no statistics."""
        ...

    def non_finite(self) -> int:
        """How many elements are NaN or infinite; 0 where the question makes no sense."""
        ...

    def stored(self) -> TensorView | None:
        """Of a tensor with a ``problem``: a plain one with all it stores, if there is such."""
        ...

    def digest(self, name: str) -> str:
        """The hash called ``name`` (``core.statistics.HASHES``) of the logical contents."""
        ...


class OpCall(Protocol):
    """One run of one op, after it has run. ``inputs`` hold the values from before the op.

    ``timestamp`` is microseconds since the epoch and never repeats or goes back in a process.
    """

    @property
    def node(self) -> OpNode: ...
    @property
    def step(self) -> int: ...
    @property
    def order(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def inputs(self) -> Sequence[TensorView]: ...
    @property
    def outputs(self) -> Sequence[TensorView]: ...
    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        """The arguments of this very run that are not tensors, by name, as text."""
        ...


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of a step: its number and what ran in it.

    ``complete``: an optimizer step (or ``sonde.step()``) closed it, not the end of the run.
    ``parts`` are the compiled graphs that ran in it: their ops are in ``graph``, too.
    """

    step: int
    graph: Graph
    complete: bool
    parts: tuple[Graph, ...] = ()


class Sink(Protocol):
    """A consumer of op calls. All methods are called from the training thread, in order.

    ``write`` may block (that is how a debugger pauses). An exception switches the sink off and is
    reported once; it never reaches the training.
    """

    def begin_step(self, step: int) -> None: ...
    def has(self, view: TensorView) -> bool:
        """Whether ``write`` will need nothing but the view's tokens, shape and dtype.

        Asked of an input just before an op writes over it: with True its old values are not kept.
        """
        ...

    def write(self, call: OpCall) -> None: ...
    def end_step(self, end: StepEnd) -> None: ...
    def drop_step(self) -> None:
        """The running step is not worth keeping: undo what ``write`` did since ``begin_step``."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Screen:
    """Which ops a watching sink wants of its shortcut: those with values that are not finite, if
    ``takes_inputs``; and those with outputs that do not pass ``tests`` (``conditions.screen``),
    unless that is empty. ``outline``: they need no more than ``kernels.outline_into`` computes."""

    tests: bytes
    takes_inputs: bool
    outline: bool = False


@dataclass(frozen=True, slots=True)
class LaneParts:
    """What a sink that wants only numbers of tensors gives to an adapter's shortcut.

    For each tensor the shortcut appends to ``heads``, ``tails``, ``stamps`` and ``index`` (the
    number of its row), or, if ``is_watch``, only finds out whether it is finite. ``whole`` and
    ``strided`` are the kernels that do it; ``describe`` gives head and tail; ``other`` takes what
    is not plain memory on the host, and answers for a watch whether it is bad; ``grow`` makes room
    for rows and gives address and capacity.
    """

    heads: list[bytes]
    tails: list[bytes]
    stamps: list[int]
    index: list[int]
    whole: Callable[..., Any]
    strided: Callable[..., Any]
    describe: Callable[[OpNode, TensorView], tuple[bytes, bytes]]
    other: Callable[[OpNode, TensorView, int], bool]
    grow: Callable[[], tuple[int, int]]
    takes_inputs: bool
    takes_outputs: bool
    is_watch: bool
