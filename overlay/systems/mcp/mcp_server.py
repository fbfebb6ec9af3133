"""The tools as a server of the official `mcp` package, which supports every version of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from overlay.systems.mcp.tool_calls import ToolRefusedError, ToolSource, call
from overlay.systems.mcp.tools import INSTRUCTIONS, TOOLS, RegistryTool
from overlay.text.compact_json import encode

MoreTool = Callable[[Any, Mapping[str, Any]], Awaitable[CallToolResult]]
"""The function of a further tool: of the context of a request, and the arguments."""

_ANNOTATIONS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=True)
_LISTED = [
    Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=_ANNOTATIONS,
    )
    for tool in TOOLS
]


IDENTITY_TOOL = Tool(
    name="motebit_identity",
    description="The Motebit identity of this registry.",
    input_schema={"type": "object"},
)


def text_tool(text: str) -> MoreTool:
    """A tool without arguments that answers with this text."""

    async def run(_context: Any, _arguments: Mapping[str, Any]) -> CallToolResult:
        return CallToolResult(content=[TextContent(text=text)])

    return run


def server(
    version: str,
    source: Callable[[Any], ToolSource],
    is_visible: Callable[[Any, RegistryTool], bool] = lambda _context, _tool: True,
    more: Sequence[tuple[Tool, MoreTool]] = (),
) -> Server[Any]:
    """A server of the tools. For the context of a request `source` gives the registry to query, and `is_visible`
    whether a tool is listed; `more` are further tools."""
    schemas = {tool.name: tool.input_schema for tool in TOOLS} | {tool.name: tool.input_schema for tool, _ in more}
    added = {tool.name: (tool, run) for tool, run in more}

    async def list_tools(context: Any, _params: PaginatedRequestParams | None) -> ListToolsResult:
        pairs = zip(TOOLS, _LISTED, strict=True)
        listed = [listed for tool, listed in pairs if is_visible(context, tool)]
        return ListToolsResult(tools=[*listed, *(tool for tool, _ in more)])

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        if params.name in added:
            return await added[params.name][1](context, params.arguments or {})
        if params.name not in (names := [tool.name for tool in TOOLS]):
            raise MCPError(INVALID_PARAMS, f"there is no tool {params.name[:100]!a}; there are {', '.join(names)}")
        try:
            answer = await call(source(context), params.name, params.arguments or {})
        except ToolRefusedError as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)
        return CallToolResult(content=[TextContent(text=encode(answer).decode())], structured_content=answer)

    return Server(
        "a2b-registry",
        version=version,
        title="A2B registry",
        description="AI agents and MCP tools that are registered on chain",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=schemas.get,
    )
