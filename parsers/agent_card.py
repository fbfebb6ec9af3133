"""A2A agent cards 0.1, 0.2, 0.3 and 1.0, read with warnings about what their version asks for (law 12)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeGuard

from parsers.cards import AgentCard, Skill
from parsers.fields import Fields, Json
from parsers.offers import read_offers
from parsers.strict_json import step

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
_PLACES_OF_INTERFACES = ("supportedInterfaces", "additionalInterfaces")
_FOREIGN_PRICES = ("pricing", "x402", "price")

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+://[^\s/?#]++\S*+")  # possessive: in linear time
_LOCAL = re.compile(
    r"[a-z]+://(?:[^/@]*@)?(?:localhost|[^/:?#]+\.(?:local|localhost|internal)|127\.[0-9.]+|0\.0\.0\.0|10\.[0-9.]+"
    r"|192\.168\.[0-9.]+|172\.(?:1[6-9]|2[0-9]|3[01])\.[0-9.]+|169\.254\.[0-9.]+|\[::1\])(?=[:/?#]|$)",
    re.IGNORECASE,
)


class _Identified(NamedTuple):
    """A skill with an id: its pointer, its id, and all that is given of it."""

    at: str
    id: str
    given: Json


def read_agent(card: Json, fields: Fields) -> AgentCard:
    """Read an agent card. Hard rules it breaks go to `fields.errors`: then the card returned is not to be listed.

    The order is that of importance: when a listing has more than 64 kB of text, the last texts are not indexed.
    """
    note_broken_rules(card, fields)
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
    pairs = zip(described, identified, strict=True)
    skills = tuple(_with_examples(skill, source, fields) for skill, source in pairs)
    return AgentCard(
        name=name,
        description=description,
        url=url,
        protocol=version,
        logo=logo,
        provider=provider,
        interfaces=_with_main(_interfaces(card, fields, version), card, url),
        capabilities=_capabilities(card, fields),
        skills=skills,
        tags=merge_tags(own_tags, (tag for skill in skills for tag in skill.tags), fields),
        offers=offers,
        warnings=fields.finish(),
        **rest,
    )


def protocol(card: Json) -> str:
    """The A2A version of a card: 0.1, 0.2, 0.3 or 1.0, from what only that version has, else from what it states."""
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


def read_provider(holder: Json, fields: Fields, at: str = "") -> dict[str, str]:
    """The provider's `organization` and `url`, as far as given."""
    provider = fields.object(holder, "provider", at)
    found = {key: fields.text(provider, key, step(at, "provider")) for key in ("organization", "url")}
    return {key: text for key, text in found.items() if text}


def read_logo(holder: Json, fields: Fields, at: str = "") -> str:
    """`iconUrl`, else `provider.logo`, else `icons[0].src`."""
    logo = fields.text(holder, "iconUrl", at)
    provider = holder.get("provider")
    if not logo and isinstance(provider, dict):
        logo = fields.text(provider, "logo", step(at, "provider"))
    if not logo:
        for place, icon in fields.objects(holder, "icons", at):
            return fields.text(icon, "src", place)
    return logo


def merge_tags(own: Iterable[str], others: Iterable[str], fields: Fields, at: str = "") -> tuple[str, ...]:
    """The tags of a listing, each once whatever its case, in order, spelt as first written; at most 64."""
    merged: dict[str, str] = {}
    for tags in (own, others):
        for tag in tags:
            merged.setdefault(tag.strip().casefold(), tag.strip())
    if len(merged) > MAX_TAGS:
        fields.not_indexed(f"only the first {MAX_TAGS} of {len(merged)} tags", step(at, "tags"))
    return tuple(merged.values())[:MAX_TAGS]


def note_broken_rules(card: Json, fields: Fields) -> None:
    """Law 12, asked of the card itself: what is indexed of it, and how much, has no say in its validity."""
    if not _is_text(card.get("name")):
        fields.error("card-name", "" if card.get("name") is None else "the name is blank or no text", "/name")
    skills = card.get("skills")
    if not any(_is_text(skill.get("id")) for skill in _objects_in(skills)):
        fields.error("card-skills", "none of them has an id" if skills else "", "/skills")
    if not _is_text(card.get("url")) and not _first_url(card, _PLACES_OF_INTERFACES):
        fields.error("card-url", "", "/url")


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and value != "" and not value.isspace()


def _objects_in(value: Any) -> Iterator[Json]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _first_url(card: Json, places: tuple[str, ...]) -> str:
    """The url of the first interface that has one, as written."""
    entries = (entry for place in places for entry in _objects_in(card.get(place)))
    return next((str(entry["url"]) for entry in entries if _is_text(entry.get("url"))), "")


def _identified(card: Json, fields: Fields) -> list[_Identified]:
    """The skills that have an id, the first 256, with their pointers."""
    usable: list[_Identified] = []
    for at, skill in fields.objects(card, "skills"):
        identity = skill.get("id")
        if not _is_text(identity):
            fields.warn("skill-id", "" if identity is None else "the id is blank or no text", f"{at}/id")
        elif len(usable) == MAX_SKILLS:
            fields.not_indexed(f"only the first {MAX_SKILLS} skills", "/skills")
            break
        else:
            usable.append(_Identified(at, fields.bounded(identity, at, "id"), skill))
    _note_repeated(usable, fields)
    return [skill for skill in usable if skill.id]


