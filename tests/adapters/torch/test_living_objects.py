"""Searching living objects runs no code of the program and leaves its other threads alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from sonde.adapters.torch.living_objects import living_objects


class Kind:
    pass


class Inner(Kind):
    __slots__ = ()


def test_objects_of_a_class_and_its_subclasses_are_found() -> None:
    held = [Kind(), Inner(), object()]
    assert {id(each) for each in living_objects(Kind)} == {id(each) for each in held[:2]}
    assert living_objects(Inner) == [held[1]]
    del held
    assert living_objects(Kind) == []


class Proxy:
    """Says that it is of another class, as proxies do."""

    asked = 0

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        Proxy.asked += 1
        return Kind


def test_a_proxy_is_not_asked_for_its_class() -> None:
    held = Proxy()
    Proxy.asked = 0
    assert living_objects(Kind) == []
    assert Proxy.asked == 0
    del held


class Slow(type):
    """A class whose subclass check, in Python, lets another thread go on and waits for its end."""

    go_on = threading.Event()
    ended = threading.Event()

    def __subclasscheck__(cls, other: type) -> bool:
        Slow.go_on.set()
        Slow.ended.wait(timeout=100)
        return super().__subclasscheck__(other)


class Sought(metaclass=Slow):
    pass


def test_a_tuple_that_another_thread_builds_is_not_disturbed() -> None:
    """It fails with SystemError if somebody holds a list of all objects when it is complete."""
    held = Sought()
    begun = threading.Event()

    def numbers() -> Iterator[int]:
        yield 0
        begun.set()
        Slow.go_on.wait(timeout=100)
        yield 1

    def build() -> tuple[int, ...]:
        try:
            return tuple(numbers())
        finally:
            Slow.ended.set()

    with ThreadPoolExecutor(1) as pool:
        built = pool.submit(build)
        assert begun.wait(timeout=100)
        assert living_objects(Sought) == [held]
        Slow.go_on.set()
        assert built.result(timeout=100) == (0, 1)
