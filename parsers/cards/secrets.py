"""Live secrets in cards and URIs: one rule of forms and names, for every text that is inscribed.

A secret has the form of a key or a token of a well-known service, or is a random text under a name such as `apiKey`,
`Authorization` or `--token`. What an inscription holds is public for ever. Every pattern is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from parsers.cards.json_texts import texts_of

_FORM = re.compile(
    r"(?<![A-Za-z0-9_-])(?:[5KLc][1-9A-HJ-NP-Za-km-z]{50,51}|[xyzt]prv[1-9A-HJ-NP-Za-km-z]{100,110}"
    r"|sk-[A-Za-z0-9_-]{20,}+|[sr]k_live_[A-Za-z0-9]{16,}+|gh[pousr]_[A-Za-z0-9]{30,}+"
    r"|github_pat_[A-Za-z0-9_]{30,}+|glpat-[A-Za-z0-9_-]{20,}+|xox[abprs]-[A-Za-z0-9-]{10,}+"
    r"|A(?:KIA|SIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}|npm_[A-Za-z0-9]{36}|hf_[A-Za-z0-9]{30,}+"
    r"|tvly-[A-Za-z0-9_-]{20,}+|SG\.[A-Za-z0-9_-]{20,30}+\.[A-Za-z0-9_-]{40,}+"
    r"|eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+)(?![A-Za-z0-9])"
)
"""Private keys (WIF, extended) and the tokens of well-known services."""

_PEM = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----")
MIN_FORM = 14
"""Characters of the shortest word that can have such a form."""

_HEX_KEY = re.compile(r"(?<![A-Za-z0-9])(?:0x)?[0-9a-fA-F]{64}(?![A-Za-z0-9])")
"""A private key, or any digest: a secret only where a value is configured."""

_USERINFO = re.compile(
    r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,20}+://[^\s:/?#@]{0,100}:([^\s/?#@]{3,200}+)@", re.IGNORECASE
)
_QUERY = re.compile(r"[?&;]([A-Za-z0-9_.\-\[\]%]{1,60}+)=([^&;#\s\"'<>]{1,2000}+)")
_PAIR = re.compile(r"-{0,2}([A-Za-z][A-Za-z0-9_.-]{0,60}+)(?:=|:(?!//))\s*(?=\S)")
_SCHEME = re.compile(r"(?:bearer|basic|token|apikey|api-key|key)\s+", re.IGNORECASE)

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAMES = frozenset((
    "password", "passwd", "pwd", "passphrase", "secret", "token", "apikey", "credential", "credentials",
    "authorization", "bearer", "mnemonic", "cookie", "auth", "accesstoken", "authtoken", "secretkey", "privatekey",
    "clientsecret", "jwt",
))  # fmt: skip
_NAMES_OF_TWO = frozenset((
    "api key", "access key", "private key", "secret key", "auth key", "client secret", "seed phrase",
    "subscription key", "license key", "signing key", "encryption key", "master key", "account key", "service key",
    "bot key",
))  # fmt: skip
_NO_SECRET = frozenset((
    "url", "uri", "endpoint", "type", "id", "name", "address", "symbol", "limit", "path", "file", "header",
    "prefix", "env", "var", "count", "length", "ttl", "expiry", "max", "min", "public", "placeholder",
    "description", "required", "hint", "docs", "scheme", "field", "param", "parameter", "format", "price", "usage",
))  # fmt: skip
"""Words of names that describe a secret, or something else, such as a token's address."""

_STAND_IN = (
    r"[<\[{$%(]|\.{3}|…|\*{2}|x{4}|your|example|placeholder|change|insert|replace|enter|here\b|dummy|sample|demo|fake|"
    r"redacted|1234567|abcdef|abc123|todo|process\.env|input:"
)
_PLACEHOLDER = re.compile(rf"{_STAND_IN}|secret|password", re.IGNORECASE)
_NO_PASSWORD = re.compile(
    rf".*(?:{_STAND_IN})|[a-z]{{0,8}}[-_.]?(?:secret|password)[-_.]?(?:key|value|[0-9]{{1,4}})?\W?\Z", re.IGNORECASE
)
"""Placeholders for passwords, which people make of words: `my-password1` is one, `hunter2secret` is not."""
_NO_KEY = re.compile(r"your|example|placeholder|x{4}|here\b", re.IGNORECASE)
_MACHINE_MADE = re.compile(r"[0-9]|[a-z][A-Z][a-z][A-Z]")
"""Features of the texts of machines that words do not have: digits, or letters of alternating case."""
MAX_RANDOM = 4_096
_TOKEN = re.compile(r"[A-Za-z0-9+/=_.~:-]{16,}")
_PASSWORD = re.compile(r"[!-~]{8,200}")
MIN_DISTINCT = 8
"""Different characters of a random text: fewer have placeholders such as 0000-0000."""


