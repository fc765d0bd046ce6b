"""The interface of consumers of op calls, and of the objects that they receive."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from numpy.typing import NDArray

from sonde.core.graph import Graph, OpNode
from sonde.core.observation import Observation, ObservedTensor

if TYPE_CHECKING:
    from sonde.core.statistics import Statistics


class Hold(Protocol):
    """The bytes of a tensor for an ``.npy`` file; they do not change while the file is pending.

    ``strides`` (in elements) is None if the bytes have the order of the file. The bytes are a copy,
    or the tensor's own memory: then ``on_change`` is called with ``job`` just before an op writes
    to that memory, or before writes are no longer observed, and must not return before the bytes
    are written or copied. Keep the object alive only as long as the bytes are needed, because it
    keeps the memory alive.
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
        """Whether other code could still write to these bytes."""
        ...


class TensorView(ObservedTensor, Protocol):
    """A tensor *borrowed* until ``write`` returns.

    ``token`` identifies contents: two views of one step with the same token have the same shape
    and, bit for bit, the same values (an input that is an earlier output, unchanged since).
    ``problem`` says why the values are not available (a sparse tensor, for example), else it is
    None.
    """

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
    def problem(self) -> str | None: ...
    @property
    def has_countable_values(self) -> bool:
        """Whether ``non_finite`` can count values."""
        ...

    def numpy(self) -> NDArray[Any]:
        """A copy the caller may keep: C-contiguous, widened where numpy lacks the dtype."""
        ...

    def hold(self, *, memory_order: bool = False, sample: int = 0) -> Hold:
        """The bytes to be written later.

        With ``memory_order``, channels-last tensors keep the order of memory. With ``sample``, at
        most that many elements, evenly spaced over the flattened tensor, including the first and
        the last, in one dimension.
        """
        ...

    def statistics(self) -> Statistics:
        """Summary numbers; SondeError for complex values."""
        ...

    def summarize_into(self, row_address: int, *, outline: bool = False) -> bool:
        """Write the raw statistics row (``sonde.kernels``) to this address; False if it has none.

        ``outline`` leaves out the slowest statistics, see ``kernels.outline_into``.
        """
        ...

    def summarize_later(self, *, columns: Collection[int], high_precision: bool) -> object | None:
        """These columns of the row (``core.statistics``), computed on the tensor's device, to be
        gathered later; None where there are no statistics."""
        ...

    def stored(self) -> TensorView | None:
        """For a tensor with a ``problem``: a plain tensor of all stored values, if possible."""
        ...

    def digest(self, name: str) -> str:
        """The hash called ``name`` (``core.statistics.HASHES``) of the logical contents."""
        ...


def is_useless(view: TensorView, node: OpNode) -> bool:
    """Whether a tensor is an output that its op returns empty because it has no use for it.

    Batch norm in eval mode returns no statistics of the batch, flash attention no mask. An op that
    has one output returns an empty tensor because its result is empty.
    """
    return view.io == "output" and view.numel == 0 and len(node.outputs) > 1


class OpCall(Observation, Protocol):
    """One run of one op of a training, after it has run.

    ``timestamp`` is microseconds since the epoch and never repeats or goes back in a process.
    """

    @property
    def timestamp(self) -> int: ...
    @property
    def inputs(self) -> Sequence[TensorView]: ...
    @property
    def outputs(self) -> Sequence[TensorView]: ...


class StepEnd:
    """The end of a step: its number and what ran in it.

    ``complete``: an optimizer step (or ``sonde.step()``) closed it, not the end of the run.
    ``parts`` are the compiled graphs that ran in it: their ops are in ``graph``, too. The graph is
    made when a sink first asks for it, which must be before ``end_step`` returns: for a structure
    that is new, that takes longer than most steps.
    """

    __slots__ = ("_graph", "complete", "parts", "step")

    def __init__(
        self,
        step: int,
        graph: Graph | Callable[[], Graph],
        complete: bool,
        parts: tuple[Graph, ...] = (),
    ) -> None:
        self.step = step
        self._graph = graph
        self.complete = complete
        self.parts = parts

    @property
    def graph(self) -> Graph:
        if not isinstance(self._graph, Graph):
            self._graph = self._graph()
        return self._graph


