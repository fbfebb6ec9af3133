"""Agent cards and tool configs: JSON to records, their offers, and the meaning of prices."""

from __future__ import annotations

from parsers.cards.card import (
    AgentCard,
    Card,
    IdentityStatement,
    Kind,
    McpServer,
    Skill,
    ToolConfig,
    encoded_key,
    is_entry,
    server_id,
    split_id,
)
from parsers.cards.card_reader import Examination, examine, faults, read, read_of
from parsers.cards.summary import summary

__all__ = [
    "AgentCard", "Card", "Examination", "IdentityStatement", "Kind", "McpServer", "Skill", "ToolConfig", "encoded_key",
    "examine", "faults", "is_entry", "read", "read_of", "server_id", "split_id", "summary",
]  # fmt: skip
