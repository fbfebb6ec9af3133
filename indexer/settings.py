"""Settings: one frozen record from flags, A2B_* variables and an optional TOML file, in that order of precedence.

Standard library only: commands that only query the index start without pydantic, SQLAlchemy or Numba (see
`docs/decisions/settings-by-hand.md`).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote

from indexer import setting_values as read
from indexer.masking import masked
from indexer.rates.feed_urls import RateFeed
from indexer.setting_values import CHANGE_BLOCKS, MAX_PORT, ChainUrl, ListenAddress, Quota, SettingsError

__all__ = ["KEYS", "NOT_SETTINGS", "PREFIX", "Settings", "SettingsError", "sample_blocks"]

PREFIX = "A2B_"

DATA, DEMO_DATA = "a2b-data", "a2b-demo"
"""The folders of database and index, relative to the working directory, where none is named: of configured chains, and
of the packaged one."""

NOT_SETTINGS = frozenset({
    "A2B_URL", "A2B_WALLET", "A2B_COINS", "A2B_KEY", "A2B_DCT_KEY", "A2B_ARC_TOKEN", "A2B_TEST_SHARED",
    "A2B_REQUIRE_ALL",
})  # fmt: skip
"""Variables of the commands that query a server, hire or publish, and of the test suite, which may be set when a
command runs."""


_GATEWAY = "the part of the URL before /ipfs/, such as http://127.0.0.1:8080 or https://trustless-gateway.link"


def _as_it_is(_name: str, text: str) -> str:
    return text


def _words(_name: str, text: str) -> str:
    return " ".join(text.split())


def _setting(parse: Callable[[str, str], Any] = _as_it_is, default: str = "", *, secret: bool = False) -> Any:
    """A setting: what reads its text, and its text where none is given. A secret is never shown."""
    return field(metadata={"parse": parse, "default": default}, repr=not secret)


DEFAULT = "default"


class EffectiveSetting(NamedTuple):
    """A setting that is in force: its text with secrets masked, "" for none, and its origin: `default`, `environment`,
    `file` or `flag`."""

    name: str
    text: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of this process. `sample`: no chains are configured, and the packaged sample blocks are used. A
    name that is repeated in `chains` has several sources. Paths are as configured, relative to the working
    directory."""

    data: Path = _setting(read.folder, DATA)
    """Folder of the database and the index, unless they are elsewhere."""
    database: str = _setting()
    """Where facts are kept: sqlite:///PATH or postgresql+psycopg://user@host/name."""
    database_read: str = _setting()
    """A replica of the database (PostgreSQL) that processes which only serve read from."""
    search: str = _setting()
    """The search index: native:PATH, whoosh:PATH or opensearch:https://USER:PASSWORD@HOST:9200/NAME."""
    chains: tuple[ChainUrl, ...] = _setting(read.chain_urls)
    """The chains to follow: name=URL, several separated by spaces; a name repeated has several sources."""
    from_height: str = _setting()
    """Where reading starts in a new database: a height, or NAME=HEIGHT...; later: no state hash."""
    host: str = _setting(default="127.0.0.1")
    """The address to serve on."""
    port: int = _setting(partial(read.number, most=MAX_PORT), "8080")
    """The port to serve on; 0 takes any that is free."""
    metrics: ListenAddress | None = _setting(read.address)
    """The only address that serves metrics, with health: ADDRESS:PORT, or :PORT for 127.0.0.1. Without it, `a2b index`
    serves none, and servers serve them with the API."""
    limits: Mapping[str, Quota | None] = _setting(read.limits)
    """How many requests one client may send: KIND=REQUESTS/SECONDS, several separated by spaces, or off."""
    log: tuple[str, ...] = _setting(read.log_words)
    """Log lines: text or json; requests, or (text) combined, for a line about each; addresses for whole ones in these.
    By default, json where the output is not a terminal."""
    statistics: bool = _setting(read.switch, "off")
    """On: searches are counted by day, with the words that found nothing, of five clients a day or more; off by
    default."""
    junglebus_token: str = _setting(secret=True)
    """The access token that a JungleBus server's dashboard gives."""
    trusted_proxies: tuple[str, ...] = _setting(read.networks)
    """Addresses or networks of proxies that may set X-Forwarded-For, separated by spaces."""
    fetch_resolve: str = _setting(read.host_table)
    """Hosts that are fetched from elsewhere: host:port=ip:port, several separated by spaces."""
    fetch_ports: str = _setting(read.fetch_ports, read.ENDPOINT_PORTS)
    """The ports that hosts are fetched from: 443; those from 1024 up for MCP endpoints of Motebit agents alone."""
    fetch_ca_file: str = _setting(read.certificates)
    """A PEM file of authorities that fetched hosts may be certified by, beside the world's."""
    ipfs_gateway: str = _setting(partial(read.base_url, form=_GATEWAY))
    """The gateway that ipfs:// cards are fetched through, for example http://127.0.0.1:8080."""
    rates: tuple[RateFeed, ...] = _setting(read.feeds, secret=True)
    """Feeds of exchange rates: BASE=URL, several separated by spaces, the preferred first."""
    rates_every: int = _setting(partial(read.number, least=1, most=86_400, of=" of seconds"), "60")
    """Seconds between two looks at the feeds of exchange rates."""
    rates_max_age: int = _setting(partial(read.number, least=1, most=7 * 86_400, of=" of seconds"), "3600")
    """Seconds after which a quote is too old to be used."""
    meaning: bool = _setting(read.switch, "on")
    """Off: the order of results by words is theirs alone, and nothing is found by its meaning."""
    price_currency: str = _setting(read.ticker, "USD")
    """The currency in which prices are compared where a search names none, as far as a feed quotes it."""
    change_blocks: int = _setting(partial(read.number, most=999_999_999, of=" of blocks"), str(CHANGE_BLOCKS))
    """The number of blocks for which a change of price or pay-to address is a warning; 0 for never."""
    public_url: str = _setting(read.base_url)
    """The base of absolute URLs in responses, for example https://registry.example; else that of the request."""
    identity_key: str = _setting()
    """A file with this server's signing keys; created in the data folder where SQLite is the database."""
    prices: str = _setting()
    """A JSON file of prices (A2B x-payment-config) that pay for requests beyond the limits; by default, none."""
    relay: bool = _setting(read.switch, "off")
    """On: agents of Motebit register here, and their tasks are settled in a ledger; off by default."""
    relay_address: str = _setting()
    """Where deposits to that ledger are paid: TICKER:ADDRESS; by default, none are taken."""
    title: str = _setting(read.title, "A2B registry")
    """The name of the site, on its pages and in its feeds."""
    report: str = _setting(read.link)
    """Where visitors report a listing, an https or mailto address: a link on every page."""
    contact: str = _setting(read.link)
    """Where weaknesses of this server are reported: a link on every page, and /.well-known/security.txt."""
    imprint: str = _setting(read.link)
    """Who runs this server: a link on every page."""
    privacy: str = _setting(read.link)
    """The use of the data of visitors: a link on every page."""
    terms: str = _setting(read.link)
    """The terms of use: a link on every page."""
    hide_publish: bool = _setting(read.switch, "off")
    """On: /v1/hidden lists the cards that are hidden by law, by their SHA-256."""
    systems: str = _setting(_words, "all")
    """The systems to serve, separated by spaces, or off; by default, all."""
    probe: bool | None = _setting(read.probe)
    """On: endpoints of listings are visited once a day; by default, where `public_url` is set. Never in the demo."""
    delegation_roots: tuple[str, ...] = _setting(read.principals)
    """Principals (base64url) that may issue capability tokens, separated by spaces."""
    gasp_peers: tuple[str, ...] = _setting(read.base_urls)
    """BSV overlays to pull outputs from (GASP): their base URLs, separated by spaces."""
    submit_broadcast: bool = _setting(read.switch, "off")
    """On: transactions that clients submit are sent to the node; off by default."""
    arc_callback_token: str = _setting(read.token, secret=True)
    """The secret with which ARC reports transactions at /arc-ingest; without one, reports are refused."""
    sample: bool

    @classmethod
    def load(
        cls,
        flags: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        file: Path | None = None,
        *,
        data: str = DATA,
        demo: bool = False,
    ) -> Settings:
        """Settings from `flags` (None counts as unset), then `environ`, then the TOML `file`, then defaults.

        `data` is the folder where none is named. Without configured chains there are none; with `demo`, the packaged
        sample blocks, in `DEMO_DATA`. Raises SettingsError for anything unknown or malformed in any of them.
        """
        values = dict(ChainMap(*reversed(_stated(flags, environ, file).values())))
        is_sample = demo and "chains" not in values
        if is_sample:
            blocks = f"demo=files:{quote(str(sample_blocks()))}?chain=bsv&network=regtest"
            values = {"data": DEMO_DATA, **values, "chains": blocks}
        return _build({"data": data, **values}, is_sample=is_sample)

    @classmethod
    def effective(
        cls,
        flags: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        file: Path | None = None,
        *,
        data: str = DATA,
    ) -> list[EffectiveSetting]:
        """Every setting as `load` would read it, with its origin. Raises SettingsError."""
        cls.load(flags, environ, file, data=data)
        origins = _stated(flags, environ, file)
        stated = {name: (str(value), origin) for origin, values in origins.items() for name, value in values.items()}
        texts = _default_texts(Path(stated.get("data", (data, ""))[0])) | {"data": data}
        settings = []
        for name, declared in _SETTINGS.items():
            text, origin = stated.get(name, (texts.get(name, declared.metadata["default"]), DEFAULT))
            settings.append(EffectiveSetting(name, masked(text) if declared.repr or not text else "***", origin))
        return settings

    @property
    def is_probing(self) -> bool:
        """Whether endpoints of listings are visited."""
        return not self.sample and bool(self.public_url if self.probe is None else self.probe)

    def sources(self) -> dict[str, tuple[str, ...]]:
        """The URLs of each chain's sources by its name, both in configured order."""
        names = dict.fromkeys(chain.name for chain in self.chains)
        return {name: tuple(chain.url for chain in self.chains if chain.name == name) for name in names}


