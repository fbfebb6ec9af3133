"""ERC-8004 registration files as cards: an agent with its services, or a tool if MCP is its only protocol.

A file has fewer members than an AgentCard: only its name is required, all else is a warning (EIP-8004, "Agent URI and
Agent Registration File"). The members `a2aSkills`, `mcpTools`, `mcpPrompts` and `mcpResources` of services are those of
the Agent0 SDK.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from parsers.cards.agent_card import MAX_INTERFACES, MAX_SKILLS, MAX_TAGS, merge_tags
from parsers.cards.card import AgentCard, Card, McpServer, Skill, ToolConfig
from parsers.cards.deprecation import read_deprecation
from parsers.cards.fields import MAX_TEXT, Fields, Json
from parsers.cards.findings import note_private, note_texts
from parsers.cards.offers import read_offers

PROTOCOL = "ERC-8004"
TYPE = "https://eips.ethereum.org/EIPS/eip-8004#registration-v1"

_TAXONOMY = "OASF"
"""The name of services that classify the agent: their endpoint is that of the taxonomy (Agent0 SDK), and may be
missing."""

_SPELLINGS = {"a2a": "A2A", "mcp": "MCP", "oasf": _TAXONOMY, "web": "web", "ens": "ENS", "did": "DID", "email": "email"}
_SKILLS = ("a2aSkills", "mcpTools", "tools", "skills")  # in the order in which they are listed as skills
_NAMES = ("id", "name")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}+://[^\s/?#]++\S*+\Z")
_LONGEST_NAME = 100


class Service(NamedTuple):
    """One service: its JSON pointer, its name (spelt as in EIP-8004 if it is known there), endpoint and JSON object."""

    pointer: str
    name: str
    endpoint: str
    version: str
    value: Json


def is_registration_file(value: Json) -> bool:
    """Whether the JSON object of a registry entry is a registration file, and not an A2A card or an MCP config."""
    if value.get("mcpServers") is not None:
        return False
    stated = value.get("type")
    return (isinstance(stated, str) and "8004" in stated) or not isinstance(value.get("skills"), list)


def read_file(file: Json, fields: Fields, entry: str = "") -> Card:
    """Parse a registration file; `entry` is the id of the registry entry that it belongs to (law 10).

    Broken hard rules are added to `fields.errors`; the returned card is not valid then.
    """
    note_broken_rules(file, fields)
    note_texts(file, fields)
    name, description = fields.text(file, "name"), fields.text(file, "description")
    services = list(_services(file, fields))
    _note_missing(file, fields, entry)
    if not any(service.name == "A2A" for service in services) and any(service.name == "MCP" for service in services):
        return _tool(name, description, file, services, fields)
    return _agent(name, description, file, services, fields)


def note_broken_rules(file: Json, fields: Fields) -> None:
    """Add the only hard rule, a name, if it is broken."""
    name = file.get("name")
    if not isinstance(name, str) or not name or name.isspace():
        fields.error("card-name", "" if name is None else "the name is blank or no text", "/name")


def _services(file: Json, fields: Fields) -> Iterator[Service]:
    """The services with an endpoint, and the services of the taxonomy, in order; older files call the list
    `endpoints`."""
    key = "services" if file.get("services") or file.get("endpoints") is None else "endpoints"
    if key == "endpoints":
        fields.warn("tolerated", "endpoints instead of services", "/endpoints")
    for number, (pointer, value) in enumerate(fields.objects(file, key)):
        if number == MAX_INTERFACES:
            fields.not_indexed(f"only the first {MAX_INTERFACES} services", f"/{key}")
            return
        endpoint = fields.text(value, "endpoint", pointer) or fields.text(value, "url", pointer)
        name = (fields.text(value, "name", pointer) or fields.text(value, "type", pointer))[:_LONGEST_NAME]
        name = _SPELLINGS.get(name.lower(), name)
        if (not endpoint or endpoint.isspace()) and name != _TAXONOMY:
            fields.warn("missing", "endpoint of a service", f"{pointer}/endpoint")
            continue
        version = fields.text(value, "version", pointer)
        note_private(endpoint.strip(), fields, f"{pointer}/endpoint")
        yield Service(pointer, name, endpoint.strip(), version, value)


def _note_missing(file: Json, fields: Fields, entry: str) -> None:
    for key in ("type", "description", "image", "services"):
        if file.get(key) is None and not (key == "services" and file.get("endpoints") is not None):
            fields.warn("missing", f"{key}, which ERC-8004 requires", f"/{key}")
    if isinstance(file.get("type"), str) and file["type"] != TYPE:
        fields.warn("tolerated", f"the type {file['type'][:100]}", "/type")
    if file.get("active") is False:
        fields.warn("inactive", "", "/active")
    named = list(_registrations(file))
    if entry and named and entry not in named:
        fields.warn("entry-unnamed", f"{entry}, but {named[0]}", "/registrations")


def _registrations(file: Json) -> Iterator[str]:
    """The ids of the registry entries that the file names as its own, without incomplete ones."""
    registrations = file.get("registrations")
    for registration in registrations[:MAX_INTERFACES] if isinstance(registrations, list) else ():
        agent = registration.get("agentId") if isinstance(registration, dict) else None
        registry = registration.get("agentRegistry") if isinstance(registration, dict) else None
        if isinstance(registry, str) and isinstance(agent, int | str) and not isinstance(agent, bool):
            yield f"{registry[:_LONGEST_NAME].lower()}/{str(agent)[:80]}"


def _agent(name: str, description: str, file: Json, services: list[Service], fields: Fields) -> AgentCard:
    skills = _skills(services, fields)
    return AgentCard(
        name=name,
        description=description,
        version="",
        url=_url(file, services, fields),
        protocol=PROTOCOL,
        logo=_logo(file, fields),
        interfaces=tuple(map(_interface, _callable(services))),
        auth=("payment",) if _takes_x402(file) else (),
        skills=skills,
        tags=_tags(file, services, fields),
        offers=read_offers(file, fields, frozenset(skill.id for skill in skills)),
        deprecated=read_deprecation(file, fields),
        warnings=fields.finish(),
    )


def _tool(name: str, description: str, file: Json, services: list[Service], fields: Fields) -> ToolConfig:
    """One server: that of the first MCP service, with the skills of all services."""
    first = next(service for service in services if service.name == "MCP")
    skills = _skills(services, fields)
    named_tools = frozenset(
        _named(item) for service in services if service.name == "MCP" for _, item in _items(service, _SKILLS, Fields(0))
    )
    server = McpServer(
        key=name,
        name=name,
        description=description,
        version=first.version,
        url=first.endpoint,
        logo=_logo(file, fields),
        tools=tuple(skill.id for skill in skills if skill.id in named_tools),
        prompts=_listed(services, ("mcpPrompts", "prompts"), fields),
        resources=_listed(services, ("mcpResources", "resources"), fields),
        skills=skills,
        tags=_tags(file, services, fields),
        offers=read_offers(file, fields, frozenset(skill.id for skill in skills)),
        deprecated=read_deprecation(file, fields),
        warnings=fields.finish(),
    )
    return ToolConfig(servers=(server,))


def _callable(services: list[Service]) -> list[Service]:
    """The services that answer at their endpoint."""
    return [service for service in services if service.name != _TAXONOMY and _ADDRESS.match(service.endpoint)]


def _interface(service: Service) -> dict[str, Any]:
    members = {"url": service.endpoint, "protocolBinding": service.name, "protocolVersion": service.version}
    return {key: text for key, text in members.items() if text}


def _url(file: Json, services: list[Service], fields: Fields) -> str:
    """The URL at which the agent is called: that of its A2A service, else of its web service, else of any other."""
    callable_services = _callable(services)
    preferred = next((service for service in callable_services if service.name == "A2A"), None)
    preferred = preferred or next((service for service in callable_services if service.name == "web"), None)
    preferred = preferred or next(iter(callable_services), None)
    if preferred is not None:
        return preferred.endpoint
    written = fields.text(file, "url") or fields.text(file, "external_url")
    return written if _ADDRESS.match(written) else ""


def _logo(file: Json, fields: Fields) -> str:
    """The image URL; an image inside the file (a `data:` URI) is not cut, but left out beyond 8 kB."""
    image = file.get("image")
    if isinstance(image, str) and len(image.encode("utf-8", "replace")) > MAX_TEXT:
        fields.not_indexed("an image of more than 8 kB", "/image")
        return ""
    return fields.text(file, "image")


def _skills(services: list[Service], fields: Fields) -> tuple[Skill, ...]:
    """The skills of all services: names, or objects with an id or a name; without repetitions."""
    skills: dict[str, Skill] = {}
    for service in services:
        for pointer, item in _items(service, _SKILLS, fields):
            skill = _skill(item, fields, pointer)
            if skill is None or skill.id in skills:
                continue
            if len(skills) == MAX_SKILLS:
                fields.not_indexed(f"only the first {MAX_SKILLS} skills", pointer)
                return tuple(skills.values())
            skills[skill.id] = skill
    return tuple(skills.values())


def _skill(item: Any, fields: Fields, pointer: str) -> Skill | None:
    if isinstance(item, dict):
        identity, name = (fields.text(item, key, pointer) for key in _NAMES)
        if not (identity or name).strip():
            fields.warn("skill-id", "", pointer)
            return None
        return Skill(identity or name, name, fields.text(item, "description", pointer))
    if not isinstance(item, str) or not item.strip():
        fields.warn("ignored", "a skill without a name", pointer)
        return None
    return Skill(fields.bounded(item, pointer))


def _named(item: Any) -> str:
    """The id, else the name, of an entry in a list of skills; empty when it has neither."""
    if isinstance(item, dict):
        item = next((item[key] for key in _NAMES if isinstance(item.get(key), str) and item[key]), "")
    return item if isinstance(item, str) else ""


def _items(service: Service, keys: tuple[str, ...], fields: Fields) -> Iterator[tuple[str, Any]]:
    for key in keys:
        for number, item in enumerate(fields.items(service.value, key, service.pointer)):
            yield f"{service.pointer}/{key}/{number}", item


def _listed(services: list[Service], keys: tuple[str, ...], fields: Fields) -> tuple[str, ...]:
    """The names in these lists of the MCP services, without repetitions, at most 256."""
    names: dict[str, None] = {}
    for service in services:
        if service.name != "MCP":
            continue
        for pointer, item in _items(service, keys, fields):
            named = item.get("name") if isinstance(item, dict) else item
            if len(names) < MAX_SKILLS and isinstance(named, str) and named.strip():
                names.setdefault(fields.bounded(named, pointer))
    return tuple(names)


def _tags(file: Json, services: list[Service], fields: Fields) -> tuple[str, ...]:
    """The file's tags, the domains of its services, its supported trust models, and `x402` if it supports that."""
    tags = [*fields.texts(file, "tags", "", MAX_TAGS), *fields.texts(file, "oasf_domains", "", MAX_TAGS)]
    for service in services:
        tags += fields.texts(service.value, "domains", service.pointer, MAX_TAGS)
    for key in ("supportedTrust", "supportedTrusts"):
        tags += fields.texts(file, key, "", MAX_TAGS)
    if _takes_x402(file):
        tags.append("x402")
    return merge_tags(tags, (), fields)


def _takes_x402(file: Json) -> bool:
    return any(file.get(key) is True for key in ("x402Support", "x402support"))
