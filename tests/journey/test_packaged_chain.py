"""The packaged chain and real ones keep out of each other's databases, as somebody meets it who follows the README."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from indexer.store import Store, connect
from indexer.sync.packaged_chain import FIRST_BLOCK, is_packaged
from tests.chainkit import ChainKit, agent
from tests.databases import Cluster
from tests.running import SAMPLE, Running, a2b

DEMO, REAL = "a2b-demo", "a2b-data"


def own_chain(folder: Path) -> str:
    """Block files of another regtest chain, with one agent."""
    kit = ChainKit()
    kit.mine(kit.inscribe(agent("Tide Tables")))
    (folder / "blocks").mkdir()
    kit.write(folder / "blocks")
    return f"files:{folder / 'blocks'}?chain=bsv&network=regtest"


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `a2b up` has run with nothing configured."""
    folder = tmp_path_factory.mktemp("followed")
    with Running("up", "--port", "0", cwd=folder) as running:
        running.until_ready()
        running.until(lambda: running.get("/v1/status")["index"]["behind"] == 0)
        assert running.stop()[0] == 0
    return folder


@pytest.fixture
def demo(followed: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(followed / DEMO, tmp_path / DEMO)
    return tmp_path


def names_of(folder: Path, word: str, *flags: str) -> list[str]:
    done = a2b("search", word, "--json", *flags, cwd=folder)
    assert done.returncode in (0, 1), done.stderr
    return [item["name"] for item in json.loads(done.stdout)["items"]]


def test_the_packaged_chain_is_known_by_its_first_block(demo: Path) -> None:
    store = Store(connect(f"sqlite:///{demo / DEMO}/a2b.db"))
    first = store.blocks.get("demo", 1)
    assert first is not None
    assert (first.hash, is_packaged(store, "demo"), is_packaged(store, "other")) == (FIRST_BLOCK, True, False)
    store.close()


def test_the_next_section_of_the_readme_gets_a_database_without_the_demonstration(demo: Path) -> None:
    assert names_of(demo, "chart")
    with Running("up", "--port", "0", cwd=demo, A2B_CHAINS=f"bsv={own_chain(demo)}") as running:
        running.until_ready()
        running.until(lambda: running.get("/v1/search?q=tide")["total"] == 1)
        assert [chain["name"] for chain in running.get("/v1/status")["chains"]] == ["bsv"]
        assert running.get("/v1/search")["total"] == 1
        running.stop()
    assert names_of(demo, "tide"), "commands read the data of configured chains where there are any"
    assert names_of(demo, "chart", "--data", DEMO)


def test_a_folder_of_a_real_chain_is_refused_without_chains(tmp_path: Path) -> None:
    chains = f"live={own_chain(tmp_path)}"
    with Running("index", "--chains", chains, cwd=tmp_path) as running:
        running.until(lambda: "live: block 2 of 2" in running.err)
        running.stop()
    before = (tmp_path / REAL / "a2b.db").read_bytes()
    refused = a2b("up", "--port", "0", "--data", REAL, cwd=tmp_path)
    assert (refused.returncode, "holds the chain 'live' (bsv:regtest)" in refused.stderr) == (2, True), refused.stderr
    assert "set A2B_CHAINS" in refused.stderr
    assert (tmp_path / REAL / "a2b.db").read_bytes() == before
    for command in (("up", "--no-demo"), ("index",)):
        done = a2b(*command, "--data", REAL, cwd=tmp_path)
        assert (done.returncode, "no chains are configured: A2B_CHAINS=" in done.stderr) == (2, True)


def test_the_demonstration_keeps_configured_chains_out_until_it_is_forgotten(demo: Path) -> None:
    real = {"A2B_CHAINS": f"bsv={own_chain(demo)}", "A2B_DATA": DEMO}
    for command in ("up", "index", "serve"):
        refused = a2b(command, cwd=demo, **real)
        assert (refused.returncode, "a2b forget demo" in refused.stderr) == (2, True), refused.stderr
    unconfirmed = a2b("forget", "demo", cwd=demo)
    assert (unconfirmed.returncode, "--yes removes the chain without a question" in unconfirmed.stderr) == (2, True)
    unknown = a2b("forget", "bsv", "--yes", cwd=demo)
    assert (unknown.returncode, "is not a chain of this database; its chains: demo" in unknown.stderr) == (2, True)
    assert len(names_of(demo, "chart")) > 1
    done = a2b("forget", "demo", "--yes", cwd=demo)
    assert (done.returncode, done.stdout.startswith("removed 126 blocks, ")) == (0, True), done.stderr
    assert names_of(demo, "chart") == []
    with Running("up", "--port", "0", cwd=demo, **real) as running:
        running.until_ready()
        running.until(lambda: running.get("/v1/search")["total"] == 1)
        assert [chain["name"] for chain in running.get("/v1/status")["chains"]] == ["bsv"]
        reasons = [change["reason"] for change in running.get("/v1/changes?since=0&limit=500")["changes"]]
        assert "chain-forgotten" in reasons
        refused = a2b("forget", "bsv", "--yes", cwd=demo, A2B_DATA=DEMO)
        assert (refused.returncode, "another indexer is writing" in refused.stderr) == (3, True), refused.stderr
        running.stop()


@pytest.mark.parametrize("name", ["demo", "bsv"])
def test_another_chain_under_the_name_of_the_packaged_one_is_refused(followed: Path, tmp_path: Path, name: str) -> None:
    """The packaged chain was followed under this name, which was configured, and now is that of another source."""
    with Running("index", "--chains", SAMPLE.replace("demo=", f"{name}="), cwd=tmp_path) as running:
        running.until(lambda: f"{name}: block 125 of 125" in running.err)
        running.stop()
    done = a2b("index", "--chains", f"{name}={own_chain(tmp_path)}", cwd=tmp_path)
    assert (done.returncode, f"a2b forget {name}" in done.stderr) == (3, True), done.stderr


def test_a_chain_is_forgotten_on_postgresql_too(postgresql: Cluster, tmp_path: Path) -> None:
    database = ("--database", postgresql.new())
    with Running("index", "--chains", SAMPLE, *database, cwd=tmp_path) as running:
        running.until(lambda: "demo: block 125 of 125" in running.err)
        refused = a2b("forget", "demo", "--yes", *database, cwd=tmp_path)
        assert (refused.returncode, "another indexer is writing" in refused.stderr) == (3, True), refused.stderr
        running.stop()
    done = a2b("forget", "demo", "--yes", *database, cwd=tmp_path)
    assert (done.returncode, done.stdout.startswith("removed 126 blocks, ")) == (0, True), done.stderr
    engine = create_engine(database[1])
    with engine.connect() as connection:
        for table in ("blocks", "events", "cards", "sightings", "locators", "proofs", "topic_anchors", "headers"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0, table
    engine.dispose()
