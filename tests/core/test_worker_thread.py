"""Functions that run on a thread of their own, in order, whoever is interrupted."""

from __future__ import annotations

import threading

import pytest
from tests.core.test_interruption import ends, every_interruption

from sonde.core import interruption
from sonde.core.threads import thread_event, worker_thread
from sonde.core.threads.worker_thread import WorkerThread

FILES = [module.__file__ for module in (interruption, thread_event, worker_thread, threading)]


def test_functions_run_in_order_on_one_thread() -> None:
    worker = WorkerThread("sonde-test")
    threads: list[int] = []
    jobs = [worker.submit(lambda: threads.append(threading.get_ident())) for _ in range(50)]
    assert worker.submit(lambda: len(threads)).result() == 50
    assert [job.result() for job in jobs] == [None] * 50
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()
    worker.close()
    worker.close()


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    worker = WorkerThread("sonde-test")

    def fail() -> None:
        raise LookupError("nothing here")

    failed, after = worker.submit(fail), worker.submit(lambda: 1)
    with pytest.raises(LookupError, match="nothing here"):
        failed.result()
    assert after.result() == 1
    worker.close()


def test_one_that_was_never_used_has_no_thread() -> None:
    before = threading.active_count()
    WorkerThread("sonde-test").close()
    assert threading.active_count() == before


def test_interrupted_methods_block_neither_thread() -> None:
    def use() -> None:
        worker = WorkerThread("sonde-test")
        done: list[int] = []
        every_interruption(lambda: worker.submit(lambda: done.append(1)).result(), FILES)
        before = len(done)
        worker.submit(lambda: done.append(2)).result()
        assert len(done) == before + 1
        every_interruption(worker.close, FILES)
        worker.close()

    assert ends(use)
