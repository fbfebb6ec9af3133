"""Cards: their types, and parsing of card bytes (A2A agent cards 0.1 to 1.0, MCP configs; laws 12 to 14).

The parsers of the formats are imported when they are called, because most importers only need the types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import quote

from parsers.cards.offers import Offer
from parsers.errors import CardError
from parsers.reasons import Reason

_ENTRY = re.compile(r"eip155:[1-9][0-9]{0,19}:0x[0-9a-f]{40}/(?:0|[1-9][0-9]{0,77})\Z", re.ASCII)


class Kind(StrEnum):
    """The kind of a registration, fixed by the MAP type of its first record (law 4)."""

    AGENT = "agent"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill of an agent. In its texts U+0000 is replaced by U+FFFD; "" stands for null or absent."""

    id: str
    name: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class MotebitClaim(NamedTuple):
    """The Motebit identity that a card claims: its id, its Ed25519 public key (64 lower-case hex digits), and its DID
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
    `motebit` is the Motebit identity that it claims.
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
    motebit: MotebitClaim | None = None
    warnings: tuple[Reason, ...] = ()

    kind = Kind.AGENT


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """One entry of `mcpServers`. `command`, `args` and `url` are untrusted: displayed as such, never executed.

    `env` maps names of variables to descriptions (publishers write descriptions, not values); a value that looks like a
    live secret is replaced by "". `skills` are the tools, so that skill filters match them. `warnings` are those of
    this entry.
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
    keywords: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    skills: tuple[Skill, ...] = ()
    tags: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    warnings: tuple[Reason, ...] = ()

    kind = Kind.TOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConfig:
    """An MCP config: one registration with a listing per server (law 6). `warnings` are those of the whole config."""

    servers: tuple[McpServer, ...]
    warnings: tuple[Reason, ...] = ()

    kind = Kind.TOOL


Card = AgentCard | ToolConfig


class Examination(NamedTuple):
    """The result of parsing card bytes: a card, or the broken hard rules in order of importance; and all warnings."""

    card: Card | None
    errors: tuple[Reason, ...]
    warnings: tuple[Reason, ...]


def read(body: bytes, kind: Kind | None = None, *, entry: str = "") -> Card:
    """Parse card bytes as a card of `kind`; None: a tool if there is a member `mcpServers`, else an agent.

    With the id of an `entry` of an ERC-8004 registry, an object that is neither an agent card nor a config is parsed as
    its registration file. Raises CardError with all broken hard rules, in order of importance (law 12).
    """
    card, errors, _ = examine(body, kind, entry=entry)
    if card is None:
        raise CardError(errors)
    return card


def read_of(id_: str, body: bytes, kind: Kind | None = None) -> Card:
    """Parse card bytes as the card of the registration or pointer with this id.

    For an entry of an ERC-8004 registry they may be a registration file, and the bytes alone decide whether it is an
    agent or a tool; any other id is parsed by `read` with `kind`. Raises CardError.
    """
    return read(body, entry=id_) if is_entry(id_) else read(body, kind)


def examine(body: bytes, kind: Kind | None = None, *, entry: str = "") -> Examination:
    """Like `read`, but also returns the warnings of invalid cards, and never raises."""
    from parsers.cards import agent_card, mcp_config, registration_file
    from parsers.cards.fields import Fields

    value, kind, errors, warnings = _parse(body, kind)
    if errors:
        return Examination(None, errors, ())
    fields = Fields(len(body), warnings)
    card: Card
    if entry and registration_file.is_registration_file(value):
        card = registration_file.read_file(value, fields, entry)
    elif kind is Kind.TOOL:
        card = mcp_config.read_config(value, fields)
    else:
        card = agent_card.read_agent(value, fields)
    warnings = card.warnings
    if isinstance(card, ToolConfig):
        warnings += tuple(warning for server in card.servers for warning in server.warnings)
    errors = tuple(fields.errors)
    return Examination(None if errors else card, errors, warnings)


def faults(body: bytes, kind: Kind | None = None) -> tuple[Reason, ...]:
    """The hard rules that card bytes break, as in the CardError of `read`; empty for a valid card. Never raises.

    It takes a fifth of the time of `read`, and following a chain needs validity only.
    """
    from parsers.cards import agent_card, mcp_config
    from parsers.cards.fields import Fields

    value, kind, errors, _ = _parse(body, kind)
    if errors:
        return errors
    fields = Fields(len(body), ())
    if kind is Kind.TOOL:
        mcp_config.named_servers(value, fields)
    else:
        agent_card.note_broken_rules(value, fields)
    return tuple(fields.errors)


def _parse(body: bytes, kind: Kind | None) -> tuple[dict[str, Any], Kind, tuple[Reason, ...], tuple[Reason, ...]]:
    """The JSON object and its kind, the reasons why it is none, and the warnings about the JSON itself."""
    from parsers.cards import strict_json

    try:
        value, warnings = strict_json.loads(body)
    except CardError as error:
        return {}, Kind.AGENT, error.reasons, ()
    if not isinstance(value, dict):
        return {}, Kind.AGENT, (Reason("card-object"),), ()
    detected = Kind.AGENT if value.get("mcpServers") is None else Kind.TOOL
    return value, kind or detected, (), warnings


def is_entry(id_: str) -> bool:
    """Whether an id is that of an entry of an ERC-8004 registry (law 10)."""
    return _ENTRY.match(id_) is not None


def server_id(registration_id: str, key: str, count: int) -> str:
    """The id of one of a config's `count` servers (law 6): the plain id for a single one, else `<id>#<key>`.

    The key is percent-encoded as UTF-8, except the unreserved characters of RFC 3986.
    """
    return registration_id if count == 1 else f"{registration_id}#{quote(key, safe='')}"