def _described(skill: _Identified, fields: Fields, version: str) -> Skill:
    """A skill without its examples, which come last."""
    at, identity, given = skill
    for key in _REQUIRED_OF_SKILL.get(version, _REQUIRED_OF_SKILL["0.2"]):
        if given.get(key) is None:
            fields.warn("missing", f"{key} of skill {identity}, which A2A {version} requires", f"{at}/{key}")
    name, description = fields.text(given, "name", at), fields.text(given, "description", at)
    return Skill(identity, name, description, fields.texts(given, "tags", at, MAX_TAGS))


def _with_examples(skill: Skill, source: _Identified, fields: Fields) -> Skill:
    examples = fields.texts(source.given, "examples", source.at, MAX_TAGS)
    return Skill(skill.id, skill.name, skill.description, skill.tags, examples) if examples else skill


def _note_repeated(usable: list[_Identified], fields: Fields) -> None:
    seen: set[str] = set()
    for at, identity, _ in usable:
        if identity in seen:
            fields.warn("skill-repeated", identity, f"{at}/id")
        seen.add(identity)


def _interfaces(card: Json, fields: Fields, version: str) -> tuple[dict[str, Any], ...]:
    """The interfaces that have a url, in order of preference, in the words of A2A 1.0."""
    found: list[dict[str, Any]] = []
    for place in _PLACES_OF_INTERFACES:
        for at, entry in fields.objects(card, place):
            if len(found) == MAX_INTERFACES:
                fields.not_indexed(f"only the first {MAX_INTERFACES} interfaces", step("", place))
                break
            url = entry.get("url")
            if not _is_text(url):
                fields.warn("missing", "url of an interface", f"{at}/url")
                continue
            binding = fields.text(entry, "protocolBinding", at) or fields.text(entry, "transport", at)
            _note_missing_of_interface(entry, fields, at, version)
            rest = {key: fields.text(entry, key, at) for key in ("protocolVersion", "tenant")}
            members = {"url": fields.bounded(url, at, "url"), "protocolBinding": binding, **rest}
            found.append({key: text for key, text in members.items() if text})
    return tuple(found)


def _note_missing_of_interface(entry: Json, fields: Fields, at: str, version: str) -> None:
    for key in ("protocolBinding", "protocolVersion") if version == "1.0" else ("transport",):
        if entry.get(key) is None:
            fields.warn("missing", f"{key} of an interface, which A2A {version} requires", f"{at}/{key}")


def _url(card: Json, fields: Fields, version: str) -> str:
    """Where the agent is called: the first interface in 1.0, `url` before."""
    own = fields.text(card, "url")
    own = "" if own.isspace() else own
    preferred = _first_url(card, _PLACES_OF_INTERFACES[:1]) if version == "1.0" else own
    url = own if preferred == own else fields.bounded(preferred, "", "supportedInterfaces")
    url = url or own or fields.bounded(_first_url(card, _PLACES_OF_INTERFACES), "", "additionalInterfaces")
    if url and not own and version != "1.0":
        fields.warn("missing", f"url, which A2A {version} requires", "/url")
    if own and not _ABSOLUTE.fullmatch(own):
        fields.warn("url-form", own, "/url")
    elif _LOCAL.match(url):
        fields.warn("url-local", url, "/url" if url == own else "/supportedInterfaces")
    return url


def _with_main(interfaces: tuple[dict[str, Any], ...], card: Json, url: str) -> tuple[dict[str, Any], ...]:
    """All interfaces: before 1.0 the main one is not in the list but in `url` and `preferredTransport`."""
    if not url or any(entry["url"] == url for entry in interfaces):
        return interfaces
    transport = card.get("preferredTransport")
    binding = {"protocolBinding": transport} if isinstance(transport, str) and len(transport) <= 100 else {}
    return ({"url": url, **binding}, *interfaces)


def _capabilities(card: Json, fields: Fields) -> dict[str, Any]:
    given = fields.object(card, "capabilities")
    found: dict[str, Any] = {}
    for key in ("streaming", "pushNotifications", "stateTransitionHistory", "extendedAgentCard"):
        value = given.get(key)
        if isinstance(value, bool):
            found[key] = value
        elif value is not None:
            fields.wrong(value, "a boolean", f"/capabilities/{key}")
    extensions: list[dict[str, Any]] = []
    for at, entry in fields.objects(given, "extensions", "/capabilities"):
        if len(extensions) == MAX_INTERFACES:
            fields.not_indexed(f"only the first {MAX_INTERFACES} extensions", "/capabilities/extensions")
            break
        texts = {key: fields.text(entry, key, at) for key in ("uri", "description")}
        extensions.append({**texts, "required": entry.get("required") is True})
    return {**found, "extensions": extensions} if extensions else found


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
