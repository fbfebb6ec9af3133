"""MCP configs: each entry of the object `mcpServers` is listed as a tool (laws 6 and 12)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from parsers.cards.agent_card import MAX_SKILLS, MAX_TAGS, merge_tags, read_logo, read_provider
from parsers.cards.card import McpServer, Skill, ToolConfig
from parsers.cards.deprecation import Deprecation, read_deprecation
from parsers.cards.fields import MAX_LISTING, REPLACEMENT, Fields, Json
from parsers.cards.findings import note_command, note_private, note_texts, note_tools
from parsers.cards.offers import PRICE_KEYS, Offer, read_offers
from parsers.cards.secrets import secret_in
from parsers.cards.strict_json import step

MAX_SERVERS = 64
MAX_KEY = 256
MAX_ARGS = 256
MAX_ENV = 256
_TOOL_NAMES = ("name", "id")
_URLS = ("httpUrl", "url", "serverUrl", "baseUrl", "uri")
"""The members for the URL: of Gemini CLI, most clients, Windsurf, Cherry Studio and Goose. Gemini CLI takes `httpUrl`
first."""

_TRANSPORTS = {
    "stdio": "stdio", "local": "stdio", "sse": "sse", "http": "streamable-http", "streamable": "streamable-http",
    "streamablehttp": "streamable-http", "httpstream": "streamable-http",
}  # fmt: skip
"""The names of transports in lower case, letters only."""

_OF_AN_AGENT = frozenset(("skills", "url", "supportedInterfaces", "supported_interfaces"))
_OTHER_FORMS = {
    "packages": "this is a server.json of the MCP Registry, which names packages and no command",
    "remotes": "this is a server.json of the MCP Registry, which names remotes and no url",
    **{
        member: f"this is a client's settings file, which calls it {member}"
        for member in ("servers", "context_servers", "mcp", "mcp.servers")
    },
    "command": "this is one entry of a config, which belongs under its name in mcpServers",
}
"""Members of objects that publishers take for a config, and the name of each such object."""

_STARTS = frozenset(("command", *_URLS))

_PLACEHOLDER = re.compile(r"[<\[{$%].{0,200}|your.{0,200}|x{3,}|\*{3,}|\.{3}", re.IGNORECASE)


def read_config(config: Json, fields: Fields) -> ToolConfig:
    """Parse an MCP config. Broken hard rules are added to `fields.errors`; the returned config is not valid then."""
    named = named_servers(config, fields)
    servers: list[McpServer] = []
    if not fields.errors:
        if len(config) > 1:
            note_texts({name: member for name, member in config.items() if name != "mcpServers"}, fields)
        tools = {key: _tool_names(entry) for key, entry in named.items()}
        shared = read_offers(config, fields, frozenset().union(*tools.values()))
        deprecated = read_deprecation(config, fields)
        for key, entry in named.items():
            size = fields.size if fields.size <= MAX_LISTING else _size(entry) + MAX_LISTING - fields.room
            offers = _own_share(shared, tools[key]) if len(named) > 1 else shared
            servers.append(_server(key, entry, offers, deprecated, Fields(size, room=fields.room)))
    return ToolConfig(servers=tuple(servers), warnings=fields.finish())


def _own_share(shared: tuple[Offer, ...], tools: frozenset[str]) -> tuple[Offer, ...]:
    """The prices of a config with several servers that cover all its tools, or tools of one server."""
    return tuple(
        offer if offer.skill_ids is None else replace(offer, skill_ids=of_server)
        for offer in shared
        if offer.skill_ids is None or (of_server := tuple(name for name in offer.skill_ids if name in tools))
    )


def other_form(value: Json) -> str:
    """A description of an object without `mcpServers`, in words; "" where its form is not recognised, and where it has
    a member of an agent card."""
    if not _OF_AN_AGENT.isdisjoint(value):
        return ""
    if is_payment(value):
        return "this is a payment claim, which a client sends to an agent with its message (A2B §4.2)"
    if named := next((words for member, words in _OTHER_FORMS.items() if value.get(member) is not None), ""):
        return named
    is_bare = bool(value) and all(isinstance(entry, dict) and _STARTS & entry.keys() for entry in value.values())
    return "these are its entries without mcpServers around them" if is_bare else ""


def is_payment(value: Json) -> bool:
    """Whether an object is a payment claim: itself, as `x-payment`, or in the data of a DataPart."""
    data = value.get("data")
    part = data if isinstance(data, dict) else value
    payment = part.get("x-payment", part)
    return isinstance(payment, dict) and "rawTx" in payment


def named_servers(config: Json, fields: Fields) -> dict[str, Json]:
    """The entries of `mcpServers` that have a name, in order; an entry that is not an object counts as an empty one."""
    servers = config.get("mcpServers")
    if not isinstance(servers, dict):
        detail = other_form(config) if servers is None else "mcpServers is not an object"
        fields.error("config-servers", detail, "/mcpServers")
        return {}
    named: dict[str, Json] = {}
    too_long = ""
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
            too_long = too_long or key
        named[key.replace("\0", REPLACEMENT)] = entry
    if not named:
        fields.error("config-no-server", "", "/mcpServers")
    if len(named) > MAX_SERVERS:
        fields.error("config-server-count", f"{len(named):,}", "/mcpServers")
    if too_long:
        fields.error("config-server-key", f"{len(too_long.encode()):,} bytes", step("/mcpServers", too_long))
    return named


def _server(
    key: str, entry: Json, shared: tuple[Offer, ...], deprecated: Deprecation | None, fields: Fields
) -> McpServer:
    """One entry as a tool. Its own prices replace those that the config states for all its servers."""
    pointer = step("/mcpServers", key)
    note_texts(entry, fields, pointer)
    entry = _with_usual_names(entry)
    name = fields.text(entry, "name", pointer) or fields.text(entry, "title", pointer)
    command, url, args = (
        fields.text(entry, "command", pointer),
        fields.text(entry, _url_member(entry), pointer),
        _args(entry, fields, pointer),
    )
    if not command and not url:
        fields.warn("missing", "command or url of the server", pointer)
    note_private(url, fields, f"{pointer}/{_url_member(entry)}")
    note_command(command, args, fields, pointer)
    if off := next((name for name, value in (("disabled", True), ("enabled", False)) if entry.get(name) is value), ""):
        fields.warn("inactive", "", step(pointer, off))
    description = fields.text(entry, "description", pointer)
    keywords = fields.texts(entry, "keywords", pointer, MAX_TAGS)
    own_tags = keywords + fields.texts(entry, "tags", pointer, MAX_TAGS)
    skills = _tools(entry, fields, pointer)
    note_tools(description, skills, fields, pointer)
    has_price = any(entry.get(price_key) is not None for price_key in PRICE_KEYS)
    offers = read_offers(entry, fields, _tool_names(entry), pointer) if has_price else shared
    return McpServer(
        key=key,
        name=key if not name or name.isspace() else name,
        description=description,
        version=fields.text(entry, "version", pointer),
        url=url,
        logo=read_logo(entry, fields, pointer),
        provider=read_provider(entry, fields, pointer),
        command=command,
        args=args,
        env=_named_texts(entry, "env", fields, pointer),
        transport=_transport(entry),
        headers=_named_texts(entry, "headers", fields, pointer),
        keywords=keywords,
        tools=tuple(skill.id for skill in skills),
        prompts=_names(entry, "prompts", ("name",), fields, pointer),
        resources=_names(entry, "resources", ("uri", "name"), fields, pointer),
        skills=skills,
        tags=merge_tags(own_tags, (tag for skill in skills for tag in skill.tags), fields, pointer),
        offers=offers,
        deprecated=deprecated,
        warnings=fields.finish(),
    )


def _with_usual_names(entry: Json) -> Json:
    """An entry with the members of most clients, where its command is an object (Zed) or a list (OpenCode), or its env
    is named otherwise."""
    command, args = entry.get("command"), entry.get("args")
    if isinstance(command, dict):
        entry = entry | {name: command[name] for name in ("args", "env") if name in command}
        entry = entry | {"command": command.get("path")}
    elif isinstance(command, list) and command:
        entry = entry | {"command": command[0], "args": command[1:] + (args if isinstance(args, list) else [])}
    if "env" not in entry and "environment" in entry:
        entry = entry | {"env": entry["environment"]}
    return entry


def _url_member(entry: Json) -> str:
    return next((name for name in _URLS if isinstance(entry.get(name), str) and entry[name]), "url")


def _transport(entry: Json) -> str:
    """The transport that an entry states, "" where it states none that is known."""
    stated = (entry.get(name) for name in ("type", "transport", "transportType"))
    names = (re.sub("[^a-z]", "", text[:40].lower()) for text in stated if isinstance(text, str))
    transport = next((_TRANSPORTS[name] for name in names if name in _TRANSPORTS), "")
    return transport or ("streamable-http" if _url_member(entry) == "httpUrl" else "")


def _size(value: Any) -> int:
    """An upper bound of the text in a JSON value, in bytes; computed without recursion."""
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


def _tools(entry: Json, fields: Fields, pointer: str) -> tuple[Skill, ...]:
    """Tools as skills: names, or objects with name, description and tags. The id is the tool's name."""
    skills: dict[str, Skill] = {}
    for number, tool in enumerate(fields.items(entry, "tools", pointer)):
        if len(skills) == MAX_SKILLS:
            fields.not_indexed(f"only the first {MAX_SKILLS} tools", step(pointer, "tools"))
            break
        item_pointer = f"{pointer}/tools/{number}"
        name = _name_of(tool, _TOOL_NAMES, fields, pointer, "tools", number)
        if not name:
            continue
        if name in skills:
            fields.warn("skill-repeated", name, item_pointer)
        elif isinstance(tool, dict):
            title, description = (
                fields.text(tool, "title", item_pointer),
                fields.text(tool, "description", item_pointer),
            )
            skills[name] = Skill(name, title or name, description, fields.texts(tool, "tags", item_pointer, MAX_TAGS))
        else:
            skills[name] = Skill(name, name)
    return tuple(skills.values())


