"""Foreign protocols and the verifier name members of answers; the models have them all."""

from __future__ import annotations

from overlay.answers.items import Item, ServerList
from overlay.answers.pages import SearchPage
from overlay.answers.schemas import CARD_MEMBERS, members
from overlay.systems.a2a import search_messages
from overlay.systems.mcp import listing_forms, tools
from overlay.systems.webhooks import matcher
from overlay.verify import item_members

ON_DEMAND = {"highlights", "explain", "lacks", "byMeaning", "score", "cost"}


def test_foreign_protocols_name_members_of_the_item_and_of_the_page() -> None:
    assert set(search_messages.ITEM_MEMBERS) <= set(members(Item))
    assert set(listing_forms.AS_STORED) <= set(members(Item))
    assert set(matcher.LISTING_MEMBERS) <= set(members(Item))
    assert set(tools.PAGE_MEMBERS) <= set(members(SearchPage))


def test_every_member_of_a_listing_is_proved_or_named_as_not_provable() -> None:
    """A server cannot invent the value of a new member: a fact about a listing is not provable unless a step proves it,
    and a member of a card or of an answer has to be put in one of these lists."""
    unprovable = item_members.UNPROVABLE | item_members.UNPROVABLE_OF_AGENTS | item_members.UNPROVABLE_OF_POINTERS
    judged = item_members.PROVED | unprovable | {*CARD_MEMBERS, "cheapest", "servers"}
    assert set(members(Item)) | set(members(ServerList)) | {"recentChanges"} == judged | ON_DEMAND
