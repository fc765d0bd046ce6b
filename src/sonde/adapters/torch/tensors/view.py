"""Torch tensors as the views that sinks receive."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch.nn.parameter import is_lazy

from sonde import kernels
from sonde.adapters.torch import private
from sonde.adapters.torch.eager.op_schema import attributes_of
from sonde.adapters.torch.eager.step_inputs import dtype_name, shape_of
from sonde.adapters.torch.tensors.device_statistics import DeviceRow, device_row
from sonde.adapters.torch.tensors.hold import Lender, TorchHold, make_hold, same_memory
from sonde.adapters.torch.tensors.unusual_layouts import is_pending, local_part, stored_values
from sonde.core.dtypes import BY_NAME, dtype_named
from sonde.core.errors import SondeError
from sonde.core.graph import OpNode
from sonde.core.interruption import pass_on
from sonde.core.keys import Io

if TYPE_CHECKING:
    from sonde.adapters.torch.eager.op_tree import OpRecord, TensorRef
    from sonde.core.statistics import Statistics

_QUANTIZED = frozenset({"qint8", "quint8", "qint32"})
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)


name_of = cache(dtype_name)


@cache
def kernel_code(dtype: torch.dtype) -> int:
    """The kernel's number for ``dtype``, or -1 where it has no statistics (complex and others)."""
    try:
        return kernels.dtype_code(name_of(dtype))
    except SondeError:
        return -1


def kernel_codes() -> dict[torch.dtype, int]:
    """The kernel's number for every dtype it has statistics of."""
    dtypes = [getattr(torch, name, None) for name in BY_NAME]
    codes = {dtype: kernel_code(dtype) for dtype in dtypes if isinstance(dtype, torch.dtype)}
    return {dtype: code for dtype, code in codes.items() if code >= 0}


