"""Parse card bytes (A2A agent cards 0.1 to 1.0, MCP configs, registration files; laws 12 to 14)."""

from __future__ import annotations

from typing import Any, NamedTuple

from parsers.cards import agent_card, mcp_config, registration_file, strict_json
from parsers.cards.card import Card, Kind, ToolConfig, is_entry
from parsers.cards.fields import Fields
from parsers.errors import CardError
from parsers.reasons import Reason


class Examination(NamedTuple):
    """The result of parsing card bytes: a card, or the broken hard rules in order of importance; and all warnings."""

    card: Card | None
    errors: tuple[Reason, ...]
    warnings: tuple[Reason, ...]


def read(body: bytes, kind: Kind | None = None, *, entry: str = "") -> Card:
    """Parse card bytes as a card of `kind`; None: a tool if there is a member `mcpServers`, or what some take for it,
    else an agent.

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
    """The JSON object and its kind, the reasons why it is not one, and the warnings about the JSON itself."""
    try:
        value, warnings = strict_json.loads(body)
    except CardError as error:
        return {}, Kind.AGENT, error.reasons, ()
    if not isinstance(value, dict):
        return {}, Kind.AGENT, (Reason("card-object"),), ()
    is_tool = value.get("mcpServers") is not None or mcp_config.other_form(value) != ""
    return value, kind or (Kind.TOOL if is_tool else Kind.AGENT), (), warnings
