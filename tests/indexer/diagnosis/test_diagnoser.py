"""The publisher's question, step by step: what became of a transaction, and why it is listed or not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy

from indexer.diagnosis.diagnoser import MOST_PARTS, MOST_RECORDS, Diagnoser
from indexer.headers.networks import by_caip2
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, serialise
from parsers.errors import ParseError
from parsers.pointers.pointer import build
from parsers.reasons import SENTENCES
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import batch, body_of, inscription, map_tape, p2pkh, tapscript
from tests.fakes import MemoryChain
from tests.indexing import Indexing

AGENT = {"app": "test", "type": "a2b-agent"}
BSV = {"demo": by_caip2("bsv:regtest")}


@pytest_asyncio.fixture
async def indexing(kit: ChainKit, tmp_path: Path) -> AsyncIterator[Indexing]:
    """An indexer that has not looked at the mint yet."""
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", MemoryChain()) as indexing:
        yield indexing


async def diagnoser(indexing: Indexing, kit: ChainKit) -> Diagnoser:
    """Index what the mint has mined, and diagnose by that."""
    chain = indexing.chains[0]
    assert isinstance(chain, MemoryChain)
    chain.arrive(*kit.blocks)
    await indexing.catch_up()
    return Diagnoser(indexing.store, BSV)


def hex_id(outpoint: Outpoint) -> str:
    return outpoint.txid[::-1].hex()


def failed(answer: dict[str, Any]) -> list[tuple[str, str | None]]:
    """The steps at which it failed, with their code."""
    return [(step["step"], step.get("code")) for step in answer["steps"] if not step["ok"]]


async def test_a_listed_registration_passes_every_step(indexing: Indexing, kit: ChainKit) -> None:
    first = kit.inscribe(agent())
    kit.mine(first)
    kit.mine_empty(2)
    diagnosis = (await diagnoser(indexing, kit)).by_name(hex_id(first))
    assert [step["step"] for step in diagnosis["steps"]] == [
        "seen", "mined", "envelope", "map", "json", "card", "satoshi", "newest", "listed",
    ]  # fmt: skip
    assert failed(diagnosis) == []
    assert (diagnosis["found"], diagnosis["where"], diagnosis["height"], diagnosis["confirmations"]) == (
        True,
        "block",
        2,
        3,
    )
    assert (diagnosis["listed"], diagnosis["source"], diagnosis["blockHash"]) == ([str(first)], "demo", kit["2"].hex)
    (record,) = diagnosis["records"]
    assert (record["id"], record["kind"], record["outcome"], record["reasons"]) == (
        str(first), "registration", "inscribed", [],
    )  # fmt: skip


async def test_what_a_reorganisation_took_from_the_chain_is_named_until_it_is_mined_again(
    indexing: Indexing, kit: ChainKit
) -> None:
    first = kit.inscribe(agent())
    kit.mine(first)
    await diagnoser(indexing, kit)
    fork = kit.mine(parent=kit["1"])
    kit.mine(parent=fork)
    answer = (await diagnoser(indexing, kit)).by_name(hex_id(first))
    assert (answer["found"], answer["where"], failed(answer)) == (False, "nowhere", [("seen", None)])
    assert "it was in a block of demo above height 1, which a reorganisation took" in answer["steps"][0]["detail"]
    other = (await diagnoser(indexing, kit)).by_name("ab" * 32)
    assert "reorganisation" not in other["steps"][0]["detail"]
    kit.mine(first, parent=kit.blocks[-1])
    assert (await diagnoser(indexing, kit)).by_name(hex_id(first))["listed"] == [str(first)]


async def test_what_nobody_has_seen_is_not_found_and_says_what_to_try(indexing: Indexing, kit: ChainKit) -> None:
    diagnosis = (await diagnoser(indexing, kit)).by_name("ab" * 32)
    assert (diagnosis["found"], diagnosis["where"], failed(diagnosis)) == (False, "nowhere", [("seen", None)])
    assert "diagnose its raw bytes" in diagnosis["steps"][0]["detail"]


@pytest.mark.parametrize("name", ["", "ab", "x" * 64, "ab" * 32 + "_x", "ab" * 32 + "_99999999999"])
async def test_a_name_that_is_none_is_refused(indexing: Indexing, kit: ChainKit, name: str) -> None:
    ask = await diagnoser(indexing, kit)
    with pytest.raises(ValueError, match="is not an outpoint"):
        ask.by_name(name)


async def test_an_update_that_was_overtaken_names_the_card_that_counts(indexing: Indexing, kit: ChainKit) -> None:
    first = kit.inscribe(agent("One"))
    second = kit.update(first, agent("Two"))
    moved = kit.move(second)
    kit.mine(first, second, moved)
    ask = await diagnoser(indexing, kit)
    diagnosis = ask.by_name(hex_id(first))
    assert diagnosis["steps"][-1] == {"step": "newest", "ok": False, "detail": f"a later card counts: {second}"}
    assert diagnosis["listed"] == []
    assert ask.by_name(hex_id(second))["listed"] == [str(first)]
    assert ask.by_name(hex_id(moved))["steps"][-1]["detail"] == f"listed as {first}"
    assert [step["step"] for step in ask.by_name(hex_id(moved))["steps"]] == ["seen", "mined", "satoshi", "listed"]


async def test_a_registration_that_burned_later_says_so_and_its_burn_how(indexing: Indexing, kit: ChainKit) -> None:
    first = kit.inscribe(agent())
    burned = kit.burn(first, to="change")
    kit.mine(first, burned)
    ask = await diagnoser(indexing, kit)
    assert ask.by_name(hex_id(first))["steps"][-1] == {
        "step": "listed", "ok": False, "detail": "the registration was burned later",
    }  # fmt: skip
    diagnosis = ask.by_name(hex_id(burned))
    steps = [(step["step"], step["ok"], step.get("code")) for step in diagnosis["steps"]]
    done = [("seen", True, None), ("mined", True, None)]
    assert steps == [*done, ("satoshi", True, "burned-merged"), ("listed", True, None)], "it holds no card"
    assert "this transaction burned the registration" in diagnosis["steps"][-1]["detail"]
    assert (diagnosis["listed"], diagnosis["records"][0]["kind"]) == ([], "update")


async def test_a_transaction_that_burns_one_registration_and_makes_another_is_diagnosed_by_the_new_one(
    indexing: Indexing, kit: ChainKit
) -> None:
    first = kit.inscribe(agent("One"))
    both = kit.spend([first, kit.fund()], [(2, b"\x51"), (1, inscription(body_of(agent("Two")), AGENT, "alice"))])
    kit.mine(first, both)
    ask = await diagnoser(indexing, kit)
    diagnosis = ask.by_name(both.hex_id)
    assert [record["outcome"] for record in diagnosis["records"]] == ["inscribed", "burned"]
    assert failed(diagnosis) == []
    assert diagnosis["listed"] == [str(both.outpoint(1))]
    assert diagnosis["steps"][-1]["detail"] == f"listed as {both.outpoint(1)}"


async def test_a_pointer_is_recorded_and_not_fetched_yet(indexing: Indexing, kit: ChainKit) -> None:
    good, bad = kit.point("agents.example", bytes(32)), kit.point("localhost")
    kit.mine(good, bad)
    ask = await diagnoser(indexing, kit)
    diagnosis = ask.by_name(hex_id(good))
    assert diagnosis["records"][0]["pointer"] == {
        "domain": "agents.example", "hash": "00" * 32, "uri": None, "form": "raw32",
    }  # fmt: skip
    assert (diagnosis["records"][0]["id"], failed(diagnosis)) == (
        "agents.example",
        [("fetched", None), ("listed", None)],
    )
    assert failed(ask.by_name(hex_id(bad))) == [("pointer", "pointer-domain")]


async def test_an_outpoint_is_diagnosed_by_itself(indexing: Indexing, kit: ChainKit) -> None:
    scripts = [inscription(body_of(agent("One")), AGENT, "alice"), inscription(b"{}", AGENT, "bob")]
    both = kit.spend([kit.fund()], [(1, scripts[0]), (1, scripts[1])])
    kit.mine(both)
    ask = await diagnoser(indexing, kit)
    assert len(ask.by_name(both.hex_id)["records"]) == 2
    assert failed(ask.by_name(str(both.outpoint(0)))) == []
    assert failed(ask.by_name(str(both.outpoint(1)))) == [("card", "card-name")]
    other = ask.by_name(str(both.outpoint(2)))
    assert (other["found"], other["where"], other["records"], other["listed"]) == (True, "block", [], [])
    assert failed(other) == [("output", None)]


async def test_an_error_of_json_is_named_by_line_and_column_mined_or_raw(indexing: Indexing, kit: ChainKit) -> None:
    near = kit.inscribe(b'{"name": "Echo",\n "url": "x" "y"}')
    raw = (await diagnoser(indexing, kit)).by_raw(kit.raw(near))
    kit.mine(near)
    mined = (await diagnoser(indexing, kit)).by_name(str(near))
    for answer in (raw, mined):
        (step,) = (item for item in answer["steps"] if item.get("code") == "card-json")
        assert step["detail"].startswith("the card is not JSON: ")
        assert step["detail"].endswith(" at line 2, column 13")


@pytest.mark.parametrize(
    ("form", "step", "code"),
    [
        ({"satoshis": 2}, "envelope", "satoshis"),
        ({"close": False}, "envelope", "envelope-open"),
        ({"type": "a2b-other"}, "map", "map-type"),
        ({"type": None}, "map", "no-map"),
        ({"content_type": "text/plain"}, "json", "content-type"),
        ({"card": b"{"}, "json", "card-json"),
        ({"card": b'{"name":"x"}'}, "card", "card-skills"),
    ],
)
async def test_a_near_miss_fails_at_the_step_of_its_reason_mined_or_raw(
    indexing: Indexing, kit: ChainKit, form: dict[str, Any], step: str, code: str
) -> None:
    near = kit.inscribe(**{"card": agent(), **form})
    ask = await diagnoser(indexing, kit)
    raw = ask.by_raw(kit.raw(near))
    assert failed(raw) == [("mined", None), (step, code)]
    kit.mine(near)
    diagnosis = (await diagnoser(indexing, kit)).by_name(str(near))
    assert failed(diagnosis) == [(step, code)]
    assert diagnosis["records"] == raw["records"]
    assert diagnosis["records"][0]["kind"] == "near-miss"
    assert (await diagnoser(indexing, kit)).by_raw(kit.raw(near))["where"] == "block"


CAPITALS = {"app": "test", "type": "A2B-Agent"}


def envelope_of(fields: dict[str, str], **form: Any) -> bytes:
    return inscription(body_of(agent("Echo")), fields, "alice", **form)


@pytest.mark.parametrize(
    ("script", "satoshis", "expected", "codes"),
    [
        (envelope_of(CAPITALS), 1, ("map", "map-type"), ["map-type"]),
        (envelope_of(CAPITALS, close=False), 1, ("envelope", "envelope-open"), ["envelope-open"]),
        (envelope_of(CAPITALS), 2, ("envelope", "satoshis"), ["satoshis", "map-type"]),
        (envelope_of({"app": "test", "type": "post"}), 1, ("map", "map-type"), ["map-type"]),
        (envelope_of({"app": "test"}, content_type="image/png"), 1, ("map", "map-type"), ["map-type", "content-type"]),
        (envelope_of({}, content_type="image/png"), 1, ("map", "no-map"), ["no-map", "content-type"]),
        (inscription(b"{}", {"app": "x", "type": "agent"}, "alice"), 1, ("map", "map-app"), ["map-app"]),
        (inscription(b"{}", AGENT, "alice", command="ADD"), 1, ("map", "map-command"), ["map-command"]),
        (p2pkh("alice") + map_tape(CAPITALS), 1, ("envelope", "no-envelope"), ["no-envelope", "map-type"]),
    ],
)
async def test_what_the_registry_ignores_is_named_raw_by_its_output_and_beside_a_card(
    indexing: Indexing, kit: ChainKit, script: bytes, satoshis: int, expected: tuple[str, str], codes: list[str]
) -> None:
    alone = kit.spend([kit.fund()], [(satoshis, script)])
    both = kit.spend([kit.fund()], [(1, inscription(body_of(agent()), AGENT, "bob")), (satoshis, script)])
    raw = (await diagnoser(indexing, kit)).by_raw(kit.raw(alone.outpoint(0)))
    assert failed(raw) == [("mined", None), expected]
    beside = (await diagnoser(indexing, kit)).by_raw(kit.raw(both.outpoint(0)))
    kit.mine(alone, both)
    ask = await diagnoser(indexing, kit)
    assert not list(indexing.store.history.of_transaction(alone.txid))
    assert len(list(indexing.store.history.of_transaction(both.txid))) == 1
    other = ask.by_name(str(both.outpoint(1)))
    assert failed(other) == [expected, ("output", None)]
    for records in (raw["records"], beside["records"][1:], ask.by_name(both.hex_id)["records"][1:], other["records"]):
        (record,) = records
        assert [reason["code"] for reason in record["reasons"]] == codes
        assert (record["kind"], record["outcome"], record["valid"]) == ("near-miss", "ignored", False)
    assert failed(ask.by_name(both.hex_id)) == []


async def test_a_type_in_other_letters_says_how_it_is_written(indexing: Indexing, kit: ChainKit) -> None:
    answer = (await diagnoser(indexing, kit)).by_raw(kit.raw(kit.inscribe(agent(), type="A2B-Agent")))
    assert answer["steps"][-1]["detail"] == ("MAP type is not an A2B type: A2B-Agent (letter case counts: a2b-agent)")


async def test_an_ignored_envelope_in_a_tapscript_is_named(indexing: Indexing, kit: ChainKit) -> None:
    litecoin, networks = ChainKit("ltc", funds=3), {"ltc": by_caip2("ltc:regtest")}
    await diagnoser(indexing, kit)
    ask = Diagnoser(indexing.store, networks)
    for reveal in (litecoin.reveal(agent(), "A2B"), litecoin.reveal(agent(), "A2B", map_in="envelope")):
        assert failed(ask.by_raw(litecoin.raw(reveal))) == [("mined", None), ("map", "map-type")]
    picture = litecoin.reveal(b"\x89PNG", None, content_type="image/png")
    answer = ask.by_raw(litecoin.raw(picture))
    assert [reason["code"] for reason in answer["records"][0]["reasons"]] == ["no-map", "content-type"]


async def test_ignored_envelopes_are_named_up_to_a_bound(indexing: Indexing, kit: ChainKit) -> None:
    kit.mine_empty(1)
    script = envelope_of(CAPITALS)
    many = kit.spend([kit.fund()], [(1, inscription(body_of(agent()), AGENT, "bob")), *[(1, script)] * 300])
    assert len((await diagnoser(indexing, kit)).by_raw(kit.raw(many.outpoint(0)))["records"]) == MOST_RECORDS
    kit.mine(many)
    assert len((await diagnoser(indexing, kit)).by_name(many.hex_id)["records"]) == MOST_RECORDS


async def test_a_raw_transaction_tells_what_it_would_do(indexing: Indexing, kit: ChainKit) -> None:
    first = kit.inscribe(agent("One"))
    kit.mine(first)
    update, payment = kit.update(first, agent("Two")), kit.pay()
    ask = await diagnoser(indexing, kit)
    answer = ask.by_raw(kit.raw(update))
    assert (answer["where"], answer["records"][0]["outcome"], answer["records"][0]["id"]) == (
        "raw",
        "reinscribed",
        str(first),
    )
    assert failed(answer) == [("mined", None)]
    assert failed(ask.by_raw(kit.raw(payment))) == [("mined", None), ("envelope", "no-envelope")]
    assert indexing.kinds(first) == ["inscribed"]


async def test_a_raw_transaction_that_lost_its_satoshi_to_another_says_to_which(
    indexing: Indexing, kit: ChainKit
) -> None:
    first = kit.inscribe(agent("One"))
    lost = kit.update(first, agent("Lost"))
    won = kit.move(first)
    kit.mine(first)
    kit.mine(won)
    answer = (await diagnoser(indexing, kit)).by_raw(kit.raw(lost))
    assert failed(answer) == [("mined", None), ("satoshi", "spent-elsewhere")]
    assert answer["records"][0]["valid"] is False
    assert f"{hex_id(won)} in block 3" in answer["records"][0]["reasons"][0]["detail"]


async def test_a_raw_update_behind_a_coin_of_unknown_value_is_undecided(indexing: Indexing, kit: ChainKit) -> None:
    first = kit.inscribe(agent())
    kit.mine(first)
    raw = kit.spend([kit.fund(), first], [(1, p2pkh("bob")), (5, p2pkh("x"))])
    answer = (await diagnoser(indexing, kit)).by_raw(kit.raw(raw.outpoint(0)))
    assert failed(answer) == [("mined", None), ("satoshi", "values-unknown")]


async def test_raw_bytes_are_read_as_the_first_chain_reads_them_that_can(indexing: Indexing, kit: ChainKit) -> None:
    litecoin = ChainKit("ltc", funds=2)
    reveal = litecoin.raw(litecoin.reveal(agent(), map_in="envelope"))
    await diagnoser(indexing, kit)
    both = BSV | {"ltc": by_caip2("ltc:regtest")}
    answer = Diagnoser(indexing.store, both).by_raw(reveal)
    assert answer["source"] == "ltc"
    for raw in (b"", b"\0" * 9, reveal + b"\0"):
        with pytest.raises(ParseError):
            Diagnoser(indexing.store, both).by_raw(raw)
    with pytest.raises(ParseError, match="no chain is followed"):
        Diagnoser(indexing.store, {}).by_raw(reveal)


def test_every_code_that_ends_an_event_belongs_to_a_step() -> None:
    from indexer.diagnosis.steps import _STEP_OF

    assert set(_STEP_OF) <= set(SENTENCES)
    warnings = set(list(SENTENCES)[list(SENTENCES).index("duplicate-key") :])
    assert set(SENTENCES) - warnings == set(_STEP_OF)


# -- what strangers hand in costs little


def raw(inputs: int, outputs: int) -> bytes:
    spent = tuple(TxInput(Outpoint(sha256(b"%d" % number).digest(), 0), b"", 0) for number in range(inputs))
    return serialise(spent, (TxOutput(0, build("a.example")),) * outputs)


async def test_a_transaction_of_thousands_of_records_is_read_and_reported_in_part(
    indexing: Indexing, kit: ChainKit
) -> None:
    kit.mine_empty(1)
    diagnosing = await diagnoser(indexing, kit)
    answer = diagnosing.by_raw(raw(1, 1_000))
    assert len(answer["records"]) == MOST_RECORDS
    assert answer["moreRecords"] == 1_000 - MOST_RECORDS
    assert answer["steps"][-1]["step"] == "more"
    assert "800 more" in answer["steps"][-1]["detail"]
    assert len(json.dumps(answer)) < 1_000_000
    whole = diagnosing.by_raw(raw(1, MOST_RECORDS))
    assert len(whole["records"]) == MOST_RECORDS
    assert "moreRecords" not in whole
    assert [step["step"] for step in whole["steps"]] == ["seen", "mined", "pointer"]


async def test_a_transaction_of_more_parts_than_are_read_is_refused_by_its_counts(
    indexing: Indexing, kit: ChainKit
) -> None:
    kit.mine_empty(1)
    diagnosing = await diagnoser(indexing, kit)
    for parts, inputs, outputs in (("inputs", MOST_PARTS + 1, 1), ("outputs", 1, MOST_PARTS + 1)):
        with pytest.raises(ParseError, match=f"2,001 {parts}, where at most 2,000 are read"):
            diagnosing.by_raw(raw(inputs, outputs))


async def test_what_a_transaction_spends_is_looked_up_in_batches(indexing: Indexing, kit: ChainKit) -> None:
    kit.mine_empty(1)
    diagnosing = await diagnoser(indexing, kit)
    statements: list[str] = []
    sqlalchemy.event.listen(indexing.store.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    answer = diagnosing.by_raw(raw(MOST_PARTS, 1))
    assert len(answer["records"]) == 1
    assert len(statements) < 50


async def test_what_many_cards_on_one_satoshi_are_now_is_looked_up_at_once(tmp_path: Path) -> None:
    kit = ChainKit("ltc")

    def cards(coin: Outpoint, text: str) -> Transaction:
        script = batch(
            *(tapscript(body_of(agent(f"{text} {n}")), map={"app": "test", "type": "a2b-agent"}) for n in range(60))
        )
        witness = (b"\x51" * 64, script, b"\xc0" + bytes(32))
        return kit.spend([coin], [(10_000, p2pkh("alice"))], witnesses=[witness])

    first = cards(kit.fund(), "First")
    update = cards(first.outpoint(0), "Later")
    kit.mine(first)
    kit.mine(update)
    statements: list[str] = []
    with Indexing(f"sqlite:///{tmp_path / 'ltc.db'}", MemoryChain(*kit.blocks, coin="ltc")) as litecoin:
        await litecoin.catch_up()
        ask = Diagnoser(litecoin.store, {"demo": by_caip2("ltc:regtest")})
        sqlalchemy.event.listen(
            litecoin.store.engine, "before_cursor_execute", lambda *args: statements.append(args[2])
        )
        answer = ask.by_name(update.hex_id)
    assert (len(answer["records"]), len(answer["listed"])) == (119, 60)
    assert len(statements) < 20


async def test_a_mined_transaction_of_hundreds_of_records_is_reported_in_part(
    indexing: Indexing, kit: ChainKit
) -> None:
    mined = kit.spend([kit.fund()], [(0, build(f"a{number}.example")) for number in range(MOST_RECORDS + 5)])
    kit.mine(mined)
    diagnosing = await diagnoser(indexing, kit)
    diagnosis = diagnosing.by_name(mined.hex_id)
    assert (len(diagnosis["records"]), diagnosis["moreRecords"]) == (MOST_RECORDS, 5)
    last = mined.outpoint(MOST_RECORDS + 4)
    assert [record["outpoint"] for record in diagnosing.by_name(str(last))["records"]] == [str(last)]
