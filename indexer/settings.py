"""Settings: one frozen record from flags, A2B_* variables and an optional TOML file, in that order of precedence.

Standard library only: commands that only query the index start without pydantic, SQLAlchemy or Numba (see
`docs/decisions/settings-by-hand.md`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote

from indexer.masking import masked
from indexer.rates.feed_urls import RateFeed, rate_feeds

PREFIX = "A2B_"
KEYS = {
    "data": "folder of the database and the index, unless they are elsewhere",
    "database": "where facts are kept: sqlite:///PATH or postgresql+psycopg://user@host/name",
    "database_read": "a replica of the database (PostgreSQL) that processes which only serve read from",
    "search": "the search index: tantivy:PATH, whoosh:PATH or opensearch:https://USER:PASSWORD@HOST:9200/NAME",
    "chains": "what to follow: name=URL, several separated by spaces; a name repeated has several sources",
    "from_height": "where reading starts in a new database: a height, or NAME=HEIGHT...; later: no state hash",
    "host": "the address to serve on",
    "port": "the port to serve on; 0 takes any that is free",
    "metrics": "where `a2b index` serves its metrics and health: ADDRESS:PORT, or :PORT for 127.0.0.1; off by itself",
    "limits": "how many requests one client may send: KIND=REQUESTS/SECONDS, several separated by spaces, or off",
    "log": "log lines: text or json, and requests for a line each; by itself, json where the output is no terminal",
    "junglebus_token": "the access token that a JungleBus server's dashboard gives",
    "trusted_proxies": "addresses or networks of proxies whose X-Forwarded-For is believed, separated by spaces",
    "fetch_resolve": "hosts that are fetched from elsewhere: host:port=ip:port, several separated by spaces",
    "fetch_ca_file": "a PEM file of authorities that fetched hosts may be certified by, beside the world's",
    "ipfs_gateway": "the gateway that ipfs:// cards are fetched through, such as http://127.0.0.1:8080",
    "rates": "feeds of exchange rates: BASE=URL, several separated by spaces, the preferred first",
    "rates_every": "seconds between two looks at the feeds of exchange rates",
    "rates_max_age": "seconds after which a quote is too old to be used",
    "change_blocks": "for how many blocks a change of price or pay-to address is a warning; 0 for never",
    "public_url": "the base of absolute URLs in responses, such as https://registry.example; else that of the request",
    "identity_key": "a file with this server's signing keys; created in the data folder where SQLite is the database",
    "prices": "a JSON file of prices (A2B x-payment-config) that pay for requests beyond the limits; by itself, none",
    "relay": "on: agents of Motebit register here, and their tasks are settled in a ledger; off by itself",
    "relay_address": "where deposits to that ledger are paid: TICKER:ADDRESS; by itself, none are taken",
    "doors": "the foreign protocols to serve, separated by spaces, or off; by itself, all",
    "delegation_roots": "principals (base64url) whose capability tokens are accepted, separated by spaces",
    "gasp_peers": "BSV overlays whose outputs are pulled (GASP): their base URLs, separated by spaces",
    "submit_broadcast": "on: transactions that clients submit are sent to the node; off by itself",
    "arc_callback_token": "the secret with which ARC reports transactions at /arc-ingest; without one, nobody may",
}
"""Every setting, by its name in a file; in the environment it is upper-case after the prefix."""


class Quota(NamedTuple):
    """A limit of `requests` at once, refilled over `seconds`."""

    requests: int
    seconds: int


class ListenAddress(NamedTuple):
    """An address to listen on, and a port; 0 takes any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        """`ADDRESS:PORT`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


LIMITS = {
    "read": Quota(12_000, 60),
    "costly": Quota(600, 60),
    "ingest": Quota(60, 60),
    "stream": Quota(60, 60),
}
"""Default limits of one client, by kind of route."""

LOG_WORDS = frozenset({"text", "json", "requests"})
"""The words that `log` may hold."""

NOT_SETTINGS = frozenset({"A2B_KEY", "A2B_DCT_KEY", "A2B_ARC_TOKEN", "A2B_TEST_SHARED", "A2B_REQUIRE_ALL"})
"""Variables of the commands that publish and of the test suite, which may be set when a command runs."""

CHANGE_BLOCKS = 1_008
"""A week of blocks: how long a changed price or pay-to address is a warning."""

MIN_SECRET = 16
"""Characters of a secret that clients send, at least."""

_SECRET = frozenset({"junglebus_token", "rates", "arc_callback_token"})
_QUOTA = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,4})")
_HEIGHT = re.compile(r"[0-9]{1,9}")
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]*)):([0-9]+)")
_PRINCIPAL = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_GATEWAY = re.compile(r"https?://(?:[^\s/?#@]+@)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?(?:/[^\s?#]*)?")


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
        """The same chain; a JungleBus URL without a token gets this one, percent-encoded."""
        if not token or not self.url.startswith("junglebus:") or re.search(r"[?&]token=", self.url):
            return self
        return self._replace(url=f"{self.url}{'&' if '?' in self.url else '?'}token={quote(token, safe='')}")

    def starting(self, height: str | None) -> ChainUrl:
        """The same chain, read from that height on, whatever its URL says; unchanged for None."""
        if height is None:
            return self
        place, _, query = self.url.partition("?")
        others = [part for part in query.split("&") if part and not part.startswith("from=")]
        return self._replace(url=f"{place}?{'&'.join([*others, f'from={height}'])}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of this process. `sample`: no chains were configured, so that they are the packaged sample
    blocks. A name that is repeated in `chains` has several sources. Paths are as configured, relative to the working
    directory."""

    data: Path
    database: str
    database_read: str
    search: str
    chains: tuple[ChainUrl, ...]
    sample: bool
    from_height: str
    host: str
    port: int
    metrics: ListenAddress | None
    limits: Mapping[str, Quota | None]
    log: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    fetch_resolve: str
    fetch_ca_file: str
    ipfs_gateway: str
    rates: tuple[RateFeed, ...]
    rates_every: int
    rates_max_age: int
    change_blocks: int
    public_url: str
    identity_key: str
    prices: str
    relay: bool
    relay_address: str
    doors: str
    delegation_roots: tuple[str, ...]
    gasp_peers: tuple[str, ...]
    submit_broadcast: bool
    junglebus_token: str = field(default="", repr=False)
    arc_callback_token: str = field(default="", repr=False)

    @classmethod
    def load(
        cls, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None, file: Path | None = None
    ) -> Settings:
        """Settings from `flags` (None counts as unset), then `environ`, then the TOML `file`, then defaults.

        Raises SettingsError for anything unknown or malformed in any of them.
        """
        explicit = {name: value for name, value in (flags or {}).items() if value not in (None, "")}
        return _build({**_from_file(file), **_from_environment(environ or {}), **explicit})

    def sources(self) -> dict[str, tuple[str, ...]]:
        """The URLs of each chain's sources by its name, both in configured order."""
        names = dict.fromkeys(chain.name for chain in self.chains)
        return {name: tuple(chain.url for chain in self.chains if chain.name == name) for name in names}

    def shown(self) -> dict[str, str]:
        """Every setting as text, with secrets masked."""
        return {
            "data": str(self.data),
            "database": masked(self.database),
            "database_read": masked(self.database_read),
            "search": masked(self.search),
            "chains": " ".join(chain.shown for chain in self.chains),
            "from_height": self.from_height,
            "host": self.host,
            "port": str(self.port),
            "metrics": str(self.metrics or ""),
            "limits": " ".join(f"{name}={_quota_text(quota)}" for name, quota in self.limits.items()),
            "log": " ".join(self.log),
            "trusted_proxies": " ".join(self.trusted_proxies),
            "fetch_resolve": self.fetch_resolve,
            "fetch_ca_file": self.fetch_ca_file,
            "ipfs_gateway": masked(self.ipfs_gateway),
            "rates": " ".join(feed.shown for feed in self.rates),
            "rates_every": str(self.rates_every),
            "rates_max_age": str(self.rates_max_age),
            "change_blocks": str(self.change_blocks),
            "public_url": self.public_url,
            "identity_key": self.identity_key,
            "prices": self.prices,
            "relay": "on" if self.relay else "off",
            "relay_address": self.relay_address,
            "doors": self.doors,
            "delegation_roots": " ".join(self.delegation_roots),
            "gasp_peers": " ".join(map(masked, self.gasp_peers)),
            "submit_broadcast": "on" if self.submit_broadcast else "off",
            "junglebus_token": "***" if self.junglebus_token else "",
            "arc_callback_token": "***" if self.arc_callback_token else "",
        }