class Secret(NamedTuple):
    """A secret: the JSON pointer (RFC 6901) of the text with it, and where in it, which does not repeat it."""

    pointer: str
    where: str


def has_secret_form(text: str) -> bool:
    """Whether a text contains a key, a token, or a password of a URL."""
    if len(text) < MIN_FORM:
        return False
    for word in text.split():
        if len(word) < MIN_FORM:
            continue
        if any(_MACHINE_MADE.search(match[0]) and not _NO_KEY.search(match[0]) for match in _FORM.finditer(word)):
            return True
        if "@" in word and any(_is_password(match[1]) for match in _USERINFO.finditer(word)):
            return True
    return "-----BEGIN " in text and _PEM.search(text) is not None


def secret_in(value: str, name: str = "", *, is_setting: bool = False) -> str:
    """Where a value holds a secret, "" for nowhere: by its form, in the query of a URL, or as a whole by its `name`.
    `is_setting`: it configures a program, so that 32 bytes in hex are a key."""
    if has_secret_form(value) or (is_setting and _HEX_KEY.search(value)):
        return name or "the text"
    if is_secret_name(name) and _is_random(_SCHEME.sub("", value.strip(), count=1), name):
        return name
    if "=" in value and "://" in value:
        return next((f"{key} of the URL" for key, text in _parameters(value) if _is_random(text, key)), "")
    return ""


def secret_in_args(args: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """The positions of arguments that hold a secret, and where: also `--name VALUE`, `--name=VALUE`, `-e NAME=VALUE`
    and `--header "Name: VALUE"`."""
    flag = ""
    for number, arg in enumerate(args):
        if not isinstance(arg, str):
            flag = ""
            continue
        pair = _PAIR.match(arg)
        name, value = (pair[1], arg[pair.end() :]) if pair else ("" if arg.startswith("-") else flag, arg)
        if secret_in(arg, is_setting=True) or secret_in(value, name, is_setting=True):
            yield number, f"argument {number + 1}" + (f" ({name})" if name else "")
        flag = arg.lstrip("-") if arg.startswith("-") and not pair else ""


@lru_cache(maxsize=4_096)
def is_secret_name(name: str) -> bool:
    """Whether a name is that of a secret: `apiKey`, `X-Api-Key`, `GITHUB_TOKEN`, `--password`."""
    words = [word.lower() for word in _WORDS.findall(name[:200])]
    if not words or not _NO_SECRET.isdisjoint(words):
        return False
    pairs = {f"{first} {second}" for first, second in pairwise(words)}
    return not _NAMES.isdisjoint(words) or not _NAMES_OF_TWO.isdisjoint(pairs)


def secrets_of(value: Any, pointer: str = "") -> Iterator[Secret]:
    """The secrets of a JSON value, in its order; public values, such as public keys, count as none."""
    for text in texts_of(value, pointer):
        if isinstance(text.value, str):
            if where := secret_in(text.value, text.name, is_setting=text.is_setting):
                yield Secret(text.pointer, where)
        else:
            yield from (Secret(f"{text.pointer}/{number}", where) for number, where in secret_in_args(text.value))


def _parameters(url: str) -> Iterator[tuple[str, str]]:
    """The parameters of a URL's query that have the name of a secret."""
    for match in _QUERY.finditer(url):
        name = unquote_plus(match[1])
        if is_secret_name(name) or name.lower() in ("key", "sig", "code"):
            yield name, unquote_plus(match[2])


def _is_random(text: str, name: str) -> bool:
    """Whether a text looks made by a machine: letters and digits without a word that stands for a secret."""
    if len(text) > MAX_RANDOM or _PLACEHOLDER.search(text) or len(set(text)) < MIN_DISTINCT:
        return False
    if _TOKEN.fullmatch(text):
        digits = sum(map(str.isdigit, text))
        return 2 <= digits < len(text)
    return "pass" in name.lower() and _is_password(text)


def _is_password(text: str) -> bool:
    """Whether a text is a password and no placeholder: of three kinds of characters, or with digits in it."""
    if _NO_PASSWORD.match(text) or not _PASSWORD.fullmatch(text):
        return False
    kinds = (str.islower, str.isupper, str.isdigit, lambda character: not character.isalnum())
    return sum(any(map(kind, text)) for kind in kinds) >= 2
