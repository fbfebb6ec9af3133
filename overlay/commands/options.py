"""Options that several commands share, and the settings that they give."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.settings import DATA, DEMO_DATA, KEYS, Settings
from overlay.text.terminal import say_json

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from overlay.client.calls import Call

    Commands = _SubParsersAction[ArgumentParser]

_FLAGS = {
    "data": ("FOLDER", "A2B_DATA: the folder of database and index [./a2b-data; of the packaged chain, ./a2b-demo]"),
    "database": ("URL", "A2B_DATABASE: sqlite:///PATH or postgresql+psycopg://user@host/name [in the data folder]"),
    "database_read": ("URL", "A2B_DATABASE_READ: a replica of that database to read from [none]"),
    "search": ("URL", "A2B_SEARCH: the index, native:PATH or whoosh:PATH [in the data folder]"),
    "chains": ("NAME=URL...", "A2B_CHAINS: what to follow, separated by spaces [up: the packaged sample blocks]"),
    "from_height": (
        "HEIGHT",
        "A2B_FROM_HEIGHT: where a new database starts, or NAME=HEIGHT...; later: no state hash [where A2B can begin]",
    ),
    "host": ("ADDRESS", "A2B_HOST: the address to serve on [127.0.0.1]"),
    "limits": (
        "KIND=REQUESTS/SECONDS...",
        "A2B_LIMITS: how many requests one client may send, or off [read=12000/60 ...]",
    ),
    "trusted_proxies": ("NETWORK...", "A2B_TRUSTED_PROXIES: proxies that may set X-Forwarded-For [none]"),
    "log": (
        "WORDS",
        "A2B_LOG: text or json; requests or (text) combined for a line about each [json where there is no terminal]",
    ),
    "statistics": ("on|off", "A2B_STATISTICS: count what is searched for, and what finds nothing [off]"),
    "fetch_resolve": ("HOST:PORT=IP:PORT...", "A2B_FETCH_RESOLVE: hosts that are fetched from elsewhere [none]"),
    "fetch_ports": ("PORTS", "A2B_FETCH_PORTS: 443, to reach no MCP endpoint on another port [443 1024-65535]"),
    "fetch_ca_file": ("FILE", "A2B_FETCH_CA_FILE: more authorities that fetched hosts may be certified by [none]"),
    "ipfs_gateway": ("URL", "A2B_IPFS_GATEWAY: what ipfs:// cards are fetched through [none]"),
    "public_url": ("URL", "A2B_PUBLIC_URL: the base of absolute URLs in responses [that of the request]"),
    "identity_key": ("FILE", "A2B_IDENTITY_KEY: this server's signing keys [DATA/identity.json with SQLite]"),
    "prices": ("FILE", "A2B_PRICES: prices that pay for requests beyond the limits [none]"),
    "relay": ("on|off", "A2B_RELAY: be a relay of Motebit agents, with a ledger [off]"),
    "relay_address": ("TICKER:ADDRESS", "A2B_RELAY_ADDRESS: where deposits to that ledger are paid [none]"),
    "title": ("TEXT", "A2B_TITLE: the name of the site [A2B registry]"),
    "report": ("LINK", "A2B_REPORT: where listings are reported, https or mailto [none]"),
    "contact": ("LINK", "A2B_CONTACT: where weaknesses of this server are reported [none]"),
    "imprint": ("LINK", "A2B_IMPRINT: who runs this server [none]"),
    "privacy": ("LINK", "A2B_PRIVACY: the use of the data of visitors [none]"),
    "terms": ("LINK", "A2B_TERMS: the terms of use [none]"),
    "hide_publish": ("on|off", "A2B_HIDE_PUBLISH: whether /v1/hidden lists hidden cards by their SHA-256 [off]"),
    "systems": ("NAMES", "A2B_SYSTEMS: systems to serve, or off [all]"),
    "probe": ("on|off", "A2B_PROBE: whether endpoints of listings are visited [on with A2B_PUBLIC_URL]"),
    "delegation_roots": ("PRINCIPAL...", "A2B_DELEGATION_ROOTS: issuers of accepted capability tokens [none]"),
    "gasp_peers": ("URL...", "A2B_GASP_PEERS: BSV overlays to pull outputs from [none]"),
    "submit_broadcast": ("on|off", "A2B_SUBMIT_BROADCAST: send submitted transactions to the node [off]"),
    "change_blocks": ("BLOCKS", "A2B_CHANGE_BLOCKS: how long changed prices are a warning, 0 for never [1008]"),
    "rates": ("BASE=URL...", "A2B_RATES: feeds of exchange rates, the preferred first, such as BSV=coingecko: [none]"),
    "rates_every": ("SECONDS", "A2B_RATES_EVERY: between two fetches of these feeds [60]"),
    "rates_max_age": ("SECONDS", "A2B_RATES_MAX_AGE: after which a quote is too old to be used [3600]"),
    "meaning": ("on|off", "A2B_MEANING: whether sentences find listings by their meaning, too [on]"),
    "price_currency": ("CODE", "A2B_PRICE_CURRENCY: what prices are compared in where a search names none [USD]"),
    "metrics": (
        "ADDRESS:PORT",
        "A2B_METRICS: where alone to serve /metrics, with /healthz and /readyz [index: nowhere; else with all]",
    ),
    "port": ("NUMBER", "A2B_PORT: the port to serve on, 0 for any that is free [8080]"),
}


URL = "A2B_URL"
"""The variable that names the overlay to query by default."""


class UsageError(Exception):
    """A wrong command line; the message describes a correct one."""


def command(
    commands: Commands, name: str, run: Callable[[Namespace], int], purpose: str, *flags: str, more: str = "",
    settings_file: bool = True,
) -> ArgumentParser:  # fmt: skip
    """Add a command: `run` does it and gives the exit code, `purpose` is its help, `flags` the settings it uses.
    Without `settings_file`, `--config` is left to the command."""
    summary = purpose.partition(". ")[0].rstrip(".")
    parser = commands.add_parser(name, help=summary, description=f"{purpose} {more}".strip(), allow_abbrev=False)
    parser.set_defaults(run=run)
    if flags:
        group = parser.add_argument_group("settings (flags win over the environment, and that over the file)")
        if settings_file:
            group.add_argument("--config", metavar="FILE", type=Path, help="a TOML file of settings")
        for flag in flags:
            metavar, text = _FLAGS[flag]
            group.add_argument(f"--{flag.replace('_', '-')}", metavar=metavar, help=text)
    return parser


def add_url(parser: ArgumentParser, text: str = "query the overlay running there instead of the local data") -> None:
    """The option to query a running overlay."""
    parser.add_argument("--url", help=f"{text} [{URL}, without --data and --database]")


def use_url(args: Namespace) -> None:
    """Query the overlay of `A2B_URL` where the command line names neither one nor local data."""
    if getattr(args, "url", "") is None and not any(getattr(args, name, None) for name in ("data", "database")):
        args.url = os.environ.get(URL) or None


def ask(url: str, call: Callable[[Any], Call[Any]]) -> Any:
    """The answer of the overlay at a URL as JSON to what `call` makes of the module `overlay.client.calls`. Raises
    ClientError."""
    from overlay.client import OverlayClient, calls

    with OverlayClient(url) as client:
        return client.ask(call(calls))


def add_json(parser: ArgumentParser) -> None:
    """The option to print JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON, as the HTTP API answers")


def add_no_copy(parser: ArgumentParser) -> None:
    """The option to migrate a database without a copy."""
    parser.add_argument(
        "--no-copy", action="store_true", help="migrate a SQLite database of version 0.2.0 without a copy of it"
    )


def print_answer(args: Namespace, answer: Any, show: Callable[[Any], None]) -> None:
    """Print an answer as JSON where that is requested, else by `show`."""
    if args.json:
        say_json(answer)
    else:
        show(answer)


def settings_of(args: Namespace, *, writes: bool = False, demo: bool = False) -> Settings:
    """The settings of this process. Where no folder is named, commands that only read, or change what is there, use the
    folder of configured chains if it exists, else the folder of the packaged chain. With `writes`, it is the former;
    with `demo`, the packaged chain is used where none is configured. Raises SettingsError, and with `writes`
    ServerMissingError where only the client is installed."""
    if writes:
        from overlay.app.storage import need_server

        need_server()
    flags = {name: getattr(args, name, None) for name in KEYS}
    data = DATA if writes or Path(DATA).exists() else DEMO_DATA
    return Settings.load(flags, os.environ, args.config, data=data, demo=demo)
