"""A2A agent cards 0.1, 0.2, 0.3 and 1.0, with warnings about members that their version requires (law 12)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

from parsers.cards.card import AgentCard, Skill
from parsers.cards.deprecation import read_deprecation
from parsers.cards.fields import Fields, Json
from parsers.cards.findings import note_private, note_texts
from parsers.cards.identity_statement import read_motebit
from parsers.cards.offers import read_offers
from parsers.cards.strict_json import step
from parsers.cards.usage import read_auth

MAX_SKILLS = 256
MAX_TAGS = 64
MAX_INTERFACES = 64

# What each version requires of a card and of a skill beyond the hard rules (their JSON schemas; 1.0: a2a.proto).
_MODES = ("defaultInputModes", "defaultOutputModes")
_REQUIRED = {
    "0.1": ("version", "capabilities"),
    "0.2": ("description", "version", "capabilities", *_MODES),
    "0.3": ("protocolVersion", "description", "version", "capabilities", *_MODES),
    "1.0": ("description", "supportedInterfaces", "version", "capabilities", *_MODES),
}
_REQUIRED_OF_SKILL = {"0.1": ("name",), "0.2": ("name", "description", "tags")}
_INTERFACE_KEYS = ("supportedInterfaces", "additionalInterfaces")
_FOREIGN_PRICES = ("pricing", "x402", "price")

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+://[^\s/?#]++\S*+")  # possessive: in linear time


class _Identified(NamedTuple):
    """A skill with an id: its JSON pointer, its id, and its JSON object."""

    pointer: str
    id: str
    value: Json


def read_agent(card: Json, fields: Fields) -> AgentCard:
    """Parse an agent card. Broken hard rules are added to `fields.errors`; the returned card is not valid then.

    Texts are taken in order of importance: beyond 64 kB of text, the last ones are not indexed.
    """
    note_broken_rules(card, fields)
    note_texts(card, fields)
    version = protocol(card)
    name, url = fields.text(card, "name"), _url(card, fields, version)
    description, logo, provider = fields.text(card, "description"), read_logo(card, fields), read_provider(card, fields)
    rest = {"version": fields.text(card, "version"), "documentation_url": fields.text(card, "documentationUrl")}
    _note_missing(card, fields, version)
    own_tags = fields.texts(card, "tags", "", MAX_TAGS) + fields.texts(card, "keywords", "", MAX_TAGS)
    identified = _identified(card, fields)
    described = [_described(skill, fields, version) for skill in identified]
    named = frozenset(skill["id"] for skill in _objects_in(card.get("skills")) if _is_text(skill.get("id")))
    offers = read_offers(card, fields, named)
    motebit = read_motebit(card, fields)
    skills = []
    for skill, source in zip(described, identified, strict=True):
        examples = fields.texts(source.value, "examples", source.pointer, MAX_TAGS)
        skills.append(replace(skill, examples=examples) if examples else skill)
    return AgentCard(
        name=name,
        description=description,
        url=url,
        protocol=version,
        logo=logo,
        provider=provider,
        interfaces=_interfaces(card, fields, version, url),
        capabilities=_capabilities(card, fields),
        skills=tuple(skills),
        tags=merge_tags(own_tags, (tag for skill in skills for tag in skill.tags), fields),
        offers=offers,
        motebit=motebit,
        auth=read_auth(card),
        deprecated=read_deprecation(card, fields),
        warnings=fields.finish(),
        **rest,
    )


def protocol(card: Json) -> str:
    """The A2A version of a card: 0.1, 0.2, 0.3 or 1.0, detected by members of that version or by the stated version."""
    stated = card.get("protocolVersion")
    stated = stated if isinstance(stated, str) else ""
    if isinstance(card.get("supportedInterfaces"), list) or stated == "1" or stated.startswith("1."):
        return "1.0"
    if stated.startswith(("0.1", "0.2", "0.3")):
        return stated[:3]
    if any(card.get(key) is not None for key in ("preferredTransport", "additionalInterfaces", "signatures")):
        return "0.3"
    if card.get("defaultInputModes") is not None and card.get("securitySchemes") is not None:
        return "0.2"
    return "0.1"


def read_provider(holder: Json, fields: Fields, pointer: str = "") -> dict[str, str]:
    """The provider's `organization` and `url`, without absent ones."""
    provider = fields.object(holder, "provider", pointer)
    texts = {key: fields.text(provider, key, step(pointer, "provider")) for key in ("organization", "url")}
    return {key: text for key, text in texts.items() if text}


