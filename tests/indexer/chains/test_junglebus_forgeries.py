"""A server that fails, and one that forges answers: each forgery is refused and counted, and the loop goes on."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from indexer.chains.http_client import RESPONSE_BYTES
from indexer.chains.junglebus.violations import ViolationError
from indexer.errors import SourceError, SourceRefusalError, SourceUnavailableError
from indexer.retries import Backoff
from indexer.sync import follower as follow
from parsers.bitcoin.tx import Outpoint, sha256d
from tests.chainkit import ChainKit, agent
from tests.indexer.chains.test_junglebus import Followed
from tests.junglebus_server import Respond, bump_of, cut, silence
from tests.waiting import until


@pytest.fixture
async def followed(tmp_path: Path) -> AsyncIterator[Followed]:
    async with Followed(ChainKit(), tmp_path) as result:
        yield result


@pytest.fixture
async def echo(followed: Followed) -> Outpoint:
    """A registration in block 3, with blocks above it; nothing of it is read yet, but the chain is open."""
    kit = followed.kit
    kit.mine(kit.pay())
    await followed.look()
    tx = kit.inscribe(agent())
    kit.mine(kit.pay(), tx, kit.pay())
    kit.mine_empty(8)
    followed.server.follow()
    return tx


async def trouble(followed: Followed, times: int = 3) -> list[SourceUnavailableError]:
    """Look so often, as the loop does: what is worth another try is tried again."""
    met = []
    for _ in range(times):
        try:
            await followed.look()
        except SourceUnavailableError as error:
            met.append(error)
    return met


def flipped(raw: bytes, position: int = -1) -> bytes:
    changed = bytearray(raw)
    changed[position] ^= 1
    return bytes(changed)


def every(change: Callable[[dict[str, Any]], None]) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """A forgery of every entry of a list."""

    def changed(body: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for entry in body:
            change(entry)
        return body

    return changed


def other_bytes(entry: dict[str, Any]) -> None:
    raw = base64.b64decode(entry["transaction"])
    entry["transaction"] = base64.b64encode(flipped(raw)).decode()


def without_work(entry: dict[str, Any], prev: bytes) -> None:
    """Another nonce for a header on block `prev`, with the hash that goes with it, which meets no target."""
    while True:
        entry["nonce"] = (entry["nonce"] + 1) & 0xFFFFFFFF
        numbers = (entry["time"], int(entry["bits"], 16), entry["nonce"])
        raw = (
            entry["version"].to_bytes(4, "little") + prev + bytes.fromhex(entry["merkleroot"])[::-1]
            + b"".join(number.to_bytes(4, "little") for number in numbers)
        )  # fmt: skip
        if sha256d(raw)[31] >= 0x80:
            entry["hash"] = sha256d(raw)[::-1].hex()
            return


# -- forged transactions


@pytest.mark.parametrize(
    "forgery",
    [
        pytest.param(flipped, id="another sibling"),
        pytest.param(lambda path: flipped(path, 0), id="another height"),
        pytest.param(lambda path: b"\xfe\xff\xff\xff\x7f" + path[1:], id="a height that no chain has"),
        pytest.param(lambda path: path[:-1], id="a path cut short"),
        pytest.param(lambda path: path + b"\0", id="bytes behind the path"),
        pytest.param(lambda _: b"no path at all", id="something else"),
    ],
)
async def test_a_forged_proof_is_refused(followed: Followed, echo: Outpoint, forgery: Callable[[bytes], bytes]) -> None:
    followed.server.alter("proof", forgery)
    assert await trouble(followed) == []
    assert followed.indexing.live() == set()
    assert followed.source.violations.counts["proof"] >= 1
    assert followed.indexing.followers[0].progress.height == 11, "the loop goes on"
    followed.server.honest()
    await followed.look(2)
    assert followed.indexing.live() == {str(echo)}
    await followed.agrees()


async def test_the_proof_of_another_transaction_proves_nothing(followed: Followed, echo: Outpoint) -> None:
    followed.server.alter("proof", lambda _: bump_of(followed.kit["2"], followed.kit["2"].txids[1]))
    await trouble(followed)
    assert (followed.indexing.live(), followed.source.violations.counts["proof"] > 0) == (set(), True)


async def test_other_bytes_than_the_txid_says_are_refused_and_fetched(followed: Followed, echo: Outpoint) -> None:
    followed.server.alter("page", every(other_bytes))
    await trouble(followed, 1)
    assert followed.indexing.live() == {str(echo)}
    assert followed.source.violations.counts == {"txid": 1}


async def test_other_bytes_everywhere_never_count(followed: Followed, echo: Outpoint) -> None:
    followed.server.alter("page", every(other_bytes))
    followed.server.alter("get", flipped)
    await trouble(followed)
    assert followed.indexing.live() == set()
    assert followed.source.violations.counts["txid"] >= 2
    followed.server.honest()
    await followed.look(2)
    assert followed.indexing.live() == {str(echo)}


async def test_a_transaction_sent_for_another_block_is_refused_there_and_read_in_its_own(
    followed: Followed, echo: Outpoint
) -> None:
    def elsewhere(entry: dict[str, Any]) -> None:
        entry["block_height"] += 2

    followed.server.alter("page", every(elsewhere))
    await trouble(followed, 3)
    assert followed.source.violations.counts["block"] >= 1
    assert followed.indexing.live() == {str(echo)}
    await followed.agrees()


async def test_a_transaction_that_no_block_holds_never_counts(followed: Followed, echo: Outpoint) -> None:
    loose = followed.kit.inscribe(agent("Loose"))
    answer = followed.server.entry_json(followed.kit["3"], 2)
    made_up = {**answer, "id": loose.txid[::-1].hex(), "block_index": 7,
               "transaction": base64.b64encode(followed.kit.raw(loose)).decode()}  # fmt: skip
    followed.server.alter("page", lambda body: [*body, made_up] if body else body)
    await trouble(followed)
    assert followed.indexing.live() == {str(echo)}


async def test_sixty_four_bytes_are_not_believed_to_be_a_transaction(followed: Followed, echo: Outpoint) -> None:
    raw = b"\1\0\0\0\1" + bytes(36) + b"\1\x51" + bytes(4) + b"\1" + bytes(8) + b"\3\x51\x51\x51" + bytes(4)
    assert len(raw) == 64
    with pytest.raises(ViolationError, match="may be no transaction"):
        followed.source.prover.check_raw(sha256d(raw), raw)


# -- forged pages


@pytest.mark.parametrize(
    "forgery",
    [
        pytest.param(lambda body: body[::-1], id="backwards"),
        pytest.param(lambda body: [*body, *body], id="twice"),
        pytest.param(every(lambda entry: entry.update(block_height=1)), id="below what was asked for"),
    ],
)
async def test_a_page_out_of_order_is_refused(
    followed: Followed, echo: Outpoint, forgery: Callable[[Any], Any]
) -> None:
    kit = followed.kit
    kit.mine(kit.inscribe(agent("Next")), kit.inscribe(agent("and next")))
    await refuses_forgery(followed, "page", forgery, "order")
    await followed.agrees()


async def refuses_forgery(followed: Followed, route: str, forgery: Callable[[Any], Any], kind: str) -> None:
    """With the forgery each request fails, and nothing is written; without it everything is read."""
    followed.server.alter(route, forgery)
    before = followed.indexing.facts()
    met = await trouble(followed)
    assert len(met) == 3
    assert all(isinstance(error, ViolationError) for error in met)
    assert followed.source.violations.counts[kind] == followed.source.violations.total == 3
    assert followed.indexing.facts() == before
    followed.server.honest()
    await followed.look(2)


async def test_pages_without_end_are_refused(followed: Followed, echo: Outpoint) -> None:
    first = followed.server.entry_json(followed.kit["3"], 2)
    count = iter(range(10, 1_000_000))
    followed.source.stream.matches_per_block = 50

    await refuses_forgery(
        followed, "page", lambda _: [{**first, "block_index": next(count)} for _ in range(3)], "order"
    )
    assert next(count) < 300
    await followed.agrees()


async def test_empty_pages_that_promise_more_are_refused(followed: Followed, echo: Outpoint) -> None:
    await refuses_forgery(followed, "page", lambda _: [{"statusCode": 199, "block": 3, "transactions": 0}], "order")


@pytest.mark.parametrize(
    "forgery",
    [
        pytest.param(lambda _: "text", id="text"),
        pytest.param(lambda _: [1, 2], id="numbers"),
        pytest.param(lambda _: [{"id": "00"}], id="half an entry"),
        pytest.param(every(lambda entry: entry.update(transaction="!!")), id="no base64"),
        pytest.param(every(lambda entry: entry.update(block_height=True)), id="a height that is not a number"),
        pytest.param(every(lambda entry: entry.update(block_index=-1)), id="a negative index"),
        pytest.param(every(lambda entry: entry.update(id="zz" * 32)), id="a txid that is not hex"),
        pytest.param(lambda _: b"{", id="no JSON"),
        pytest.param(lambda _: b"[" * 100_000, id="JSON nested without end"),
        pytest.param(lambda _: b"[" + b"9" * 10_000 + b"]", id="a number without end"),
    ],
)
async def test_a_page_of_another_shape_is_refused(
    followed: Followed, echo: Outpoint, forgery: Callable[[Any], Any]
) -> None:
    await refuses_forgery(followed, "page", forgery, "answer")
    assert followed.indexing.live() == {str(echo)}


async def test_an_answer_too_large_is_refused(followed: Followed, echo: Outpoint) -> None:
    await refuses_forgery(followed, "page", lambda _: b"[" + b" " * RESPONSE_BYTES + b"]", "answer")
    assert followed.indexing.live() == {str(echo)}


# -- forged headers


@pytest.mark.parametrize(
    "forgery",
    [
        pytest.param(lambda body: [*body[:2], *body[3:]], id="a block is missing"),
        pytest.param(lambda body: body[::-1] if len(body) > 1 else body, id="backwards"),
        pytest.param(every(lambda entry: entry.update(nonce=1)), id="another nonce"),
        pytest.param(every(lambda entry: entry.update(bits="1d00ffff")), id="other bits"),
        pytest.param(every(lambda entry: entry.update(bits="x")), id="bits that mean nothing"),
        pytest.param(every(lambda entry: entry.update(hash="ff" * 32)), id="another hash"),
        pytest.param(every(lambda entry: entry.update(version=1 << 40)), id="a version too large"),
        pytest.param(every(lambda entry: entry.pop("merkleroot")), id="no merkle root"),
    ],
)
async def test_headers_that_do_not_fit_are_refused(
    followed: Followed, echo: Outpoint, forgery: Callable[[Any], Any]
) -> None:
    await refuses_forgery(followed, "list", forgery, "header")
    assert followed.indexing.live() == {str(echo)}
    await followed.agrees()


async def test_a_header_that_nobody_worked_for_is_refused(followed: Followed, echo: Outpoint) -> None:
    def forgery(body: list[dict[str, Any]]) -> list[dict[str, Any]]:
        without_work(body[-1], followed.kit.tip.prev)
        return body

    followed.server.alter("list", forgery)
    met = await trouble(followed, 1)
    assert "does not meet its bits" in str(met[0])
    assert followed.source.violations.counts["header"] == 1
    assert await followed.source.ref(followed.kit.tip.height) is None
    followed.server.honest()
    await followed.look(2)
    await followed.agrees()


async def test_another_chain_on_the_same_genesis_is_a_reorganisation_that_the_next_one_undoes(
    followed: Followed, echo: Outpoint
) -> None:
    other = ChainKit(funds=3)
    other.mine_empty(30)
    await followed.look()
    followed.server.kit, followed.server.best = other, other.branch()
    await followed.indexing.catch_up()
    assert followed.indexing.live() == set()
    assert followed.indexing.followers[0].progress.reorgs == 1
    followed.server.kit = followed.kit
    followed.kit.mine_empty(40)
    await followed.look(2)
    await followed.agrees()


# -- forged spends


async def test_false_spenders_of_an_owners_output_change_nothing(followed: Followed, echo: Outpoint) -> None:
    kit = followed.kit
    await followed.look()
    payment = kit.pay()
    kit.mine(payment)
    for forgery in (
        lambda _: payment.txid[::-1],  # spends something else
        lambda _: b"short",
        lambda _: b"\xff" * 33,
    ):
        followed.later()
        followed.server.alter("spend", forgery)
        before = followed.source.violations.counts["spend"]
        assert await trouble(followed, 1) == []
        assert followed.source.violations.counts["spend"] == before + 1
        assert followed.indexing.kinds(echo) == ["inscribed"]
    followed.server.alter("spend", lambda _: b"\xee" * 32)  # that transaction is known to nobody
    assert await trouble(followed, 1) == []
    assert followed.indexing.kinds(echo) == ["inscribed"]
    followed.server.honest()
    kit.mine(kit.move(echo))
    await followed.look()
    followed.later()
    await followed.look()
    assert followed.indexing.kinds(echo) == ["inscribed", "moved"]


# -- faults


@pytest.mark.parametrize("route", ["tip", "list", "page", "get", "proof", "spend"])
@pytest.mark.parametrize(
    "fault", [pytest.param(None, id="500"), pytest.param(silence, id="silence"), pytest.param(cut, id="cut short")]
)
async def test_a_fault_on_the_way_only_costs_time(
    followed: Followed, echo: Outpoint, route: str, fault: Respond | None
) -> None:
    followed.server.bare.add(echo.txid)
    followed.source.client.whole_seconds = 0.3
    for _ in range(2):
        if fault is None:
            followed.server.fail(route, 500)
        else:
            followed.server.break_off(route, fault)
    met = await trouble(followed, 5)
    assert not any(isinstance(error, ViolationError) for error in met)
    assert followed.indexing.live() == {str(echo)}
    assert followed.source.violations.total == 0
    await followed.agrees()


async def test_a_server_that_refuses_access_stops_the_chain_and_says_what_to_do(
    followed: Followed, echo: Outpoint
) -> None:
    followed.server.fail("page", 401)
    with pytest.raises(SourceError, match="A2B_JUNGLEBUS_TOKEN") as caught:
        await followed.look()
    assert isinstance(caught.value, SourceRefusalError)


async def test_a_subscription_that_the_server_gives_up_stops_the_chain(followed: Followed, echo: Outpoint) -> None:
    followed.server.controls = [{"statusCode": 999, "message": "expired"}]
    with pytest.raises(SourceError, match=r"expired.*dashboard") as caught:
        await followed.look()
    assert isinstance(caught.value, SourceRefusalError)


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_nothing_is_requested_before_the_time_that_the_server_names(
    followed: Followed, echo: Outpoint, form: str
) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    followed.server.fail("tip", 429, Retry_After="90" if form == "seconds" else later)
    assert len(await trouble(followed, 1)) == 1
    query = len(followed.server.requests)
    (error,) = await trouble(followed, 1)
    seconds = re.search(r"asks to wait for ([0-9]+) more seconds", str(error))
    assert seconds is not None
    assert 60 < int(seconds[1]) <= 90
    assert len(followed.server.requests) == query


@pytest.mark.parametrize("wait", ["", "soon", "-5", "Fri, 99 Nov 1999 00:00:00 GMT"])
async def test_a_retry_after_that_means_nothing_is_a_short_pause(followed: Followed, echo: Outpoint, wait: str) -> None:
    followed.server.fail("tip", 429, Retry_After=wait)
    assert len(await trouble(followed, 1)) == 1
    await asyncio.sleep(1.0)
    await followed.look(2)
    assert followed.indexing.live() == {str(echo)}


async def test_control_codes_lead_on_wait_or_turn_back(followed: Followed, echo: Outpoint) -> None:
    server = followed.server
    server.controls = [{"statusCode": 300, "status": "reorg", "block": 3}]
    assert "reorganising" in str((await trouble(followed, 1))[0])
    server.controls = [{"statusCode": 101, "message": "busy"}]
    assert "busy" in str((await trouble(followed, 1))[0])
    server.controls = []
    server.alter("page", lambda body: body or [{"statusCode": 200, "block": 9}, {"statusCode": 100, "block": 0}])
    await followed.look(2)
    assert followed.indexing.live() == {str(echo)}
    assert any("height=10&last_idx=0" in path for path in server.requests)
    await followed.agrees()


async def test_the_loop_continues_after_false_answers_and_faults(
    followed: Followed, echo: Outpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "BACKOFF", Backoff(0.01, 60))
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.01)
    server, follower = followed.server, followed.indexing.followers[0]
    server.fail("tip", 500, 503)
    server.break_off("list", cut)
    server.alter("page", lambda body: body[::-1] + body)
    running = asyncio.create_task(follower.run())
    try:
        await until(lambda: followed.source.violations.total >= 3)
        assert follower.progress.state == "unreachable"
        assert "is refused" in follower.progress.error
        server.honest()
        await until(lambda: followed.indexing.live() == {str(echo)})
        await until(lambda: follower.progress.state == "following")
        assert follower.progress.error == ""
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
