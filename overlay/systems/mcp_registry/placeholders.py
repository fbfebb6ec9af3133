"""Placeholders of MCP configs as variables of a `server.json`, where templates name them as `{NAME}`.

Clients write `${NAME}`, `${NAME:-default}` (Claude Code), `${env:NAME}` (Cursor, Windsurf), `${input:NAME}` (VS Code),
`{env:NAME}` (OpenCode) and `$NAME` (Gemini CLI); their documentation has `<NAME>`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,79}"
_PLACEHOLDER = re.compile(
    rf"\$\{{(?:env[:.]|input:)?({_NAME}?)(?::?-[^{{}}]*)?\}}|\{{\{{\s*({_NAME})\s*\}}\}}|\{{(?:env:|input:)?({_NAME})\}}"
    r"|<([A-Za-z][\w .-]{0,79})>|\$([A-Z][A-Z0-9_]+)\b",
    re.ASCII,
)
_SECRET = re.compile(
    r"KEY|SECRET|TOKEN|PASS|WIF|MNEMONIC|SEED|PRIVATE|CREDENTIAL|AUTH|COOKIE|SESSION|SIGNATURE", re.IGNORECASE
)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # a token (RFC 9110)


class Template(NamedTuple):
    """A text with its variables in braces, and their names."""

    text: str
    names: tuple[str, ...]

    def variables(self, *, secret: bool = False) -> dict[str, Any]:
        """The variables as inputs."""
        return {name: {"isRequired": True} | _secret(secret or is_secret(name)) for name in self.names}


def read_template(text: str) -> Template | None:
    """A text with its placeholders as variables; None where other braces are in it."""
    names: dict[str, None] = {}

    def named(match: re.Match[str]) -> str:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", next(filter(None, match.groups())))
        names[name] = None
        return f"{{{name}}}"

    template = _PLACEHOLDER.sub(named, text)
    rest = template
    for name in names:
        rest = rest.replace(f"{{{name}}}", "")
    return None if "{" in rest or "}" in rest else Template(template, tuple(names))


def is_secret(name: str) -> bool:
    """Whether a variable or header of this name has a secret value."""
    return _SECRET.search(name) is not None


def header(name: str, value: str) -> dict[str, Any] | None:
    """A header of a remote, None for an invalid name. A secret value is shown only with placeholders."""
    if not _HEADER.fullmatch(name):
        return None
    template = read_template(value) if value.isprintable() else None
    names = template.names if template else ()
    members = {"name": name, "isRequired": True} | _secret(bool(names) or is_secret(name))
    if template is None or not (names or (value and not is_secret(name))):
        return members
    return members | {"value": template.text} | ({"variables": template.variables(secret=True)} if names else {})


def _secret(is_so: bool) -> dict[str, bool]:
    return {"isSecret": True} if is_so else {}
