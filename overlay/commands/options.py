"""Options that several commands share, and the settings they make."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from indexer.settings import Settings

Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A TOML file of settings; flags and A2B_* win over it.")
]
Data = Annotated[
    str | None, typer.Option("--data", metavar="FOLDER", help="A2B_DATA: database and index. [default: ./a2b-data]")
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database", metavar="URL", help="A2B_DATABASE: sqlite:///PATH or postgresql+psycopg://user@host/db."
    ),
]
Search = Annotated[
    str | None, typer.Option("--search", metavar="URL", help="A2B_SEARCH: the index, tantivy:PATH or whoosh:PATH.")
]
Chains = Annotated[
    str | None, typer.Option("--chains", metavar="NAME=URL...", help="A2B_CHAINS: what to follow, separated by spaces.")
]
Host = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="A2B_HOST: address to serve on. [default: 127.0.0.1]")
]
Port = Annotated[
    str | None,
    typer.Option("--port", metavar="NUMBER", help="A2B_PORT: port to serve on, 0 for any free one. [default: 8080]"),
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Ask the overlay running there instead of the local data.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as the HTTP API answers.")]


def settings(config: Path | None, **flags: Any) -> Settings:
    """The settings of this process. Raises SettingsError."""
    return Settings.load(flags, os.environ, config)
