"""Servers of PostgreSQL that are gone without a word, as when a machine or a network fails."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from indexer.store import StoreUnavailableError, connect, database
from tests.databases import Cluster

SOON = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "20000"}


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that takes connections and never says anything."""
    with ExitStack() as open_:
        listening = open_.enter_context(socket.create_server(("127.0.0.1", 0)))
        yield f"postgresql+psycopg://a2b@127.0.0.1:{listening.getsockname()[1]}/registry"


def test_a_server_that_does_not_answer_is_given_up(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(database.CONNECTION_DEFAULTS, "connect_timeout", 2)  # the least that psycopg takes
    with pytest.raises(StoreUnavailableError, match="timeout"):
        connect(silent)


def of(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """The parameters that a connection was opened with."""
    return {name: value for name, value in connection.info.get_parameters().items() if name in SOON}


@pytest.mark.parametrize(("more", "answer"), [("", SOON), ("&keepalives_idle=77", SOON | {"keepalives_idle": "77"})])
def test_every_connection_notices_soon_that_a_server_is_gone_unless_its_url_says_otherwise(
    postgresql: Cluster, more: str, answer: dict[str, str]
) -> None:
    url = postgresql.new() + more
    database = connect(url)
    with database.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        assert of(driver) == answer
    database.dispose()
