"""Options that several commands share, the settings they make, and how a command is added to the parser."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.settings import KEYS, Settings

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    Commands = _SubParsersAction[ArgumentParser]

_FLAGS = {
    "data": ("FOLDER", "A2B_DATA: the folder of database and index [./a2b-data]"),
    "database": ("URL", "A2B_DATABASE: sqlite:///PATH or postgresql+psycopg://user@host/name [in the data folder]"),
    "database_read": ("URL", "A2B_DATABASE_READ: a replica of that database to read from [none]"),
    "search": ("URL", "A2B_SEARCH: the index, tantivy:PATH or whoosh:PATH [in the data folder]"),
    "chains": ("NAME=URL...", "A2B_CHAINS: what to follow, separated by spaces [the packaged sample blocks]"),
    "from_height": (
        "HEIGHT",
        "A2B_FROM_HEIGHT: where a new database starts, or NAME=HEIGHT...; later: no state hash [where A2B can begin]",
    ),
    "host": ("ADDRESS", "A2B_HOST: the address to serve on [127.0.0.1]"),
    "limits": ("KIND=REQUESTS/SECONDS...", "A2B_LIMITS: how often one client may ask, or off [read=12000/60 ...]"),
    "trusted_proxies": ("NETWORK...", "A2B_TRUSTED_PROXIES: proxies whose X-Forwarded-For is believed [none]"),
    "log": ("WORDS", "A2B_LOG: text or json, and requests for a line about each [json where there is no terminal]"),
    "fetch_resolve": ("HOST:PORT=IP:PORT...", "A2B_FETCH_RESOLVE: hosts that are fetched from elsewhere [none]"),
    "fetch_ca_file": ("FILE", "A2B_FETCH_CA_FILE: more authorities that fetched hosts may be certified by [none]"),
    "ipfs_gateway": ("URL", "A2B_IPFS_GATEWAY: what ipfs:// cards are fetched through [none]"),
    "change_blocks": ("BLOCKS", "A2B_CHANGE_BLOCKS: how long changed prices are a warning, 0 for never [1008]"),
    "rates": ("BASE=URL...", "A2B_RATES: feeds of exchange rates, the preferred first [none]"),
    "rates_every": ("SECONDS", "A2B_RATES_EVERY: between two looks at these feeds [60]"),
    "rates_max_age": ("SECONDS", "A2B_RATES_MAX_AGE: after which a quote is too old to be used [3600]"),
    "metrics": ("ADDRESS:PORT", "A2B_METRICS: where to tell metrics and health, /metrics /healthz /readyz [nowhere]"),
    "port": ("NUMBER", "A2B_PORT: the port to serve on, 0 for any that is free [8080]"),
}


class UsageError(Exception):
    """A command line that cannot be meant: the message says what would be right."""


def command(
    commands: Commands, name: str, run: Callable[[Namespace], int], purpose: str, *flags: str, more: str = ""
) -> ArgumentParser:
    """Add a command: `run` does it and gives the exit code, `purpose` is its help, `flags` the settings it uses."""
    summary = purpose.partition(". ")[0].rstrip(".")
    parser = commands.add_parser(name, help=summary, description=f"{purpose} {more}".strip(), allow_abbrev=False)
    parser.set_defaults(run=run)
    if flags:
        group = parser.add_argument_group("settings (flags win over the environment, and that over the file)")
        group.add_argument("--config", metavar="FILE", type=Path, help="a TOML file of settings")
        for flag in flags:
            metavar, told = _FLAGS[flag]
            group.add_argument(f"--{flag.replace('_', '-')}", metavar=metavar, help=told)
    return parser


def add_url(parser: ArgumentParser) -> None:
    """The option to ask a running overlay."""
    parser.add_argument("--url", help="ask the overlay running there instead of the local data")


def add_json(parser: ArgumentParser) -> None:
    """The option to print JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON, as the HTTP API answers")


def settings(asked: Namespace) -> Settings:
    """The settings of this process. Raises SettingsError."""
    flags = {name: getattr(asked, name, None) for name in KEYS}
    return Settings.load(flags, os.environ, asked.config)
