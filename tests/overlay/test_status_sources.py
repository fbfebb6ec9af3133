"""Status of a chain that has several sources: where each stands, without secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexer.settings import Settings
from overlay.answers.schemas import SCHEMAS
from overlay.app.composition import build
from overlay.commands.status import show_status
from tests.chainkit import ChainKit


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Two folders of the same blocks, and a node that is not there."""
    kit = ChainKit()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        kit.write(tmp_path / name)
    chains = f"demo=files:{tmp_path}/one demo=http://me:hunter2@127.0.0.1:1?chain=bsv demo=files:{tmp_path}/two"
    return Settings.load({"data": str(tmp_path / "data"), "chains": chains, "search": f"whoosh:{tmp_path}/index"})


async def status_row(settings: Settings) -> dict[str, Any]:
    """The chain's row once it was read."""
    context = build(settings, follow=True, serve=False)
    try:
        (chain,), (follower,) = context.chains, context.followers
        await follower.open()
        await follower.catch_up()
        (row,) = context.status.status()["chains"]
        await chain.close()
        result: dict[str, Any] = row
        return result
    finally:
        context.close()


async def test_every_source_has_a_row_that_says_its_kind_and_not_its_address(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    row = await status_row(settings)
    assert row["sources"][0]["state"] == "current"
    assert (row["height"], row["warnings"]) == (1, [])
    assert not {word for word in ("hunter2", "127.0.0.1", str(settings.data.parent)) if word in str(row)}
    assert row["source"] == "files node"
    assert [source["source"] for source in row["sources"]] == ["files 1", "node 2", "files 3"]
    properties = SCHEMAS["SourceStatus"]["properties"]
    assert all(source.keys() <= properties.keys() for source in row["sources"])
    assert {source["state"] for source in row["sources"]} <= set(properties["state"]["enum"])
    row["sourcesDisagree"] = "b is on another branch"
    row["warnings"] = [row["sourcesDisagree"], "b is 7 blocks behind a"]
    show_status({"chains": [row], "stateHash": {}, "listings": {}, "index": None})
    shown = capsys.readouterr().out
    assert "    source      files 1" in shown
    assert "current, block 1" in shown
    assert "    warning     b is 7 blocks behind a" in shown
    assert "    disagree    b is on another branch" in shown
    assert shown.count("b is on another branch") == 1


@pytest.mark.parametrize("folders", [("one",), ("one", "two")])
async def test_unusable_bytes_of_a_folder_are_counted_also_where_nothing_is_missing(
    settings: Settings, tmp_path: Path, folders: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "one" / "blk00000.dat").open("ab") as file:
        file.write(b"what a torn write left")
    chains = tuple(chain for chain in settings.chains if chain.url.endswith(folders))
    row = await status_row(replace(settings, chains=chains))
    assert (row["caught"], row.get("complete", True)) == (1, True)
    show_status({"chains": [row], "stateHash": {}, "listings": {}, "index": None})
    assert "    refused     1 invalid answer" in capsys.readouterr().out


async def test_an_error_of_an_index_elsewhere_does_not_name_its_host(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = build(settings, follow=False, serve=True)
    try:
        elsewhere = replace(settings, search="opensearch:http://me:hunter2@search.internal:9200/a2b")
        monkeypatch.setattr(context.status, "_settings", elsewhere)
        context.status.index_error = "opensearch:http://***@search.internal:9200/a2b refuses a request (400): too large"
        assert context.status.status()["index"]["error"] == "the log of this server says why"
    finally:
        context.close()


async def test_the_process_is_behind_until_searches_answer_for_the_newest_block(settings: Settings) -> None:
    context = build(settings, follow=True, serve=True)
    status = context.status
    try:
        (chain,), (follower,) = context.chains, context.followers
        assert not status.is_behind(), "nothing is read yet"
        await follower.open()
        follower.progress.state = "catching-up"
        assert status.is_behind()
        await follower.catch_up()
        assert status.is_behind(), "all is stored, and not searchable"
        status.publish(status.stored_heights())
        assert not status.is_behind()
        await chain.close()
    finally:
        context.close()


@pytest.mark.parametrize(
    ("chain", "twice", "lines"),
    [
        ("eip155:1", None, ["    state hash  not known: no block was read twice yet (block 9)"]),
        ("eip155:1", 1_000, ["    state hash  ab (block 9)", "    read twice  up to block 1,000"]),
        ("bsv:mainnet", None, ["    state hash  not known: an update is undecided (block 9)"]),
    ],
)
def test_status_says_up_to_which_block_a_chain_was_read_twice(
    chain: str, twice: int | None, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"name": "demo", "chain": chain, "state": "following", "height": 1_010, "hash": None, "readTwice": twice}
    hashed = {"height": 9, "hash": "ab" if twice else None, "pointers": None}
    show_status({"chains": [row], "stateHash": {"demo": hashed}, "listings": {}, "index": None})
    assert [line for line in capsys.readouterr().out.splitlines() if "hash" in line or "twice" in line] == lines
