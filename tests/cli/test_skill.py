"""``sonde skill`` writes a file whose commands and options exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from sonde.cli.main import group, main
from sonde.cli.skill import skill_text

ROOT = Path(__file__).parents[2]


def options_of(name: str) -> set[str]:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return {option for each in command.params for option in each.opts}


def test_the_file_is_written_once_and_replaced_only_by_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "skills")
    assert main(["skill", folder]) == 0
    path = tmp_path / "skills" / "SKILL.md"
    assert path.read_text() == skill_text()
    assert main(["skill", folder]) == 0
    path.write_text("mine")
    assert main(["skill", folder]) == 2
    assert "--force replaces it [usage]" in capsys.readouterr().err
    assert main(["skill", folder, "--force"]) == 0
    assert path.read_text() == skill_text()


def test_the_head_has_a_name_and_a_description() -> None:
    found = re.match(r"---\nname: ([a-z-]+)\ndescription: (.+)\n---\n", skill_text())
    assert found is not None
    assert found[1] == "sonde"
    assert len(found[2]) <= 1024


def test_every_command_and_option_of_the_skill_exists() -> None:
    commands = re.findall(r"`(?:[a-z]+ .*-m )?sonde ([a-z-]+)([^`]*)`", skill_text())
    assert len(commands) >= 12
    for name, words in commands:
        own = words.partition(" -- ")[0]
        unknown = set(re.findall(r"(?<= )--[a-z-]+", own)) - options_of(name)
        assert unknown == set(), name


def test_llms_txt_links_to_pages_that_exist() -> None:
    text = (ROOT / "docs" / "llms.txt").read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) >= 15
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []
