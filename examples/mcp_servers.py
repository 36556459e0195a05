"""Tools of an MCP server: connected, registered under a prefix, called by a model. This file is the server, too.

Needs the extra: pip install 'loopwright[mcp]'.
"""

import asyncio
import sys

from loopwright import StatefulAgentLoop, ToolRegistry
from loopwright.connectors import StdioMCPClient, register_mcp_tools
from loopwright.testing import ScriptedLLM, calls


def serve() -> None:
    from mcp.server.mcpserver import MCPServer  # noqa: PLC0415 - only the server's process needs it

    server = MCPServer("weather")

    @server.tool()
    def forecast(city: str) -> str:
        """Tomorrow's weather."""
        return f"{city}: rain"

    server.run()


async def main() -> None:
    async with StdioMCPClient(sys.executable, [__file__, "serve"], name="weather") as client:
        tools = ToolRegistry()
        print("tools:", ", ".join(await register_mcp_tools(tools, client, prefix="weather")))
        model = ScriptedLLM(
            [
                calls(("weather_forecast", {"city": "Porto"})),
                lambda request: f"I was told: {request.messages[-1].content}",
            ]
        )
        async with StatefulAgentLoop(llm=model, dsn="mcp.db", tools=tools) as loop:
            result = await loop.send("Do I need an umbrella?")
            print(result.status, "|", result.final_text)


if sys.argv[1:] == ["serve"]:
    serve()
else:
    asyncio.run(main())
