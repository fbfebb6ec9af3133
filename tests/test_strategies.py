"""The histories that the reorg law is tested with must be possible, and must reach what the laws speak of."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings

from tests.oracles.registry import read_chain
from tests.oracles.wire import read_block
from tests.strategies import History, histories


@given(histories())
@settings(max_examples=30, deadline=None)
def test_every_branch_of_a_history_spends_only_what_it_has(history: History) -> None:
    for block in history.arrivals:
        unspent: dict[str, int] = {}
        for item in history.kit.branch(block):
            for tx in read_block(item.raw):
                held = [unspent.pop(spent) for spent in tx.spends if not tx.is_coinbase]
                assert tx.is_coinbase or sum(held) >= sum(out.satoshis for out in tx.outs)
                unspent.update({f"{tx.txid}_{vout}": out.satoshis for vout, out in enumerate(tx.outs)})


@given(histories())
@settings(max_examples=30, deadline=None)
def test_parents_arrive_first_and_the_active_chain_is_never_lighter_than_another(history: History) -> None:
    seen: set[bytes] = {bytes(32)}
    for number, block in enumerate(history.arrivals, 1):
        assert block.prev in seen
        seen.add(block.hash)
        assert history.active(number)[-1].height == max(arrival.height for arrival in history.arrivals[:number])


def test_histories_reach_every_kind_of_event_reason_and_reorg() -> None:
    seen: Counter[str] = Counter()

    @given(histories(any_order=True))
    @settings(max_examples=250, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    def look(history: History) -> None:
        answer = read_chain(block.raw for block in history.active())
        for registration in answer.registrations:
            seen.update({revision["kind"] for revision in registration["revisions"]})
            seen.update({revision["reason"] for revision in registration["revisions"]})
            if len({revision["height"] for revision in registration["revisions"]}) < len(registration["revisions"]):
                seen["several revisions in a block"] += 1
        seen.update({item["reason"] for item in answer.rejected})
        seen.update({"pointer" for _ in answer.pointers})
        seen["reorg"] += history.reorgs
        seen["histories"] += 1

    look()
    missing = EVERYTHING - set(seen)
    assert not missing, f"{missing} in none of {seen['histories']} histories: {seen}"
    assert seen["reorg"] > seen["histories"] / 5


EVERYTHING = {
    *("inscribed", "reinscribed", "moved", "map_only", "invalid", "foreign_content", "burned", "pointer"),
    *("to the fee", "into an output of more than one satoshi", "into the change: another satoshi took output 0"),
    *("the card is not JSON", "the card has no name", "the card has no skills", "content type is not JSON"),
    *("MAP type is not an A2B type", "an agent does not become a tool", "a tool does not become an agent"),
    *("no MAP record", "no ord envelope", "the MAP command is not SET", "MAP is in another output"),
    *("the envelope is not closed", "the body push runs past the script", "the output holds two satoshis"),
    "several revisions in a block",
}
