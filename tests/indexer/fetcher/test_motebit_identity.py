"""Motebit identities of hosts: DNS before the well-known file, verified, pinned, and what listings say of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.diagnosis.diagnoser import Diagnoser
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.http_fetcher import HttpFetcher
from indexer.store.checks import CHECK_INTERVAL, GRACE, HOUR, PIN_DURATION
from indexer.store.requests import Rechecks
from overlay.projection.documents import DocumentReader
from overlay.systems.motebit import agent_rows, identity_steps
from overlay.systems.motebit.host_identity import MotebitVerifier, listed, published
from parsers.claims import ed25519
from parsers.claims.canonical_json import jcs
from parsers.claims.motebit.identifiers import HEX_SUITE, sovereign_id
from tests.chainkit import agent
from tests.hostile import QUICK, Hostile, Net, answer, authority, net, ok, raw, redirect, server
from tests.indexer.fetcher.checked_registry import CheckedRegistry
from tests.names import NameServer, names
from tests.pointer_facts import Clock, clock

HOST = "agent.example"
FILE = "/.well-known/motebit.md"
NAME = f"_motebit.{HOST}"
SEEDS = [bytes([number]) * 32 for number in range(1, 5)]
KEYS = [ed25519.public_key_of(seed) for seed in SEEDS]
IDENTITY = sovereign_id(KEYS[0])

__all__ = ["authority", "clock", "names", "net", "server"]


def identity_file(seed: int = 0, identity: str = IDENTITY, **more: Any) -> bytes:
    """A signed identity file; JSON is YAML."""
    content = {
        "spec": "motebit/identity@1.0", "motebit_id": identity, "capabilities": ["web_search"],
        "identity": {"algorithm": "Ed25519", "public_key": KEYS[seed].hex()}, **more,
    }  # fmt: skip
    text = "\n".join(f"{name}: {json.dumps(value)}" for name, value in content.items())
    signature = ed25519.sign(SEEDS[seed], text.encode()).hex()
    return f"---\n{text}\n---\n<!-- motebit:sig:{HEX_SUITE}:{signature} -->\n".encode()


def succession(old: int, new: int, *, guardian: int | None = None) -> dict[str, Any]:
    record = {
        "old_public_key": KEYS[old].hex(), "new_public_key": KEYS[new].hex(), "timestamp": 1_750_000_000_000 + new,
        "suite": HEX_SUITE, **({} if guardian is None else {"recovery": True}),
    }  # fmt: skip
    signers = {"new_key_signature": new}
    signers |= {"old_key_signature": old} if guardian is None else {"guardian_signature": guardian}
    return record | {name: ed25519.sign(SEEDS[seed], jcs(record)).hex() for name, seed in signers.items()}


class MotebitRegistry(CheckedRegistry):
    """Agents at one host, and the loop that reads its identity file."""

    def create_checks(self, fetcher: HttpFetcher, txt: TxtRecords) -> list[Any]:
        return [MotebitVerifier(fetcher, txt, self.indexing.writer)]

    async def inscribe(self, **more: Any) -> str:
        return await self.mine(self.kit.inscribe(agent("Echo", url=f"https://{HOST}/a2a", **more)))

    def motebit(self, id_: str) -> Any:
        """The identity of a listing, which its document in the index has, too."""
        item = self.item(id_)
        *_, document = DocumentReader(self.store).documents([id_])
        assert json.loads(document.item).get("motebit") == item.get("motebit")
        return item.get("motebit")

    def is_verified(self, id_: str) -> bool:
        shown = self.motebit(id_)
        return shown is not None and shown["verified"]

    def warnings(self, id_: str) -> list[str]:
        return [
            warning["code"]
            for warning in self.item(id_)["warnings"]
            if warning["code"] in ("motebit-claim", "key-changed")
        ]

    def diagnose(self, id_: str) -> dict[str, Any]:
        return Diagnoser(self.store, {}, more_steps=[identity_steps.steps]).by_name(id_)

    def reason(self) -> str:
        with self.store.engine.connect() as connection:
            return str(connection.exec_driver_sql("SELECT reason FROM motebit_hosts").scalar_one())


@pytest.fixture
def registry(database_url: str, net: Net, names: NameServer, clock: Clock) -> Iterator[MotebitRegistry]:
    with MotebitRegistry.open(database_url, net, names, clock) as opened:
        yield opened


async def test_the_verified_file_of_a_host_gives_its_agents_an_identity(
    server: Hostile, registry: MotebitRegistry
) -> None:
    server.say(FILE, ok(identity_file(service_url="https://agent.example/mcp")))
    id_ = await registry.inscribe()
    assert registry.motebit(id_) is None
    await registry.after()
    assert registry.motebit(id_) == {
        "id": IDENTITY, "publicKey": KEYS[0].hex(), "did": None, "verified": True,
        "endpoint": "https://agent.example/mcp", "capabilities": ["web_search"],
    }  # fmt: skip
    [document] = DocumentReader(registry.store).documents([id_])
    facts = {fact for fact in document.more_facts if fact.startswith("motebit")}
    assert facts == {"motebit:verified", f"motebit-id:{IDENTITY}", "motebit-capability:web_search"}
    assert server.paths().count(FILE) == 1
    await registry.after(CHECK_INTERVAL)
    assert server.paths().count(FILE) == 2
    changes = [change.id for change in registry.store.outbox.after(0, 100) if change.reason == "motebit-checked"]
    assert changes == [id_]


async def test_dns_names_the_file_before_the_well_known_one(
    server: Hostile, registry: MotebitRegistry, names: NameServer
) -> None:
    names.texts[NAME] = ["v=spf1 -all", f"v=motebit1 endpoint=https://mcp.example/ url=https://{HOST}/other.md"]
    server.say(FILE, ok(identity_file(1)))
    server.say("/other.md", ok(identity_file()))
    id_ = await registry.inscribe()
    await registry.after()
    assert (registry.motebit(id_)["publicKey"], registry.motebit(id_)["endpoint"]) == (
        KEYS[0].hex(),
        "https://mcp.example/",
    )
    assert FILE not in server.paths()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"https://{HOST}:3200/m.md", "port-not-allowed"),
        (f"http://{HOST}/m.md", "fetch-scheme"),
        ("https://127.0.0.1/m.md", "fetch-address"),
        (f"https://{HOST}/missing.md", "fetch-missing"),
        (f"https://{HOST}/forged.md", "bad-signature"),
    ],
)
async def test_where_dns_names_a_file_nothing_else_is_tried(
    server: Hostile, registry: MotebitRegistry, names: NameServer, url: str, reason: str
) -> None:
    names.texts[NAME] = [f"v=motebit1 url={url}"]
    server.say(FILE, ok(identity_file()))
    server.say("/forged.md", ok(identity_file().replace(b"web_search", b"pay_anyone")))
    id_ = await registry.inscribe()
    await registry.after()
    assert registry.motebit(id_) is None
    assert registry.reason() == reason
    assert FILE not in server.paths()


async def test_without_an_answer_of_dns_the_well_known_file_counts(
    server: Hostile, registry: MotebitRegistry, names: NameServer
) -> None:
    names.mode = "refused"
    id_ = await registry.inscribe()
    await registry.after()
    assert registry.reason() == "fetch-dns"
    server.say(FILE, ok(identity_file()))
    await registry.after(CHECK_INTERVAL)
    assert registry.is_verified(id_)


async def test_a_redirect_to_another_host_is_not_followed(server: Hostile, registry: MotebitRegistry) -> None:
    server.say(FILE, redirect("https://other.example/m.md"))
    id_ = await registry.inscribe()
    await registry.after()
    assert (registry.motebit(id_), registry.reason()) == (None, "fetch-redirect-host")


async def test_a_card_that_contradicts_its_host_has_no_identity(server: Hostile, registry: MotebitRegistry) -> None:
    server.say(FILE, ok(identity_file()))
    same = {"motebit_id": IDENTITY, "public_key": KEYS[0].hex(), "did": "did:key:z"}
    id_of_host = await registry.inscribe(**{"x-motebit": same})
    foreign = await registry.inscribe(**{"x-motebit": same | {"public_key": KEYS[1].hex()}})
    assert not registry.motebit(foreign)["verified"]
    await registry.after()
    assert registry.is_verified(id_of_host)
    assert registry.motebit(foreign) is None


async def test_another_key_counts_only_where_the_pinned_one_signed_it(
    server: Hostile, registry: MotebitRegistry
) -> None:
    server.say(FILE, ok(identity_file()))
    id_ = await registry.inscribe()
    await registry.after()
    server.say(FILE, ok(identity_file(1)))
    await registry.after(CHECK_INTERVAL)
    assert (registry.is_verified(id_), registry.reason()) == (False, "key-changed")
    recovery = {"guardian": {"public_key": KEYS[3].hex()}, "succession": [succession(0, 1, guardian=3)]}
    server.say(FILE, ok(identity_file(1, **recovery)))
    await registry.after(CHECK_INTERVAL)
    assert (registry.is_verified(id_), registry.reason()) == (False, "key-changed")
    server.say(FILE, ok(identity_file(2, succession=[succession(0, 1), succession(1, 2)])))
    await registry.after(CHECK_INTERVAL)
    assert registry.motebit(id_)["publicKey"] == KEYS[2].hex()
    assert (registry.is_verified(id_), registry.warnings(id_)) == (True, [])


async def test_a_changed_key_is_shown_with_the_pinned_one_and_since_when(
    server: Hostile, registry: MotebitRegistry
) -> None:
    server.say(FILE, ok(identity_file()))
    id_ = await registry.inscribe()
    rotated = await registry.inscribe(**{"x-motebit": {"motebit_id": IDENTITY, "public_key": KEYS[1].hex()}})
    foreign = await registry.inscribe(**{"x-motebit": {"motebit_id": IDENTITY, "public_key": KEYS[2].hex()}})
    await registry.after()
    server.say(FILE, ok(identity_file(1)))
    await registry.after(CHECK_INTERVAL)
    shown = registry.motebit(id_)
    change = {"reason": "key-changed", "pinned": KEYS[0].hex(), "served": KEYS[1].hex(), "since": shown["since"]}
    assert shown == {
        "id": IDENTITY, "publicKey": KEYS[0].hex(), "did": None, "verified": False, "endpoint": f"https://{HOST}/a2a",
        "capabilities": ["web_search"], **change,
    }  # fmt: skip
    assert abs(datetime.fromisoformat(shown["since"]).timestamp() - registry.clock()) < 600
    assert registry.warnings(id_) == ["key-changed"]
    assert (registry.motebit(rotated), registry.warnings(rotated)) == (shown, ["key-changed"])
    assert (registry.motebit(foreign), registry.warnings(foreign)) == (None, ["motebit-claim", "key-changed"])
    [document] = DocumentReader(registry.store).documents([id_])
    assert {"motebit:claimed", f"motebit-id:{IDENTITY}", "flagged"} <= set(document.more_facts)
    row = agent_rows.agent("https://a2b.example", registry.item(id_), "")
    assert (row["identity"], row["key_change"]) == ("key-changed", {k: v for k, v in change.items() if k != "reason"})
    resolved = agent_rows.resolution("https://a2b.example", IDENTITY, [row], "")
    assert (resolved["identity"], resolved["key_change"]) == ("key-changed", row["key_change"])
    [step] = [step for step in registry.diagnose(id_)["steps"] if step["step"] == "identity"]
    assert (step["ok"], step["code"]) == (False, "key-changed")
    assert KEYS[0].hex() in step["detail"]
    assert KEYS[1].hex() in step["detail"]
    await registry.after(CHECK_INTERVAL)
    assert registry.motebit(id_)["since"] == shown["since"]
    server.say(FILE, raw(answer("500 Broken")))
    await registry.after(CHECK_INTERVAL)
    assert registry.motebit(id_)["since"] == shown["since"]
    server.say(FILE, ok(identity_file()))
    await registry.after(CHECK_INTERVAL)
    assert (registry.is_verified(id_), registry.warnings(id_)) == (True, [])
    assert not [step for step in registry.diagnose(id_)["steps"] if step["step"] == "identity"]


async def test_a_pin_ends_when_its_key_was_not_served_for_a_month(server: Hostile, registry: MotebitRegistry) -> None:
    server.say(FILE, ok(identity_file()))
    id_ = await registry.inscribe()
    await registry.after()
    server.say(FILE, ok(identity_file(1, sovereign_id(KEYS[1]))))
    await registry.after(CHECK_INTERVAL)
    assert not registry.is_verified(id_)
    await registry.after(PIN_DURATION)
    assert registry.motebit(id_)["publicKey"] == KEYS[1].hex()


async def test_an_identity_outlives_a_silent_host_for_a_week(server: Hostile, registry: MotebitRegistry) -> None:
    server.say(FILE, ok(identity_file()))
    id_ = await registry.inscribe()
    await registry.after()
    server.say(FILE, raw(answer("500 Broken")))
    await registry.after(CHECK_INTERVAL)
    assert registry.is_verified(id_)
    await registry.after(GRACE)
    assert registry.motebit(id_) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "malformed"), (b"\xff", "bad-text"), (b"---\n" + b"a" * 200_000, "too-large"),
        (b"<html>", "malformed"), (identity_file().replace(b"\n", b"\r\n"), "malformed"),
    ],
)  # fmt: skip
def test_what_is_no_identity_file_is_refused_with_a_code(body: bytes, reason: str) -> None:
    assert published(body, "dns", "").reason == reason


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: f"---\n{text}\n---\n".encode()))
def test_hostile_files_never_raise(body: bytes) -> None:
    assert published(body, "well-known", "").identity is None


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_of_what_is_signed_is_refused(position: int, value: int) -> None:
    body = identity_file()
    start, end = 4, body.index(b"\n---\n")
    index = start + position % (end - start)
    changed = body[:index] + bytes([value]) + body[index + 1 :]
    assert (published(changed, "dns", "").identity is None) == (changed != body)


async def test_a_recheck_of_a_listing_asks_its_host_again(server: Hostile, registry: MotebitRegistry) -> None:
    id_ = await registry.inscribe()
    await registry.after()
    server.say(FILE, ok(identity_file()))
    assert not registry.is_verified(id_)
    assert Rechecks(registry.store.engine).request(id_, int(registry.clock() * 1000))
    await registry.after(HOUR // 2)
    assert registry.is_verified(id_)


def relay_list(**row: Any) -> bytes:
    identity = {
        "motebit_id": IDENTITY,
        "endpoint_url": f"https://{HOST}/mcp",
        "public_key": KEYS[0].hex(),
        "capabilities": ["a"],
    }
    return json.dumps(
        {"agents": [{"endpoint_url": 7}, None, {"endpoint_url": "https://b.example/"}, identity | row]}
    ).encode()


async def test_a_relay_is_read_last_and_its_answer_proves_nothing(server: Hostile, net: Net, names: NameServer) -> None:
    verifier = MotebitVerifier(net.fetcher(QUICK), TxtRecords([names.address]))
    server.say("/api/v1/agents/discover?limit=100", ok(relay_list()))
    assert (await verifier.lookup(HOST)).reason == "fetch-missing"
    identity = (await verifier.lookup(HOST, f"https://{HOST}/")).identity
    assert identity is not None
    assert (identity.method, identity.binding, identity.public_key) == ("relay", "sovereign", KEYS[0].hex())
    server.say(FILE, ok(identity_file(1)))
    identity = (await verifier.lookup(HOST, f"https://{HOST}/")).identity
    assert identity is not None
    assert (identity.method, identity.public_key) == ("well-known", KEYS[1].hex())
    server.say(FILE, ok(b"forged"))
    assert (await verifier.lookup(HOST, f"https://{HOST}/")).reason == "malformed"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "truncated"), (b"[]", "not-listed"), (b'{"agents": {}}', "not-listed"),
        (b'{"a":1,"a":2}', "duplicate-key"),
        (relay_list(public_key="00"), "malformed"), (relay_list(motebit_id=None), "malformed"),
        (relay_list(endpoint_url="https://other.example/"), "not-listed"),
    ],
)  # fmt: skip
def test_what_a_relay_lists_wrongly_is_refused_with_a_code(body: bytes, reason: str) -> None:
    assert listed(body, HOST, "").reason == reason


def test_files_of_the_vectors_are_published_as_they_verify(shared: Path) -> None:
    for line in (shared / "vectors/trust/motebit.jsonl").read_text().strip().split("\n"):
        vector = json.loads(line)
        if vector["kind"] == "identity_file":
            outcome = published(vector["input"]["content"].encode(), "dns", "")
            assert (outcome.identity is not None) == vector["expected"]["valid"], vector["name"]
