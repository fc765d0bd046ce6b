"""The server: registers the tools, and turns every failure into one clear error."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import ValidationError

import sonde
from sonde.core.errors import SondeError
from sonde.core.settings import nearest
from sonde.integrations.mcp.answer import ToolAnswer, shortened, text_of
from sonde.integrations.mcp.command import Workspace
from sonde.integrations.mcp.tools import Tools

INSTRUCTIONS: Final = """\
Sonde finds where the numbers of a PyTorch training go wrong. Never guess an op: begin with run, \
which names the first fault with its line; then follow `next`. A loss that is NaN: run, fix the \
line, verify on the kept step. A loss that does not fall: run, read the findings. Two runs that \
should agree: run both with observe=stats, then compare. Not reproducible: repeat. Wrong only when \
compiled: compile_check. Ids are stable; `truncated` says that an answer was cut."""

_READ_ONLY: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_RUNS_CODE: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, open_world_hint=False
)
_WRITES: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, open_world_hint=False
)


class SondeServer(MCPServer[Any]):
    """An MCP server whose errors are one JSON object: slug, message."""

    def __init__(self, *, instructions: str) -> None:
        super().__init__("sonde", version=sonde.__version__, instructions=instructions)
        self.parameters: dict[str, set[str]] = {}
        """The arguments of each tool: MCPServer ignores those that a tool does not have."""

    def offer(self, function: Callable[..., Any], hints: ToolAnnotations) -> None:
        """Add a method as a tool."""
        self.parameters[function.__name__] = set(inspect.signature(function).parameters)
        self.tool(annotations=hints)(function)

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool; the text of the result is the same compact JSON as its structure."""
        known = self.parameters.get(name)
        if known is not None and (unknown := [each for each in arguments if each not in known]):
            hint = nearest(unknown[0], sorted(known), "its arguments are")
            return _error("usage", f"{name} has no argument {unknown[0]!r}{hint}")
        try:
            result = await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, SondeError):
                return _error(cause.slug, cause.message)
            if isinstance(cause, ValidationError):
                return _error("usage", _wrong_arguments(name, cause))
            raise
        if isinstance(result, CallToolResult) and result.structured_content is not None:
            answer = shortened(ToolAnswer.model_validate(result.structured_content))
            text = TextContent(type="text", text=text_of(answer))
            return CallToolResult(content=[text], structured_content=answer.model_dump())
        return result


def build_server(root: Path) -> SondeServer:
    """A server whose tools work below ``root``."""
    server = SondeServer(instructions=INSTRUCTIONS)
    tools = Tools(Workspace(Path(root).resolve()))
    offered: list[tuple[Callable[..., Any], ToolAnnotations]] = [
        (tools.run, _RUNS_CODE),
        (tools.findings, _READ_ONLY),
        (tools.op, _READ_ONLY),
        (tools.tensor, _READ_ONLY),
        (tools.series, _READ_ONLY),
        (tools.compare, _READ_ONLY),
        (tools.ranks, _READ_ONLY),
        (tools.verify, _RUNS_CODE),
        (tools.replay, _WRITES),
        (tools.repeat, _RUNS_CODE),
        (tools.compile_check, _RUNS_CODE),
        (tools.control, _WRITES),
    ]
    for function, hints in offered:
        server.offer(function, hints)
    return server


def _error(slug: str, message: str) -> CallToolResult:
    text = json.dumps({"error": {"slug": slug, "message": message}}, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _wrong_arguments(tool: str, error: ValidationError) -> str:
    """Which arguments are wrong, and why, in one line."""
    problems = [
        f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg'].lower()}"
        for each in error.errors(include_url=False, include_context=False)
    ]
    return f"wrong arguments of {tool}: {'; '.join(problems)}"