def read_logo(holder: Json, fields: Fields, pointer: str = "") -> str:
    """`iconUrl`, else `provider.logo`, else `icons[0].src`."""
    logo = fields.text(holder, "iconUrl", pointer)
    provider = holder.get("provider")
    if not logo and isinstance(provider, dict):
        logo = fields.text(provider, "logo", step(pointer, "provider"))
    if not logo:
        for icon_pointer, icon in fields.objects(holder, "icons", pointer):
            return fields.text(icon, "src", icon_pointer)
    return logo


def merge_tags(first: Iterable[str], further: Iterable[str], fields: Fields, pointer: str = "") -> tuple[str, ...]:
    """The tags of a listing in order, without repetitions regardless of case, spelt as first written; at most 64."""
    merged: dict[str, str] = {}
    for tags in (first, further):
        for tag in tags:
            merged.setdefault(tag.strip().casefold(), tag.strip())
    if len(merged) > MAX_TAGS:
        fields.not_indexed(f"only the first {MAX_TAGS} of {len(merged)} tags", step(pointer, "tags"))
    return tuple(merged.values())[:MAX_TAGS]


def note_broken_rules(card: Json, fields: Fields) -> None:
    """Add the hard rules of law 12 that a card breaks; limits of indexing do not affect validity."""
    if not _is_text(card.get("name")):
        fields.error("card-name", "" if card.get("name") is None else "the name is blank or no text", "/name")
    skills = card.get("skills")
    if not any(_is_text(skill.get("id")) for skill in _objects_in(skills)):
        fields.error("card-skills", "none of them has an id" if skills else "", "/skills")
    if not _is_text(card.get("url")) and not _first_url(card, _INTERFACE_KEYS):
        is_respelt = card.get("supported_interfaces") is not None
        fields.error("card-url", "supported_interfaces is spelt supportedInterfaces" if is_respelt else "", "/url")


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and value != "" and not value.isspace()


def _objects_in(value: Any) -> Iterator[Json]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _first_url(card: Json, keys: tuple[str, ...]) -> str:
    """The url of the first interface that has one, as written."""
    entries = (entry for key in keys for entry in _objects_in(card.get(key)))
    return next((str(entry["url"]) for entry in entries if _is_text(entry.get("url"))), "")


def _identified(card: Json, fields: Fields) -> list[_Identified]:
    """The skills that have an id, the first 256, with their pointers."""
    usable: list[_Identified] = []
    for pointer, skill in fields.objects(card, "skills"):
        identity = skill.get("id")
        if not _is_text(identity):
            fields.warn("skill-id", "" if identity is None else "the id is blank or no text", f"{pointer}/id")
        elif len(usable) == MAX_SKILLS:
            fields.not_indexed(f"only the first {MAX_SKILLS} skills", "/skills")
            break
        else:
            usable.append(_Identified(pointer, fields.bounded(identity, pointer, "id"), skill))
    seen: set[str] = set()
    for pointer, identity, _ in usable:
        if identity in seen:
            fields.warn("skill-repeated", identity, f"{pointer}/id")
        seen.add(identity)
    return [skill for skill in usable if skill.id]


def _described(skill: _Identified, fields: Fields, version: str) -> Skill:
    """A skill without its examples, which are parsed last."""
    pointer, identity, value = skill
    for key in _REQUIRED_OF_SKILL.get(version, _REQUIRED_OF_SKILL["0.2"]):
        if value.get(key) is None:
            fields.warn("missing", f"{key} of skill {identity}, which A2A {version} requires", f"{pointer}/{key}")
    name, description = fields.text(value, "name", pointer), fields.text(value, "description", pointer)
    return Skill(identity, name, description, fields.texts(value, "tags", pointer, MAX_TAGS))


