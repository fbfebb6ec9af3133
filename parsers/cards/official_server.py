"""A `server.json` of the MCP Registry as an MCP config: its first remote, or the command of its first package."""

from __future__ import annotations

from typing import Any

from parsers.cards.fields import Json

_COMMANDS = {
    "npm": ("npx", ("-y",), "@"), "pypi": ("uvx", (), "@"), "oci": ("docker", ("run", "-i", "--rm"), ":"),
    "nuget": ("dnx", (), "@"),
}  # fmt: skip
"""By type of registry: the command that runs its packages, its first arguments, and what stands before a version."""


def config_of(value: Any) -> Json | None:
    """The config of a `server.json`, or of an answer of the registry that holds one as `server`; None for another
    object, and where it names neither a remote nor a package that a command runs. Values that a user chooses are left
    out, and variables and headers have their descriptions."""
    server = value.get("server", value) if isinstance(value, dict) else None
    if not isinstance(server, dict) or not isinstance(server.get("name"), str) or "mcpServers" in server:
        return None
    entry = next(filter(None, map(_remote, _objects(server, "remotes"))), None)
    entry = entry or next(filter(None, map(_package, _objects(server, "packages"))), None)
    if entry is None:
        return None
    about = {name: server[name] for name in ("description", "version") if isinstance(server.get(name), str)}
    return {"mcpServers": {server["name"].rpartition("/")[2] or server["name"]: about | entry}}


def _remote(remote: Json) -> Json | None:
    url, kind = remote.get("url"), remote.get("type")
    if not isinstance(url, str):
        return None
    headers = _described(remote, "headers")
    return {"url": url} | ({"type": kind} if isinstance(kind, str) else {}) | ({"headers": headers} if headers else {})


def _package(package: Json) -> Json | None:
    kind, identifier, version = (package.get(name) for name in ("registryType", "identifier", "version"))
    if kind not in _COMMANDS or not isinstance(identifier, str):
        return None
    command, first, mark = _COMMANDS[kind]
    env = _described(package, "environmentVariables")
    if kind == "oci":
        first = (*first, *(word for name in env for word in ("-e", name)))
        version = None if ":" in identifier.rpartition("/")[2] or "@" in identifier else version
    named = f"{identifier}{mark}{version}" if isinstance(version, str) and version else identifier
    args = [*first, named, *(word for argument in _objects(package, "packageArguments") for word in _words(argument))]
    return {"command": command, "args": args} | ({"env": env} if env else {})


def _words(argument: Json) -> list[str]:
    """The words of an argument with a fixed value."""
    value, name = argument.get("value"), argument.get("name")
    if not isinstance(value, str):
        return []
    return [name, value] if argument.get("type") == "named" and isinstance(name, str) else [value]


def _described(value: Json, member: str) -> dict[str, str]:
    """The descriptions of variables or headers by name."""
    return {
        entry["name"]: str(entry.get("description") or "")
        for entry in _objects(value, member)
        if isinstance(entry.get("name"), str)
    }


def _objects(value: Json, member: str) -> list[Json]:
    entries = value.get(member)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