def sample_blocks() -> Path:
    """The folder of the packaged sample chain: inside this package when installed, beside it in a checkout."""
    room = Path(__file__).parent
    installed = room / "sample-blocks" / "bsv-regtest"
    return installed if installed.is_dir() else room.parent / "sample-blocks" / "bsv-regtest"


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings among the variables. A blank value counts as unset, as compose files write it."""
    values = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in KEYS or variable != variable.upper():
            _refuse(variable, name, lambda setting: f"{PREFIX}{setting.upper()}")
        if value.strip():
            values[name] = value.strip()
    return values


def _from_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    import tomllib

    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the settings file {file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings file {file} is not TOML: {error}") from None
    for name, value in values.items():
        if name not in KEYS:
            _refuse(f"{name} in {file}", name.lower().removeprefix(PREFIX.lower()), str)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise SettingsError(f"{name} in {file} is {type(value).__name__}, and wants a string")
    return {name: value for name, value in values.items() if value != ""}


def _refuse(shown: str, name: str, spelled: Any) -> NoReturn:
    """Raise SettingsError for an unknown name; `spelled` formats a valid name as it is written in that place."""
    from difflib import get_close_matches

    nearest = [name] if name in KEYS else get_close_matches(name, KEYS, 1)
    hint = f"did you mean {spelled(nearest[0])}?" if nearest else f"known are {', '.join(map(spelled, KEYS))}"
    raise SettingsError(f"{shown} is not a setting; {hint}")


def _build(values: Mapping[str, Any]) -> Settings:
    for name, value in values.items():
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in str(value)) and name != "chains":
            shown = "***" if name in _SECRET else ascii(masked(str(value)))
            raise SettingsError(f"{name} holds a control character: {shown}")
    data = Path(str(values.get("data", "a2b-data")))
    if "?" in str(data):
        raise SettingsError(f"data is {str(data)!r}: a ? in the folder's name cannot be written in a database URL")
    chains = _chains(str(values["chains"])) if "chains" in values else (_sample(),)
    token, starts = str(values.get("junglebus_token", "")), _starts(str(values.get("from_height", "")), chains)
    return Settings(
        data=data,
        database=str(values.get("database", f"sqlite:///{data / 'a2b.db'}")),
        database_read=str(values.get("database_read", "")),
        search=str(values.get("search", f"tantivy:{data / 'index'}")),
        chains=tuple(chain.with_token(token).starting(starts.get(chain.name)) for chain in chains),
        sample="chains" not in values,
        from_height=str(values.get("from_height", "")),
        host=str(values.get("host", "127.0.0.1")),
        port=_port("port", values.get("port", 8080)),
        metrics=_address("metrics", str(values.get("metrics", ""))),
        limits=_limits(str(values.get("limits", ""))),
        log=_log(str(values.get("log", ""))),
        trusted_proxies=_networks(str(values.get("trusted_proxies", ""))),
        fetch_resolve=_resolve(str(values.get("fetch_resolve", ""))),
        fetch_ca_file=_ca_file(str(values.get("fetch_ca_file", ""))),
        ipfs_gateway=_gateway(str(values.get("ipfs_gateway", ""))),
        rates=_rates(str(values.get("rates", ""))),
        rates_every=_seconds("rates_every", values.get("rates_every", 60), 86_400),
        rates_max_age=_seconds("rates_max_age", values.get("rates_max_age", 3_600), 7 * 86_400),
        change_blocks=_blocks(values.get("change_blocks", CHANGE_BLOCKS)),
        public_url=_checked_url("public_url", str(values.get("public_url", ""))),
        identity_key=str(values.get("identity_key", "")),
        prices=str(values.get("prices", "")),
        relay=_switch("relay", str(values.get("relay", "off"))),
        relay_address=str(values.get("relay_address", "")),
        doors=" ".join(str(values.get("doors", "all")).split()),
        delegation_roots=_principals(str(values.get("delegation_roots", ""))),
        gasp_peers=tuple(_checked_url("gasp_peers", word) for word in str(values.get("gasp_peers", "")).split()),
        submit_broadcast=_switch("submit_broadcast", str(values.get("submit_broadcast", "off"))),
        junglebus_token=token,
        arc_callback_token=_token("arc_callback_token", str(values.get("arc_callback_token", ""))),
    )


def _principals(text: str) -> tuple[str, ...]:
    """Ed25519 public keys, each as the 43 characters of base64url that its 32 bytes take."""
    for word in text.split():
        if not _PRINCIPAL.fullmatch(word):
            raise SettingsError(f"delegation_roots holds {word[:60]!a}: a principal is a public key in base64url")
    return tuple(dict.fromkeys(text.split()))


def _sample() -> ChainUrl:
    return ChainUrl("demo", f"files:{quote(str(sample_blocks()))}?chain=bsv&network=regtest")


def _chains(text: str) -> tuple[ChainUrl, ...]:
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
    if not chains:
        raise SettingsError("chains is empty: write name=URL, or leave it out to follow the packaged sample blocks")
    return tuple(chains)


def _starts(text: str, chains: tuple[ChainUrl, ...]) -> dict[str, str]:
    """The height at which reading starts, by chain; a number alone is for all chains that are not named."""
    heights: dict[str, str] = {}
    names = {chain.name for chain in chains}
    for word in sorted(text.split(), key=lambda word: "=" in word):
        name, _, height = word.rpartition("=")
        if not _HEIGHT.fullmatch(height) or (name and name not in names):
            raise SettingsError(
                f"from_height holds {word[:60]!a}: write a height of at most nine digits, or NAME=HEIGHT, "
                f"NAME one of {', '.join(sorted(names))}"
            )
        heights |= dict.fromkeys([name] if name else names, height)
    return heights


def _port(name: str, value: Any) -> int:
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65_535:
        raise SettingsError(f"{name} is {text[:60]!a}, and must be a whole number from 0 to 65535")
    return int(text)


def _address(name: str, text: str) -> ListenAddress | None:
    """The address to listen on, None for none."""
    if text in ("", "off"):
        return None
    match = _ADDRESS.fullmatch(text)
    if not match:
        raise SettingsError(f"{name} is {text[:60]!a}: write ADDRESS:PORT such as 127.0.0.1:9464 or [::1]:9464, or off")
    return ListenAddress(match[1] or match[2] or "127.0.0.1", _port(f"the port of {name}", match[3]))


def _limits(text: str) -> dict[str, Quota | None]:
    """The quotas of every kind of route, None where switched off."""
    if text.strip() == "off":
        return dict.fromkeys(LIMITS)
    limits: dict[str, Quota | None] = dict(LIMITS)
    for word in text.split():
        name, _, quota_text = word.partition("=")
        quota = _QUOTA.fullmatch(quota_text)
        if name not in LIMITS or not (quota_text == "off" or quota):
            raise SettingsError(
                f"limits holds {word[:60]!a}: write KIND=REQUESTS/SECONDS or KIND=off, KIND one of "
                f"{', '.join(LIMITS)}, REQUESTS of at most six digits and SECONDS of at most five; or off alone"
            )
        limits[name] = Quota(int(quota[1]), int(quota[2])) if quota else None
    return limits


def _quota_text(quota: Quota | None) -> str:
    return f"{quota.requests}/{quota.seconds}" if quota else "off"


def _log(text: str) -> tuple[str, ...]:
    """The words of `log`, of which `text` and `json` exclude each other."""
    words = tuple(dict.fromkeys(text.split()))
    if not set(words) <= LOG_WORDS or {"text", "json"} <= set(words):
        raise SettingsError(f"log is {text[:60]!a}: write text or json, and requests for a line about every request")
    return words


def _checked_url(name: str, text: str) -> str:
    """A base URL without a slash at its end."""
    if text and not _GATEWAY.fullmatch(text):
        raise SettingsError(f"{name} is {masked(text[:100])!a}: write http(s)://HOST[:PORT][/PATH]")
    return text.rstrip("/")


def _switch(name: str, text: str) -> bool:
    if text not in ("on", "off"):
        raise SettingsError(f"{name} is {text[:60]!a}: write on or off")
    return text == "on"


def _token(name: str, secret: str) -> str:
    if 0 < len(secret) < MIN_SECRET:
        raise SettingsError(f"{name} has {len(secret)} characters: at least {MIN_SECRET}; try `openssl rand -hex 32`")
    return secret


def _networks(text: str) -> tuple[str, ...]:
    """Networks in canonical form; an address is a network of one."""
    from ipaddress import ip_network

    try:
        return tuple(str(ip_network(word)) for word in text.split())
    except ValueError as error:
        raise SettingsError(
            f"trusted_proxies: {str(error)[:100]}; write addresses or networks such as 127.0.0.1 10.0.0.0/8"
        ) from None


def _rates(text: str) -> tuple[RateFeed, ...]:
    try:
        return rate_feeds(text)
    except ValueError as error:
        raise SettingsError(f"rates: {error}") from None


def _seconds(name: str, value: Any, most: int) -> int:
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,7}", text) or not 1 <= int(text) <= most:
        raise SettingsError(f"{name} is {text[:60]!a}, and must be a whole number of seconds from 1 to {most:,}")
    return int(text)


def _resolve(text: str) -> str:
    """The entries unchanged, after validation."""
    if text:
        from indexer.fetcher.dns import table

        try:
            table(text)
        except ValueError as error:
            raise SettingsError(f"fetch_resolve: {error}") from None
    return text


def _ca_file(text: str) -> str:
    """The path of a file that holds certificates."""
    if text:
        import ssl

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=text)
        except ssl.SSLError:
            raise SettingsError(f"fetch_ca_file is {text!r}, and holds no certificate in PEM") from None
        except OSError as error:
            raise SettingsError(f"fetch_ca_file is {text!r}, and cannot be read: {error.strerror}") from None
    return text


def _gateway(text: str) -> str:
    if text and not _GATEWAY.fullmatch(text):
        raise SettingsError(
            f"ipfs_gateway is {masked(text)[:200]!a}: write the part of the URL before /ipfs/, such as "
            "http://127.0.0.1:8080 or https://trustless-gateway.link"
        )
    return text


def _blocks(value: Any) -> int:
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise SettingsError(f"change_blocks is {text[:60]!a}, and must be a number of blocks of at most nine digits")
    return int(text)
