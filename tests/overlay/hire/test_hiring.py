"""Hires of agents behind gates: paid once whatever happens, within the policy or by consent, and stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from overlay.client import AsyncOverlayClient, OverlayClient
from overlay.client.hire import hire_candidates
from overlay.client.hire.agent_call import ArgumentsError
from overlay.client.hire.call_price import Cap
from overlay.client.hire.hiring import HireError, HireRequest, HireTerms, Hiring, NoConsentError
from overlay.client.hire.journal import Hire, HireState
from overlay.client.hire.policy import Policy
from tests.overlay.hire.world import World
from tests.running import a2b_here

POLICY = """
max_satoshis_per_call = 70000
max_satoshis_per_day = 150000
max_satoshis_per_agent = 130000
newest_unchecked_satoshis = 70000
unverified_domains = true
"""


def texts(hire: Hire) -> list[str]:
    return [Path(file).read_text() for file in hire.files]


async def hired(world: World, tmp_path: Path, need: str, policy: str = POLICY, **more: Any) -> Any:
    request = {"within_policy": True, "content": b"hello"} | more
    wallet = world.wallet(tmp_path / "wallet", policy)
    async with AsyncOverlayClient(world.overlay) as client:
        hiring = Hiring(client, wallet, allow_local=True, expected="bsv:regtest")
        return await hiring.hire(HireRequest(need=need, **request)), wallet


async def test_a_need_becomes_a_paid_answer(world: World, tmp_path: Path) -> None:
    hire, wallet = await hired(world, tmp_path, "echo full", cap=Cap(60_000))
    assert (hire.state, hire.listing, hire.satoshis) == (HireState.DONE, world.ids["full"], 50_000)
    assert texts(hire) == ["echo: hello"]
    assert hire.transactions[0].hex_id in world.agent.node.mempool
    assert sum(coin.satoshis for coin in wallet.coins()) == 400_000 - 50_000 - hire.fee


async def test_the_rest_is_paid_when_the_work_is_done(world: World, tmp_path: Path) -> None:
    hire, wallet = await hired(world, tmp_path, world.ids["deposit"])
    assert (hire.state, hire.satoshis, len(hire.claims)) == (HireState.DONE, 60_000, 2)
    assert len(world.agent.calls) == 1, "the work is done once"
    assert all(tx.hex_id in world.agent.node.mempool for tx in hire.transactions)
    assert sum(coin.satoshis for coin in wallet.coins()) == 400_000 - 60_000 - hire.fee


async def test_plain_http_is_called_where_that_is_requested(world: World, tmp_path: Path) -> None:
    hire, _ = await hired(world, tmp_path, world.ids["plain"], over_http=True)
    assert texts(hire) == ["plain: hello"]


async def test_a_tool_of_mcp_is_called_with_arguments(world: World, tmp_path: Path) -> None:
    arguments = b'{"text": "hello"}'
    hire, _ = await hired(world, tmp_path, world.ids["tool"], content=arguments)
    assert (hire.protocol, hire.tool, texts(hire)) == ("mcp", "words", ['{"text": "hello"}', '{"length": 17}'])
    assert hire.transactions[0].hex_id in world.agent.node.mempool
    with pytest.raises(ArgumentsError, match="a JSON object of its arguments"):
        await hired(world, tmp_path, world.ids["tool"], content=b"hello")


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("", "max_satoshis_per_call = 0"),
        (POLICY.replace("70000", "50000"), "max_satoshis_per_call = 50,000"),
        (POLICY.replace("newest_unchecked_satoshis = 70000", ""), "nothing shows"),
        (POLICY.replace("unverified_domains = true", ""), "does not name the listing"),
        (f'{POLICY}domains = ["example.com"]', "neither ids nor domains"),
    ],
)
async def test_without_a_policy_nothing_is_paid(world: World, tmp_path: Path, policy: str, why: str) -> None:
    with pytest.raises(NoConsentError, match=why):
        await hired(world, tmp_path, world.ids["full"], policy)
    assert not world.agent.calls


async def test_a_person_sees_the_terms_before_anything_is_sent(world: World, tmp_path: Path) -> None:
    seen = list[HireTerms]()

    async def refuse(terms: HireTerms) -> bool:
        seen.append(terms)
        return False

    async with AsyncOverlayClient(world.overlay) as client:
        wallet = world.wallet(tmp_path / "wallet")
        hiring = Hiring(client, wallet, allow_local=True, expected="bsv:regtest", newest_unchecked=True, agree=refuse)
        with pytest.raises(NoConsentError):
            await hiring.hire(HireRequest(need=world.ids["full"], content=b"hello"))
    assert [(terms.satoshis, terms.address) for terms in seen] == [(50_000, seen[0].address)]
    assert (world.agent.calls, wallet.journal.all()) == ([], [])


async def test_an_overlay_that_is_out_of_date_needs_a_person(world: World, tmp_path: Path) -> None:
    request = HireRequest(need=world.ids["full"], content=b"hello", within_policy=True)
    async with AsyncOverlayClient(world.overlay) as client:
        hiring = Hiring(client, world.wallet(tmp_path / "w", POLICY), allow_local=True, expected="bsv:regtest")
        (candidate,) = await hiring.choose(request)
        assert candidate.outdated == ""
        outdated = replace(candidate, outdated="the overlay lags 9 blocks behind bsv:regtest")
        with pytest.raises(NoConsentError, match="lags 9 blocks"):
            await hiring.consent(request, outdated)


@pytest.mark.parametrize(
    ("chain", "degraded", "sentence"),
    [
        ({"state": "following", "lag": 3}, [], ""),
        ({"state": "following", "lag": None}, ["failed"], ""),
        ({"state": "following", "lag": 4}, [], "lags 4 blocks"),
        ({"state": "silent", "lag": 0}, [], "does not follow bsv:mainnet: silent"),
        ({"state": "following", "lag": 0}, ["index-behind"], "index is behind"),
        ({"state": "following", "chain": "bip122:1"}, [], "no such chain"),
    ],
)
def test_a_status_says_whether_the_overlay_is_out_of_date(
    chain: dict[str, Any], degraded: list[str], sentence: str
) -> None:
    status = {"chains": [{"chain": "bsv:mainnet"} | chain], "degraded": degraded}
    assert sentence in (outdated := hire_candidates.outdated(status, "bsv:mainnet"))
    assert bool(outdated) == bool(sentence)


# -- the command line


def test_the_command_line_hires_within_the_policy_and_prints_the_answer(world: World, tmp_path: Path) -> None:
    wallet = world.wallet(tmp_path / "wallet", POLICY)
    common = ("--wallet", str(wallet.folder))
    done = a2b_here(
        "hire", "echo full", "--yes", "--allow-local", "--chain", "bsv:regtest", "--max-satoshis", "60000",
        "--out", "out", "--input", "-", "--rate", *common, cwd=tmp_path, stdin=b"hello", A2B_URL=world.overlay,
    )  # fmt: skip
    assert (done.returncode, "echo: hello" in done.stdout) == (0, True), done.stderr
    report = done.stdout.splitlines()[-3:]
    assert [line.partition(":")[0] for line in report] == ["receipt", "payment", "rating"]
    assert report[1] == "payment: not seen in a block"
    assert "not sent" in report[2]
    assert "later: a2b hires " in report[2]
    assert (tmp_path / "out" / "answer-1.txt").read_text() == "echo: hello"
    listed = json.loads(a2b_here("hires", "--json", *common, cwd=tmp_path).stdout)
    assert [(hire["state"], hire["listing"]) for hire in listed] == [("done", world.ids["full"])]
    shown = a2b_here("hires", listed[0]["id"][:6], *common, cwd=tmp_path).stdout
    assert listed[0]["txids"][0] in shown
    balance = json.loads(a2b_here("wallet", "--json", *common, cwd=tmp_path).stdout)
    assert balance["satoshis"] == 400_000 - 50_000 - listed[0]["fee"]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("echo full",), 1, "nobody was picked"),
        (("echo full", "--yes", "--max-satoshis", "50000"), 1, "at most 50,000 may be paid"),
        (("echo old", "--yes"), 1, "it is deprecated"),
        (("echo full", "--max-price", "x"), 2, "not an amount"),
        (("--resume",), 2, "no hire is open"),
        ((), 2, "name a need"),
        (("--cancel", "abc"), 2, "no hire abc"),
    ],
)
def test_what_is_not_hired_is_named(
    world: World, tmp_path: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    wallet = world.wallet(tmp_path / "wallet", POLICY)
    if arguments[:1] == ("echo old",):
        arguments = (world.ids["old"], *arguments[1:])
    done = a2b_here(
        "hire", *arguments, "--allow-local", "--newest-unchecked", "--chain", "bsv:regtest", "--url", world.overlay,
        "--wallet", str(wallet.folder), cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, sentence in done.stderr) == (code, True), done.stderr
    assert not world.agent.calls


def test_a_new_wallet_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    new = a2b_here("wallet", "new", "--network", "testnet", "--wallet", str(folder), "--json", cwd=tmp_path)
    assert (new.returncode, json.loads(new.stdout)["satoshis"]) == (0, 0)
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "key.txt", folder / "ed25519.key")] == [
        0o700, 0o600, 0o600,
    ]  # fmt: skip
    again = a2b_here("wallet", "new", "--wallet", str(folder), cwd=tmp_path)
    assert (again.returncode, "has key.txt already" in again.stderr) == (2, True)


async def test_an_address_that_no_payment_reaches_is_no_price(world: World, tmp_path: Path) -> None:
    with pytest.raises(HireError, match="no address in its card can be paid in a coin of this wallet"):
        await hired(world, tmp_path, world.ids["placeholder"])


def test_the_client_hires_in_one_call(world: World, tmp_path: Path) -> None:
    policy = Policy(
        max_satoshis_per_call=60_000, max_satoshis_per_day=60_000, max_satoshis_per_agent=60_000,
        newest_unchecked_satoshis=60_000, unverified_domains=True,
    )  # fmt: skip
    folder = world.wallet(tmp_path / "wallet").folder
    options: dict[str, Any] = {"wallet": folder, "allow_local": True, "expected": "bsv:regtest"}
    with OverlayClient(world.overlay) as overlay:
        hire = overlay.hire("echo full", input="hello", policy=policy, out=tmp_path / "out", **options)
        assert (texts(hire), Path(hire.files[0]).parent) == (["echo: hello"], tmp_path / "out")
        with pytest.raises(NoConsentError, match="max_satoshis_per_day = 60,000"):
            overlay.hire("echo full", policy=policy, **options)
        with pytest.raises(NoConsentError, match="max_satoshis_per_call = 0"):
            overlay.hire("echo full", **options)
