"""A primary and its standby, for each test anew: they are killed and promoted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databases import is_installed
from tests.replication.servers import Server

Pair = tuple[Server, Server]


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A primary with the database `registry`, and a standby that streams from it: synchronously where asked so by the
    parameter `sync`."""
    if not is_installed():
        from tests.conftest import missing

        missing("PostgreSQL")
    primary, standby = Server("primary"), Server("standby")
    try:
        primary.init()
        primary.start()
        primary.ask("CREATE DATABASE registry")
        standby.copy(primary)
        standby.start()
        if getattr(request, "param", "") == "sync":
            primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.ask("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
            primary.ask("SELECT pg_reload_conf()")
        yield primary, standby
    finally:
        standby.end()
        primary.end()
