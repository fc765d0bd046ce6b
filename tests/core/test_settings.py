"""One reader of settings: values by rule, and problems with place, line, full name and slug."""

import pytest

from sonde.core.errors import ConfigError
from sonde.core.settings import Problems, Rule, Section, is_whole


class SearchSection(Section):
    type_slug = value_slug = "tune-value"


def said(problems: Problems) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        problems.raise_if_any()
    return [str(each) for each in caught.value.problems]


def test_a_problem_has_the_line_of_its_key_or_else_of_its_section() -> None:
    problems = Problems("f.yaml")
    section = Section({"b": "x", "a": -1}, problems, prefix="top.", lines={"a": 3, "b": 7}, line=2)
    assert section.whole("b", 5) == 5
    assert section.whole("a", 5) == 5
    section.demand("c", "a number")
    assert said(problems) == [
        "f.yaml:2: top.c is missing; write a number [config-missing-key]",
        "f.yaml:3: top.a is -1; accepted: a whole number [config-value]",
        'f.yaml:7: top.b is "x", a text; accepted: a whole number [config-type]',
    ]


def test_a_section_without_lines_names_the_source_alone() -> None:
    problems = Problems("f.json")
    Section({"a": 1}, problems).flag("a", False)
    assert said(problems) == ["f.json: a is 1, a number; accepted: true or false [config-type]"]


def test_a_subclass_chooses_the_slugs() -> None:
    problems = Problems("f")
    section = SearchSection({"a": "x", "b": 0}, problems)
    section.whole("a", None)
    section.whole("b", None, minimum=1)
    section.refuse("c", "is odd")
    assert [line.rsplit(" ", 1)[1] for line in said(problems)] == ["[tune-value]"] * 3


def test_an_entry_of_a_list_is_named_by_its_position() -> None:
    problems = Problems("f")
    section = Section({"a": [1, "x"], "b": [1, 2]}, problems, lines={"a": 4})
    rule = Rule("a list of numbers", is_whole)
    assert section.entries("a", (9,), rule) == (9,)
    assert section.entries("b", (9,), rule) == (1, 2)
    assert section.entries("c", (9,), rule) == (9,)
    assert said(problems) == ['f:4: a[1] is "x", a text; accepted: a list of numbers [config-type]']


def test_a_key_with_a_problem_is_unsound() -> None:
    section = Section({"a": "x", "b": 1}, Problems("f"))
    section.whole("a", 0)
    section.whole("b", 0)
    assert not section.is_sound("a")
    assert section.is_sound("b")
