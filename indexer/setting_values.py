"""The valid texts of each setting, and their values. These functions raise SettingsError.

Standard library only, as `indexer/settings.py` is. `name` is the setting that an error is of.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from indexer.masking import masked
from indexer.rates.feed_urls import RateFeed, rate_feeds


class Quota(NamedTuple):
    """A limit of `requests` at once, refilled over `seconds`."""

    requests: int
    seconds: int


class ListenAddress(NamedTuple):
    """An address to listen on, and a port; 0 takes any that is free."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The base of URLs on it."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


LIMITS = {
    "read": Quota(12_000, 60),
    "costly": Quota(600, 60),
    "ingest": Quota(60, 60),
    "stream": Quota(60, 60),
}
"""Default limits of one client, by kind of route."""

LOG_WORDS = frozenset({"text", "json", "requests", "combined", "addresses"})
"""The words that `log` may hold."""

CHANGE_BLOCKS = 1_008
"""A week of blocks: how long a changed price or pay-to address is a warning."""

MIN_SECRET = 16
"""Characters of a secret that clients send, at least."""

MAX_PORT = 65_535

MAX_TITLE = 60

_QUOTA = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,4})")
_HEIGHT = re.compile(r"[0-9]{1,9}")
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]*)):([0-9]+)")
_PRINCIPAL = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_LINK = re.compile(
    r"https://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:[/?#][!#-;=?-~]*)?|mailto:[!#-;=?-~]+@[A-Za-z0-9.-]+(?:[?][!#-;=?-~]*)?"
)
_BASE_URL = re.compile(r"https?://(?:[^\s/?#@]+@)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?(?:/[^\s?#]*)?")


class SettingsError(Exception):
    """Invalid settings: the message names the setting and gives a valid example."""


class ChainUrl(NamedTuple):
    """A chain to follow: its configured name, and the URL of a source, secrets included."""

    name: str
    url: str

    @property
    def shown(self) -> str:
        """`name=URL` with secrets masked."""
        return f"{self.name}={masked(self.url)}"

    def with_token(self, token: str) -> ChainUrl:
        """A copy of this URL in which a JungleBus URL without a token has this one, percent-encoded."""
        if not token or not self.url.startswith("junglebus:") or re.search(r"[?&]token=", self.url):
            return self
        return self._replace(url=f"{self.url}{'&' if '?' in self.url else '?'}token={quote(token, safe='')}")

    def starting(self, height: str | None) -> ChainUrl:
        """A copy of this URL, read from a height on, whatever height the URL has; unchanged for None."""
        if height is None:
            return self
        location, _, query = self.url.partition("?")
        others = [part for part in query.split("&") if part and not part.startswith("from=")]
        return self._replace(url=f"{location}?{'&'.join([*others, f'from={height}'])}")


def folder(name: str, text: str) -> Path:
    """A folder that can be written in a database URL."""
    if "?" in text:
        raise SettingsError(f"{name} is {text!r}: a ? in the folder's name cannot be written in a database URL")
    return Path(text)


def chain_urls(_name: str, text: str) -> tuple[ChainUrl, ...]:
    """The chains with their sources, in configured order."""
    chains: list[ChainUrl] = []
    for word in text.split():
        name, equals, url = word.partition("=")
        if not equals or not _NAME.fullmatch(name) or ":" not in url:
            raise SettingsError(
                f"chains holds {masked(word)!a}: write name=URL, the name in lower case, "
                "such as bsv=files:/path/to/blocks?network=mainnet (a space in a path as %20)"
            )
        if ChainUrl(name, url) in chains:
            raise SettingsError(f"chains holds {masked(word)!a} twice: another source has another URL")
        chains.append(ChainUrl(name, url))
    if text and not chains:
        raise SettingsError("chains is empty: write name=URL, or leave it out")
    return tuple(chains)


def starts(text: str, chains: tuple[ChainUrl, ...]) -> dict[str, str]:
    """The height at which reading starts, by chain; a number alone is for all chains that are not named."""
    heights: dict[str, str] = {}
    names = {chain.name for chain in chains}
    for word in sorted(text.split(), key=lambda word: "=" in word):
        name, _, height = word.rpartition("=")
        if not _HEIGHT.fullmatch(height) or (name and name not in names):
            raise SettingsError(
                f"from_height holds {word[:60]!a}: write a height of at most nine digits, or NAME=HEIGHT, "
                f"NAME one of {', '.join(sorted(names)) or 'the configured chains'}"
            )
        heights |= dict.fromkeys([name] if name else names, height)
    return heights


