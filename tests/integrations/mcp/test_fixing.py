"""From "my loss is NaN" to the line and a verified fix, by tools only, as a coding agent does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from tests.integrations.mcp.client import Call, talk

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("example", "kind", "line", "wrong", "right"),
    [
        ("rainfall.py", "script", 30, "torch.log(rain + 1.0)", "torch.log(rain.clamp(min=0) + 1)"),
        ("tutorials/pairs.py", "script", 30, "torch.sqrt(squares)", "torch.sqrt(squares + 1e-8)"),
        ("policy.py", "module", 31, "torch.log(chosen)", "torch.log(chosen.clamp(min=1e-8))"),
    ],
)
def test_a_fault_is_found_fixed_and_verified(
    example: str, kind: str, line: int, wrong: str, right: str, tmp_path: Path
) -> None:
    script = tmp_path / Path(example).name
    shutil.copy(ROOT / "examples" / example, script)
    program = {kind: script.name if kind == "script" else script.stem}

    async def conversation(call: Call, _: object) -> None:
        found = await call("run", **program)
        fault = found["facts"]["first_fault"]
        assert fault["line"] == f"{script.name}:{line}"
        assert wrong in fault["code"]
        assert fault["status"] == "established"
        step = found["facts"]["kept_steps"][0]["id"]
        verify = next(each for each in found["next"] if each["tool"] == "verify")
        assert verify["arguments"] == {"step": step, **program}

        before = await call("verify", **verify["arguments"])
        assert before["facts"]["verdict"] == "still there"
        replayed = await call("replay", step=step)
        assert f"{script.name}:{line}" in replayed["verdict"]

        script.write_text(script.read_text().replace(wrong, right))
        after = await call("verify", **verify["arguments"])
        assert after["facts"]["verdict"] == "fixed"
        again = await call("run", **program)
        assert "kept_steps" not in again["facts"], "no step goes wrong any more"
        assert again["facts"].get("first_fault", {}).get("id") != fault["id"]

    talk(tmp_path, conversation)
