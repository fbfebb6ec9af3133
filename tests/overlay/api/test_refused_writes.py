"""A database that refuses writes: what needs one is answered with 503 and when to try again, all else as ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, make_url

from indexer.store import StoreError, WriteRefusedError, unchecked
from indexer.store.requests import Requests
from overlay.api.services import AppServices
from tests.databases import Cluster, prepare_sqlite
from tests.overlay.calls import problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeRequests, changed

BODY = {"txid": "ab" * 32}

READ_ONLY = "ALTER ROLE {role} SET default_transaction_read_only = on"
REVOKED = "REVOKE INSERT ON requests FROM {role}"


@pytest.fixture(params=["sqlite", READ_ONLY, REVOKED], ids=["sqlite", "read-only", "not permitted"])
def refusing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database that can be read and refuses writes."""
    if request.param == "sqlite":
        engine = unchecked(prepare_sqlite(f"sqlite:///{tmp_path}/a2b.db"))
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only = ON"))
    else:
        cluster: Cluster = request.getfixturevalue("postgresql")
        engine = unchecked(_url_of_reader(cluster.prepared(), request.param))
    yield engine
    engine.dispose()


def _url_of_reader(url: str, statement: str) -> str:
    """The URL of a PostgreSQL database for a new user, as its owner may do everything."""
    owner, role = unchecked(url), f"reader_{make_url(url).database}"
    with owner.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
        connection.exec_driver_sql(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
        connection.exec_driver_sql(statement.format(role=role))
    owner.dispose()
    return url.replace("//a2b@", f"//{role}@")


async def test_a_request_that_cannot_be_stored_is_answered_with_503_and_when_to_try_again(
    serve: Serve, services: AppServices, refusing: Engine
) -> None:
    client = await serve(changed(services, requests=Requests(refusing)))
    async with client.post("/v1/ingest", json=BODY) as response:
        assert int(response.headers["Retry-After"]) > 0
        body = await problem(response, 503)
        assert body["detail"] == "the database takes no writes for now, so nothing was stored; try again later"
    async with client.get("/v1/search") as response:
        assert response.status == 200


@pytest.mark.parametrize(("error", "status"), [(WriteRefusedError("full"), 503), (StoreError("a key twice"), 500)])
async def test_a_mistake_in_a_statement_is_still_one(
    serve: Serve, services: AppServices, error: StoreError, status: int
) -> None:
    class Failing(FakeRequests):
        def add(self, *_: Any) -> Any:
            raise error

    client = await serve(changed(services, requests=Failing()))
    async with client.post("/v1/ingest", json=BODY) as response:
        await problem(response, status)
