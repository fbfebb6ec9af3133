"""Values of filters and facets as people write them, the same in every engine."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from overlay.projection.search_index import SearchIndex
from overlay.search.query import Suggestion
from parsers.cards import Skill
from tests.contracts.listed import ask, ids, listing, price, put


def found_ids(engine: SearchIndex, text: str = "", **query: object) -> set[str]:
    return set(ids(ask(engine, text, **query)))


def test_a_skill_is_found_by_its_id_in_any_case_on_offers_too(engine: SearchIndex) -> None:
    for_all = [price("1", "USD")]
    named = [price("1", "USD", skills=["AuditCode", "Strasse"]), price("9", "EUR", skills=["other"])]
    many = [price("1", "USD", skills=[f"Skill{number}" for number in range(64)])]
    more = [price("2", f"C{n}", None, *(f"D{n}{m}" for m in range(63)), skills=["Skill1", "Skill2"]) for n in range(30)]
    put(
        engine,
        listing("1", skills=["getChart"], offers=for_all),
        listing("2", skills=["AUDITcode", "STRAßE", "Other"], offers=named),
        listing("3", skills=["auditCODE"]),
        listing("4", skills=["Skill1"], offers=[*many, *more]),
    )
    assert found_ids(engine, skills="auditcode") == {"2", "3"}
    assert found_ids(engine, skills="strasse") == {"2"}
    assert found_ids(engine, skills="auditcode", currencies="USD") == {"2"}
    assert found_ids(engine, skills="other", currencies="USD") == set(), "the offer in USD does not name it"
    assert found_ids(engine, skills="other", currencies="EUR", max_price="9") == {"2"}
    assert found_ids(engine, skills="getchart", max_price="1") == {"1"}
    assert found_ids(engine, skills="skill1", currencies="D162") == {"4"}
    assert found_ids(engine, skills="skill63", currencies="USD") == {"4"}


def test_facet_values_that_differ_in_case_only_are_one_in_the_most_frequent_spelling(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", skills=["Audit", "AUDIT", "alone"]),
        listing("2", skills=["audit"]),
        listing("3", skills=["audit"], offers=[price("1", skills=["AUDIT"])]),
        listing("4", skills=["Chart"]),
        listing("5", skills=["CHART"]),
    )
    hits = ask(engine, facets="skillId")
    assert hits.facets is not None
    assert sorted(hits.facets["skillId"]) == [("CHART", 2), ("alone", 1), ("audit", 3)]
    assert hits.facet_totals == {"skillId": 3}
    for value, count in hits.facets["skillId"]:
        assert ask(engine, skills=value.casefold()).total == count
    joint = ask(engine, facets="skillId", currencies="USD")
    assert (joint.facets, joint.facet_totals) == ({"skillId": (("audit", 1),)}, {"skillId": 1})


def test_one_card_with_many_skills_does_not_hide_those_of_others(engine: SearchIndex) -> None:
    flood = [f"aaa-{number:03}" for number in range(256)]
    put(engine, listing("1", skills=flood), *(listing(f"{n}", skills=[f"zeta-{n:03}"]) for n in range(2, 258)))
    hits = ask(engine, facets="skillId", facet_limit=40)
    values = [value for value, _ in (hits.facets or {})["skillId"]]
    assert (hits.facet_totals, len(values)) == ({"skillId": 512}, 40)
    every = [*flood, *(f"zeta-{n:03}" for n in range(2, 258))]
    assert values == sorted(every, key=lambda value: blake2b(value.encode(), digest_size=8).digest())[:40]
    assert 10 <= sum(value.startswith("zeta") for value in values) <= 30
    whole = ask(engine, facets="skillId", facet_limit=1_000).facets or {}
    assert {value for value, _ in whole["skillId"]} == set(every)


def test_facets_count_the_values_with_a_beginning(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", skills=["Security-Audit", "chart"], tags=("seco",), offers=[price("1", "SEK")]),
        listing("2", skills=["security-scan"], offers=[price("1", "USD")]),
    )
    facets = ("skillId", "tag", "acceptedCurrency")
    hits = ask(engine, facets=facets, facet_prefix="se")
    assert hits.facets is not None
    assert sorted(hits.facets["skillId"]) == [("Security-Audit", 1), ("security-scan", 1)]
    assert (hits.facets["tag"], hits.facets["acceptedCurrency"]) == ((("seco", 1),), (("SEK", 1),))
    assert hits.facet_totals == {"skillId": 2, "tag": 1, "acceptedCurrency": 1}
    joint = ask(engine, facets="skillId", facet_prefix="security", currencies="USD")
    assert joint.facets == {"skillId": (("security-scan", 1),)}


def test_joint_facets_have_at_most_fifty_values_and_a_total_only_where_all_were_counted(engine: SearchIndex) -> None:
    offers = [price("1", "USD", skills=[f"s{number}" for number in range(60)])]
    put(engine, listing("1", skills=[f"s{number}" for number in range(60)], offers=offers))
    hits = ask(engine, facets="skillId", facet_limit=1_000, currencies="USD")
    assert (len((hits.facets or {})["skillId"]), hits.facet_totals) == (50, {})


@pytest.mark.parametrize("name", ["tags", "skills"])
def test_a_list_is_its_values_unless_a_listing_has_the_whole_text_as_one(engine: SearchIndex, name: str) -> None:
    def has(id_: str, *values: str) -> object:
        return listing(id_, tags=values) if name == "tags" else listing(id_, skills=[Skill(value) for value in values])

    documents = [has("1", "sales"), has("2", "Marketing"), has("3", "Sales, Marketing"), has("4", "other")]
    put(engine, *documents)  # type: ignore[arg-type]
    assert found_ids(engine, **{name: "sales, marketing"}) == {"3"}
    assert found_ids(engine, **{name: "sales,marketing"}) == {"1", "2"}
    assert found_ids(engine, **{name: ("sales, marketing", "other,, sales")}) == {"1", "3", "4"}
    assert found_ids(engine, **{name: ","}) == set()
    hits = ask(engine, facets="tag" if name == "tags" else "skillId")
    for value, count in next(iter((hits.facets or {}).values())):
        assert ask(engine, **{name: value.casefold()}).total == count


def test_a_skill_is_completed_by_its_name_and_by_its_id_and_shown_with_the_most_frequent_id(
    engine: SearchIndex,
) -> None:
    put(
        engine,
        listing("1", skills=[Skill("dex_chart", "Price curves")]),
        listing("2", skills=[Skill("dex_chart", "Price curves")]),
        listing("3", skills=[Skill("zz", "price Curves")]),
    )
    for typed in ("price cur", "dex_ch"):
        skills = [one for one in engine.suggest(typed, 9) if one.kind == "skill"]
        assert skills == [Suggestion("Price curves", "skill", "dex_chart")]
