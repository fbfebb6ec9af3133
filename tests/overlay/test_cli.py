"""The `a2b` command: what it prints, what it refuses, and the codes it ends with."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.chains import create
from indexer.model import SCHEMA
from indexer.settings import KEYS, Settings
from indexer.state_hash import update_state_hash
from indexer.store import Store, Writer, connect
from overlay import cli
from overlay.app import logs
from overlay.app.composition import build
from overlay.app.storage import open_store
from overlay.commands.show import offer_line
from overlay.engines import NATIVE_LAYOUT
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.text.safe_text import visible_in_json
from tests.chainkit import ChainKit, agent
from tests.ports import free_port
from tests.running import SAMPLE, Running, a2b, environment
from tests.waiting import PATIENCE

HOSTILE = "\x1b[31mred\x1b]0;title\x07 \u202egnp.exe\u2066 [bold]x[/bold] :smile: \x9b2J tail"
HARMLESS = "\\x1b[31mred\\x1b]0;title\\x07 \\u202egnp.exe\\u2066 [bold]x[/bold] :smile: \\x9b2J tail"
STEERING = "\x1b\x07\x9b\u202e\u2066\x00"


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of this machine, and a folder of one's own."""
    for name in KEYS:
        monkeypatch.delenv(f"A2B_{name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: object) -> Done:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        code = ended.value.code
        assert isinstance(code, int)
        return Done(code, *capsys.readouterr())

    return command


def index(data: Path, chains: str = SAMPLE) -> Path:
    """A data folder as `a2b up` leaves it."""

    async def follow() -> None:
        context = build(Settings.load({"data": str(data), "chains": chains}), follow=True, serve=True)
        for follower in context.followers:
            await follower.open()
            await follower.catch_up()
        assert context.engine is not None
        IndexProjector(context.store, context.engine, context.duplicates).run()
        context.close()

    asyncio.run(follow())
    return data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample chain, indexed."""
    return index(tmp_path_factory.mktemp("sample") / "data")


@pytest.fixture(scope="module")
def expected(sample: Path) -> dict[str, Any]:
    stated: dict[str, Any] = json.loads((sample / "expected.json").read_text())
    return stated


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A registry with one agent whose texts try to steer the terminal, and its id."""
    kit, folder = ChainKit(), tmp_path_factory.mktemp("hostile")
    skill = {"id": HOSTILE, "name": HOSTILE, "description": HOSTILE, "tags": [HOSTILE]}
    card = agent(HOSTILE, description=HOSTILE, version=HOSTILE, skills=[skill], surprise=[HOSTILE])
    price = {"id": HOSTILE, "amount": 1, "currency": HOSTILE, "interval": HOSTILE, "acceptedCurrencies": [HOSTILE]}
    card["x-payment-config"] = [price]
    listed = kit.inscribe(card)
    kit.mine(listed, kit.inscribe(b"{" + HOSTILE.encode()))
    kit.write(folder)
    return index(folder / "data", f"bad=files:{folder}?chain=bsv&network=regtest"), str(listed)


# -- asking the local data


def test_search_finds_what_the_words_and_filters_say(run: Run, data: Path) -> None:
    result = run("search", "dex", "chrat", "--data", data, "--type", "agent", "--currency", "usd", "--max-price", "1")
    assert result.code == 0
    assert "DEX Chart API" in result.out
    assert "prices are compared as amounts, whatever their interval\n" in result.out
    assert result.out.endswith("listings\n")
    assert "prices are compared per day\n" in run("search", "dex", "--data", data, "--sort", "price_per_day").out
    assert "prices are compared" not in run("search", "dex", "--data", data).out


def test_search_prints_the_page_of_the_api_as_json(run: Run, data: Path) -> None:
    result = run("search", "dex", "--data", data, "--limit", "1", "--json")
    assert result.code == 0
    assert result.json["limit"] == 1
    assert len(result.json["items"]) == 1
    assert result.json["total"] > 1


def test_search_takes_the_filters_of_the_api(run: Run, data: Path) -> None:
    everything = run("search", "--data", data, "--status", "all", "--limit", "100", "--json").json["items"]
    owner = everything[0]["owner"]
    owned = run("search", "--data", data, "--owner", owner, "--status", "all", "--json").json["items"]
    assert {item["id"] for item in owned} == {item["id"] for item in everything if item["owner"] == owner}
    burned = run("search", "--data", data, "--status", "burned", "--json").json["items"]
    assert {item["status"] for item in burned} == {"burned"}
    priced = run("search", "--data", data, "--min-price", "1", "--price-currency", "USD", "--json").json["items"]
    assert all(float(item["cheapest"]["amount"]) >= 1 for item in priced)
    assert priced
    assert run("search", "--data", data, "--verified", "true").code == 1  # the packaged chain's hosts are not asked
    assert run("search", "--data", data, "--domain", "nowhere.example").code == 1
    second = run("search", "--data", data, "--limit", "2", "--offset", "2", "--json").json["items"]
    listed = run("search", "--data", data, "--limit", "4", "--json").json["items"]
    assert second == listed[2:]


def test_search_prints_all_pages(run: Run, data: Path) -> None:
    listed = run("search", "--data", data, "--limit", "100", "--json").json["items"]
    paged = run("search", "--data", data, "--limit", "8", "--all")
    assert [line.strip() for line in paged.out.splitlines() if re.fullmatch(r"    [0-9a-f]{64}_\S+", line)] == [
        item["id"] for item in listed
    ]
    assert paged.out.endswith(f"\n{len(listed)} listings\n")
    pages = run("search", "--data", data, "--limit", "8", "--all", "--json").out
    assert pages.count('"totalRelation"') == -(-len(listed) // 8)


def test_search_marks_the_words_of_the_question_on_a_terminal(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run("search", "dex", "--data", data, "--limit", "3")
    monkeypatch.setattr("overlay.commands.search.can_mark", lambda: True)
    marked = run("search", "dex", "--data", data, "--limit", "3")
    assert "\x1b[1mDEX\x1b[22m Chart API" in marked.out
    assert "\x1b" not in plain.out
    bare = re.sub(r"\x1b\[\d+m", "", marked.out)
    assert set(plain.out.splitlines()) <= set(bare.splitlines())
    assert "highlights" not in run("search", "dex", "--data", data, "--json").out


def test_search_says_what_may_have_been_meant_and_what_emptied_the_answer(run: Run, data: Path) -> None:
    result = run("search", "waethre", "--data", data)
    assert (result.code, result.out.splitlines()[0].startswith("did you mean: weather (")) == (1, True)
    result = run("search", "dex -tag:x", "--data", data, "--tag", "no such tag")
    assert result.code == 1
    assert re.match(r"leave out tag: \d+ listings?\n", result.out)


def test_search_says_what_only_meaning_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    item = {"id": "ab_0", "name": "Forecast", "type": "agent", "status": "live", "byMeaning": True}
    page = {"items": [item], "total": 0, "matched": 0, "totalRelation": "eq", "offset": 0, "nextCursor": None}
    monkeypatch.setattr("overlay.commands.search._page", lambda *_: page)
    result = run("search", "umbrella")
    assert result.out.splitlines()[0].endswith(", near in meaning")
    assert "nothing contains these words; these are near to them in meaning\n" in result.out
    assert (result.code, result.out.splitlines()[-1]) == (0, "0 listings")


def test_search_names_what_was_corrected_and_what_nothing_contains(run: Run, data: Path) -> None:
    result = run("search", "wether", "--data", data)
    assert "showing results for weather: no listing, or hardly any, contains wether\n" in result.out
    result = run("search", "weather towers of pixels", "--data", data)
    assert "no listing has all of these words; these have some of them\n" in result.out
    result = run("search", '"chart dex"', "--data", data)
    assert "note: no listing contains the quoted phrase, so its words were searched for\n" in result.out
    assert result.code == 0


def test_search_ends_with_one_when_there_is_nothing(run: Run, data: Path) -> None:
    assert run("search", "zzyzzyzzyzzy", "--data", data) == Done(
        1, "note: no listing here seems to do this\n0 listings\n", ""
    )


def test_status_shows_the_progress_of_a_rebuild(run: Run, data: Path) -> None:
    with closing(SearchIndex(f"native:{data}/index")) as engine, engine.rebuilding():
        engine.report_progress(2_000, 5_001)
        result = run("status", "--data", data)
    assert "rebuilding: 2,000 of 5,001 registrations" in result.out
    assert "rebuilding" not in run("status", "--data", data).out


def test_search_in_an_index_that_is_still_to_be_made_is_no_answer(run: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    result = run("search", "dex", "--data", data, "--search", f"native:{tmp_path}/index")
    assert (result.code, result.out) == (3, "")
    assert "the search index is being built, so nothing can be found yet" in result.err


def test_every_option_of_search_narrows(run: Run, data: Path) -> None:
    everything = run("search", "--data", data, "--json", "--limit", "100").json["total"]
    for option, value in {
        "--type": "tool", "--skill": "chart", "--currency": "BSV", "--interval": "month", "--max-price": "0.01",
        "--tag": "charts", "--chain": "bsv:mainnet",
    }.items():  # fmt: skip
        result = run("search", "--data", data, "--json", option, value)
        if option == "--chain":
            assert (result.code, result.out) == (2, "")
            assert "'bsv:mainnet' is not indexed here; known: demo (bsv:regtest)" in result.err
        else:
            assert result.json["total"] < everything, option


def test_a_chain_is_named_by_name_or_caip2_without_asking_the_database(run: Run, data: Path, tmp_path: Path) -> None:
    bare = {"data": tmp_path / "none", "search": f"native:{data}/index"}
    flags = [word for name, value in bare.items() for word in (f"--{name}", value)]
    by_name = run("search", "dex", "--chain", "demo", "--json", *flags)
    assert by_name.code == 0
    assert run("search", "dex", "--chain", "bsv:regtest", "--json", *flags) == by_name
    assert not (tmp_path / "none").exists()


def test_sorting_by_name_can_be_reversed(run: Run, data: Path) -> None:
    def names(*order: str) -> list[str]:
        return [item["name"] for item in run("search", "--data", data, "--json", "--limit", "9", *order).json["items"]]

    forward, backward = names("--sort", "name"), names("--sort=-name")
    assert forward != backward
    assert forward == sorted(forward, key=str.casefold)


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--limit", "many", "limit: 'many' is not a number"),
        ("--sort", "size", "sort: 'size' is not one of"),
        ("--type", "agents", "type: 'agents' is not one of"),
        ("--max-price", "-1", "maxPrice: '-1' is not an amount"),
        ("--chain", "eth", "chain: 'eth' is not indexed here"),
    ],
)
def test_search_is_as_strict_as_the_api(option: str, value: str, complaint: str, run: Run, data: Path) -> None:
    result = run("search", "--data", data, f"{option}={value}")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"a2b: {complaint}")


def test_show_and_history_tell_of_one_listing(run: Run, data: Path, expected: dict[str, Any]) -> None:
    for stated in expected["registrations"]:
        item = run("show", stated["id"], "--data", data, "--json")
        assert (item.code, item.json["cardSha256"]) == (0, stated["cardSha256"])
        revisions = run("history", stated["id"], "--data", data, "--json").json["revisions"]
        assert [entry["kind"] for entry in reversed(revisions)] == [
            revision["kind"] for revision in stated["revisions"]
        ]
        assert stated["id"] in run("show", stated["id"], "--data", data).out
        shown = run("history", stated["id"], "--data", data).out
        assert [line.split()[2] for line in shown.splitlines() if line.startswith("block")] == [
            entry["kind"] for entry in revisions
        ]


def test_show_prints_how_a_listing_is_used(run: Run, data: Path) -> None:
    tool, called = (
        run("search", "--data", data, "--type", kind, "--limit", "100", "--json").json["items"]
        for kind in ("tool", "agent")
    )
    with_command = next(item["id"] for item in tool if item["command"])
    assert '"mcpServers": {' in run("show", with_command, "--snippets", "--data", data).out
    titles = [
        one["title"] for one in run("show", with_command, "--snippets", "--data", data, "--json").json["snippets"]
    ]
    assert titles == ["Claude Desktop", "Claude Code", "Cursor", "VS Code", "other MCP clients"]
    assert "curl -sS -i " in run("show", called[0]["id"], "--snippets", "--data", data).out


@pytest.mark.parametrize("command", ["show", "history"])
@pytest.mark.parametrize("name", ["00" * 32 + "_0", "nobody.example", "x\x1b[31m"])
def test_what_nobody_knows_is_not_found(command: str, name: str, run: Run, data: Path) -> None:
    result = run(command, name, "--data", data)
    assert (result.code, result.out) == (1, "")
    assert "no listing has the id" in result.err
    assert result.err.endswith("; diagnose its transaction to see why\n")
    assert "\x1b" not in result.err


def test_a_bundle_shows_its_servers_and_each_of_them(run: Run, data: Path, expected: dict[str, Any]) -> None:
    bundle = next(
        registration
        for registration in expected["registrations"]
        if len(registration["card"].get("mcpServers", ())) > 1
    )
    shown = run("show", bundle["id"], "--data", data)
    keys = [line.split()[1] for line in shown.out.splitlines() if line.split()[0] == "server"]
    assert len(keys) == len(bundle["card"]["mcpServers"])
    for key in keys:
        assert "(written by the publisher: read it first)" in run("show", key, "--data", data).out


def test_diagnose_says_yes_for_what_is_listed_and_no_with_a_reason_else(
    run: Run, data: Path, expected: dict[str, Any]
) -> None:
    live = next(registration for registration in expected["registrations"] if registration["status"] == "live")
    good = run("diagnose", live["winner"], "--data", data)
    assert good.code == 0
    assert f"listed as {live['id']}" in good.out
    for rejected in expected["rejected"]:
        bad = run("diagnose", rejected["outpoint"], "--data", data)
        assert bad.code == 1
        assert rejected["reason"] in bad.out
    assert run("diagnose", "00" * 32, "--data", data, "--json").json["found"] is False


def test_following_what_is_never_sent_ends(
    run: Run, data: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its id, and by its bytes, which alone would list something."""
    from overlay.commands import diagnose

    pauses: list[float] = []
    monkeypatch.setattr(diagnose, "sleep", pauses.append)
    monkeypatch.setattr(diagnose, "monotonic", lambda: 60.0 * len(pauses))
    kit = ChainKit()
    raw = kit.raw(kit.inscribe(agent("Never sent"))).hex()
    for what in (("00" * 32,), ("--raw", raw)):
        pauses.clear()
        ended = run("diagnose", *what, "--follow", "--data", data)
        assert (ended.code, len(pauses)) == (1, 60)
        assert "was not seen within 60 minutes: send it" in ended.err
    pauses.clear()
    live = next(registration for registration in expected["registrations"] if registration["status"] == "live")
    assert run("diagnose", live["winner"], "--follow", "--data", data).code == 0
    assert pauses == []


def test_diagnose_reads_raw_transactions_from_the_command_line_or_a_file(run: Run, data: Path, tmp_path: Path) -> None:
    kit = ChainKit()
    good = kit.raw(kit.inscribe(agent("New"))).hex()
    bad = kit.raw(kit.inscribe(b"{}")).hex()
    (tmp_path / "raw.hex").write_text(f"{good}\n")
    assert run("diagnose", "--raw", good, "--data", data).code == 0
    assert run("diagnose", "--raw", f"@{tmp_path}/raw.hex", "--data", data).code == 0
    refused = run("diagnose", "--raw", bad, "--data", data, "--json")
    assert (refused.code, refused.json["where"]) == (1, "raw")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "give a txid or an outpoint, or --raw"),
        (["00" * 32, "--raw", "00"], "give a txid or an outpoint, or --raw"),
        (["dex"], "'dex' is neither a txid"),
        (["--raw", "xyz"], "the transaction is not hex"),
        (["--raw", "00"], "these bytes are not a transaction"),
        (["--raw", "00" * (2 << 20) + "00"], "longer than 4,194,304 hex digits"),
    ],
)
def test_diagnose_refuses_what_is_no_question(arguments: list[str], complaint: str, run: Run, data: Path) -> None:
    result = run("diagnose", *arguments, "--data", data)
    assert (result.code, result.out) == (2, "")
    assert complaint in result.err


def test_a_raw_transaction_cannot_be_read_before_any_chain_is_known(run: Run) -> None:
    open_store(Settings.load({"data": "new"}), create=True).engine.dispose()
    result = run("diagnose", "--raw", ChainKit().blocks[0].raw[81:].hex(), "--data", "new")
    assert (result.code, result.err) == (
        3, "a2b: no chain is indexed yet, so the transaction cannot be read\n",
    )  # fmt: skip


def test_a_missing_raw_file_is_named(run: Run, data: Path) -> None:
    assert run("diagnose", "--raw", "@nowhere.hex", "--data", data) == Done(
        2, "", "a2b: nowhere.hex: No such file or directory\n"
    )


@pytest.mark.parametrize("command", [["check"], ["pay-check", "--config", "x"], ["broadcast"]])
def test_a_file_that_is_not_there_is_wrong_usage(command: list[str], run: Run, data: Path) -> None:
    for name, why in (("nowhere.json", "No such file or directory"), (str(data), "Is a directory")):
        result = run(*command, name)
        assert (result.code, result.out, result.err) == (2, "", f"a2b: {name}: {why}\n")


def test_an_offer_shows_currencies_interval_and_payee() -> None:
    offer = {"id": "basic", "currency": "BSV", "amount": "1", "interval": "", "skillIds": ["a", "b"]}
    assert (
        offer_line(offer | {"acceptedCurrencies": ["BSV", "USD"]}) == "basic: 1 BSV per call, also takes USD, for a, b"
    )
    monthly = {"acceptedCurrencies": ["BSV"], "interval": "P1M", "address": "1Payee"}
    assert offer_line(offer | monthly) == "basic: 1 BSV per month, for a, b, paid to 1Payee"


def test_check_answers_by_its_exit_code(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad, prices = (tmp_path / f"{name}.json" for name in ("good", "bad", "prices"))
    good.write_text(json.dumps(agent("Echo")))
    bad.write_text('{"name": "Echo"}')
    prices.write_text('[{"amount": "1", "currency": "USD"}]')
    result = run("check", good)
    assert result.code == 0
    assert "Echo  (agent)" in result.out
    assert result.out.endswith("valid\n")
    refused = run("check", bad)
    assert refused.code == 1
    assert "error: /skills: the card has no skills" in refused.out
    bad.write_text("{")
    assert run("check", bad).out.startswith("error: the card is not JSON")
    assert run("check", good, "--type", "tool", "--json").json["ok"] is False
    assert "offer" in run("check", prices).out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(good.read_bytes())))
    assert run("check", "-").code == 0
    assert run("check", tmp_path / "none.json").code == 2
    assert run("check", good, "--type", "thing").code == 2


def test_severities_are_written_alike_for_people(run: Run, tmp_path: Path) -> None:
    card = agent("Echo") | {"url": "http://10.1.2.3/", "description": "use ghp_" + "a1B2c3" * 6}
    (tmp_path / "card.json").write_text(json.dumps(card | {"tags": 5}))
    lines = run("check", tmp_path / "card.json").out.splitlines()
    warnings = [line.removeprefix("warning: ").partition(": ")[0] for line in lines if line.startswith("warning: ")]
    assert {"(high) /description", "(low) /url", "/tags"} <= set(warnings)


def test_status_tells_heights_and_state_hash_from_the_database(run: Run, data: Path, expected: dict[str, Any]) -> None:
    answer = run("status", "--data", data, "--json").json
    hashed = answer["stateHash"]["demo"]
    assert (hashed["height"], hashed["hash"]) == (125, expected["stateHashes"]["125"])
    assert hashed["pointers"]["count"] == sum(pointer["valid"] for pointer in expected["pointers"])
    [chain] = answer["chains"]
    assert (chain["state"], chain["tip"], chain["lag"], chain["reorgs"]) == ("stored", None, None, None)
    shown = run("status", "--data", data)
    assert shown.code == 0
    assert expected["stateHashes"]["125"] in shown.out
    assert "stored: block 125\n" in shown.out


def test_status_shows_the_stored_hash_unless_it_is_recomputed(
    run: Run, data: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    copy = shutil.copytree(data, tmp_path / "data")
    engine = connect(f"sqlite:///{copy}/a2b.db")
    store, writer = Store(engine), Writer(engine)
    update_state_hash(store, writer, "demo")
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE state_hashes SET hash = x'00'")
    writer.close()
    store.close()
    stored = run("status", "--data", copy, "--json").json["stateHash"]["demo"]
    assert stored["hash"] == "00"
    recomputed = run("status", "--data", copy, "--json", "--recompute").json
    assert recomputed["stateHash"]["demo"]["pointers"] == stored["pointers"]
    assert recomputed["stateHash"]["demo"]["hash"] == expected["stateHashes"]["125"]


def test_status_without_an_index_says_so(run: Run, data: Path, tmp_path: Path) -> None:
    result = run("status", "--data", data, "--search", f"native:{tmp_path}/none")
    assert result.code == 0
    assert "index: none" in result.out


def test_a_rebuild_takes_the_systems_of_the_settings(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"native:{tmp_path}/index"
    for systems, is_rated in (("off", False), ("rating", True), ("all", True)):
        monkeypatch.setenv("A2B_SYSTEMS", systems)
        assert run("rebuild", "--data", data, "--search", other).code == 0
        answer = run("search", "--type", "agent", "--limit", "1", "--json", "--data", data, "--search", other).json
        assert ("rating" in answer["items"][0]) is is_rated


def test_an_index_that_was_lost_is_rebuilt_to_the_same_answers(run: Run, data: Path, tmp_path: Path) -> None:
    other = f"native:{tmp_path}/again"
    done = run("rebuild", "--data", data, "--search", other)
    assert done.code == 0
    assert "indexed 38 registrations" in done.out
    for words in ("dex", "watchtower", "bridge", ""):
        ours = run("search", words, "--data", data, "--json", "--limit", "100").json
        theirs = run("search", words, "--data", data, "--search", other, "--json", "--limit", "100").json
        assert [item["id"] for item in ours["items"]] == [item["id"] for item in theirs["items"]]


def test_anchors_are_computed_again_to_the_same(run: Run, data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "copy")
    before = Store(connect(f"sqlite:///{tmp_path}/copy/a2b.db")).topic_anchors.newest("demo")
    assert before is not None
    done = run("rebuild", "--anchors", "--data", tmp_path / "copy")
    assert done.code == 0
    assert done.out == f"demo: block 125, anchor {before.tac[::-1].hex()}\n"


def test_a_snapshot_is_written_checked_and_searched_elsewhere(run: Run, data: Path, tmp_path: Path) -> None:
    for name in ("one.jsonl.gz", "two.jsonl.gz"):
        assert run("export", tmp_path / name, "--data", data).code == 0
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.jsonl.gz").read_bytes()
    taken = run("import", tmp_path / "one.jsonl.gz", "--data", tmp_path / "copy")
    assert taken.code == 0
    assert "verified: every event from its transaction" in taken.out
    assert "NOT VERIFIED" not in taken.out
    newest = [
        Store(connect(f"sqlite:///{folder}/a2b.db")).topic_anchors.newest("demo")
        for folder in (data, tmp_path / "copy")
    ]
    assert newest[0] == newest[1] is not None
    assert run("rebuild", "--data", tmp_path / "copy").code == 0
    assert (
        run("search", "dex", "--data", tmp_path / "copy", "--json").json["items"]
        == run("search", "dex", "--data", data, "--json").json["items"]
    )
    again = run("import", tmp_path / "one.jsonl.gz", "--data", tmp_path / "copy")
    assert again.code == 3
    assert "holds blocks, " in again.err
    assert "already: import into a new database" in again.err


def test_a_snapshot_that_was_tampered_with_is_a_negative_answer(run: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    run("export", file, "--data", data)
    file.write_text(file.read_text().replace('"status":"live"', '"status":"burned"', 1))
    result = run("import", file, "--data", tmp_path / "copy")
    assert result.code == 1
    assert "status is" in result.err
    trusted = run("import", file, "--data", tmp_path / "copy", "--trust")
    assert trusted.code == 0
    assert "NOT VERIFIED" in trusted.out


def test_what_is_no_file_is_wrong_usage(run: Run, data: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe"):
        result = run("import", path, "--data", tmp_path / "copy")
        assert result.code == 2
        assert "is not there, or not a regular file" in result.err
    assert run("export", tmp_path / "pipe", "--data", data).code == 2
    assert not (tmp_path / "copy").exists()


def test_an_import_on_trust_says_so(run: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl.gz"
    run("export", file, "--data", data)
    trusted = a2b("import", str(file), "--data", str(tmp_path / "copy"), "--trust", cwd=tmp_path)
    assert trusted.returncode == 0
    assert "NOT VERIFIED" in trusted.stdout
    assert "imported on trust: nothing in it is verified" in trusted.stderr
    again = tmp_path / "again.jsonl.gz"
    assert run("export", again, "--data", tmp_path / "copy").code == 0
    assert again.read_bytes() == file.read_bytes()


# -- asking a running overlay


@pytest.fixture(scope="module")
def served(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an overlay over the same data."""
    with Running("serve", "--port", "0", cwd=tmp_path_factory.mktemp("served"), A2B_DATA=str(data)) as running:
        running.until_ready()
        yield running.url


def test_a_running_overlay_gives_the_same_answers(
    run: Run, data: Path, served: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    live = next(registration for registration in expected["registrations"] if registration["status"] == "live")
    listed, raw = live["id"], ChainKit()
    (tmp_path / "card.json").write_text(json.dumps(agent("Echo")))
    for question in (
        ["search", "dex", "chrat", "--currency", "usd", "--sort", "price"], ["show", listed], ["history", listed],
        ["diagnose", live["winner"]], ["diagnose", "--raw", raw.raw(raw.inscribe(agent("New"))).hex()],
    ):  # fmt: skip
        ours, theirs = run(*question, "--data", data), run(*question, "--url", served)
        assert ours == theirs, question
        assert ours.code == 0
    compared, alone = run("check", "card.json", "--url", served, "--type", "agent"), run("check", "card.json")
    assert (
        alone.out.replace("not compared with what is listed: --url URL queries the overlay there\n", "") == compared.out
    )
    assert alone.code == compared.code == 0
    claim = {"configId": "wt-basic", "stage": "full", "currency": "BSV", "rawTx": raw.raw(raw.pay()).hex()}
    (tmp_path / "claim.json").write_text(json.dumps(claim))
    checked = run("pay-check", "claim.json", "--config", listed, "--url", served)
    assert checked.code == 1
    assert checked == run("pay-check", "claim.json", "--config", listed, "--data", data)
    result = run("status", "--url", served, "--json")
    assert (result.code, result.json["chains"][0]["height"]) == (0, 125)


@pytest.mark.parametrize("command", ["search", "show", "history", "verify", "diagnose"])
def test_an_argument_that_is_not_utf_8_is_wrong_usage(run: Run, command: str) -> None:
    assert run(command, "caf\udce9", "--url", "http://127.0.0.1:1") == Done(2, "", "a2b: b'caf\\xe9' is not UTF-8\n")


def test_a_running_overlays_refusals_are_distinguished(run: Run, data: Path, served: str) -> None:
    unknown = run("show", "00" * 32 + "_0", "--url", served)
    assert unknown == run("show", "00" * 32 + "_0", "--data", data)
    refused = run("search", "--limit", "x", "--url", f"{served}/")
    assert refused == Done(2, "", "a2b: limit: 'x' is not a number\n")
    assert run("diagnose", "--raw", "00", "--url", served).code == 2


@pytest.mark.parametrize(
    ("status", "body", "code", "complaint"),
    [
        (200, b"<html>", 3, "answers 200, and not with JSON: is it an overlay?"),
        (200, b"[]", 3, "/v1/status answers otherwise than an overlay does: Expected `object`, got `array`"),
        (503, b'{"detail": "starting"}', 3, "answers 503: starting"),
        (429, b'{"error": "slow down"}', 3, "answers 429: slow down"),
        (400, b'{"detail": "no \\u001b[31m"}', 2, "no \\x1b[31m"),
        (404, b"{}", 1, "status 404"),
        (200, b"[" * 100_000, 3, "not with JSON"),
    ],
)
def test_answers_of_something_else_are_trouble_not_tracebacks(
    status: int, body: bytes, code: int, complaint: str, run: Run
) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        result = run("status", "--url", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert (result.code, result.out) == (code, "")
    assert complaint in result.err


# -- what is not there


@pytest.mark.parametrize(
    "arguments",
    [["search", "x"], ["show", "x"], ["history", "x"], ["diagnose", "00" * 32], ["verify", "x"], ["status"],
     ["rebuild"], ["export", "x.jsonl"]],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_without_local_data_a_command_says_what_would_make_it_and_makes_nothing(
    arguments: list[str], run: Run, tmp_path: Path
) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (3, "")
    assert "`a2b up` creates one" in result.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [["search", "x"], ["show", "x"], ["history", "x"], ["diagnose", "00" * 32], ["verify", "x"], ["status"]],
    ids=lambda arguments: arguments[0],
)
def test_an_overlay_that_does_not_answer_is_named(arguments: list[str], run: Run) -> None:
    result = run(*arguments, "--url", "http://127.0.0.1:1")
    assert (result.code, result.out) == (3, "")
    assert "cannot query http://127.0.0.1:1/" in result.err


def test_a_url_that_is_none_is_refused(run: Run) -> None:
    assert run("status", "--url", "nonsense").code == 2
    assert run("status", "--url", "http://\x1b:99999999").code == 2


# -- wrong usage


@pytest.mark.parametrize(
    "arguments",
    [[], ["surch"], ["search", "--lmit", "1"], ["show"], ["serve", "--workers", "0"], ["serve", "--workers", "x"],
     ["serve", "--workers", "2", "--port", "0"], ["up", "--port", "http"], ["up", "--chains", "bsv"],
     ["search", "--config", "none.toml"], ["up", "--lim"], ["check"]],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage_ends_with_two_and_makes_nothing(arguments: list[str], run: Run, tmp_path: Path) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err
    assert not list(tmp_path.iterdir())


def test_unknown_settings_end_with_two(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2B_DATABSE", "x")
    assert run("up") == Done(2, "", "a2b: A2B_DATABSE is not a setting; did you mean A2B_DATABASE?\n")


def test_a_settings_file_is_read(run: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "a2b.toml").write_text(f'data = "{data}"\n')
    assert run("search", "dex", "--config", "a2b.toml").code == 0


def test_help_names_every_command_and_every_setting(run: Run) -> None:
    result = run("--help")
    assert result.code == 0
    commands = ("up", "index", "serve", "search", "show", "history", "verify", "diagnose", "check", "status", "rebuild",
                "export", "import")  # fmt: skip
    for command in commands:
        assert f"    {command} " in result.out
        assert run(command, "--help").code == 0
    helps = {command: run(command, "--help").out for command in ("up", "index", "serve")}
    apart = {"database_read": "serve", "metrics": "index"}  # who follows reads where it writes; who serves has a port
    for name in set(KEYS) - {"junglebus_token", "arc_callback_token"}:  # secrets are not options
        told_by = helps[apart.get(name, "up")]
        assert f"--{name.replace('_', '-')}" in told_by
        assert f"A2B_{name.upper()}" in told_by


def test_version_is_that_of_the_package(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: {"a2b-registry": "7.8.9"}[name])
    formats = f"database schema {SCHEMA}, index format {NATIVE_LAYOUT}"
    assert run("--version") == Done(0, f"a2b 7.8.9 (commit not known, {formats})\n", "")


# -- trouble while running


def test_a_second_up_on_the_same_data_says_so(tmp_path: Path) -> None:
    with Running("up", "--port", "0", cwd=tmp_path) as running:
        assert running.url
        second = a2b("up", "--port", "0", cwd=tmp_path)
        assert second.returncode == 3
        assert second.stderr.endswith("a2b: another indexer is writing to a2b-demo/a2b.db; stop it first\n")
        (tmp_path / "x.jsonl").touch()
        assert a2b("import", "x.jsonl", "--data", "a2b-demo", cwd=tmp_path).returncode == 3
        assert running.stop()[0] == 0


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = a2b("up", "--port", str(port), cwd=tmp_path)
    assert done.returncode == 3
    assert f"a2b: cannot serve on 127.0.0.1 port {port}: Address already in use" in done.stderr


@pytest.mark.parametrize(
    ("flags", "code", "complaint"),
    [
        (["--data", "{here}/file/data"], 3, "file/data: Not a directory"),
        (["--database", "nonsense"], 2, "'nonsense' is not a database URL"),
        (["--database", "mysql://x"], 2, "'mysql' is not a supported database"),
        (["--database", "sqlite:///{here}/none/a2b.db"], 3, "unable to open database file"),
        (["--database", "postgresql://me:hunter2@127.0.0.1:1/x"], 3, "Connection refused"),
        (["--chains", "bsv=files:{here}/none?network=mainnet"], 3, "cannot be read (No such file or directory)"),
        (["--chains", "bsv=files:{here}"], 3, "which network is in"),
        (["--chains", "bsv=gopher://node:70"], 2, "'gopher' is not a known kind of source; there are files"),
        (["--chains", "bsv=http://u:hunter2@node:99999"], 2, "bsv: the port of its URL is '99999', and must be"),
        (["--chains", "bsv=http://u:p@node:x a=files:b"], 2, "bsv: the port of its URL is 'x'"),
        (["--chains", "eth=https://[::1]:0/k?contract=0x0"], 2, "eth: the port of its URL is '0'"),
        (["--chains", "bsv=http://n:1?zmq=tcp://n:1,tcp://n:70000"], 2, "bsv: the port of zmq= is '70000'"),
        (["--chains", "bsv=http://node:1?colour=red"], 2, "bsv: unknown option 'colour'; http: takes chain, network"),
        (["--chains", "bsv=files:{here}?from=x"], 2, "bsv: from='x' is not a number of blocks"),
        (["--chains", "bsv=http://u:hunter2/x@node:1"], 2, "bsv: its URL is not that of a node"),
        (["--search", "sphinx:x"], 2, "names no index"),
        (["--search", "native:{here}/file/x"], 3, "Not a directory"),
        (["--host", "256.1.1.1"], 3, "cannot serve on 256.1.1.1"),
    ],
)
def test_trouble_at_the_start_is_one_clear_sentence(
    flags: list[str], code: int, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = a2b(
        "up", "--port", "0", *[flag.format(here=tmp_path) for flag in flags], cwd=tmp_path,
    )  # fmt: skip
    message = done.stderr.splitlines()[-1]
    assert (done.returncode, message.startswith("a2b: ")) == (code, True), done.stderr
    assert complaint in message
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


def test_a_disk_that_takes_no_more_is_one_clear_sentence(tmp_path: Path) -> None:
    def allow_little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))

    with Running("up", "--port", "0", cwd=tmp_path, before=allow_little) as running:
        assert running.process.wait(PATIENCE) == 3
        assert running.err.splitlines()[-1].startswith("a2b: cannot ")
        assert "Traceback" not in running.err


def test_several_workers_share_one_port_and_end_together(tmp_path: Path, data: Path) -> None:
    with Running("serve", "--workers", "3", "--port", str(free_port()), cwd=tmp_path, A2B_DATA=str(data)) as running:
        running.until_ready()
        children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
        assert len(children) == 2
        for _ in range(20):
            running.until(lambda: running.get("/v1/search?q=dex").get("total"))  # a worker may still be starting
        assert running.stop()[0] == 0
        assert not any(Path(f"/proc/{child}").exists() for child in children)


# -- strangers' text


@pytest.mark.parametrize(
    "arguments",
    [["search"], ["search", "--json"], ["show", "ID"], ["show", "ID", "--json"], ["history", "ID"],
     ["history", "ID", "--json"], ["diagnose", "ID"], ["diagnose", "ID", "--json"], ["status"], ["status", "--json"]],
    ids=" ".join,
)  # fmt: skip
def test_nothing_that_a_stranger_wrote_steers_the_terminal(
    arguments: list[str], run: Run, hostile: tuple[Path, str]
) -> None:
    data, listed = hostile
    result = run(*[listed if argument == "ID" else argument for argument in arguments], "--data", data)
    assert result.code == 0
    assert not set(STEERING) & set(result.out + result.err)


def test_a_strangers_text_is_shown_letter_by_letter(run: Run, hostile: tuple[Path, str]) -> None:
    data, listed = hostile
    assert HARMLESS in run("search", "--data", data).out
    assert run("show", listed, "--data", data).out.count(HARMLESS) >= 4
    assert run("show", listed, "--data", data, "--json").json["name"] == HOSTILE


def test_a_name_without_end_does_not_fill_the_screen(run: Run, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(json.dumps(agent("x" * 5_000)))
    assert f"{'x' * 99}…  (agent)" in run("check", "card.json").out


def test_check_shows_a_file_as_harmlessly(run: Run, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(json.dumps(agent(HOSTILE, **{HOSTILE: 1, "url": HOSTILE})))
    for more in ([], ["--json"]):
        result = run("check", "card.json", *more)
        assert not set(STEERING) & set(result.out + result.err)


LETTERS = st.sampled_from(STEERING) | st.characters()


@given(st.dictionaries(st.text(LETTERS), st.text(LETTERS)))
def test_json_for_a_terminal_reads_as_the_same_value(value: dict[str, str]) -> None:
    text = visible_in_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(text) == value
    assert not set(STEERING) & set(text)


def test_log_lines_are_harmless_and_keep_to_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        logs.set_up_logging()
        logging.getLogger("test").error("refused: %s", f"{HOSTILE}\nINFO forged line")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.endswith(f"ERROR refused: {HARMLESS}\\nINFO forged line\n")


def test_a_terminal_of_another_encoding_shows_escapes_instead_of_failing(data: Path, tmp_path: Path) -> None:
    done = a2b("search", "翻訳", "--data", str(data), cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert "\\u" in done.stdout


def test_a_reader_that_has_seen_enough_is_no_error(data: Path, tmp_path: Path) -> None:
    command = f"{sys.executable} -m overlay search --limit 100 --json --data {data} | head -c 10"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr, len(done.stdout)) == (0, "", 10)


# -- what starts what


def test_a_local_search_imports_nothing_heavy_but_the_kernels(data: Path, tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from overlay.cli import main\n"
        "try:\n"
        f"    main(['search', 'dex', 'chrat', '--currency', 'usd', '--chain', 'demo', '--data', {str(data)!r}])\n"
        "except SystemExit as ended:\n"
        "    assert ended.code == 0\n"
        "heavy = ('sqlalchemy', 'pydantic', 'aiohttp', 'httpx', 'rich', 'bitcoinx')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_up_prints_before_it_imports_slow_modules(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from overlay import cli\n"
        "from overlay.commands import run\n"
        "class Enough(Exception): pass\n"
        "def stop(*_, **__): raise Enough\n"
        "run._work = stop\n"
        "try:\n"
        "    cli.main(['up'])\n"
        "except Enough:\n"
        "    heavy = ('sqlalchemy', 'pydantic', 'numba', 'llvmlite', 'aiohttp')\n"
        "    print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert "serves    http://127.0.0.1:8080" in done.stdout
    named = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  A2B_")]
    assert named == ["A2B_FETCH_RESOLVE", "A2B_RATES", "A2B_PRICES", "A2B_RELAY", "A2B_PUBLIC_URL"]
    assert done.stdout.splitlines()[-1] == "[]"


def test_module_and_command_are_the_same(tmp_path: Path) -> None:
    assert a2b("--help", cwd=tmp_path).stdout.startswith("usage: a2b ")


def test_a_chains_scheme_decides_its_source(tmp_path: Path) -> None:
    settings = Settings.load({"chains": f"demo=files:{tmp_path}?chain=bsv&network=regtest"})
    assert create(*settings.chains[0]).name == "demo"
