"""The private parts of ``torch.distributed`` that the checks over ranks use."""

from __future__ import annotations

from typing import Any

from torch.distributed import distributed_c10d


def default_store() -> Any:
    """A connection of its own to the store of the default process group: a thread may use it while
    the training uses the group's. The group's own where it cannot be cloned."""
    store: Any = distributed_c10d._get_default_store()
    try:
        return store.clone()
    except (AttributeError, NotImplementedError, RuntimeError):
        return store
