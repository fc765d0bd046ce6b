"""The page's types are those of the server."""

from pathlib import Path

from sonde.wire import typescript

PAGE = Path(__file__).parents[2] / "web" / "src" / "wire.ts"


def test_the_file_of_the_page_is_not_stale() -> None:
    assert PAGE.read_text("utf-8") == typescript.generate(), (
        "run: python -m sonde.wire.typescript web/src/wire.ts"
    )


def test_types_read_as_they_cross_the_wire() -> None:
    text = typescript.generate()
    assert 'export type Io = "input" | "output";' in text
    assert "  readonly max: Num | null;" in text
    assert "  readonly preset: Num | null;" in text
    assert "  readonly attributes: readonly (readonly [string, string])[];" in text
    assert "  readonly parameters: Readonly<Record<string, number>>;" in text
    assert "  readonly wait_seconds?: number;" in text
    assert "  readonly cells: readonly (number | null)[];" in text
