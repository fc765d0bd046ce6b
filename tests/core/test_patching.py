"""Attributes of foreign classes and modules, replaced and restored."""

import gc
import pickle
import types
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from sonde.core.patching import Patch, call_before, replace, restore_all, wrap


class Parent:
    def greet(self) -> str:
        return "hello"


class Child(Parent):
    pass


def louder(original: Callable[..., Any]) -> Callable[..., Any]:
    def shout(*args: Any) -> Any:
        return f"{original(*args)}!"

    return shout


def module_function() -> str:
    return "plain"


def test_a_wrapped_method_is_restored_when_the_stack_is_closed() -> None:
    before = Parent.__dict__["greet"]
    with ExitStack() as undo:
        wrap(Parent, "greet", louder, undo)
        assert Parent().greet() == "hello!"
    assert Parent.__dict__["greet"] is before


def test_an_inherited_method_is_inherited_again_after_the_patch() -> None:
    with ExitStack() as undo:
        wrap(Child, "greet", louder, undo)
        assert (Child().greet(), Parent().greet()) == ("hello!", "hello")
    assert "greet" not in Child.__dict__
    assert Child().greet() == "hello"


def test_a_replacement_made_by_other_code_meanwhile_is_kept() -> None:
    module: Any = types.SimpleNamespace(value=1)
    with ExitStack() as undo:
        replace(module, "value", 2, undo)
        module.value = 3
    assert module.value == 3


def test_patches_made_on_top_of_each_other_are_undone_in_any_nesting_of_stacks() -> None:
    module: Any = types.SimpleNamespace(call=lambda: "hello")
    with ExitStack() as outer, ExitStack() as inner:
        wrap(module, "call", louder, outer)
        wrap(module, "call", louder, inner)
        assert module.call() == "hello!!"
        inner.close()
        assert module.call() == "hello!"
    assert module.call() == "hello"


def test_a_static_method_is_a_static_method_again() -> None:
    class Owner:
        @staticmethod
        def answer() -> int:
            return 1

    with ExitStack() as undo:
        replace(Owner, "answer", staticmethod(lambda: 2), undo)
        assert Owner().answer() == 2
    assert Owner().answer() == 1
    assert isinstance(Owner.__dict__["answer"], staticmethod)


def test_a_patch_can_be_lifted_and_installed_again() -> None:
    module: Any = types.SimpleNamespace(value=1)
    patch = Patch(module, "value", 2)
    assert (patch.is_installed, module.value) == (False, 1)
    patch.install()
    assert (patch.is_installed, module.value) == (True, 2)
    patch.restore()
    patch.restore()
    assert module.value == patch.original == 1
    patch.install()
    assert module.value == 2


def test_pickle_finds_a_wrapped_function_by_its_name() -> None:
    import sys

    module = sys.modules[__name__]
    with ExitStack() as undo:
        wrap(module, "module_function", louder, undo)
        assert pickle.loads(pickle.dumps(module_function))() == "plain!"
    assert module_function() == "plain"


def test_an_action_is_called_before_with_the_same_arguments() -> None:
    class Owner:
        def method(self, *args: int, **kwargs: int) -> str:
            calls.append("method")
            return f"{args} {kwargs}"

    calls: list[object] = []
    owner = Owner()
    with ExitStack() as undo:
        call_before(Owner, "method", lambda *args, **kwargs: calls.append((args, kwargs)), undo)
        assert owner.method(1, two=2) == "(1,) {'two': 2}"
    assert calls == [((owner, 1), {"two": 2}), "method"]
    owner.method()
    assert len(calls) == 3


def test_a_replacement_that_other_code_kept_calls_the_original_and_keeps_nothing_alive() -> None:
    class Owner:
        def twice(self, original: Callable[..., Any]) -> Callable[..., Any]:
            return lambda: self and original() * 2

    module: Any = types.SimpleNamespace(call=lambda: "hello")
    owner = Owner()
    alive = weakref.ref(owner)
    with ExitStack() as undo:
        wrap(module, "call", owner.twice, undo)
        kept = module.call
        assert kept() == "hellohello"
    del owner
    gc.collect()
    assert kept() == "hello"
    assert alive() is None


def test_everything_that_is_patched_can_be_restored_at_once() -> None:
    owner = types.SimpleNamespace(greet=lambda: "hello")
    with ExitStack() as undo:
        wrap(owner, "greet", louder, undo)
        kept = owner.greet  # Other code may hold the replacement.
        wrap(owner, "greet", louder, undo)
        direct = Patch(Parent, "greet", lambda self: "bye")
        direct.install()
        undo.callback(direct.restore)
        assert (owner.greet(), kept(), Parent().greet()) == ("hello!!", "hello!", "bye")
        restore_all()
        assert (owner.greet(), kept(), Parent().greet()) == ("hello", "hello", "hello")
    assert owner.greet() == "hello"
