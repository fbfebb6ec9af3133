"""MCP configs: `mcpServers` bodies, each entry a tool of its own (laws 6 and 12)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from parsers.agent_card import MAX_SKILLS, MAX_TAGS, merge_tags, read_logo, read_provider
from parsers.cards import Server, Skill, ToolConfig
from parsers.fields import MAX_LISTING, REPLACEMENT, Fields, Json
from parsers.offers import PRICE_KEYS, Offer, read_offers
from parsers.strict_json import step

MAX_SERVERS = 64
MAX_KEY = 256
MAX_ARGS = 256
MAX_ENV = 256
_TOOL_NAMES = ("name", "id")

# The shapes of keys that work somewhere: private keys (WIF, extended, PEM), and the tokens of well-known services.
_SECRET = re.compile(
    r"(?<![A-Za-z0-9])(?:[5KLc][1-9A-HJ-NP-Za-km-z]{50,51}|[xyzt]prv[1-9A-HJ-NP-Za-km-z]{100,110}|(?:0x)?[0-9a-fA-F]{64}"
    r"|sk-[A-Za-z0-9_-]{20,200}|[sr]k_live_[A-Za-z0-9]{16,200}|gh[pousr]_[A-Za-z0-9]{30,200}"
    r"|github_pat_[A-Za-z0-9_]{30,200}|glpat-[A-Za-z0-9_-]{20,100}|xox[abprs]-[A-Za-z0-9-]{10,200}"
    r"|A(?:KIA|SIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}|npm_[A-Za-z0-9]{36}|hf_[A-Za-z0-9]{30,60}"
    r"|SG\.[A-Za-z0-9_-]{20,30}\.[A-Za-z0-9_-]{40,50}"
    r"|eyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,2000})(?![A-Za-z0-9])"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----|[a-z][a-z0-9+]{1,20}://[^\s:/@]{1,100}:[^\s/@$<{]{3,200}@"
)
_PLACEHOLDER = re.compile(r"[<\[{$%].{0,200}|your.{0,200}|x{3,}|\*{3,}|\.{3}", re.IGNORECASE)


def read_config(config: Json, fields: Fields) -> ToolConfig:
    """Read an MCP config. Hard rules it breaks go to `fields.errors`: then it is not to be listed."""
    named = named_servers(config, fields)
    servers: list[Server] = []
    if not fields.errors:
        tools = {key: _tool_names(entry) for key, entry in named.items()}
        shared = read_offers(config, fields, frozenset().union(*tools.values()))
        for key, entry in named.items():
            size = fields.size if fields.size <= MAX_LISTING else _size(entry) + MAX_LISTING - fields.room
            offers = _own_share(shared, tools[key]) if len(named) > 1 else shared
            servers.append(_server(key, entry, offers, Fields(size, room=fields.room)))
    return ToolConfig(servers=tuple(servers), warnings=fields.finish())


def _own_share(shared: tuple[Offer, ...], tools: frozenset[str]) -> tuple[Offer, ...]:
    """Of the prices of a config with several servers, those for all its tools and those for this server's."""
    return tuple(
        offer if offer.skill_ids is None else replace(offer, skill_ids=own)
        for offer in shared
        if offer.skill_ids is None or (own := tuple(name for name in offer.skill_ids if name in tools))
    )


def looks_secret(value: str) -> bool:
    """Whether a text holds what looks like a working key, token or password in a URL."""
    return len(value) >= 12 and _SECRET.search(value) is not None


def named_servers(config: Json, fields: Fields) -> dict[str, Json]:
    """The entries of `mcpServers` that have a name, in the order written; what is no object counts as an empty one."""
    servers = config.get("mcpServers")
    if not isinstance(servers, dict):
        fields.error("config-servers", "" if servers is None else "mcpServers is no object", "/mcpServers")
        return {}
    named: dict[str, Json] = {}
    long = ""
    for key, entry in servers.items():
        if entry is None:
            continue
        if not key or key.isspace():
            fields.warn("ignored", "an entry of mcpServers without a name", step("/mcpServers", key))
            continue
        if not isinstance(entry, dict):
            fields.wrong(entry, "an object", "/mcpServers", key)
            entry = {}
        if len(key.encode()) > MAX_KEY:
            long = long or key
        named[key.replace("\0", REPLACEMENT)] = entry
    if not named:
        fields.error("config-no-server", "", "/mcpServers")
    if len(named) > MAX_SERVERS:
        fields.error("config-server-count", f"{len(named):,}", "/mcpServers")
    if long:
        fields.error("config-server-key", f"{len(long.encode()):,} bytes", step("/mcpServers", long))
    return named


