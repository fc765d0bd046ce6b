"""What the guard says of a step that it kept."""

from __future__ import annotations

from pathlib import Path

from sonde.adapters.torch.monitor.step_keeping import KeptStep


def shown_path(path: Path) -> Path:
    """The path as the user would type it: relative to the current directory if it lies inside."""
    try:
        return path.relative_to(Path.cwd())
    except (ValueError, OSError):
        return path


def kept_lines(what: str, kept: KeptStep | None) -> list[str]:
    """``what`` triggered, where it began, and where the step is."""
    if kept is None:
        return [f"{what}; nothing of the step was recorded, so it cannot be kept"]
    parts = [what]
    execution = kept.execution
    parts.append(
        str(
            (
                execution.was_run,
                execution.is_exact,
                execution.reasons,
                execution.differences[:2],
                execution.error,
            )
        )
    )
    if kept.path is not None:
        parts.append(f"kept in {shown_path(kept.path)}")
    return ["; ".join(parts), *filter(None, [kept.problem])]
