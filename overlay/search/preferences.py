"""Constraints in the words of a question, as preferences: tied phrases only (`free agents`, `paid per call`, `accepts
BSV`, `under 5 USD` and `not ethereum` at the end), since a single *free* or *cheap* nearly always describes the goods:
of 3,903 stated needs it does in all but two. The words of a phrase are not searched for; listings that meet all
preferences come before others (`projection.index_pages`), and no listing is left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from typing import Any, NamedTuple

from overlay.search.query_syntax import OPERATOR_WORDS, operators, read
from overlay.search.stop_words import ENGLISH, GENERIC

CURRENCIES = (
    "BSV", "BTC", "BCH", "LTC", "DOGE", "ETH", "SOL", "USDC", "USDT", "USD", "EUR", "GBP", "JPY", "CHF", "CNY", "INR",
)  # fmt: skip
"""The currencies that a phrase may name, in capitals or not."""

_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_INTERVALS = {"call": "none", "request": "none", "month": "P1M"}
_NUMBER = r"\d{1,9}(?:\.\d{1,8})?"
_CURRENCY = rf"(?P<currency>(?:{'|'.join(CURRENCIES)})\b)"
_AMOUNT = rf"(?:(?P<sign>[{''.join(_SIGNS)}]) ?(?P<signed>{_NUMBER})|(?P<amount>{_NUMBER}) ?{_CURRENCY})"
_GENERIC = rf"(?:(?:ai|mcp) )?(?:{'|'.join(sorted(GENERIC - {'api', 'apis'}))})\b"
_PER = r"(?:per|by the|an?|each|every)[ -](?P<interval>call|request|month)\b"
_PATTERNS = tuple(
    re.compile(rf"(?<![\w-]){pattern}", re.IGNORECASE)
    for pattern in (
        rf"(?P<free>free)(?= (?P<listing>{_GENERIC}))",
        rf"(?P<cheap>cheap(?:est)?|affordable|inexpensive|low-cost)(?= (?P<listing>{_GENERIC}))",
        rf"(?:pay|paid|priced?|billed|charged|cheap(?:est)?)[ -]{_PER}",
        rf"(?:(?:paid|payable|priced) in|accept(?:s|ing)?) {_CURRENCY}(?: payments?\b)?",
        rf"(?:under|below|less than|at most|up to) {_AMOUNT}(?: {_PER})?$",
        r"(?:but not|not|except for|except|other than) (?P<unwanted>[\w.+#]{1,40}[\w+#])[.?!]?$",
    )
)
_HINT = re.compile(
    r"free|cheap|afford|inexp|low-|pay|paid|pric|bill|charg|accept|under|below|less|most|up to|not|excep|than"
)
"""Some letters of each phrase: most texts have none."""

_KINDS = dict.fromkeys(("agent", "agents"), "agent") | dict.fromkeys(
    ("mcp", "server", "servers", "tool", "tools"), "tool"
)
Pairs = tuple[tuple[str, str], ...]


class Preference(NamedTuple):
    """A phrase and those of its words that are not searched for, the parameters of a search that has it as a filter or
    order, and the members of a `Query` that finds the listings which meet it."""

    phrase: str
    words: str
    parameters: Pairs
    members: tuple[tuple[str, Any], ...]


class Understood(NamedTuple):
    """A text without the words of its preferences, and these."""

    text: str
    preferences: tuple[Preference, ...] = ()


def understand(text: str, used: Collection[str] = ()) -> Understood:
    """Find the preferences in a text of words, without operators. A phrase whose parameters are among those `used` is
    left in the text, and so is one beside which there are only stop words."""
    if not _HINT.search(text.lower()):
        return Understood(text)
    rest, preferences = " ".join(text.split()), list[Preference]()
    for pattern in _PATTERNS:
        match = pattern.search(rest)
        preference = _preference(match) if match else None
        if match is None or preference is None or any(name in used for name, _ in preference.parameters):
            continue
        others = f"{rest[: match.start()]}{rest[match.end() :]}".split()
        if any(word.lower() not in ENGLISH and word.strip(",;") for word in others):
            rest = " ".join(others).rstrip(" ,;")
            preferences.append(preference)
    return Understood(rest, tuple(preferences)) if preferences else Understood(text)


def hinted_kind(text: str) -> str:
    """The kind of listing that the generic words of a text hint at; "" where they do at both, or at none."""
    kinds = {_KINDS[word] for word in text.lower().split() if word in _KINDS}
    return kinds.pop() if len(kinds) == 1 else ""


def _preference(match: re.Match[str]) -> Preference | None:
    """The preference that a phrase states."""
    parts = {name: value for name, value in match.groupdict().items() if value is not None}
    phrase = " ".join(filter(None, (match[0], parts.get("listing"))))
    if "free" in parts:
        return Preference(phrase, match[0], (("free", "true"),), (("free", True),))
    if "cheap" in parts:
        return Preference(phrase, match[0], (("sort", "price"),), (("has_price", True),))
    if "unwanted" in parts:
        word = parts["unwanted"]
        required = operators(read(f"-{word}"))
        if required is None or word.lower() in ENGLISH or len(match.string.split()) > OPERATOR_WORDS:
            return None
        return Preference(phrase, phrase, (("q", f"-{word}"),), (("operators", required),))
    parameters, members = list[tuple[str, str]](), list[tuple[str, Any]]()
    currency = parts.get("currency", "").upper() or _SIGNS.get(parts.get("sign", ""), "")
    if amount := parts.get("amount") or parts.get("signed"):
        parameters += (("maxPrice", amount), ("priceCurrency", currency))
        members += (("max_price", Decimal(amount)), ("price_currency", currency))
    elif currency:
        parameters.append(("acceptedCurrency", currency))
        members.append(("currencies", (currency,)))
    if interval := _INTERVALS.get(parts.get("interval", "").lower()):
        parameters.append(("interval", interval))
        members.append(("intervals", (interval,)))
    return Preference(phrase, phrase, tuple(parameters), tuple(members))