_SETTINGS = {declared.name: declared for declared in fields(Settings) if declared.metadata}
KEYS = tuple(_SETTINGS)
"""Every setting, by its name in a file; in the environment it is upper-case after the prefix."""


def sample_blocks() -> Path:
    """The folder of the packaged sample chain: inside this package when installed, beside it in a checkout."""
    room = Path(__file__).parent
    installed = room / "sample-blocks" / "bsv-regtest"
    return installed if installed.is_dir() else room.parent / "sample-blocks" / "bsv-regtest"


def _stated(
    flags: Mapping[str, Any] | None, environ: Mapping[str, str] | None, file: Path | None
) -> dict[str, dict[str, Any]]:
    """The settings that each origin states, each origin before those that win over it. Raises SettingsError."""
    explicit = {name: value for name, value in (flags or {}).items() if value not in (None, "")}
    return {"file": _from_file(file), "environment": _from_environment(environ or {}), "flag": explicit}


def _default_texts(data: Path) -> dict[str, str]:
    """The texts of settings that are in the data folder where nothing else is stated."""
    return {"database": f"sqlite:///{str(data / 'a2b.db').replace('%', '%25')}", "search": f"native:{data / 'index'}"}


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
            raise SettingsError(f"{name} in {file} is {type(value).__name__}, and must be a string")
    return {name: value for name, value in values.items() if value != ""}


