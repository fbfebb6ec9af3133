"""Commands of MCP configs as packages of a `server.json`: what `npx`, `uvx`, `docker run` and their like would install.

A command that is not certain to name a package gives none: the config itself is in the listing's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PackageRunner:
    """A program that fetches and runs packages: its registry, the words after the command that mean running, the flags
    (separated by spaces) that take the next word as their value, and the form of a package's name with its version."""

    registry: str
    words: tuple[tuple[str, ...], ...]
    valued: str
    package: re.Pattern[str]


_VERSION = r"(?P<version>[0-9][0-9A-Za-z.+_-]{0,80}|latest)"
_NPM = re.compile(rf"(?P<name>(?:@[a-z0-9~-][\w.~-]*/)?[a-z0-9~-][\w.~-]*)(?:@{_VERSION})?", re.IGNORECASE)
_PYPI = re.compile(rf"(?P<name>[a-z0-9](?:[\w.-]*[a-z0-9])?)(?:(?:@|==){_VERSION})?", re.IGNORECASE)
_NUGET = re.compile(rf"(?P<name>[a-z0-9_][\w.-]*)(?:@{_VERSION})?", re.IGNORECASE)
_OCI = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9._-]*(?::[0-9]+)?(?:/[a-z0-9._-]+)*(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?)"
    r"(?P<version>(?!))?"
)
_UVX_VALUED = "--with --python -p --index --index-url --extra-index-url --directory --cache-dir"
_DOCKER_VALUED = (
    "-e --env --env-file -v --volume --mount -p --publish --name --network --net -w --workdir -u --user --add-host "
    "--entrypoint --platform -l --label --gpus -m --memory --cpus --pull --restart -h --hostname --device --cap-add "
    "--cap-drop --security-opt --tmpfs --ulimit --dns --ipc --pid --shm-size --log-driver --runtime --volumes-from "
    "--link --expose --group-add --userns --cidfile --stop-signal"
)
_NPX_VALUED = "--registry --prefix --cache"
_npm, _pypi = PackageRunner("npm", ((),), _NPX_VALUED, _NPM), PackageRunner("pypi", ((),), _UVX_VALUED, _PYPI)
_oci = PackageRunner("oci", (("run",), ("container", "run")), _DOCKER_VALUED, _OCI)
_RUNNERS = {
    "npx": _npm, "bunx": _npm, "pnpx": _npm, "uvx": _pypi, "docker": _oci, "podman": _oci,
    "pipx": PackageRunner("pypi", (("run",),), "--pip-args --index-url -i --python", _PYPI),
    "dnx": PackageRunner("nuget", ((),), "--source --configfile", _NUGET),
}  # fmt: skip
_IMPLIED = frozenset(("-y", "--yes", "-i", "--interactive", "-t", "--tty", "-it", "-ti", "--rm"))
"""Flags that clients add by themselves, some of them after the package's name, where they would be its arguments."""

_OTHER_PACKAGE = frozenset(("-p", "--package", "--from", "--spec", "-c", "--call"))
"""Flags by which the first word is no package but a program of another one."""

_SECRET = re.compile(r"KEY|SECRET|TOKEN|PASS|WIF|MNEMONIC|SEED|PRIVATE|CREDENTIAL", re.IGNORECASE)


def package(command: str, args: Sequence[str], env: dict[str, str]) -> dict[str, Any] | None:
    """The package (`Package` of server.json) that a command runs by stdio, None where it is not certain. `env` holds
    the descriptions of variables by name."""
    runtime = command.lower().removesuffix(".cmd").removesuffix(".exe")
    runner = _RUNNERS.get(runtime)
    starts = runner.words if runner else ()
    words = next((words for words in starts if tuple(args[: len(words)]) == words), None)
    if runner is None or words is None:
        return None
    flags, rest = _split(list(args[len(words) :]), runner)
    named = runner.package.fullmatch(rest[0]) if rest else None
    unusual = _OTHER_PACKAGE.difference(runner.valued.split())
    if named is None or unusual.intersection(flag.partition("=")[0] for flag in flags):
        return None
    implied = _IMPLIED.difference(runner.valued.split())
    members: dict[str, Any] = {
        "registryType": runner.registry,
        "identifier": named["name"],
        "version": named["version"] if named["version"] != "latest" else None,
        "runtimeHint": runtime,
        "runtimeArguments": [_positional(flag) for flag in flags if flag not in implied],
        "packageArguments": [*map(_positional, rest[1:])],
        "environmentVariables": [_variable(name, env[name]) for name in env if name],
    }
    return {name: value for name, value in members.items() if value} | {"transport": {"type": "stdio"}}


def _split(args: list[str], runner: PackageRunner) -> tuple[list[str], list[str]]:
    """The flags before the package, with their values, and the package with what follows it."""
    end, valued = 0, runner.valued.split()
    while end < len(args) and args[end].startswith("-"):
        if args[end] == "--":
            return args[:end], args[end + 1 :]
        end += 2 if args[end] in valued else 1
    return args[:end], args[end:]


def _positional(value: str) -> dict[str, str]:
    return {"type": "positional", "value": value}


def _variable(name: str, description: str) -> dict[str, Any]:
    members: dict[str, Any] = {"name": name}
    if description:
        members["description"] = description
    return members | {"isSecret": True} if _SECRET.search(name) else members
