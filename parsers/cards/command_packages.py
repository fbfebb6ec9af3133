"""Commands of MCP configs: the package that `npx`, `uvx`, `docker run` and their like would install.

A command that is not certain to name a package gives none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class PackageRunner:
    """A program that fetches and runs packages of a `registry`. `hint` is the command of one word that runs the same
    packages. `valued` holds the flags that take the next word as their value, separated by spaces; None where no flag
    has the same meaning for `hint`. `package` is the form of a package's name with its version."""

    registry: str
    hint: str
    valued: str | None
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
_npx = PackageRunner("npm", "npx", _NPX_VALUED, _NPM)
_bunx, _pnpx = replace(_npx, hint="bunx"), replace(_npx, hint="pnpx")
_uvx = PackageRunner("pypi", "uvx", _UVX_VALUED, _PYPI)
_docker = PackageRunner("oci", "docker", _DOCKER_VALUED, _OCI)
_podman = replace(_docker, hint="podman")
_dnx = PackageRunner("nuget", "dnx", "--source --configfile", _NUGET)
_RUNNERS = {
    "npx": _npx, "npm exec": _npx, "npm x": _npx, "yarn dlx": replace(_npx, valued=None), "bunx": _bunx, "bun x": _bunx,
    "pnpx": _pnpx, "pnpm dlx": _pnpx, "uvx": _uvx, "uv tool run": _uvx, "pipx run": replace(_uvx, valued=None),
    "docker run": _docker, "docker container run": _docker, "podman run": _podman, "podman container run": _podman,
    "nerdctl run": replace(_docker, hint="nerdctl"), "dnx": _dnx, "dotnet dnx": _dnx, "dotnet tool exec": _dnx,
}  # fmt: skip
_ENDS_FLAGS = ("npm", "dnx", "dotnet")
"""Programs that take a `--` between the package and its arguments for themselves."""

_IMPLIED = frozenset(("-y", "--yes", "-i", "--interactive", "-t", "--tty", "-it", "-ti", "--rm"))
"""Flags that clients add by themselves, some of them after the package's name, where they would be its arguments."""

_OTHER_PACKAGE = frozenset(("-p", "--package", "--from", "--spec", "-c", "--call"))
"""Flags by which the first word is not a package but a program of another one."""

_SHELLS = {"cmd": ("/c",), "sh": ("-c", "-lc"), "bash": ("-c", "-lc"), "zsh": ("-c", "-lc")}
_SYNTAX = re.compile(r"""["'`$&|;<>(){}*?!~#\n\\]""")
_SYNTAX_OF_CMD = re.compile(r"""["&|<>^%\n]""")
"""Characters that a shell does not take as written."""

_ABSOLUTE = re.compile(r"/|~[\\/]|\\\\|[A-Za-z]:[\\/]|%\w+%[\\/]|\$\{?(?:env:)?\w+\}?[\\/]")
MOST_WRAPPED = 4


LAUNCHERS = (
    "npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "bun", "node", "deno", "uvx", "uv", "pipx", "python", "docker",
    "podman", "nerdctl", "dnx", "dotnet", "java", "go",
)  # fmt: skip
"""Programs that start tools, and that people have installed."""

_PYTHON = re.compile(r"python[0-9.]{1,6}|py")


class Installed(NamedTuple):
    """A package as a command runs it: its runner, the argument that names it, its name and version ("" for none), the
    flags before it that clients do not add by themselves, and the arguments after it."""

    runner: PackageRunner
    argument: str
    name: str
    version: str
    flags: list[str]
    arguments: list[str]


def installed(command: str, args: Sequence[str]) -> Installed | None:
    """The package that a command runs, None where it is not certain."""
    words = _unwrapped([command, *args]) if command else []
    count = next((count for count in (3, 2, 1) if " ".join(words[:count]) in _RUNNERS), 0)
    if not count or not all(words):  # a server.json has no empty argument
        return None
    runner = _RUNNERS[" ".join(words[:count])]
    flags, rest = _split(words[count:], (runner.valued or "").split())
    named = runner.package.fullmatch(rest[0]) if rest else None
    if named is None or not _is_certain(flags, runner):
        return None
    version = "" if named["version"] in (None, "latest") else named["version"]
    ends = words[0] in _ENDS_FLAGS and rest[1:2] == ["--"]
    return Installed(runner, rest[0], named["name"], version, flags, rest[2 if ends else 1 :])


def program(command: str, args: Sequence[str]) -> str:
    """The program that a command starts, by its name in lower case, without a shell or `env` before it; every version
    of Python is `python`. "" where that is not certain."""
    words = _unwrapped([command, *args]) if command else []
    name = words[0] if words else ""
    return "python" if _PYTHON.fullmatch(name) else name


def package_key(name: str) -> str:
    """A package's name, perhaps with its version, in the compared form: without version, case, and the registry that
    Docker implies; in names without a slash `-`, `_` and `.` are equal, as on PyPI."""
    name = re.split("==|(?<=.)@", name.lower())[0].removeprefix("docker.io/").removeprefix("library/")
    owner, slash, last = name.rpartition("/")
    last = last.partition(":")[0]
    return f"{owner}/{last}" if slash else re.sub("[-_.]+", "-", last)


def _is_certain(flags: list[str], runner: PackageRunner) -> bool:
    """Whether the first word after the flags is the package, and the flags have the same meaning for the hint."""
    if runner.valued is None:
        return not flags
    unusual = _OTHER_PACKAGE.difference(runner.valued.split())
    return not unusual.intersection(flag.partition("=")[0] for flag in flags)


def _unwrapped(words: list[str]) -> list[str]:
    """The words of a command without a shell or `env` before them, its program by name; none where a shell would take
    them otherwise."""
    for _ in range(MOST_WRAPPED):
        program = _program(words[0])
        if program in _SHELLS and len(words) > 2 and words[1].lower() in _SHELLS[program]:
            words = words[2:] if program == "cmd" else words[2:3]
            if any(map(_SYNTAX_OF_CMD.search if program == "cmd" else _SYNTAX.search, words)):
                return []
        elif program == "env" and len(words) > 1 and words[1].isidentifier():
            words = words[1:]
        elif len(script := words[0].split()) > 1 and not _ABSOLUTE.match(words[0]):
            words = [] if _SYNTAX.search(words[0]) else [*script, *words[1:]]
        else:
            return [program, *words[1:]]
        if not words:
            return []
    return []


def _program(command: str) -> str:
    """The name of a program, also where its absolute path is written; at a relative path, anybody's program may be."""
    if command.isalnum():
        return command.lower()
    name = re.split(r"[\\/]", command)[-1] if _ABSOLUTE.match(command) else command
    return re.sub(r"\.(?:cmd|exe|bat|ps1)$", "", name.lower())


def _split(args: list[str], valued: list[str]) -> tuple[list[str], list[str]]:
    """The flags before the package, with their values and without the flags that clients add, and the package with its
    arguments."""
    flags: list[str] = []
    end = 0
    while end < len(args) and args[end].startswith("-") and args[end] != "--":
        size = 2 if args[end] in valued else 1
        flags += args[end : end + size] if size == 2 or args[end] not in _IMPLIED else []
        end += size
    return flags, args[end + 1 :] if args[end : end + 1] == ["--"] else args[end:]
