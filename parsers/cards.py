"""JSON to cards: A2A agent cards 0.1 to 1.0 and MCP configs, with their offers (laws 12 to 14)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from parsers.offers import Offer
from parsers.reasons import Reason


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
    """An A2A agent card. `protocol` is the A2A version detected: 0.1, 0.2, 0.3 or 1.0."""

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

    `env` maps variable names to descriptions (in the field, values are descriptions, not values).
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
    """An MCP config: one registration, listed once per server (law 6)."""

    servers: tuple[Server, ...]
    warnings: tuple[Reason, ...] = ()

    kind = Kind.TOOL


Card = AgentCard | ToolConfig
