"""The texts of an item that are searched, read back from what is shown of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from overlay.document import Document
from overlay.search.ranking import texts
from parsers.cards import Skill

_MET = frozenset(("hash-verified", "drifted"))
_CROWDED = "crowded"
_OF_SERVERS = ("keywords", "tools", "prompts", "resources")


class Field(NamedTuple):
    """One text of an item: its RFC 6901 pointer, and how much its words weigh (`search.ranking`)."""

    pointer: str
    weight: int
    text: str


def document(item: Mapping[str, Any]) -> Document:
    """As `items.document` made it, as far as words and what they weigh go: all else is left empty."""
    verified = item.get("integrity") in _MET or bool((item.get("domain") or {}).get("verified"))
    crowded = any(each["code"] == _CROWDED for each in item.get("warnings", ()))
    return Document(
        id=str(item.get("id", "")), registration="", kind=str(item.get("type", "")), status=item.get("status", ""),
        chain="", caip2="", owner="", verified=verified, from_height=None, until_height=None, updated_height=None,
        updated_time=None, created_height=None, created_time=None, item=b"", name=item.get("name", ""),
        description=item.get("description", ""), tags=tuple(item.get("tags", ())),
        words=tuple(text for _, text in _words(item)), skills=tuple(map(_skill, item.get("skills", ()))),
        signed="signer" in item, age=item.get("age", 0), quiet=tuple(item.get("quiet", ())), crowded=crowded,
    )  # fmt: skip


def _skill(each: Mapping[str, Any]) -> Skill:
    tags, examples = (tuple(each.get(name, ())) for name in ("tags", "examples"))
    return Skill(each["id"], each.get("name", ""), each.get("description", ""), tags, examples)


def fields(item: Mapping[str, Any]) -> list[Field]:
    """The texts that are searched, in order."""
    weighed = zip(_pointers(item), texts(document(item)), strict=True)
    return [Field(pointer, weight, text) for pointer, (weight, text) in weighed]


def _pointers(item: Mapping[str, Any]) -> Iterator[str]:
    """Where the texts stand that `ranking.texts` gives."""
    yield "/name"
    yield "/description"
    yield from (f"/tags/{at}" for at, _ in enumerate(item.get("tags", ())))
    for number, skill in enumerate(item.get("skills", ())):
        here = f"/skills/{number}"
        yield f"{here}/name" if skill.get("name") else f"{here}/id"
        if skill.get("name") and skill["id"] != skill["name"]:
            yield f"{here}/id"
        yield f"{here}/description"
        yield from (f"{here}/tags/{at}" for at, _ in enumerate(skill.get("tags", ())))
        yield from (f"{here}/examples/{at}" for at, _ in enumerate(skill.get("examples", ())))
    yield from (pointer for pointer, _ in _words(item))


def _words(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What `items.document` adds: of a tool, what its server is and offers; of both, who provides them."""
    if item.get("type") == "tool":
        if "serverName" in item:
            yield "/serverName", item["serverName"]
        for name in _OF_SERVERS:
            yield from ((f"/{name}/{at}", text) for at, text in enumerate(item.get(name, ())))
    for key, text in (item.get("provider") or {}).items():
        yield f"/provider/{key.replace('~', '~0').replace('/', '~1')}", text