def _tool_names(entry: Json) -> frozenset[str]:
    """The names of all tools of a server, as written, indexed or not."""
    tools = entry.get("tools")
    return frozenset(_raw_name(tool, _TOOL_NAMES) for tool in tools) if isinstance(tools, list) else frozenset()


def _names(entry: Json, key: str, members: tuple[str, ...], fields: Fields, pointer: str) -> tuple[str, ...]:
    names: list[str] = []
    for number, item in enumerate(fields.items(entry, key, pointer)):
        if len(names) == MAX_SKILLS:
            fields.not_indexed(f"only the first {MAX_SKILLS} {key}", step(pointer, key))
            break
        name = _name_of(item, members, fields, pointer, key, number)
        if name:
            names.append(name)
    return tuple(names)


def _name_of(item: object, members: tuple[str, ...], fields: Fields, pointer: str, key: str, number: int) -> str:
    """The name of an entry of list `key`: the entry itself if it is a string, else the first string among `members`."""
    name = _raw_name(item, members)
    if not name or name.isspace():
        fields.warn("ignored", f"an entry of {key} without a name", f"{pointer}/{key}/{number}")
        return ""
    return fields.bounded(name, pointer, key, number)


def _raw_name(item: object, members: tuple[str, ...]) -> str:
    if isinstance(item, dict):
        item = next((item[member] for member in members if isinstance(item.get(member), str)), None)
    return item if isinstance(item, str) else ""