def _interfaces(card: Json, fields: Fields, version: str, main: str) -> tuple[dict[str, Any], ...]:
    """The interfaces that have a url, in order of preference, with the members of A2A 1.0. Before 1.0 the `main` one is
    not in the list, but in `url` and `preferredTransport`."""
    interfaces: list[dict[str, Any]] = []
    for list_key in _INTERFACE_KEYS:
        for pointer, entry in fields.objects(card, list_key):
            if len(interfaces) == MAX_INTERFACES:
                fields.not_indexed(f"only the first {MAX_INTERFACES} interfaces", step("", list_key))
                break
            url = entry.get("url")
            if not _is_text(url):
                fields.warn("missing", "url of an interface", f"{pointer}/url")
                continue
            binding = fields.text(entry, "protocolBinding", pointer) or fields.text(entry, "transport", pointer)
            for key in ("protocolBinding", "protocolVersion") if version == "1.0" else ("transport",):
                if entry.get(key) is None:
                    fields.warn("missing", f"{key} of an interface, which A2A {version} requires", f"{pointer}/{key}")
            rest = {key: fields.text(entry, key, pointer) for key in ("protocolVersion", "tenant")}
            members = {"url": fields.bounded(url, pointer, "url"), "protocolBinding": binding, **rest}
            if url != card.get("url"):
                note_private(members["url"], fields, f"{pointer}/url")
            interfaces.append({key: text for key, text in members.items() if text})
    if main and all(entry["url"] != main for entry in interfaces):
        transport = card.get("preferredTransport")
        by_transport = {"protocolBinding": transport} if isinstance(transport, str) and len(transport) <= 100 else {}
        interfaces.insert(0, {"url": main, **by_transport})
    return tuple(interfaces)


def _url(card: Json, fields: Fields, version: str) -> str:
    """The URL at which the agent is called: that of the first interface in 1.0, the member `url` before."""
    written = fields.text(card, "url")
    written = "" if written.isspace() else written
    preferred = _first_url(card, _INTERFACE_KEYS[:1]) if version == "1.0" else written
    url = written if preferred == written else fields.bounded(preferred, "", "supportedInterfaces")
    url = url or written or fields.bounded(_first_url(card, _INTERFACE_KEYS), "", "additionalInterfaces")
    if url and not written and version != "1.0":
        fields.warn("missing", f"url, which A2A {version} requires", "/url")
    if written and not _ABSOLUTE.fullmatch(written):
        fields.warn("url-form", written, "/url")
    elif written:
        note_private(written, fields, "/url")
    return url


def _capabilities(card: Json, fields: Fields) -> dict[str, Any]:
    capabilities = fields.object(card, "capabilities")
    flags: dict[str, Any] = {}
    for key in ("streaming", "pushNotifications", "stateTransitionHistory", "extendedAgentCard"):
        value = capabilities.get(key)
        if isinstance(value, bool):
            flags[key] = value
        elif value is not None:
            fields.wrong(value, "a boolean", f"/capabilities/{key}")
    extensions: list[dict[str, Any]] = []
    for pointer, entry in fields.objects(capabilities, "extensions", "/capabilities"):
        if len(extensions) == MAX_INTERFACES:
            fields.not_indexed(f"only the first {MAX_INTERFACES} extensions", "/capabilities/extensions")
            break
        texts = {key: fields.text(entry, key, pointer) for key in ("uri", "description")}
        extensions.append({**texts, "required": entry.get("required") is True})
    return {**flags, "extensions": extensions} if extensions else flags


def _note_missing(card: Json, fields: Fields, version: str) -> None:
    for key in _REQUIRED[version]:
        value = card.get(key)
        if value is None:
            fields.warn("missing", f"{key}, which A2A {version} requires", f"/{key}")
        elif value == [] and version == "1.0":
            fields.warn("missing", f"an entry in {key}, which A2A 1.0 requires", f"/{key}")
        elif key in _MODES and not isinstance(value, list):
            fields.wrong(value, "a list", f"/{key}")
    provider = card.get("provider")
    if isinstance(provider, dict):
        for key in ("organization",) if version == "0.1" else ("organization", "url"):
            if provider.get(key) is None:
                fields.warn("missing", f"{key} of the provider, which A2A {version} requires", f"/provider/{key}")
    for key in _FOREIGN_PRICES:
        if card.get(key) is not None:
            fields.warn("ignored", f"{key}: prices belong in x-payment-config", f"/{key}")
