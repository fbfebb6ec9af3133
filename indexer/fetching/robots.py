"""Opting out: what a host's robots.txt says to our own product token (RFC 9309), and to it alone.

Groups for `*` are addressed to crawlers, which find their way by themselves; what is fetched here was named, URL by
URL, on a chain. But anyone can name a host there, so that its owner can end it with `User-agent: a2b-registry` and
`Disallow: /`. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from indexer.fetching.limits import PRODUCT

MAX_RULES = 200
MAX_PATTERN = 500


class Rules(NamedTuple):
    """Path patterns with whether they allow; empty: nothing is said to us."""

    patterns: tuple[tuple[str, bool], ...] = ()

    def allow(self, path: str) -> bool:
        """Whether a path (with query) may be fetched: the longest pattern decides; of equals, the one that allows."""
        fits = [(len(pattern), allows) for pattern, allows in self.patterns if _fits(pattern, path)]
        return max(fits)[1] if fits else True


def read(body: bytes) -> Rules:
    """The rules of the groups that name us. Never raises: lines that are no rules are passed over."""
    rules: list[tuple[str, bool]] = []
    ours, in_agents = False, False
    for line in body.decode("utf-8", "replace").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon:
            continue
        if key == "user-agent":
            ours = (ours and in_agents) or value.lower() == PRODUCT
            in_agents = True
        elif key in ("allow", "disallow"):
            in_agents = False
            if ours and value and len(rules) < MAX_RULES:
                rules.append((value[:MAX_PATTERN], key == "allow"))
    return Rules(tuple(rules))


def _fits(pattern: str, path: str) -> bool:
    """Whether a pattern matches the beginning of a path: `*` is any bytes, `$` at its end is the end."""
    whole = pattern.endswith("$")
    first, *rest = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    last = rest.pop() if rest and whole else None
    for part in rest:
        at = path.find(part, at)
        if at < 0:
            return False
        at += len(part)
    if last is not None:
        return len(path) - len(last) >= at and path.endswith(last)
    return not whole or at == len(path)
