"""Make `0.2.0.tar.xz`, what version 0.2.0 leaves behind, with the program of that version.

It is run by a Python that has 0.2.0 and its tests installed, from a clone of its commit and not of this one:

    git clone . /tmp/a2b-0.2.0 && git -C /tmp/a2b-0.2.0 checkout 1fd868ea
    python3.11 -m venv /tmp/a2b-0.2.0/.venv && /tmp/a2b-0.2.0/.venv/bin/pip install -e '/tmp/a2b-0.2.0[test]'
    cd /tmp/a2b-0.2.0 && PYTHONPATH=. .venv/bin/python FOLDER-OF-THIS-CLONE/tests/journey/upgrade/make.py

The archive holds `blocks/` (a chain as a node writes it), `data/` (the database with rows in every original table, the
native index and the keys), `backup` (of the same), and `answers.json` (what a mirror asked, and was answered).
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from aiohttp import ClientSession, web
from overlay.systems.rating.evidence_intake import EvidenceIntake

from indexer.store import Store, Writer, connect, fetches
from overlay.installation import declare_tables
from tests.chainkit import agent, tool
from tests.indexer.store.test_migrations import make as make_of_schema_5
from tests.overlay.rating.registry import Payer, Registry
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL
from tests.pointer_facts import card as served_card

ARCHIVE = Path(__file__).with_name("0.2.0.tar.xz")
NOW = 1_795_000_000
"""When the receipts are from, in seconds since 1970: November 2026."""

FAR = 4_000_000_000_000
"""When what was fetched is due again, in milliseconds since 1970: no test fetches it."""


class Receipts:
    """Takes receipts in, and remembers them with their times for another database."""

    def __init__(self, registry: Registry) -> None:
        self._intake, self._registry = registry.intake, registry
        self.calls: list[tuple[float, tuple[Any, ...], dict[str, Any]]] = []

    def submit(self, *args: Any, **more: Any) -> Any:
        self.calls.append((self._registry.now, args, more))
        return self._intake.submit(*args, **more)


async def make_chain(folder: Path) -> Receipts:
    """A chain with one of each kind of record, as the block files of a node, and the receipts of one agent."""
    registry = Registry(f"sqlite:///{folder}/chain.db")
    registry.later = NOW - registry.kit.tip.time
    registry.intake = receipts = Receipts(registry)
    kit, mine = registry.kit, registry.mine
    rated = await registry.inscribe(ALICE)
    registry.bind(ALICE, rated)
    for delegator, payer in ((BOB, Payer(1)), (CAROL, Payer(2))):
        task, proof = await registry.paid(payer)
        registry.intake.submit("receipt", registry.work(ALICE, delegator, task), payment=proof)
        registry.intake.submit("receipt", registry.work(ALICE, delegator))  # not as old as the blocks of payments
    prices = [
        {"id": "p", "currency": "USD", "amount": "3.50", "address": kit.address("till"), "interval": "P1M"},
        {"id": "q", "currency": "BSV", "amount": "0.001", "address": kit.address("till"), "skillIds": ["echo"]},
    ]
    echo = kit.inscribe(agent("Echo Chamber", description="Repeats what it hears.", **{"x-payment-config": prices}))
    clock, tide, lost = kit.inscribe(tool("clock"), "a2b-mcp"), kit.inscribe(agent("Tide Tables")), kit.inscribe(
        agent("Lost Agent", url="https://lost.example")
    )  # fmt: skip
    await mine(echo, clock, tide, lost, kit.inscribe(b"not json"), kit.inscribe(agent("Two"), satoshis=2))
    await mine(kit.update(echo, agent("Echo Chamber", description="Repeats it twice.", **{"x-payment-config": prices})))
    await mine(kit.move(tide, "bob"), kit.burn(lost), kit.inscribe(agent("Echo Chamber", description="A copy.")))
    served = served_card("Pointed")
    await mine(kit.point("pointed.example", sha256(served).digest()), kit.point("silent.example"))
    (folder / "blocks").mkdir()
    kit.write(folder / "blocks")
    registry.indexing.writer.close()
    return receipts


class Serving:
    """The program of this version, which follows the chain and serves its data."""

    def __init__(self, folder: Path) -> None:
        chains = f"demo=files:{folder}/blocks?chain=bsv&network=regtest"
        command = [sys.executable, "-m", "overlay", "up", "--port", "0", "--data", f"{folder}/data", "--chains", chains]
        self._out = folder / "out"
        with self._out.open("w") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        self.url = ""

    def until(self, what: Any) -> Any:
        for _ in range(1_200):
            if self._process.poll() is not None:
                raise RuntimeError(self._out.read_text())
            if not self.url:
                lines = [line for line in self._out.read_text().splitlines() if line.startswith("serving on ")]
                self.url = lines[0].removeprefix("serving on ") if lines else ""
            try:
                if self.url and (result := what(self)):
                    return result
            except OSError:
                pass
            time.sleep(0.1)
        raise RuntimeError(f"nothing in two minutes: {self._out.read_text()}")

    def get(self, path: str, body: bytes | None = None) -> Any:
        with urlopen(Request(f"{self.url}{path}", data=body)) as answer:  # noqa: S310 - http only
            return json.load(answer)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def is_indexed(serving: Serving) -> bool:
    """Whether the chain is read, hashed and indexed."""
    status = serving.get("/v1/status")
    hashed = status["stateHash"].get("demo") or {}
    return status["index"]["behind"] == 0 and hashed.get("hash") is not None


def is_rated(serving: Serving) -> bool:
    """Whether a listing has a rating, too."""
    items = serving.get("/v1/search?q=alice")["items"]
    return is_indexed(serving) and any((item.get("rating") or {}).get("score") for item in items)


def add_receipts(url: str, receipts: Receipts) -> None:
    """Submit the receipts, and answer for the host of one pointer."""
    engine = connect(url)
    for now, args, more in receipts.calls:
        EvidenceIntake(Store(engine), lambda now=now: now).submit(*args, **more)
    writer, body, begun_ms = Writer(engine), served_card("Pointed"), int(time.time() * 1_000) + 1_000
    served = fetches.ServedBody("https://pointed.example/.well-known/agent.json", sha256(body).digest(), body)
    outcomes = {
        "pointed.example": fetches.FetchOutcome(
            state=fetches.FetchState.MET, begun_ms=begun_ms, next_at=FAR, served=(served,)
        ),
        "silent.example": fetches.FetchOutcome(
            state=fetches.FetchState.FAILED, begun_ms=begun_ms, next_at=FAR, reason="fetch-connect", detail="no"
        ),
    }
    with engine.connect() as connection:
        names = [name for (name,) in connection.exec_driver_sql("SELECT locator FROM locators")]
    with writer.transaction() as connection:
        for name in names:
            host = next(host for host in outcomes if host in name)
            fetches.record(connection, name, outcomes[host])
    writer.close()
    engine.dispose()


def fill_original_tables(folder: Path) -> None:
    """Copy rows of clients into the tables that are empty: those of the schema before, as this version migrates it."""
    other = f"{folder}/clients.db"
    make_of_schema_5(f"sqlite:///{other}")
    connect(f"sqlite:///{other}").dispose()
    originals = declare_tables_by_kind()
    database = sqlite3.connect(f"{folder}/data/a2b.db", isolation_level=None)
    database.execute("ATTACH ? AS clients", [other])
    for name in originals:
        is_empty = not database.execute(f"SELECT count(*) FROM main.{name}").fetchone()[0]
        if is_empty or name == "checks":  # of which those of domains are rebuilt, and there already
            columns = ", ".join(f'"{row[1]}"' for row in database.execute(f"PRAGMA main.table_info({name})"))
            database.execute(f"INSERT OR IGNORE INTO main.{name} ({columns}) SELECT {columns} FROM clients.{name}")
    counts = {name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in originals}
    database.execute("UPDATE checks SET next_at = ?", [FAR])
    database.execute("UPDATE subscriptions SET next_at = ?", [FAR // 1_000])
    database.execute("DETACH clients")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    if empty := [name for name, count in counts.items() if not count]:
        raise RuntimeError(f"no rows in {', '.join(empty)}")


def declare_tables_by_kind() -> list[str]:
    """The names of the original tables."""
    from indexer.store.schema import metadata

    declare_tables()
    return [table.name for table in metadata.sorted_tables if not table.info["rebuilt"]]


async def record_mirror(url: str, folder: Path) -> list[dict[str, Any]]:
    """The requests of `a2b mirror` to a server, with the answers."""
    answers: list[dict[str, Any]] = []

    async def pass_on(request: web.Request) -> web.Response:
        body = await request.text()
        headers = {name: request.headers[name] for name in ("X-BSV-Topic",) if name in request.headers}
        async with session.request(request.method, f"{url}{request.rel_url}", data=body, headers=headers) as answer:
            text, status = await answer.text(), answer.status
        answers.append({"path": str(request.rel_url), "body": body, "status": status, "answer": text})
        return web.Response(text=text, status=status, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", pass_on)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with ClientSession() as session:
        here = f"http://127.0.0.1:{runner.addresses[0][1]}"
        mirror = ("mirror", here, "--name", "demo", "--network", "regtest", "--data", f"{folder}/mirror")
        done = await asyncio.create_subprocess_exec(sys.executable, "-m", "overlay", *mirror)
        if await done.wait():
            raise RuntimeError("the mirror failed")
    await runner.cleanup()
    return list({(one["path"], one["body"]): one for one in answers}.values())


def main() -> None:
    """Make the archive."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        receipts = asyncio.run(make_chain(folder))
        serving = Serving(folder)
        serving.until(is_indexed)
        serving.stop()
        add_receipts(f"sqlite:///{folder}/data/a2b.db", receipts)
        serving = Serving(folder)
        serving.until(is_rated)
        answers = asyncio.run(record_mirror(serving.url, folder))
        serving.stop()
        fill_original_tables(folder)
        backup = ("backup", f"{folder}/backup", "--data", f"{folder}/data")
        subprocess.run([sys.executable, "-m", "overlay", *backup], check=True)
        (folder / "answers.json").write_text(json.dumps(answers, indent=1))
        shutil.rmtree(folder / "data" / "numba")
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            for name in ("answers.json", "backup", "blocks", "data"):
                archive.add(folder / name, name)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
