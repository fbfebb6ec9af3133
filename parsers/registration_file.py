"""ERC-8004 registration files, read as cards: an agent with its services, or a tool where MCP is all it serves.

A file says less than an AgentCard: only its name is asked for, all else is a warning (EIP-8004, "Agent URI and Agent
Registration File"; what the field adds to services is that of the Agent0 SDK: `a2aSkills`, `mcpTools`, `mcpPrompts`,
`mcpResources`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from parsers.agent_card import MAX_INTERFACES, MAX_SKILLS, MAX_TAGS, merge_tags
from parsers.cards import AgentCard, Card, Server, Skill, ToolConfig
from parsers.fields import MAX_TEXT, Fields, Json
from parsers.offers import read_offers

PROTOCOL = "ERC-8004"
TYPE = "https://eips.ethereum.org/EIPS/eip-8004#registration-v1"

_KNOWN = {"a2a": "A2A", "mcp": "MCP", "oasf": "OASF", "web": "web", "ens": "ENS", "did": "DID", "email": "email"}
_SKILLS = ("a2aSkills", "mcpTools", "tools", "skills")  # in the order in which they are listed as skills
_NAMES = ("id", "name")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}+://[^\s/?#]++\S*+\Z")
_LONGEST_NAME = 100


class Service(NamedTuple):
    """One service: its place in the file, its name (that of a known kind spelt as EIP-8004 does), where it is."""

    at: str
    name: str
    endpoint: str
    version: str
    given: Json


def is_one(value: Json) -> bool:
    """Whether what an entry of a registry leads to is a registration file, and not an A2A card or an MCP config."""
    if value.get("mcpServers") is not None:
        return False
    stated = value.get("type")
    return (isinstance(stated, str) and "8004" in stated) or not isinstance(value.get("skills"), list)


def read_file(file: Json, fields: Fields, entry: str = "") -> Card:
    """Read a registration file; `entry` is the name of the registry's entry that leads to it (law 10).

    A hard rule it breaks goes to `fields.errors`: then it is not to be listed.
    """
    note_broken_rules(file, fields)
    name, description = fields.text(file, "name"), fields.text(file, "description")
    services = list(_services(file, fields))
    _note_missing(file, fields, entry)
    if not any(service.name == "A2A" for service in services) and any(service.name == "MCP" for service in services):
        return _tool(name, description, file, services, fields)
    return _agent(name, description, file, services, fields)


def note_broken_rules(file: Json, fields: Fields) -> None:
    """The only hard rule: a name."""
    name = file.get("name")
    if not isinstance(name, str) or not name or name.isspace():
        fields.error("card-name", "" if name is None else "the name is blank or no text", "/name")


def _services(file: Json, fields: Fields) -> Iterator[Service]:
    """The services that name a place, in the order written; older files call them endpoints."""
    key = "services" if file.get("services") or file.get("endpoints") is None else "endpoints"
    if key == "endpoints":
        fields.warn("tolerated", "endpoints instead of services", "/endpoints")
    for number, (at, given) in enumerate(fields.objects(file, key)):
        if number == MAX_INTERFACES:
            fields.not_indexed(f"only the first {MAX_INTERFACES} services", f"/{key}")
            return
        endpoint = fields.text(given, "endpoint", at) or fields.text(given, "url", at)
        if not endpoint or endpoint.isspace():
            fields.warn("missing", "endpoint of a service", f"{at}/endpoint")
            continue
        name = (fields.text(given, "name", at) or fields.text(given, "type", at))[:_LONGEST_NAME]
        yield Service(at, _KNOWN.get(name.lower(), name), endpoint.strip(), fields.text(given, "version", at), given)


def _note_missing(file: Json, fields: Fields, entry: str) -> None:
    for key in ("type", "description", "image", "services"):
        if file.get(key) is None and not (key == "services" and file.get("endpoints") is not None):
            fields.warn("missing", f"{key}, which ERC-8004 asks for", f"/{key}")
    if isinstance(file.get("type"), str) and file["type"] != TYPE:
        fields.warn("tolerated", f"the type {file['type'][:100]}", "/type")
    if file.get("active") is False:
        fields.warn("inactive", "", "/active")
    named = list(_registrations(file))
    if entry and named and entry not in named:
        fields.warn("entry-unnamed", f"{entry}, but {named[0]}", "/registrations")


def _registrations(file: Json) -> Iterator[str]:
    """The names of the entries that the file says are its own, as far as they are complete."""
    given = file.get("registrations")
    for each in given[:MAX_INTERFACES] if isinstance(given, list) else ():
        agent = each.get("agentId") if isinstance(each, dict) else None
        registry = each.get("agentRegistry") if isinstance(each, dict) else None
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
        interfaces=tuple(_interface(each) for each in services if _ADDRESS.match(each.endpoint)),
        skills=skills,
        tags=_tags(file, services, fields),
        offers=read_offers(file, fields, frozenset(skill.id for skill in skills)),
        warnings=fields.finish(),
    )


def _tool(name: str, description: str, file: Json, services: list[Service], fields: Fields) -> ToolConfig:
    """One server, of the first MCP service; what others offer is counted in."""
    first = next(each for each in services if each.name == "MCP")
    skills = _skills(services, fields)
    own = frozenset(
        _named(item) for each in services if each.name == "MCP" for _, item in _items(each, _SKILLS, Fields(0))
    )
    server = Server(
        key=name,
        name=name,
        description=description,
        version=first.version,
        url=first.endpoint,
        logo=_logo(file, fields),
        tools=tuple(skill.id for skill in skills if skill.id in own),
        prompts=_listed(services, ("mcpPrompts", "prompts"), fields),
        resources=_listed(services, ("mcpResources", "resources"), fields),
        skills=skills,
        tags=_tags(file, services, fields),
        offers=read_offers(file, fields, frozenset(skill.id for skill in skills)),
        warnings=fields.finish(),
    )
    return ToolConfig(servers=(server,))


def _interface(service: Service) -> dict[str, Any]:
    members = {"url": service.endpoint, "protocolBinding": service.name, "protocolVersion": service.version}
    return {key: text for key, text in members.items() if text}


def _url(file: Json, services: list[Service], fields: Fields) -> str:
    """Where the agent is called: its A2A service, else the first place of the web."""
    places = [each for each in services if _ADDRESS.match(each.endpoint)]
    preferred = next((each for each in places if each.name == "A2A"), None)
    preferred = preferred or next((each for each in places if each.name == "web"), None)
    preferred = preferred or next(iter(places), None)
    if preferred is not None:
        return preferred.endpoint
    own = fields.text(file, "url") or fields.text(file, "external_url")
    return own if _ADDRESS.match(own) else ""


def _logo(file: Json, fields: Fields) -> str:
    """The image; one that stands in the file itself only as a whole."""
    image = file.get("image")
    if isinstance(image, str) and len(image.encode("utf-8", "replace")) > MAX_TEXT:
        fields.not_indexed("an image of more than 8 kB", "/image")
        return ""
    return fields.text(file, "image")


def _skills(services: list[Service], fields: Fields) -> tuple[Skill, ...]:
    """What the services say they can do: names alone, or objects with an id or a name. Each once."""
    found: dict[str, Skill] = {}
    for service in services:
        for at, item in _items(service, _SKILLS, fields):
            skill = _skill(item, fields, at)
            if skill is None or skill.id in found:
                continue
            if len(found) == MAX_SKILLS:
                fields.not_indexed(f"only the first {MAX_SKILLS} skills", at)
                return tuple(found.values())
            found[skill.id] = skill
    return tuple(found.values())


def _skill(item: Any, fields: Fields, at: str) -> Skill | None:
    if isinstance(item, dict):
        identity, name = (fields.text(item, key, at) for key in _NAMES)
        if not (identity or name).strip():
            fields.warn("skill-id", "", at)
            return None
        return Skill(identity or name, name, fields.text(item, "description", at))
    if not isinstance(item, str) or not item.strip():
        fields.warn("ignored", "a skill without a name", at)
        return None
    return Skill(fields.bounded(item, at))


def _named(item: Any) -> str:
    """The id, else the name, of what a list of skills holds; empty when it has neither."""
    if isinstance(item, dict):
        item = next((item[key] for key in _NAMES if isinstance(item.get(key), str) and item[key]), "")
    return item if isinstance(item, str) else ""


def _items(service: Service, keys: tuple[str, ...], fields: Fields) -> Iterator[tuple[str, Any]]:
    for key in keys:
        for number, item in enumerate(fields.items(service.given, key, service.at)):
            yield f"{service.at}/{key}/{number}", item


def _listed(services: list[Service], keys: tuple[str, ...], fields: Fields) -> tuple[str, ...]:
    """The names in these lists of the MCP services, each once, at most 256."""
    found: dict[str, None] = {}
    for service in services:
        if service.name != "MCP":
            continue
        for at, item in _items(service, keys, fields):
            named = item.get("name") if isinstance(item, dict) else item
            if len(found) < MAX_SKILLS and isinstance(named, str) and named.strip():
                found.setdefault(fields.bounded(named, at))
    return tuple(found)


def _tags(file: Json, services: list[Service], fields: Fields) -> tuple[str, ...]:
    """Its own tags, the domains of its services, the kinds of trust it supports, and x402 when it takes that."""
    own = [*fields.texts(file, "tags", "", MAX_TAGS), *fields.texts(file, "oasf_domains", "", MAX_TAGS)]
    for service in services:
        own += fields.texts(service.given, "domains", service.at, MAX_TAGS)
    for key in ("supportedTrust", "supportedTrusts"):
        own += fields.texts(file, key, "", MAX_TAGS)
    if any(file.get(key) is True for key in ("x402Support", "x402support")):
        own.append("x402")
    return merge_tags(own, (), fields)
