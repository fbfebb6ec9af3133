"""The host of a URL as it compares: lower-case A-labels."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit


@lru_cache(maxsize=256)  # every listing asks twice, and IDNA takes 50 µs
def url_host(url: str) -> str:
    """The domain name of an http or https URL, empty when it has none (an address is no name)."""
    from parsers.locator import a_label  # idna, which a search without listings does not need

    try:
        parts = urlsplit(url)
        return a_label(parts.hostname or "") or "" if parts.scheme in ("http", "https") else ""
    except ValueError:
        return ""
