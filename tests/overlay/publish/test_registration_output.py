"""The output that an update, transfer or burn spends belongs to the registration that was named, whatever a server
answers."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.publish.coins import Coin
from overlay.publish.registration_output import RegistrationError, RegistrationOutput, effect_of, find
from overlay.publish.transactions import Draft
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, read, serialise
from parsers.cards import Kind
from parsers.cards.deprecation import Deprecation, map_fields
from tests.chainkit import ChainKit, agent, tool
from tests.chainkit_scripts import body_of, inscription, p2pkh
from tests.overlay.forging_server import Look, Server, look

__all__ = ["look"]


def drafted(kit: ChainKit, tx: Transaction) -> Draft:
    """A transaction of a kit, with the coins that it spends."""
    return Draft.of(tx, [Coin(spent.prevout, kit.satoshis(spent.prevout)) for spent in tx.inputs])


class World:
    """Two registrations of the same owner: the first was updated and moved, the second only registered; and the end of
    the first."""

    def __init__(self, look: Look) -> None:
        kit = ChainKit()
        first, other = (
            kit.inscribe(agent("First"), owner="alice"),
            kit.inscribe(tool("other"), "a2b-mcp", owner="alice"),
        )
        kit.mine(first, other)
        second = kit.update(first, agent("Second"))
        kit.mine(second)
        moved = kit.move(second, "alice")
        kit.mine(moved)
        self.first, self.other, self.end = str(first), str(other), moved
        self.kit, self.honest = kit, look(kit, "bsv")
        self.server = Server(self.honest, self.first, self.other)

    def pretend(self, **members: Any) -> None:
        """Answer about the first with the other, but for these members of the item."""
        server = self.server
        server.items[self.first] = deepcopy(server.items[self.other]) | {"id": self.first} | members
        server.cards[self.first] = server.cards[self.other]
        server.proofs[self.first] = deepcopy(server.proofs[self.other]) | {"id": self.first}


@pytest.fixture
def world(look: Look) -> World:
    return World(look)


def test_an_honest_server_shows_where_the_satoshi_is_and_what_it_registers(world: World) -> None:
    for is_trusted in (False, True):
        held = find(world.server, world.first, is_trusted=is_trusted)
        assert (held.coin.outpoint, held.coin.satoshis, held.kind) == (world.end, 1, Kind.AGENT)
        assert (held.name, held.app) == ("Second", "test")
        other = find(world.server, world.other, is_trusted=is_trusted)
        assert (str(other.coin.outpoint), other.kind, other.name) == (world.other, Kind.TOOL, "other")
    assert find(world.server, world.first) == find(world.honest, world.first)


def test_another_registration_of_the_same_key_is_not_spent(world: World) -> None:
    world.pretend()
    assert str(find(world.server, world.first, is_trusted=True).coin.outpoint) == world.other  # the lie
    with pytest.raises(RegistrationError, match=r"does not prove that .* holds .*, so it is not spent"):
        find(world.server, world.first)


def test_an_answer_about_another_id_is_refused_also_where_it_is_proved(world: World) -> None:
    world.pretend(id=world.other)
    world.server.proofs[world.first]["id"] = world.other
    with pytest.raises(RegistrationError, match="the answer is about"):
        find(world.server, world.first)


@pytest.mark.parametrize("member", ["current", "after"])
def test_a_path_that_ends_at_another_registration_is_refused(world: World, member: str) -> None:
    server, theirs = world.server, world.server.proofs[world.other]
    hop = {name: theirs[name] for name in ("txid", "rawTx", "bump", "blockHash", "height", "header")}
    server.items[world.first]["outpoint"] = world.other
    server.proofs[world.first]["current"] = {**hop, "outpoint": world.other, "beef": theirs["beef"]}
    if member == "after":
        server.proofs[world.first]["after"].append(hop)
    with pytest.raises(RegistrationError, match="so it is not spent"):
        find(server, world.first)


def test_an_older_state_of_the_path_names_an_output_that_no_node_lets_be_spent_again(world: World) -> None:
    """Leaving out the end is all that a server can do: what it shows is spent, and of the same registration."""
    server = world.server
    proof, item = server.proofs[world.first], server.items[world.first]
    item["outpoint"] = proof["outpoint"]
    proof["after"].clear()
    del proof["current"]
    held = find(server, world.first)
    assert (held.name, held.coin.outpoint) == ("Second", Outpoint.parse(proof["outpoint"]))


@pytest.mark.parametrize("member", ["before", "after", "parents", "rawTx", "outpoint"])
def test_without_the_transactions_of_the_path_the_remedy_is_named(world: World, member: str) -> None:
    del world.server.proofs[world.first][member]
    with pytest.raises(RegistrationError, match="an index of your own needs no proof"):
        find(world.server, world.first)


def test_another_card_kind_or_app_is_refused(world: World) -> None:
    server = world.server
    server.cards[world.first] = server.cards[world.first].replace(b"Second", b"Thirds")
    with pytest.raises(RegistrationError, match="is not the one served"):
        find(server, world.first)
    server.items[world.other]["type"] = "agent"
    with pytest.raises(RegistrationError, match="does not register agent"):
        find(server, world.other)
    server.items[world.other] |= {"type": "tool", "app": "mallory"}
    with pytest.raises(RegistrationError, match="its app is 'test', and the answer names another"):
        find(server, world.other)


def test_what_a_transaction_does_is_read_from_its_outputs(world: World) -> None:
    """Not from what a file or a server says of it."""
    kit, held = world.kit, find(world.honest, world.first)

    def text(spent: Outpoint, *, held: RegistrationOutput | None = held) -> str:
        return effect_of(held, drafted(kit, read(kit.raw(spent))), "regtest").text

    title = f"the agent “Second”, {world.first},"
    card = agent("Third")
    mallory, alice = kit.address("mallory"), kit.address("alice")
    assert text(kit.update(world.end, card)) == f"updates {title} to the card of “Third”"
    assert text(kit.map_only(world.end, {"cmd": "SET", "app": "other", "type": "a2b-agent"})) == (
        f"updates {title} without a new card"
    )
    assert text(kit.update(world.end, card, owner="mallory")) == (
        f"updates {title} to the card of “Third” and transfers {title} to {mallory}"
    )
    notice = {"app": "test", **map_fields(Deprecation("b" * 200, "m" * 200))}
    assert text(kit.map_only(world.end, notice)) == f"deprecates {title} in favour of {'b' * 99}…: “{'m' * 99}…”"
    assert text(kit.map_only(world.end, map_fields(Deprecation()))) == f"deprecates {title}"
    assert text(kit.map_only(world.end, map_fields(None))) == f"says that {title} is not deprecated"
    assert text(kit.update(world.end, card, map=map_fields(None))) == (
        f"updates {title} to the card of “Third” and says that {title} is not deprecated"
    )
    assert text(kit.move(world.end, "mallory")) == f"transfers {title} to {mallory}"
    assert text(kit.burn(world.end)) == f"delists {title} for good"
    assert text(kit.inscribe(card), held=None) == f"registers the agent “Third” for {alice}"
    assert text(kit.pay(), held=None) == ""
    long = text(kit.inscribe(agent("x" * 300)), held=None)
    assert len(long) < 200


CARD = inscription(body_of(agent("Third")), {"app": "test", "type": "a2b-agent"}, "alice")
HELD, COINS = "the registration", {"a coin": 10_000, "another": 3_000}
Payment = tuple[int, bytes | str]


@pytest.mark.parametrize(
    ("inputs", "outputs", "does", "owner", "name"),
    [
        ([HELD, "a coin", "another"], [(1, "mallory"), (9_999, "alice"), (1, CARD)],
         "transfers {title} to {mallory} and registers the agent “Third” for {alice}", "mallory", "First"),
        ([HELD, "another"], [(0, b"\x00\x6a"), (1, "mallory"), (2_000, "alice")],
         "transfers {title} to {mallory}", "mallory", "First"),
        ([HELD, "another"], [(2_998, "alice"), (1, CARD)],
         "delists {title} for good and registers the agent “Third” for {alice}", None, "First"),
        ([HELD, "another"], [(0, b"\x51"), (1, CARD), (2_999, "mallory")],
         "updates {title} to the card of “Third”", "alice", "Third"),
        ([HELD, "another"], [(1, "alice"), (1, CARD)],
         "transfers {title} to {alice} and registers the agent “Third” for {alice}", "alice", "First"),
        ([HELD], [], "delists {title} for good", None, "First"),
        ([HELD], [(0, CARD)], "delists {title} for good", None, "First"),
        (["another"], [(0, b"\x00\x6a"), (1, CARD)], "registers the agent “Third” for {alice}", "alice", "First"),
    ],
)  # fmt: skip
def test_what_a_transaction_does_is_what_the_indexer_makes_of_it(
    inputs: list[str], outputs: list[Payment], does: str, owner: str | None, name: str, look: Look
) -> None:
    """Also where the satoshi goes to another output than the first, which signatures commit to."""
    kit = ChainKit()
    coins = {coin: kit.pay("alice", satoshis) for coin, satoshis in COINS.items()}
    coins[HELD] = kit.inscribe(agent("First"), owner="alice")
    kit.mine(*coins.values())
    tx = kit.spend(
        [coins[coin] for coin in inputs],
        [(value, p2pkh(script) if isinstance(script, str) else script) for value, script in outputs],
    )
    id_, addresses = str(coins[HELD]), {name: kit.address(name) for name in ("alice", "mallory")}
    held = RegistrationOutput(
        Coin(coins[HELD], 1, p2pkh("alice")), id_, Kind.AGENT, "test", addresses["alice"], "First"
    )  # fmt: skip
    text, registered = effect_of(held if HELD in inputs else None, drafted(kit, tx), "regtest")
    assert text == does.format(title=f"the agent “First”, {id_},", **addresses)
    kit.mine(tx)
    source = look(kit, "bsv")
    shown = source.listing(id_)
    assert (shown["status"], shown.get("owner"), shown["name"]) == (
        ("live", addresses[owner], name) if owner else ("burned", None, name)
    )
    now = [shown["outpoint"]] if HELD in inputs and owner else []
    assert [str(tx.outpoint(vout)) for vout in registered[: len(now)]] == now
    assert len(registered) == len(now) + ("registers" in text)
    for vout in registered[len(now) :]:
        assert source.listing(f"{tx.hex_id}_{vout}")["name"] == "Third"


@given(st.lists(st.integers(0, 4), max_size=6))
def test_the_first_satoshi_of_a_draft_goes_first_in_first_out(outs: list[int]) -> None:
    coin = Coin(Outpoint(bytes(32), 0), 1)
    tx = read(serialise([TxInput(coin.outpoint, b"", 0)], [TxOutput(satoshis, b"") for satoshis in outs]))
    vout, offset, is_burned = Draft.of(tx, [coin]).destination
    target = next((vout for vout, value in enumerate(outs) for _ in range(value)), None)
    assert (vout, offset, is_burned) == (target, 0, target is None or outs[target] != 1)
