"""The line that is shown for an op is the innermost of the user's own code."""

from __future__ import annotations

import pytest

from sonde.core import own_code
from sonde.core.errors import UsageError
from sonde.core.graph import OpNode, Source, shown_source
from sonde.core.own_code import VARIABLE, is_own, parse_packages

LIBRARY = Source("/env/lib/python3.11/site-packages/transformers/pytorch_utils.py", 119, "f", "a")
MODEL = Source("/env/lib/python3.11/site-packages/peft/tuners/lora.py", 7, "g", "b")
USER = Source("/home/me/train.py", 12, "<module>", "loss = model(x)")
OUTER = Source("/home/me/main.py", 3, "main", "train()")


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("/home/me/train.py", True),
        ("<stdin>", True),
        ("/tmp/ipykernel_1/2.py", True),
        ("/home/me/lib/python/net.py", True),
        (LIBRARY.file, False),
        ("/usr/lib/python3/dist-packages/numpy/core.py", False),
        ("/usr/lib/python3.11/functools.py", False),
        ("C:\\env\\Lib\\site-packages\\torch\\a.py", False),
        ("/env/lib/python3.11/site-packages/single.py", False),
    ],
)
def test_installed_packages_and_the_standard_library_are_not_own(file: str, own: bool) -> None:
    assert is_own(file) is own


def test_named_packages_are_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "transformers, peft.tuners ,single")
    assert is_own(LIBRARY.file)
    assert is_own(MODEL.file)
    assert is_own("/env/lib/python3.11/site-packages/single.py")
    assert not is_own("/env/lib/python3.11/site-packages/peft/model.py")
    assert not is_own("/env/lib/python3.11/site-packages/transformers_extra/model.py")
    monkeypatch.delenv(VARIABLE)
    with own_code.configured(["transformers"]):
        assert is_own(LIBRARY.file)
    assert not is_own(LIBRARY.file)


@pytest.mark.parametrize("text", ["a/b", "-x", "1st", "a..b", "./lib"])
def test_other_words_than_names_of_packages_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a package") as caught:
        parse_packages(f"torch,{text}")
    assert caught.value.slug == "own-packages"


def test_the_users_line_is_shown_with_the_line_of_the_library_beside_it() -> None:
    shown = shown_source((LIBRARY, MODEL, USER, OUTER))
    assert shown is not None
    assert (shown.file, shown.line, shown.library) == (USER.file, 12, LIBRARY)
    assert str(shown) == "/home/me/train.py:12 (in transformers/pytorch_utils.py:119)"
    assert shown.fields()["library"] == {
        "file": LIBRARY.file,
        "line": 119,
        "function": "f",
        "code": "a",
    }
    node = OpNode("a", "a", "", "forward", sources=(LIBRARY, USER))
    assert node.source == shown


def test_without_a_library_or_without_own_code_the_innermost_line_is_shown() -> None:
    assert shown_source((USER, LIBRARY, OUTER)) is USER
    assert shown_source((LIBRARY, MODEL)) is LIBRARY
    assert shown_source(()) is None
    assert "library" not in USER.fields()


def test_a_package_that_is_own_is_shown_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "peft")
    shown = shown_source((LIBRARY, MODEL, USER))
    assert shown is not None
    assert (shown.file, shown.library) == (MODEL.file, LIBRARY)
