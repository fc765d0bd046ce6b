import ctypes
import subprocess
import sys

import pytest

from sonde.profile.record.torch_profiler import event_bytes, warm_heap

# In a process of its own: what an allocator keeps depends on all that was freed before.
TOUCHES = """
import resource, sys
import torch
from sonde.profile.record.torch_profiler import warm_heap
warm_heap(int(sys.argv[1]))
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
faults()
before = faults()
kept = [bytearray(64_000) for _ in range(100)]
print(faults() - before)
"""


def touched(nbytes: int) -> int:
    words = [sys.executable, "-c", TOUCHES, str(nbytes)]
    return int(subprocess.check_output(words, text=True))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="not glibc")
def test_new_blocks_lie_in_memory_that_was_touched_before() -> None:
    assert touched(0) > 1000  # 6.4 MB in pages of 4 KiB
    assert touched(16 << 20) < 100


def test_a_few_events_need_no_warm_heap_and_its_size_is_bounded() -> None:
    assert warm_heap(event_bytes(900)) == 0
    assert warm_heap(event_bytes(18_000)) == 13_500_000
    assert warm_heap(event_bytes(900_000)) == 30 << 20
