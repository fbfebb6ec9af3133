"""JSON to cards: A2A agent cards 0.1 to 1.0 and MCP configs, with their offers (laws 12 to 14).

The types stand here, so that who only shows or finds cards does not load what reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import quote

from parsers.errors import CardError
from parsers.offers import Offer
from parsers.reasons import Reason
from parsers.summary import summary

__all__ = [
    "AgentCard", "Card", "Examination", "Kind", "Server", "Skill", "ToolConfig",
    "examine", "faults", "read", "read_of", "server_id", "summary",
]  # fmt: skip


class Kind(StrEnum):
    """What a registration is: decided by the MAP type of its first record, for ever (law 4)."""

    AGENT = "agent"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill of an agent. Texts are derived: U+0000 is U+FFFD, null is absent."""

    id: str
    name: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCard:
    """An A2A agent card. `protocol` is the A2A version detected: 0.1, 0.2, 0.3 or 1.0; of a registration file ERC-8004.

    `interfaces` have the members of A2A 1.0 (`url`, `protocolBinding`, `protocolVersion`, `tenant`), whatever the
    version. `capabilities` holds the boolean ones and `extensions` (`uri`, `description`, `required`). `tags` are the
    card's own and those of its skills, each once whatever its case, spelt as first written.
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
    warnings: tuple[Reason, ...] = ()

    kind = Kind.AGENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One entry of `mcpServers`. `command`, `args` and `url` are a stranger's: shown as untrusted, never executed.

    `env` maps variable names to descriptions (in the field, values are descriptions, not values); what looks like a
    live secret is left out of it. `skills` are the tools, so that a skill filter finds them. `warnings` are about this
    entry.
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
    """An MCP config: one registration, listed once per server (law 6). `warnings` are those of no single server."""

    servers: tuple[Server, ...]
    warnings: tuple[Reason, ...] = ()

    kind = Kind.TOOL


Card = AgentCard | ToolConfig


class Examination(NamedTuple):
    """What card bytes are worth: a card, or the hard rules they break, in order of importance; and all warnings."""

    card: Card | None
    errors: tuple[Reason, ...]
    warnings: tuple[Reason, ...]


def read(body: bytes, kind: Kind | None = None, *, entry: str = "") -> Card:
    """Read card bytes as a card of `kind`; None: a tool when there is a member `mcpServers`, else an agent.

    With the name of an `entry` of an ERC-8004 registry, what is neither an agent card nor a config is read as its
    registration file. Raises CardError with every hard rule broken, in order of importance (law 12).
    """
    card, errors, _ = examine(body, kind, entry=entry)
    if card is None:
        raise CardError(errors)
    return card


def read_of(id_: str, body: bytes, kind: Kind | None = None) -> Card:
    """Read card bytes as what the registration or pointer of this id may carry.

    To an entry of an ERC-8004 registry that is also a registration file, and the card alone decides whether it is an
    agent or a tool. To every other it is what `read` reads. Raises CardError.
    """
    from parsers.erc8004 import is_entry

    return read(body, entry=id_) if is_entry(id_) else read(body, kind)


def examine(body: bytes, kind: Kind | None = None, *, entry: str = "") -> Examination:
    """Like `read`, for who wants the warnings also of what is no card. Never raises."""
    from parsers import agent_card, mcp_config, registration_file
    from parsers.fields import Fields

    value, kind, errors, warnings = _parse(body, kind)
    if errors:
        return Examination(None, errors, ())
    fields = Fields(len(body), warnings)
    card: Card
    if entry and registration_file.is_one(value):
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
    """The hard rules that card bytes break, those of `read`'s CardError; none for a card. Never raises.

    Validity is all that the chain decides: this takes a fifth of the time of reading the card.
    """
    from parsers import agent_card, mcp_config
    from parsers.fields import Fields

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
    """The object that the bytes are and its kind, or why they are none; and the warnings of the JSON itself."""
    from parsers import strict_json

    try:
        value, warnings = strict_json.loads(body)
    except CardError as error:
        return {}, Kind.AGENT, error.reasons, ()
    if not isinstance(value, dict):
        return {}, Kind.AGENT, (Reason("card-object"),), ()
    told = Kind.AGENT if value.get("mcpServers") is None else Kind.TOOL
    return value, kind or told, (), warnings


def server_id(registration_id: str, key: str, count: int) -> str:
    """The id of one of a config's `count` servers (law 6): the plain id of an only one, else `<id>#<key>`.

    The key is percent-encoded as UTF-8, all but the unreserved characters of RFC 3986.
    """
    return registration_id if count == 1 else f"{registration_id}#{quote(key, safe='')}"
