from collections.abc import Sequence

def summarize_into(out_address: int, address: int, dtype_code: int, numel: int, /) -> None: ...
def summarize_strided_into(
    out_address: int,
    address: int,
    dtype_code: int,
    shape: Sequence[int],
    strides: Sequence[int] | None,
    /,
) -> None: ...
def outline_into(out_address: int, address: int, dtype_code: int, numel: int, /) -> None: ...
def outline_strided_into(
    out_address: int,
    address: int,
    dtype_code: int,
    shape: Sequence[int],
    strides: Sequence[int] | None,
    /,
) -> None: ...
def summarize_fields(
    address: int, dtype_code: int, shape: Sequence[int], strides: Sequence[int] | None, /
) -> tuple[
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    float | int,
    float | int,
    float | int,
    float | int,
    float,
    float,
    float,
    float,
]: ...
def non_finite(address: int, dtype_code: int, numel: int, /) -> int: ...
def non_finite_strided(
    address: int, dtype_code: int, shape: Sequence[int], strides: Sequence[int] | None, /
) -> int: ...
def compare_strided_into(
    out_address: int,
    address_a: int,
    code_a: int,
    strides_a: Sequence[int] | None,
    address_b: int,
    code_b: int,
    strides_b: Sequence[int] | None,
    shape: Sequence[int],
    /,
) -> None: ...
def copy_range_into(
    out_address: int,
    address: int,
    itemsize: int,
    shape: Sequence[int],
    strides: Sequence[int] | None,
    begin: int,
    end: int,
    /,
) -> None: ...
def format_rows(
    heads: Sequence[bytes | None],
    tails: Sequence[bytes],
    timestamps_address: int,
    rows_address: int,
    row_count: int,
    columns: Sequence[int],
    texts: Sequence[Sequence[bytes]],
    /,
) -> bytes: ...
def thread_limit(limit: int, /) -> int: ...
def paths() -> list[str]: ...
def path() -> str: ...
def use_path(name: str, /) -> None: ...
def dtype_names() -> tuple[str, ...]: ...
def read_bytes(address: int, size: int, /) -> float: ...
def count_between(
    address: int,
    code: int,
    shape: Sequence[int],
    strides: Sequence[int] | None,
    low: float,
    high: float,
    /,
) -> int: ...
def tally_change(
    address_now: int,
    code_now: int,
    strides_now: Sequence[int] | None,
    address_before: int,
    code_before: int,
    strides_before: Sequence[int] | None,
    shape: Sequence[int],
    rtol: float,
    atol: float,
    /,
) -> tuple[float, int]: ...
