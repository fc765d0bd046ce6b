"""A real MCP client, connected to ``sonde mcp`` in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

MOST_CHARACTERS = 5_000
Call = Callable[..., Awaitable[dict[str, Any]]]


def talk(root: Path, conversation: Callable[[Call, ClientSession], Awaitable[None]]) -> None:
    """Start the server below ``root`` and hold the conversation with it."""

    async def main() -> None:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "sonde", "mcp", "--root", str(root)]
        )
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            tools = {
                each.name: each.input_schema["properties"].keys()
                for each in (await session.list_tools()).tools
            }

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                found = await answer(session, tool, arguments)
                for each in found.get("next", ()):
                    assert each["arguments"].keys() <= tools[each["tool"]], each
                return found

            await conversation(call, session)

    anyio.run(main)


async def answer(session: ClientSession, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer as a dict; every answer is checked for its form and its length."""
    result = await session.call_tool(tool, arguments)
    (content,) = result.content
    assert len(content.text) <= MOST_CHARACTERS
    found: dict[str, Any] = json.loads(content.text)
    if result.is_error:
        assert found["error"].keys() == {"slug", "message"}
        assert "\n" not in found["error"]["message"]
    else:
        assert found.keys() == {"verdict", "facts", "truncated", "next"}
        assert found == result.structured_content
        assert found["next"] or not found["truncated"], "nothing narrows the answer"
    return found