class Sink(Protocol):
    """A consumer of op calls. All methods are called from the training thread, in order.

    ``write`` may block (that is how a debugger pauses). An exception disables the sink and is
    reported once; it never reaches the training. Implementations inherit the methods that they do
    not need: those do nothing.
    """

    def begin_step(self, step: int) -> None:
        return

    def has(self, view: TensorView) -> bool:
        """Whether ``write`` will need nothing but the view's tokens, shape and dtype.

        Called for an input just before an op overwrites it: if True, its old values are not kept.
        """
        ...

    def write(self, call: OpCall) -> None:
        return

    def end_step(self, end: StepEnd) -> None: ...
    def drop_step(self) -> None:
        """Discard the running step: undo what ``write`` did since ``begin_step``."""
        return

    def close(self) -> None:
        return

    def fast_path(self) -> FastPath | None:
        """How native code may serve this sink without a call of ``write`` for every op.

        Called once, before the first step. An op takes the fast path if only this sink wants it
        and the adapter has native code; any other op is passed to ``write``, with the same
        result. None: all ops are passed to ``write``.
        """
        return None


# ------------------------------------------------------------------------- fast paths


class RowBuffer(Protocol):
    """The statistics of the running step's tensors, in order of execution.

    It owns the rows until ``take`` hands them over. Rows and entries are separate, because tensors
    with the same values share a row. Native code adds to it by itself; the sink adds tensors that
    come through ``write``.
    """

    def begin_step(self) -> None:
        """Forget everything."""
        ...

    def reserve(self) -> int:
        """The address of the next row: memory for ``statistics.ROW_COLUMNS`` float64."""
        ...

    def keep(self) -> int:
        """Add the reserved row to the rows and return its number."""
        ...

    def add(self, label: Any, timestamp: int, row: int, /) -> None:
        """Add the entry of one tensor: what the sink calls it, and the number of its row."""
        ...

    def take(self) -> tuple[list[Any], bytes, bytes]:
        """Hand over the entries: labels, timestamps (int64), and the row of each (float64).

        The buffer is empty afterwards.
        """
        ...


@dataclass(frozen=True, slots=True)
class RowPath:
    """The fast path of a sink that wants a row of statistics of every tensor.

    Native code collects the rows in a buffer of its own, which is passed to ``use`` once.
    ``label`` returns the sink's name for a tensor; it is reused for the same tensor of the same op
    while its shape and dtype stay the same. ``unusual`` is called, with a timestamp, for a tensor
    that is not plain memory on the host. ``outline``: the sink needs only the statistics that
    ``kernels.outline_into`` computes.
    """

    takes_inputs: bool
    takes_outputs: bool
    outline: bool
    label: Callable[[OpNode, TensorView], Any]
    unusual: Callable[[OpNode, TensorView, int], None]
    use: Callable[[RowBuffer], None]


@dataclass(frozen=True, slots=True)
class Screen:
    """Which runs of an op are wanted: those with values that are not finite, if ``takes_inputs``;
    and those with outputs that do not pass ``tests`` (``watch.conditions.screen``), unless that is
    empty. ``outline``: the tests need no more than ``kernels.outline_into`` computes."""

    tests: bytes
    takes_inputs: bool
    outline: bool = False


NON_FINITE: Final = Screen(b"", takes_inputs=True)


@dataclass(frozen=True, slots=True)
class ScreenPath:
    """The fast path of a sink that wants only some runs of an op.

    ``screen`` says which runs of a node, with the leaves that are emitted before it; None for all.
    ``every_op`` is its answer if that is the same for every node, so that it need not be asked.
    """

    screen: Callable[[OpNode, Sequence[OpNode]], Screen | None]
    every_op: Screen | None = None


FastPath = RowPath | ScreenPath
