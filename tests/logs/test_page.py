"""The page on logs names every variable and every sub module."""

from pathlib import Path

from sonde.logs.settings import SUBMODULES, VARIABLES

PAGE = (Path(__file__).parents[2] / "docs" / "logs.md").read_text()
SOURCES = Path(__file__).parents[2] / "src" / "sonde"


def test_every_variable_is_on_the_page():
    for own, reference in VARIABLES.values():
        name = f"`{reference}`" if reference else "none"
        assert f"| `{own}` | {name} |" in PAGE


def test_every_sub_module_is_on_the_page():
    for name in SUBMODULES:
        assert f"| sonde/{name.lower()} | {name} | `sonde.{name.lower()}` |" in PAGE


def test_every_package_is_a_sub_module():
    packages = {path.parent.name for path in SOURCES.glob("*/__init__.py")} - {"testing", "logs"}
    assert {name.upper() for name in packages} <= set(SUBMODULES)
