"""Listings as a model reads them: without members that say nothing, and of a result of a search what decides whether to
look at it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from overlay.search.analysis import stem, words
from overlay.search.stop_words import content_words
from overlay.text.interval_words import per
from overlay.text.severity_words import SAME_OWNER
from parsers.cards.intervals import interval_key
from parsers.cards.usage import is_runnable
from parsers.reasons import HIGH, INFO

Json = Mapping[str, Any]

MATCHING, OTHERS, PRICES = 3, 5, 3
"""Skills of a result that match the question, further ones that are only named, and prices."""

MAX_NAME, MAX_TEXT, MAX_LINE = 48, 100, 500
"""Characters of the name and the description of a skill, and of a command line, in a result."""

READ, MAX_READ = 64, 500
"""Skills of a listing, and characters of each, that are compared with the question."""

AS_STORED = ("pending", "deprecated", "sale", "rating", "cost", "tags", "lacks", "byMeaning", "duplicates")
"""Members of a result that are those of the item."""

if TYPE_CHECKING:
    from overlay.answers.observed_tools import ObservedTool

_SAME = {"same-name": "name", "same-url": "URL", "same-address": "address", "same-text": "text"}
"""The part of an older listing that a warning is about, by its code."""

_EMPTY: tuple[Any, ...] = (None, "", [], {})
_TEXTS_BY_NAME = frozenset(("env", "provider"))


def compact(members: Json) -> dict[str, Any]:
    """A JSON object without members that are null or empty, at any depth; the names of a map of texts, such as those of
    `env`, and the elements of lists stay."""
    parts = {name: part if name in _TEXTS_BY_NAME else _compact(part) for name, part in members.items()}
    return {name: part for name, part in parts.items() if part not in _EMPTY}


def _compact(value: Any) -> Any:
    if isinstance(value, list):
        return [_compact(part) for part in value]
    return compact(value) if isinstance(value, dict) else value


def listing(item: Json) -> dict[str, Any]:
    """A listing with all that its card and the chain state. An offer without `skillIds` is for all skills."""
    form = compact(item)
    if "domain" in form:
        form["domain"] = {"host": item["domain"]["host"]} | _domain(item["domain"])
    if offers := item.get("offers"):
        form["offers"] = [compact(offer) | {"interval": interval_key(offer["interval"])} for offer in offers]
    return form | {"runnable": _is_runnable(item)} if "command" in item else form


def named_tool(tool: ObservedTool) -> dict[str, Any]:
    """A tool that a server lists, without its schema."""
    return compact({"name": tool.name, "description": tool.description[:MOST_OF_TOOL]})


MOST_OF_TOOL = 200
"""Characters of the description of a tool that a server lists."""


def result(item: Json, question: Set[str] = frozenset()) -> dict[str, Any]:
    """A result of a search for the words `question`."""
    return compact({
        "id": item["id"],
        "type": item["type"],
        "status": item["status"] if item["status"] != "live" else None,
        "name": item["name"][:MAX_TEXT],
        "summary": item["summary"],
        "runnable": _is_runnable(item),
        "health": item.get("health", {}).get("state"),
        "commandLine": _command_line(item),
        "url": item["url"],
        "provider": (item["provider"] or {}).get("organization"),
        "domain": _domain(item["domain"] or {}),
        "chain": item["chain"],
        "integrity": item["integrity"] if item["integrity"] != "inscribed" else None,
        **_skills(item["skills"], question),
        "tools": item["tools"][:OTHERS],
        **_prices(item["offers"], item.get("cheapest")),
        **{name: item.get(name) for name in AS_STORED},
        **_warnings(item["warnings"]),
    })  # fmt: skip


def question_words(text: str) -> frozenset[str]:
    """The stems of the words of a question that matter."""
    return frozenset(map(stem, words(" ".join(content_words(text.split())))))


def _is_runnable(item: Json) -> bool:
    return is_runnable(item.get("command", ""), item.get("url", ""))


def _command_line(item: Json) -> str:
    line = shlex.join([item["command"], *item["args"]]) if item["command"] else ""
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…"


def _domain(domain: Json) -> dict[str, Any]:
    """Whether the host of a listing confirms it; empty where it was never checked."""
    if not domain.get("checkedAt"):
        return {}
    badge = domain["verified"] and domain.get("by", "hash")
    return {name: value for name, value in domain.items() if name not in ("verified", "by")} | {"badge": badge}


def _skills(skills: Sequence[Json], question: Set[str]) -> dict[str, Any]:
    """Skills that have a word of the question, with their descriptions, and the names of a few others."""
    matching: list[Json] = []
    others: list[Json] = []
    for skill in skills[:READ]:
        (matching if len(matching) < MATCHING and question & _words_of(skill) else others).append(skill)
    return {
        "skills": [
            {
                "id": skill["id"],
                "name": skill["name"][:MAX_NAME] if skill["name"] != skill["id"] else "",
                "description": skill["description"][:MAX_TEXT],
            }
            for skill in matching
        ],
        "otherSkills": [(skill["name"] or skill["id"])[:MAX_NAME] for skill in others[:OTHERS]],
        "skillCount": len(skills) if len(skills) > MATCHING else None,
    }


def _words_of(skill: Json) -> frozenset[str]:
    text = " ".join((skill["id"], skill["name"], skill["description"][:MAX_READ], *skill["tags"]))
    return frozenset(map(stem, words(text[:MAX_READ])))


def _prices(offers: Sequence[Json], cheapest: Json | None) -> dict[str, Any]:
    """A few prices in words by the ids of their offers, the cheapest first."""
    least = cheapest["offerId"] if cheapest else None
    ordered = sorted(offers, key=lambda offer: offer["id"] != least)
    prices = {offer["id"]: _price(offer) for offer in reversed(ordered[:PRICES])}
    return {
        "prices": dict(reversed(prices.items())),
        "offerCount": len(offers) if len(offers) > PRICES else None,
        "cheapest": cheapest if cheapest and "converted" in cheapest else None,
    }


def _price(offer: Json) -> str:
    accepted = [currency for currency in offer["acceptedCurrencies"] if currency != offer["currency"]]
    others = f", also paid in {', '.join(accepted[:OTHERS])}" if accepted else ""
    return f"{offer['amount']} {offer['currency']} {per(interval_key(offer['interval']))}{others}"


def _warnings(warnings: Sequence[Json]) -> dict[str, Any]:
    """Warnings by their codes, with the details of severe ones; those about older listings as what each of them had
    before, by its id."""
    earlier: dict[str, list[str]] = {}
    codes: dict[str, None] = {}
    for warning in warnings:
        if warning["code"] in _SAME:
            id_ = warning["detail"].removesuffix(SAME_OWNER).rpartition(": ")[2]
            earlier.setdefault(id_, []).append(_SAME[warning["code"]])
        elif warning.get("severity") != INFO:
            detail = f": {warning['detail']}" if warning.get("severity") == HIGH else ""
            codes[warning["code"] + detail] = None
    return {"warnings": list(codes), "earlier": {id_: ", ".join(what) for id_, what in earlier.items()}}