def _server(key: str, entry: Json, shared: tuple[Offer, ...], fields: Fields) -> Server:
    """One entry as a tool. Prices of its own count before those that it shares with the others of its config."""
    at = step("/mcpServers", key)
    name = fields.text(entry, "name", at) or fields.text(entry, "title", at)
    command, url, args = fields.text(entry, "command", at), fields.text(entry, "url", at), _args(entry, fields, at)
    if not command and not url:
        fields.warn("missing", "command or url of the server", at)
    description = fields.text(entry, "description", at)
    keywords = fields.texts(entry, "keywords", at, MAX_TAGS)
    own_tags = keywords + fields.texts(entry, "tags", at, MAX_TAGS)
    skills = _tools(entry, fields, at)
    own = any(entry.get(price_key) is not None for price_key in PRICE_KEYS)
    offers = read_offers(entry, fields, _tool_names(entry), at) if own else shared
    return Server(
        key=key,
        name=key if not name or name.isspace() else name,
        description=description,
        version=fields.text(entry, "version", at),
        url=url,
        logo=read_logo(entry, fields, at),
        provider=read_provider(entry, fields, at),
        command=command,
        args=args,
        env=_env(entry, fields, at),
        keywords=keywords,
        tools=tuple(skill.id for skill in skills),
        prompts=_names(entry, "prompts", ("name",), fields, at),
        resources=_names(entry, "resources", ("uri", "name"), fields, at),
        skills=skills,
        tags=merge_tags(own_tags, (tag for skill in skills for tag in skill.tags), fields, at),
        offers=offers,
        warnings=fields.finish(),
    )


def _size(value: Any) -> int:
    """An upper bound in bytes of the text in a JSON value, found without recursion."""
    size = 0
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            size += 4 * len(item)
        elif isinstance(item, dict):
            todo.extend(item.values())
            size += 4 * sum(map(len, item))
        elif isinstance(item, list):
            todo.extend(item)
    return size


def _tools(entry: Json, fields: Fields, at: str) -> tuple[Skill, ...]:
    """Tools as skills: a name alone, or an object with name, description and tags. The id is the tool's name."""
    found: dict[str, Skill] = {}
    for number, tool in enumerate(fields.items(entry, "tools", at)):
        if len(found) == MAX_SKILLS:
            fields.not_indexed(f"only the first {MAX_SKILLS} tools", step(at, "tools"))
            break
        here = f"{at}/tools/{number}"
        name = _name_of(tool, _TOOL_NAMES, fields, at, "tools", number)
        if not name:
            continue
        if name in found:
            fields.warn("skill-repeated", name, here)
        elif isinstance(tool, dict):
            title, description = fields.text(tool, "title", here), fields.text(tool, "description", here)
            found[name] = Skill(name, title or name, description, fields.texts(tool, "tags", here, MAX_TAGS))
        else:
            found[name] = Skill(name, name)
    return tuple(found.values())


def _tool_names(entry: Json) -> frozenset[str]:
    """The names of all tools of a server as written, indexed or not."""
    tools = entry.get("tools")
    return frozenset(_raw_name(tool, _TOOL_NAMES) for tool in tools) if isinstance(tools, list) else frozenset()


def _names(entry: Json, key: str, members: tuple[str, ...], fields: Fields, at: str) -> tuple[str, ...]:
    found: list[str] = []
    for number, item in enumerate(fields.items(entry, key, at)):
        if len(found) == MAX_SKILLS:
            fields.not_indexed(f"only the first {MAX_SKILLS} {key}", step(at, key))
            break
        name = _name_of(item, members, fields, at, key, number)
        if name:
            found.append(name)
    return tuple(found)


def _name_of(item: object, members: tuple[str, ...], fields: Fields, at: str, key: str, number: int) -> str:
    """The name that an entry of list `key` is or has: a string, or the first string among `members` of an object."""
    name = _raw_name(item, members)
    if not name or name.isspace():
        fields.warn("ignored", f"an entry of {key} without a name", f"{at}/{key}/{number}")
        return ""
    return fields.bounded(name, at, key, number)


def _raw_name(item: object, members: tuple[str, ...]) -> str:
    if isinstance(item, dict):
        item = next((item[member] for member in members if isinstance(item.get(member), str)), None)
    return item if isinstance(item, str) else ""


def _args(entry: Json, fields: Fields, at: str) -> tuple[str, ...]:
    """The arguments, none left out but what is no string, as their order and number mean something."""
    given = fields.items(entry, "args", at)
    if len(given) > MAX_ARGS:
        fields.not_indexed(f"only the first {MAX_ARGS} args", step(at, "args"))
    found = []
    for number, value in enumerate(given[:MAX_ARGS]):
        here = f"{at}/args/{number}"
        if not isinstance(value, str):
            fields.wrong(value, "a string", here)
            continue
        if looks_secret(value):
            fields.warn("env-secret", f"argument {number + 1}", here)
        found.append(fields.bounded(value, here))
    return tuple(found)


def _env(entry: Json, fields: Fields, at: str) -> dict[str, str]:
    """Names of variables and what they are for. A secret is public with the inscription, but need not be shown too."""
    given = fields.object(entry, "env", at)
    if len(given) > MAX_ENV:
        fields.not_indexed(f"only the first {MAX_ENV} variables", step(at, "env"))
    found: dict[str, str] = {}
    here = step(at, "env")
    for name in list(given)[:MAX_ENV]:
        text = fields.text(given, name, here)
        if looks_secret(text):
            fields.warn("env-secret", name, step(here, name))
            text = ""
        elif text and not any(map(str.isspace, text)) and not _PLACEHOLDER.fullmatch(text):
            fields.warn("env-value", name, step(here, name))
        found[fields.bounded(name, here)] = text
    return found