def _args(entry: Json, fields: Fields, pointer: str) -> tuple[str, ...]:
    """The arguments, without those that are not strings; others stay, as their order and number matter."""
    values = fields.items(entry, "args", pointer)
    if len(values) > MAX_ARGS:
        fields.not_indexed(f"only the first {MAX_ARGS} args", step(pointer, "args"))
    args = []
    for number, value in enumerate(values[:MAX_ARGS]):
        item_pointer = f"{pointer}/args/{number}"
        if not isinstance(value, str):
            fields.wrong(value, "a string", item_pointer)
            continue
        args.append(fields.bounded(value, item_pointer))
    return tuple(args)


def _named_texts(entry: Json, key: str, fields: Fields, pointer: str) -> dict[str, str]:
    """The texts of `env` (variables and their descriptions) or `headers`, by name. An inscribed secret is public
    already, but is not repeated here."""
    values = fields.object(entry, key, pointer)
    if len(values) > MAX_ENV:
        fields.not_indexed(f"only the first {MAX_ENV} of {key}", step(pointer, key))
    texts: dict[str, str] = {}
    item_pointer = step(pointer, key)
    for name in list(values)[:MAX_ENV]:
        text = fields.text(values, name, item_pointer)
        if secret_in(text, name, is_setting=True):
            text = ""
        elif key == "env" and text and not any(map(str.isspace, text)) and not _PLACEHOLDER.fullmatch(text):
            fields.warn("env-value", name, step(item_pointer, name))
        texts[fields.bounded(name, item_pointer)] = text
    return texts