FORMER = {"A2B_DOORS": "systems"}
"""Variables of earlier versions, and the settings that they are now."""


def _refuse(shown: str, name: str, spelled: Any) -> NoReturn:
    """Raise SettingsError for an unknown name; `spelled` formats a valid name in the spelling of the source."""
    from difflib import get_close_matches

    if (setting := FORMER.get(f"{PREFIX}{name.upper()}")) is not None:
        raise SettingsError(f"{shown} is a setting no longer: it is {spelled(setting)} now")
    nearest = [name] if name in KEYS else get_close_matches(name, KEYS, 1)
    hint = f"did you mean {spelled(nearest[0])}?" if nearest else f"known are {', '.join(map(spelled, KEYS))}"
    raise SettingsError(f"{shown} is not a setting; {hint}")


def _build(values: Mapping[str, Any], *, is_sample: bool) -> Settings:
    for name, value in values.items():
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in str(value)) and name != "chains":
            shown = ascii(masked(str(value))) if _SETTINGS[name].repr else "***"
            raise SettingsError(f"{name} holds a control character: {shown}")
    texts = {**_default_texts(Path(str(values["data"]))), **values}
    parsed = {
        name: declared.metadata["parse"](name, str(texts.get(name, declared.metadata["default"])))
        for name, declared in _SETTINGS.items()
    }
    heights, token = read.starts(parsed["from_height"], parsed["chains"]), parsed["junglebus_token"]
    parsed["chains"] = tuple(chain.with_token(token).starting(heights.get(chain.name)) for chain in parsed["chains"])
    if parsed["probe"] and not parsed["public_url"]:
        raise SettingsError("probe is on, and public_url is not set: hosts are told where they can opt out")
    return Settings(**parsed, sample=is_sample)
