"""Commands of MCP configs as packages of a `server.json`. Where none is certain, the config itself is in the listing's
metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from overlay.systems.mcp_registry.official_rules import is_version
from overlay.systems.mcp_registry.placeholders import is_secret
from parsers.cards.command_packages import installed


def package(command: str, args: Sequence[str], env: dict[str, str]) -> dict[str, Any] | None:
    """The package (`Package` of server.json) that a command runs by stdio, None where it is not certain. `env` holds
    the descriptions of variables by name."""
    run = installed(command, args)
    if run is None or (run.version and not is_version(run.version)):
        return None
    members: dict[str, Any] = {
        "registryType": run.runner.registry,
        "identifier": run.name,
        "version": run.version,
        "runtimeHint": run.runner.hint,
        "runtimeArguments": [*map(_positional, run.flags)],
        "packageArguments": [*map(_positional, run.arguments)],
        "environmentVariables": [_variable(name, env[name]) for name in env if name],
    }
    return {name: value for name, value in members.items() if value} | {"transport": {"type": "stdio"}}


def _positional(value: str) -> dict[str, str]:
    return {"type": "positional", "value": value}


def _variable(name: str, description: str) -> dict[str, Any]:
    members: dict[str, Any] = {"name": name}
    if description:
        members["description"] = description
    return members | {"isSecret": True} if is_secret(name) else members