def number(name: str, text: str, most: int, least: int = 0, of: str = "") -> int:
    """A whole number."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise SettingsError(f"{name} is {text[:60]!a}, and must be a whole number{of} from {least} to {most}")
    return int(text)


def address(name: str, text: str) -> ListenAddress | None:
    """The address to listen on; None to listen nowhere."""
    if text in ("", "off"):
        return None
    match = _ADDRESS.fullmatch(text)
    if not match:
        raise SettingsError(f"{name} is {text[:60]!a}: write ADDRESS:PORT such as 127.0.0.1:9464 or [::1]:9464, or off")
    return ListenAddress(match[1] or match[2] or "127.0.0.1", number(f"the port of {name}", match[3], MAX_PORT))


def limits(name: str, text: str) -> dict[str, Quota | None]:
    """The quotas of every kind of route, None where switched off."""
    return {**LIMITS, **stated_limits(name, text)}


def stated_limits(name: str, text: str) -> dict[str, Quota | None]:
    """The quotas of the kinds of routes that a text names, None where switched off."""
    if text.strip() == "off":
        return dict.fromkeys(LIMITS)
    quotas: dict[str, Quota | None] = {}
    for word in text.split():
        kind, _, quota_text = word.partition("=")
        quota = _QUOTA.fullmatch(quota_text)
        if kind not in LIMITS or not (quota_text == "off" or quota):
            raise SettingsError(
                f"{name} holds {word[:60]!a}: write KIND=REQUESTS/SECONDS or KIND=off, KIND one of "
                f"{', '.join(LIMITS)}, REQUESTS of at most six digits and SECONDS of at most five; or off alone"
            )
        quotas[kind] = Quota(int(quota[1]), int(quota[2])) if quota else None
    return quotas


def log_words(name: str, text: str) -> tuple[str, ...]:
    """The words of `log`: `text` and `json` exclude each other, and `combined` is text."""
    words = tuple(dict.fromkeys(text.split()))
    if not set(words) <= LOG_WORDS or any(pair <= set(words) for pair in _APART):
        raise SettingsError(
            f"{name} is {text[:60]!a}: write text or json; requests, or with text combined, for a line about every "
            "request; addresses for whole addresses in them"
        )
    return words


_APART = ({"text", "json"}, {"combined", "json"}, {"combined", "requests"})


def base_url(name: str, text: str, form: str = "http(s)://HOST[:PORT][/PATH]") -> str:
    """A base URL without a slash at its end; an error names the valid `form`."""
    if text and not _BASE_URL.fullmatch(text):
        raise SettingsError(f"{name} is {masked(text)[:200]!a}: write {form}")
    return text.rstrip("/")


def base_urls(name: str, text: str) -> tuple[str, ...]:
    """Base URLs without a slash at their ends."""
    return tuple(base_url(name, word) for word in text.split())


def link(name: str, text: str) -> str:
    """An https or mailto address for pages."""
    if text and not _LINK.fullmatch(text):
        raise SettingsError(f"{name} is {masked(text)[:200]!a}: write https://HOST/PATH or mailto:NAME@HOST")
    return text


def title(name: str, text: str) -> str:
    """The name of a site."""
    if not 0 < len(text) <= MAX_TITLE or not text.isprintable():
        raise SettingsError(f"{name} is {text[:60]!a}: 1 to {MAX_TITLE} characters that can be printed")
    return text


def switch(name: str, text: str) -> bool:
    """Whether a setting is `on`."""
    if text not in ("on", "off"):
        raise SettingsError(f"{name} is {text[:60]!a}: write on or off")
    return text == "on"


def probe(name: str, text: str) -> bool | None:
    """Whether visits are `on`; None where that is not set."""
    return switch(name, text) if text else None


def ticker(name: str, text: str) -> str:
    """A currency code, in upper case. Raises SettingsError."""
    code = text.strip().upper()
    if not code or len(code) > 64 or not code.isprintable() or " " in code:
        raise SettingsError(f"{name} is {text!a}: a currency code such as USD is needed")
    return code


def token(name: str, secret: str) -> str:
    """A secret of some length, or an empty text."""
    if 0 < len(secret) < MIN_SECRET:
        raise SettingsError(f"{name} has {len(secret)} characters: at least {MIN_SECRET}; try `openssl rand -hex 32`")
    return secret


def principals(name: str, text: str) -> tuple[str, ...]:
    """Ed25519 public keys, each as the 43 characters of base64url that its 32 bytes take."""
    for word in text.split():
        if not _PRINCIPAL.fullmatch(word):
            raise SettingsError(f"{name} holds {word[:60]!a}: a principal is a public key in base64url")
    return tuple(dict.fromkeys(text.split()))


def networks(name: str, text: str) -> tuple[str, ...]:
    """Networks in canonical form; an address is a network of one."""
    from ipaddress import ip_network

    try:
        return tuple(str(ip_network(word)) for word in text.split())
    except ValueError as error:
        raise SettingsError(
            f"{name}: {str(error)[:100]}; write addresses or networks such as 127.0.0.1 10.0.0.0/8"
        ) from None


def feeds(name: str, text: str) -> tuple[RateFeed, ...]:
    """Feeds of exchange rates."""
    try:
        return rate_feeds(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from None


def host_table(name: str, text: str) -> str:
    """The entries unchanged, after validation."""
    if text:
        from indexer.fetcher.dns import table

        try:
            table(text)
        except ValueError as error:
            raise SettingsError(f"{name}: {error}") from None
    return text


HTTPS_ALONE, ENDPOINT_PORTS = "443", "443 1024-65535"


def fetch_ports(name: str, text: str) -> str:
    """`HTTPS_ALONE` or `ENDPOINT_PORTS`."""
    words = " ".join(text.split())
    if words not in (HTTPS_ALONE, ENDPOINT_PORTS):
        raise SettingsError(f"{name} is {text[:60]!a}: write {HTTPS_ALONE} or {ENDPOINT_PORTS}")
    return words


def certificates(name: str, text: str) -> str:
    """The path of a file that holds certificates."""
    if text:
        import ssl

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=text)
        except ssl.SSLError:
            raise SettingsError(f"{name} is {text!r}, and holds no certificate in PEM") from None
        except OSError as error:
            raise SettingsError(f"{name} is {text!r}, and cannot be read: {error.strerror}") from None
    return text