@dataclass(slots=True, eq=False)
class TorchView:
    """See ``core.sink.TensorView``. ``lend`` registers memory that is lent instead of copied;
    None where the memory may change without an observed op and must be copied. Of a DTensor this is
    a view of the part that this rank holds."""

    tensor: torch.Tensor
    io: Io = "output"
    slot: int = 0
    token: TensorRef | None = None
    lend: Lender | None = None
    is_filled: bool = True

    def __post_init__(self) -> None:
        if type(self.tensor) not in _PLAIN_TYPES:
            self.tensor = local_part(self.tensor)
            self.is_filled = self.is_filled and not is_pending(self.tensor)

    @property
    def values_token(self) -> object:
        return None if self.token is None else self.token.values

    @property
    def memory(self) -> torch.UntypedStorage | None:
        try:
            return self.tensor.untyped_storage()
        except (NotImplementedError, RuntimeError) as error:
            pass_on(error)
            stored = None if self.tensor.is_mkldnn else stored_values(self.tensor)
            return None if stored is None else stored.untyped_storage()

    @property
    def numel(self) -> int:
        return self.tensor.numel()

    @property
    def dtype(self) -> str:
        return name_of(self.tensor.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        if is_lazy(self.tensor):  # It has no shape before the first forward of its module.
            return (0,)
        return tuple(self.tensor.shape) if not self.tensor.is_nested else shape_of(self.tensor)

    @property
    def nbytes(self) -> int:
        if is_lazy(self.tensor) or self.tensor.device.type == "meta":
            return 0  # It has a shape at most, and no values.
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def problem(self) -> str | None:
        tensor = self.tensor
        if is_lazy(tensor):
            return "it is a parameter of a lazy module and has no values yet"
        if tensor.layout is not torch.strided:
            return f"its layout is {str(tensor.layout).removeprefix('torch.')}"
        if tensor.is_nested:
            return "it is a nested tensor"
        if tensor.device.type == "meta":
            return "it is on the meta device and has no values"
        if name_of(tensor.dtype) not in BY_NAME:
            return f"its dtype is {name_of(tensor.dtype)}"
        if is_pending(tensor):
            return "the program has not waited for the collective that computes it"
        if tensor.numel() and not _address(tensor):
            return f"{type(tensor).__name__} has no memory of its own"
        return None

    def _plain(self) -> torch.Tensor:
        """The stored elements on the CPU, in the order of this view."""
        is_quantized = name_of(self.tensor.dtype) in _QUANTIZED
        tensor = self.tensor.detach()
        return _readable(tensor.int_repr() if is_quantized else tensor)

    def _host(self) -> tuple[torch.Tensor, str]:
        """The plain tensor on the CPU, widened, and the numpy type of its elements."""
        dtype = dtype_named(self.dtype)
        tensor = self._plain()
        if dtype.stored != name_of(tensor.dtype):
            tensor = tensor.to(getattr(torch, dtype.stored))
        return tensor, dtype.stored

    def numpy(self) -> NDArray[Any]:
        tensor, _ = self._host()
        if same_memory(tensor, self.tensor):
            # A copy: numpy() would make the program's own storage non-resizable.
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        array: NDArray[Any] = private.to_numpy(tensor.contiguous())
        return array

    def hold(self, *, memory_order: bool = False, sample: int = 0) -> TorchHold:
        tensor, stored = self._host()
        return make_hold(
            tensor, stored, self.tensor, self.lend, memory_order=memory_order, sample=sample
        )

    def statistics(self) -> Statistics:
        tensor = _readable(self._dequantized())
        return kernels.summarize(
            tensor.data_ptr(), name_of(tensor.dtype), tuple(tensor.shape), tensor.stride()
        )

    def _dequantized(self) -> torch.Tensor:
        tensor = self.tensor.detach()
        return tensor.dequantize() if name_of(tensor.dtype) in _QUANTIZED else tensor

    def on_host(self) -> tuple[torch.Tensor, int] | None:
        """The tensor to be summarised and its kernel code; None where there are no statistics."""
        tensor = self.tensor
        if type(tensor) not in _PLAIN_TYPES and is_lazy(tensor):
            return None
        code = kernel_code(tensor.dtype)
        is_plain = (
            tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_nested
        )
        if code >= 0 and is_plain and not tensor.is_neg():
            if tensor.numel() == 0 or _address(tensor):
                return tensor, code
            return None
        if self.problem is not None or tensor.is_complex():
            return None
        tensor = _readable(self._dequantized())
        code = kernel_code(tensor.dtype)
        return (tensor, code) if code >= 0 else None

    def summarize_into(self, row_address: int, *, outline: bool = False) -> bool:
        found = self.on_host()
        if found is None:
            return False
        tensor, code = found
        if tensor.is_contiguous():
            whole = kernels.outline_into if outline else kernels.summarize_into
            whole(row_address, tensor.data_ptr(), code, tensor.numel())
        else:
            parts = kernels.outline_strided_into if outline else kernels.summarize_strided_into
            parts(row_address, tensor.data_ptr(), code, tensor.shape, tensor.stride())
        return True

    def summarize_later(
        self, *, columns: Collection[int], high_precision: bool
    ) -> DeviceRow | None:
        if self.problem is not None or self.tensor.is_complex():
            return None
        tensor = self._dequantized()
        code = kernel_code(tensor.dtype)
        if code < 0:
            return None
        return device_row(tensor, code, columns=columns, high_precision=high_precision)

    @property
    def has_countable_values(self) -> bool:
        """Whether ``non_finite`` can count values."""
        return self.problem is None or stored_values(self.tensor) is not None

    def non_finite(self) -> int:
        tensor = self.tensor
        if not tensor.is_floating_point() and not tensor.is_complex():
            return 0
        if self.problem is not None:
            stored = self.stored()
            return 0 if stored is None else stored.non_finite()
        if tensor.is_complex():
            return int((~torch.isfinite(tensor)).sum())
        found = self.on_host()
        if found is None:
            return 0
        tensor, code = found
        if tensor.is_contiguous():
            return kernels.non_finite(tensor.data_ptr(), code, tensor.numel())
        return kernels.non_finite_strided(tensor.data_ptr(), code, tensor.shape, tensor.stride())

    def has_nan(self) -> bool:
        if self.problem is not None:
            stored = self.stored()
            return stored is not None and stored.has_nan()
        if self.tensor.is_complex():
            return bool(torch.isnan(self.tensor).any())
        return self.statistics().nan_count > 0

    def stored(self) -> TorchView | None:
        values = stored_values(self.tensor)
        return None if values is None else TorchView(values, self.io, self.slot)

    def digest(self, name: str) -> str:
        tensor = self._plain()
        return kernels.hash_tensor(
            name, tensor.data_ptr(), name_of(tensor.dtype), tensor.shape, tensor.stride()
        )


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor`` on the CPU, with a pending conjugation or negation carried out."""
    if tensor.is_conj():
        tensor = tensor.resolve_conj()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return tensor if tensor.device.type == "cpu" else tensor.cpu()


def _address(tensor: torch.Tensor) -> int:
    """The address of the first element; 0 if there is none. A wrapper of other tensors may
    return an offset from a null pointer, which is not an address."""
    try:
        if type(tensor) not in _PLAIN_TYPES and not tensor.untyped_storage().data_ptr():
            return 0
        return tensor.data_ptr()
    except (NotImplementedError, RuntimeError) as error:
        pass_on(error)
        return 0


@dataclass(slots=True, eq=False)
class TorchCall:
    """See ``core.sink.OpCall``: one run of an op, or a step input that is first read.

    The attributes of an op that runs eagerly are read from ``record`` and the call's arguments if a
    sink asks for them. An op in compiled code has ``traced_attributes`` instead.
    """

    node: OpNode
    step: int
    order: int
    timestamp: int
    inputs: Sequence[TorchView]
    outputs: Sequence[TorchView]
    record: OpRecord | None = None
    args: Sequence[Any] = ()
    kwargs: dict[str, Any] | None = None
    traced_attributes: tuple[tuple[str, str], ...] = ()

    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        if self.record is None:
            return self.traced_attributes
        return attributes_of(self.record.info, self.args, self.kwargs)
