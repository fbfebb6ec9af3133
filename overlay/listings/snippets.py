"""How to use a listing, as texts to copy: settings of MCP clients, and a call of an agent.

They are written of a stranger's card. Its texts are JSON strings in settings, and quoted in a shell line; what is
invisible is escaped, so that the copied text is the one that was read; no value of a variable or header is of the card.
Clients that replace `${NAME}` get no settings from a card with such a text, which could read their secrets into a
request. Forms of settings: the documentation of Claude, Cursor, VS Code and `mcp-remote`, 2026-11.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from shlex import quote
from typing import Any
from urllib.parse import urlsplit

from overlay.answers.usage_snippets import UsageSnippet, UsageSnippets
from overlay.listings.listing import Listing
from overlay.text.safe_text import visible_in_json
from parsers.cards import AgentCard, McpServer

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
_PLAIN_URL = re.compile(r"https?://[!-~]+")
_RPC_BINDINGS = ("", "JSONRPC")
_TEXT = "What can you do for me?"

Values = Callable[[str], str]


def usage(listing: Listing) -> UsageSnippets:
    """The texts for a listing: none for one with a warning of high severity, nor where nothing says how to use it."""
    card = listing.card
    if listing.is_flagged:
        return UsageSnippets(id=listing.id, snippets=(), why="A warning of high severity says to look at it first.")
    snippets = tuple(_of_tool(card) if isinstance(card, McpServer) else _of_agent(listing.id, card))
    why = "" if snippets else "Its card has no command and no URL that a program can use as it is."
    return UsageSnippets(id=listing.id, snippets=snippets, why=why)


def _of_tool(server: McpServer) -> Iterator[UsageSnippet]:
    if not (server.command or server.url):
        return
    remote = not server.command
    yield _settings("Claude Desktop", "claude_desktop_config.json", server, _empty, bridge=remote)
    texts = (server.key, server.command, server.url, *server.args, *server.env, *server.headers)
    if not any("$" in text for text in texts):  # which these clients replace by values of variables
        yield _settings("Claude Code", ".mcp.json", server, _named("${%s}"), is_typed=remote)
        yield _settings("Cursor", "~/.cursor/mcp.json", server, _named("${env:%s}"))
        yield _of_vs_code(server)
    yield _settings("other MCP clients", "", server, _empty, is_typed=remote and bool(server.transport))


def _empty(_name: str) -> str:
    return ""


def _named(form: str) -> Values:
    """The reference to a variable in this form; none to a name that no variable has."""
    return lambda name: form % _variable(name) if _VARIABLE.fullmatch(_variable(name)) else ""


def _variable(name: str) -> str:
    """The name of the variable for an environment variable or a header: `X-Api-Key` is `X_API_KEY`."""
    return name if _VARIABLE.fullmatch(name) else re.sub(r"\W", "_", name, flags=re.ASCII).upper()


def _settings(
    title: str, file: str, server: McpServer, values: Values, *, is_typed: bool = False, bridge: bool = False
) -> UsageSnippet:
    """The entry of `mcpServers`. `bridge`: the client starts `mcp-remote` for a URL."""
    entry = _bridged(server) if bridge else _entry(server, values, is_typed=is_typed)
    return _in_json(title, file, {"mcpServers": {server.key: entry}})


def _entry(server: McpServer, values: Values, *, is_typed: bool) -> dict[str, Any]:
    if server.command:
        entry: dict[str, Any] = {"command": server.command, "args": list(server.args)}
        return entry | ({"env": {name: values(name) for name in server.env}} if server.env else {})
    entry = {"type": "sse" if server.transport == "sse" else "http"} if is_typed else {}
    entry["url"] = server.url
    return entry | ({"headers": {name: values(name) for name in server.headers}} if server.headers else {})


def _bridged(server: McpServer) -> dict[str, Any]:
    """A command that reaches a URL, for a client whose settings have commands only. It reads headers from its
    environment, as a space in an argument breaks them on some systems."""
    names = {name: _variable(name) for name in server.headers if re.fullmatch(r"[!-9;-~]+", name) and "$" not in name}
    headers = [argument for name, variable in names.items() for argument in ("--header", f"{name}:${{{variable}}}")]
    entry: dict[str, Any] = {"command": "npx", "args": ["-y", "mcp-remote", server.url, *headers]}
    return entry | ({"env": dict.fromkeys(names.values(), "")} if names else {})


def _of_vs_code(server: McpServer) -> UsageSnippet:
    """The entry of `servers`, with an input for each value, which the client asks for and keeps secret."""
    names = server.env if server.command else server.headers
    inputs = [
        {"type": "promptString", "id": _variable(name), "description": name, "password": True}
        for name in names
        if _VARIABLE.fullmatch(_variable(name))
    ]
    entry = _entry(server, _named("${input:%s}"), is_typed=True)
    if server.command:
        entry = {"type": "stdio", **entry}
    settings = {"servers": {server.key: entry}}
    return _in_json("VS Code", ".vscode/mcp.json", ({"inputs": inputs} if inputs else {}) | settings)


def _in_json(title: str, file: str, settings: Mapping[str, Any]) -> UsageSnippet:
    text = visible_in_json(json.dumps(settings, indent=2, ensure_ascii=False))
    return UsageSnippet(title=title, file=file, language="json", text=text)


def _of_agent(id_: str, card: AgentCard) -> Iterator[UsageSnippet]:
    """A hire by the command line, and a call by curl and by Python: the first message of A2A over JSON-RPC, in the
    version of the card."""
    binding = next((entry.get("protocolBinding", "") for entry in card.interfaces if entry["url"] == card.url), "")
    if not _PLAIN_URL.fullmatch(card.url) or not urlsplit(card.url).netloc or binding.upper() not in _RPC_BINDINGS:
        return
    call, headers = _call(card.protocol)
    priced = any(offer.amount > 0 for offer in card.offers)
    lines = [f"curl -sS -i {quote(card.url)}"]
    lines += [f"-H {quote(f'{name}: {value}')}" for name, value in headers.items()]
    lines.append(f"-d {quote(json.dumps(call))}")
    note = ("# It has prices: 402 says what to pay, and the call is sent again with the payment.\n",) if priced else ()
    yield UsageSnippet(
        title="a2b", file="", language="shell", text=f"printf %s {quote(_TEXT)} | a2b hire {quote(id_)} --input -"
    )
    yield UsageSnippet(title="curl", file="", language="shell", text="".join(note) + " \\\n  ".join(lines))
    yield UsageSnippet(title="Python", file="", language="python", text=_in_python(card.url, call, headers, priced))


def _call(protocol: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The JSON-RPC request that sends a text to an agent of this version of A2A, and its headers."""
    headers = {"Content-Type": "application/json"}
    message: dict[str, Any] = {"messageId": "1", "role": "user", "parts": [{"kind": "text", "text": _TEXT}]}
    if protocol == "0.1":
        method, message = "tasks/send", {"role": "user", "parts": [{"type": "text", "text": _TEXT}]}
        params: dict[str, Any] = {"id": "1", "message": message}
    elif protocol == "1.0":
        method, params = "SendMessage", {"message": message | {"role": "ROLE_USER", "parts": [{"text": _TEXT}]}}
        headers["A2A-Version"] = "1.0"
    else:
        method, params = "message/send", {"message": {"kind": "message", **message}}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers


def _in_python(url: str, call: Mapping[str, Any], headers: Mapping[str, str], priced: bool) -> str:
    request = json.dumps(call, indent=4).replace("\n", "\n    ")
    more = {name: value for name, value in headers.items() if name != "Content-Type"}
    with_headers = f"    headers={json.dumps(more)},\n" if more else ""
    note = "  # 402: it says what to pay, and the call is sent again with the payment" if priced else ""
    return (
        f"import httpx\n\nanswer = httpx.post(\n    {url!a},\n    json={request},\n{with_headers}    timeout=60,\n)\n"
        f"print(answer.status_code, answer.json()){note}\n"
    )
