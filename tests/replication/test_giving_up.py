"""Questions that take a server of PostgreSQL too long."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from overlay.engines.postgres import PostgresEngine, pool
from tests.contracts.listed import found, listing, put
from tests.databases import Cluster


@pytest.mark.parametrize("has_replica", [False, True])
def test_a_question_that_the_server_gave_up_is_not_asked_again_nor_elsewhere(
    postgresql: Cluster, monkeypatch: pytest.MonkeyPatch, has_replica: bool
) -> None:
    url, asked = postgresql.new(), 0
    with closing(PostgresEngine(url, url if has_replica else "")) as engine:
        put(engine, listing("1", "alpha"))

        def ask(connection: Any, _: object) -> None:
            nonlocal asked
            asked += 1
            connection.execute("SET statement_timeout = 50")
            connection.execute("SELECT pg_sleep(60)")

        with pytest.raises(pool.TookLongError, match="took too long: canceling statement"):
            engine._ask(ask)
        assert asked == 1
        assert found(engine, "alpha") == {"1"}


def test_every_question_has_a_bound_and_what_feeds_an_index_has_none(postgresql: Cluster) -> None:
    kept = pool.Pool(postgresql.new())
    for patient, wanted in ((False, f"{pool.QUESTION_SECONDS}s"), (True, "0")):
        with closing(kept.connect(patient=patient)) as connection:
            assert connection.execute("SHOW statement_timeout").fetchone() == (wanted,)
