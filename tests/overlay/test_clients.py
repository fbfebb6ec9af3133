"""`a2b clients`: a token is printed once, and all servers of the database take or refuse it within seconds."""

from __future__ import annotations

import asyncio
import re
from hashlib import sha256
from pathlib import Path

import pytest
from aiohttp import ClientSession

from overlay.api import identity_key
from overlay.api.client_tokens import HEADER
from tests.databases import Cluster
from tests.overlay.test_cli import Run, alone, index, run
from tests.running import SAMPLE, a2b_here
from tests.serving import built, new_app, serving
from tests.waiting import PATIENCE

__all__ = ["alone", "run"]

READ = '"read";q=60000;w=60'


async def until_status(client: ClientSession, token: str, status: int) -> str | None:
    """The policy that this token has, once it is answered with a status."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async with client.get("/v1/search?q=tower", headers={HEADER: token}) as response:
                if response.status == status:
                    return response.headers.get("RateLimit-Policy")
            await asyncio.sleep(0.05)


def command(tmp_path: Path, database: str, *arguments: str) -> str:
    done = a2b_here("clients", *arguments, "--database", database, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_two_servers_take_a_token_and_refuse_it_when_it_is_revoked(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cluster: Cluster = request.getfixturevalue("postgresql")
    database = f"sqlite:///{tmp_path}/a2b.db" if kind == "sqlite" else cluster.new()
    keys = tmp_path / "identity.json"
    identity_key.read_or_create(keys)
    flags = {"database": database, "identity_key": str(keys)}
    first = built(tmp_path, SAMPLE, **flags)
    async with serving(first) as one:
        second = new_app(tmp_path / "second", follow=False, **flags)
        async with serving(second) as two:
            out = await asyncio.to_thread(command, tmp_path, database, "add", "acme", "--limits", "read=60000/60")
            token = out.splitlines()[0]
            assert re.fullmatch(r"a2b_[A-Za-z0-9_-]{43}", token)
            assert [await until_status(client, token, 200) for client in (one, two)] == [READ] * 2
            (stored,) = first.store.clients.all()
            assert (stored.name, stored.sha256) == ("acme", sha256(token.encode()).digest())
            listed = await asyncio.to_thread(command, tmp_path, database)
            assert ("acme" in listed, token in listed) == (True, False)
            await asyncio.to_thread(command, tmp_path, database, "revoke", "acme")
            for client in (one, two):
                await until_status(client, token, 401)


async def test_a_server_that_starts_has_its_clients_at_once(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/data/a2b.db"
    async with serving(built(tmp_path, SAMPLE)):
        pass
    token = command(tmp_path, database, "add", "b", "--limits", "read=7/60").splitlines()[0]
    async with serving(built(tmp_path, SAMPLE)) as client, client.get("/v1/search", headers={HEADER: token}) as answer:
        assert (answer.status, answer.headers["RateLimit-Policy"]) == (200, '"read";q=7;w=60')


def test_an_operator_lists_adds_and_revokes(run: Run, tmp_path: Path) -> None:
    data = ("--data", index(tmp_path / "data"))
    assert run("clients", *data).out == "no client has limits of its own\n"
    added = run("clients", "add", "acme", "--limits", " read=60000/60  costly=off ", "--json", *data)
    assert added.code == 0
    assert added.json["limits"] == "read=60000/60 costly=off"
    again = run("clients", "add", "acme", "--limits", "read=1/60", *data)
    assert (again.code, again.out) == (1, "there is a client acme already: revoke it first, or take another name\n")
    (client,) = run("clients", "--json", *data).json
    assert (client["name"], client["limits"], sorted(client)) == (
        "acme", "read=60000/60 costly=off", ["limits", "name", "since"],
    )  # fmt: skip
    assert run("clients", *data).out.startswith("acme ")
    assert run("clients", "revoke", "acme", *data).code == 0
    assert run("clients", "revoke", "acme", *data).code == 1


@pytest.mark.parametrize(
    "words",
    [
        "add", "revoke", "add acme", "add Acme --limits read=1/60", "--limits read=1/60", "add acme --limits=",
        "add acme --limits read=0/1", "add acme --limits write=1/60", "revoke acme --limits read=1/60", "take acme",
    ],
)  # fmt: skip
def test_wrong_usage_is_refused(run: Run, tmp_path: Path, words: str) -> None:
    assert run("clients", *words.split(), "--data", index(tmp_path / "data")).code == 2
