"""Cards: agents, and tool configs with their servers; and the ids of what they list."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import quote

from parsers.cards.deprecation import Deprecation
from parsers.cards.offers import Offer
from parsers.reasons import Reason

_ENTRY = re.compile(r"eip155:[1-9][0-9]{0,19}:0x[0-9a-f]{40}/(?:0|[1-9][0-9]{0,77})\Z", re.ASCII)


class Kind(StrEnum):
    """The kind of a registration, fixed by the MAP type of its first record (law 4)."""

    AGENT = "agent"
    TOOL = "tool"


KINDS = {"a2b": Kind.AGENT, "a2b-agent": Kind.AGENT, "a2b-mcp": Kind.TOOL}
"""The kind that each MAP type of the registry names."""


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill of an agent. In its texts U+0000 is replaced by U+FFFD; "" means null or absent."""

    id: str
    name: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class IdentityStatement(NamedTuple):
    """The Motebit identity that a card states: its id, its Ed25519 public key (64 lower-case hex digits), and its DID
    ("" for none)."""

    motebit_id: str
    public_key: str
    did: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCard:
    """An A2A agent card. `protocol` is the detected A2A version (0.1, 0.2, 0.3 or 1.0), or ERC-8004 for a registration
    file.

    `interfaces` have the members of A2A 1.0 (`url`, `protocolBinding`, `protocolVersion`, `tenant`) in every version.
    `capabilities` holds the boolean ones and `extensions` (`uri`, `description`, `required`). `tags` are those of the
    card and of its skills, without repetitions regardless of case, spelt as first written.
    `motebit` is the Motebit identity that it states, `deprecated` its owner's notice. `auth` is what a client needs, as
    far as the card says (`parsers.cards.usage.AUTH`).
    """

    name: str
    description: str = ""
    version: str = ""
    url: str = ""
    protocol: str
    logo: str = ""
    provider: dict[str, str] = field(default_factory=dict)
    documentation_url: str = ""
    interfaces: tuple[dict[str, Any], ...] = ()
    capabilities: dict[str, Any] = field(default_factory=dict)
    skills: tuple[Skill, ...] = ()
    tags: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    motebit: IdentityStatement | None = None
    auth: tuple[str, ...] = ()
    deprecated: Deprecation | None = None
    warnings: tuple[Reason, ...] = ()

    kind = Kind.AGENT


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """One entry of `mcpServers`. `command`, `args` and `url` are untrusted: displayed with a mark, never executed.

    `env` maps names of variables to descriptions (publishers write descriptions, not values); a value that looks like a
    live secret is replaced by "". `headers` are those that the url needs, treated alike. `transport` is the stated one:
    `stdio`, `streamable-http`, `sse`, or "". `skills` are the tools, so that skill filters match them. `warnings` are
    those of this entry; `deprecated` is the owner's notice in the config around it.
    """

    key: str
    name: str
    description: str = ""
    version: str = ""
    url: str = ""
    logo: str = ""
    provider: dict[str, str] = field(default_factory=dict)
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    transport: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    keywords: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    skills: tuple[Skill, ...] = ()
    tags: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    deprecated: Deprecation | None = None
    warnings: tuple[Reason, ...] = ()

    kind = Kind.TOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConfig:
    """An MCP config: one registration with a listing per server (law 6). `warnings` are those of the whole config."""

    servers: tuple[McpServer, ...]
    warnings: tuple[Reason, ...] = ()

    kind = Kind.TOOL


Card = AgentCard | ToolConfig


def is_entry(id_: str) -> bool:
    """Whether an id is that of an entry of an ERC-8004 registry (law 10)."""
    return _ENTRY.match(id_) is not None


def server_id(registration_id: str, key: str, count: int) -> str:
    """The id of one of a config's `count` servers (law 6): the plain id for a single one, else `<id>#<key>`.

    The key is percent-encoded as UTF-8, except the unreserved characters of RFC 3986; of a key of digits only, the
    first digit is encoded, too: `#` and a number belong to the id of a registration (law 3a).
    """
    return registration_id if count == 1 else f"{registration_id}#{encoded_key(key)}"


def encoded_key(key: str) -> str:
    """The name of a server as it is in ids."""
    text = quote(key, safe="", errors="surrogatepass")
    return f"%{ord(text[0]):X}{text[1:]}" if text.isdecimal() else text


def split_id(id_: str) -> tuple[str, str | None]:
    """The id of a listing as that of its registration, which may end in `#` and a number, and the encoded name of one
    of several servers, None without one."""
    base, separator, rest = id_.partition("#")
    number, second, key = rest.partition("#")
    if number.isascii() and number.isdecimal():
        return f"{base}#{number}", key if second else None
    return base, rest if separator else None
