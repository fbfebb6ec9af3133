"""The contract of every search engine about its state: a change is written whole or not at all, over restarts, kills
and other processes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from overlay.engines import BusyError, IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.query import Suggestion
from parsers.cards import Skill
from tests.contracts.listed import EPOCH, ask, count, ids, listing, matching_ids, price, put

ROOT = Path(__file__).parents[2]


def test_a_new_index_knows_nothing_and_says_so(engine: SearchIndex) -> None:
    assert engine.position() is None
    assert count(engine) == 0
    assert engine.get("1") is None
    assert engine.suggest("a", 5) == []
    assert ids(ask(engine)) == ids(ask(engine, "anything at all", sort="price", facets="tag")) == []


def test_replacing_forgets_all_documents_of_a_registration_and_no_others(engine: SearchIndex) -> None:
    tools = [listing(f"tool#{key}", "alpha", kind="tool") for key in "abc"]
    put(engine, *tools, listing("other", "alpha"), listing("tool2", "alpha"))
    assert (count(engine), engine.position()) == (5, IndexPosition(EPOCH, 1))
    assert matching_ids(engine, "alpha") == {"tool#a", "tool#b", "tool#c", "other", "tool2"}
    put(engine, tools[1], seq=2)
    assert matching_ids(engine, "alpha") == {"tool#b", "other", "tool2"}
    assert engine.get("tool#a") is None
    assert engine.get("tool#b") == tools[1].item
    assert (count(engine), engine.position()) == (3, IndexPosition(EPOCH, 2))
    engine.replace(["tool", "nobody", "tool"], [], IndexPosition("another", 0))
    assert matching_ids(engine, "alpha") == {"other", "tool2"}
    assert (count(engine), engine.position()) == (2, IndexPosition("another", 0))


def test_a_replaced_document_is_found_by_its_new_words_only(engine: SearchIndex) -> None:
    put(engine, listing("1", "alpha", tags=("one",)), listing("2", "alpha"))
    put(engine, listing("1", "omega", tags=("two",)), seq=2)
    assert matching_ids(engine, "alpha") == {"2"}
    assert matching_ids(engine, "omega") == {"1"}
    assert matching_ids(engine, tags="one") == set()
    assert ask(engine, facets="tag").facets == {"tag": (("two", 1),)}
    assert ids(ask(engine, sort="name")) == ["2", "1"]


def test_the_index_position_moves_without_documents(engine: SearchIndex) -> None:
    engine.replace([], [], IndexPosition("e", 7))
    assert (engine.position(), count(engine)) == (IndexPosition("e", 7), 0)
    put(engine, listing("1", "alpha"), seq=8)
    engine.replace([], [], IndexPosition("e", 9))
    assert (engine.position(), matching_ids(engine, "alpha")) == (IndexPosition("e", 9), {"1"})


def test_clearing_forgets_everything(engine: SearchIndex, engine_url: str) -> None:
    put(engine, listing("1", "alpha", skills=("skill",)))
    engine.clear()
    assert engine.position() is None
    assert (count(engine), engine.get("1"), matching_ids(engine), engine.suggest("skill", 3)) == (0, None, set(), [])
    put(engine, listing("2", "omega"))
    assert (matching_ids(engine), matching_ids(engine, "alpha"), matching_ids(engine, "omgea")) == ({"2"}, set(), {"2"})
    engine.clear()
    engine.close()
    again = SearchIndex(engine_url)
    assert again.position() is None
    again.close()


def test_an_index_that_is_opened_again_answers_the_same(engine: SearchIndex, engine_url: str) -> None:
    for seq in range(1, 6):
        put(
            engine,
            *(listing(f"{seq}-{index}", f"payment alpha{index}", offers=[price(str(index))]) for index in range(seq)),
            seq=seq,
        )
    put(engine, listing("5-0", "gone"), seq=6)
    questions = [
        ("", {}),
        ("payment", {}),
        ("paymet alpha3", {}),
        ("alph", {}),
        ("", {"sort": "price", "max_price": "2"}),
    ]
    before = [ask(engine, text, **query) for text, query in questions]
    assert all(hits.hits for hits in before)
    engine.close()
    again = SearchIndex(engine_url)
    assert again.position() == IndexPosition(EPOCH, 6)
    assert count(again) == 15
    assert [ask(again, text, **query) for text, query in questions] == before
    put(again, listing("new", "payment"), seq=7)
    assert matching_ids(again, "paymnet new") == matching_ids(again, "payment")
    again.close()


def test_a_change_that_fails_leaves_everything_as_it_was(engine: SearchIndex) -> None:
    put(engine, listing("1", "alpha"), listing("2", "beta"))

    def broken() -> Iterator[Document]:
        yield listing("1", "omega")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        engine.replace(["1", "2"], broken(), IndexPosition(EPOCH, 2))
    assert engine.position() == IndexPosition(EPOCH, 1)
    assert (matching_ids(engine), matching_ids(engine, "alpha"), matching_ids(engine, "omega")) == (
        {"1", "2"},
        {"1"},
        set(),
    )
    put(engine, listing("3", "gamma"), seq=3)
    assert matching_ids(engine) == {"1", "2", "3"}
    assert matching_ids(engine, "omgea") == set()


def test_a_damaged_index_answers_as_before_or_wants_a_rebuild(
    engine: SearchIndex, engine_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(engine, *(listing(f"1-{index}", "payment") for index in range(9)))
    put(engine, *(listing(f"2-{index}", "payment") for index in range(9)), listing("1-0", "gone"), seq=2)
    whole = matching_ids(engine, "payment")
    engine.close()
    scheme, _, folder = engine_url.partition(":")
    if scheme == "opensearch":
        return  # its files are another program's
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file() and path.stat().st_size]
    assert len(files) > 1
    damages = [(path.relative_to(folder), share) for path in files for share in (None, 0, 0.5, 0.99)]
    for number, (path, share) in enumerate(damages):
        copy = Path(shutil.copytree(folder, f"{folder}-{number}"))
        if share is None:
            (copy / path).unlink()
        else:
            os.truncate(copy / path, int(share * (copy / path).stat().st_size))
        opened = SearchIndex(f"{scheme}:{copy}")
        assert opened.position() is None or matching_ids(opened, "payment") == whole
        ask(opened, "payment", facets="type")
        opened.clear()
        put(opened, listing("3", "payment"), seq=3)
        assert (matching_ids(opened, "paymnet"), opened.position()) == ({"3"}, IndexPosition(EPOCH, 3))
        opened.close()


def test_while_one_writes_others_read_the_old_state_and_cannot_write(engine: SearchIndex, engine_url: str) -> None:
    put(engine, listing("1", "alpha"))
    other = SearchIndex(engine_url)

    def watching() -> Iterator[Document]:
        yield listing("2", "alpha")
        for entry in (engine, other):
            assert matching_ids(entry, "alpha") == {"1"}
            assert entry.position() == IndexPosition(EPOCH, 1)
        with pytest.raises(BusyError):
            put(other, listing("3", "alpha"), seq=9)

    engine.replace(["2"], watching(), IndexPosition(EPOCH, 2))
    for item in (engine, other):
        assert matching_ids(item, "alpha") == {"1", "2"}
        assert (item.position(), count(item)) == (IndexPosition(EPOCH, 2), 2)
    other.close()


def test_other_processes_see_every_commit(engine: SearchIndex, engine_url: str) -> None:
    reader = SearchIndex(engine_url)
    assert reader.position() is None
    for seq in range(1, 30):
        put(engine, listing(f"{seq % 7}", f"alpha word{seq}"), seq=seq)
        assert reader.position() == IndexPosition(EPOCH, seq)
        assert matching_ids(reader, f"word{seq}") == {f"{seq % 7}"}
        assert count(reader) == min(seq, 7)
    engine.clear()
    assert (reader.position(), matching_ids(reader)) == (None, set())
    reader.close()


def test_threads_see_whole_states_while_one_replaces_them(engine: SearchIndex) -> None:
    def version(seq: int) -> list[Document]:
        return [listing(str(index), f"alpha word{seq}", said=str(seq), tags=(f"t{seq}",)) for index in range(20)]

    put(engine, *version(0))
    stop = threading.Event()

    def look() -> int:
        looks = 0
        while not stop.is_set():
            hits = ask(engine, "alpha", limit=100, facets="tag")
            assert len(hits.hits) == hits.total == 20
            assert (
                len({bytes(hit.item).partition(b'"said"')[2] for hit in hits.hits})
                == len((hits.facets or {})["tag"])
                == 1
            )
            assert engine.suggest("t", 3) is not None
            assert engine.get("7") is not None
            looks += 1
        return looks

    with ThreadPoolExecutor(3) as pool:
        looking = [pool.submit(look) for _ in range(3)]
        for seq in range(1, 12):
            put(engine, *version(seq), seq=seq)
        stop.set()
        assert all(item.result() for item in looking)
    assert matching_ids(engine, "word11") == {str(index) for index in range(20)}


def test_completions_are_tags_skills_and_names_that_hold_what_is_typed(engine: SearchIndex) -> None:
    skills = (Skill("web_search", "Web search"), Skill("translate"))
    put(
        engine,
        listing("1", "Searching for payments", skills=skills, tags=("payments",)),
        listing("2", "Payment gateway", tags=("payments", "cards")),
        listing("3", "Burned payments", status="burned", tags=("paid",)),
    )
    assert engine.suggest("pay", 9) == [
        Suggestion("payments", "tag"), Suggestion("Payment gateway", "listing", "2"),
        Suggestion("Searching for payments", "listing", "1"), Suggestion("payment", "word"),
    ]  # fmt: skip
    web_search = Suggestion("Web search", "skill", "web_search")
    assert engine.suggest("web sea", 9)[:1] == engine.suggest("sea", 9)[1:2] == [web_search]
    assert engine.suggest("sea", 9)[0] == Suggestion("Searching for payments", "listing", "1"), "it begins so"
    assert engine.suggest("TRANS", 9) == [Suggestion("translate", "skill", "translate")]
    assert engine.suggest("pay", 1) == [Suggestion("payments", "tag")]
    assert engine.suggest("pay", 0) == engine.suggest("", 9) == engine.suggest("xyz", 9) == engine.suggest("!", 9) == []


def test_a_completion_after_other_words_is_found_together_with_them(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", "Weather forecast", tags=("storms",)),
        listing("2", "Smart contracts", skills=(Skill("audit", "Contract audit"),)),
        *(listing(f"3{index}", "Food finder", tags=("food",)) for index in range(20)),
    )
    assert engine.suggest("weather f", 9) == [Suggestion("Weather forecast", "listing", "1")]
    assert {item.id for item in engine.suggest("smart c", 9)} == {"2"}
    assert engine.suggest("weather c", 9) == []


def test_completions_that_begin_as_typed_come_before_those_that_hold_it_later(engine: SearchIndex) -> None:
    flood = tuple(Skill(f"x{number}", f"From {number} to here") for number in range(30))
    put(engine, listing("1", "Phrasebook", skills=flood, tags=("talk to",)), listing("2", "To\u2011Do lists"))
    assert engine.suggest("to", 4)[0] == Suggestion("To\u2011Do lists", "listing", "2")
    assert engine.suggest("to d", 4) == [Suggestion("To\u2011Do lists", "listing", "2"), Suggestion("to do", "word")]


def test_completions_go_with_their_last_listing(engine: SearchIndex) -> None:
    put(engine, listing("1", "One", tags=("payments",)), listing("2", "Two", tags=("payday",)))
    assert engine.suggest("pay", 9) == [Suggestion("payday", "tag"), Suggestion("payments", "tag")]
    put(engine, listing("1", "One"), seq=2)
    assert engine.suggest("pay", 9) == [Suggestion("payday", "tag")]


def test_completions_come_with_a_listing_that_says_no_new_word(engine: SearchIndex) -> None:
    put(engine, listing("1", "One", tags=("payday loan",)))
    assert engine.suggest("pay", 9) == [Suggestion("payday loan", "tag")]
    put(engine, listing("1", "One", tags=("loan payday",)), seq=2)
    assert engine.suggest("pay", 9) == [Suggestion("loan payday", "tag")]


HOSTILE = [
    "payment AND NOT gateway", "+payment -gateway", '"payment gateway"', '"payment', "name:payment", "pay*", "p?yment",
    "payment~2", "payment^9", "(payment", "[* TO *]", "{a TO b}", "/pay.*/", "(.*)+", "(a+)+$", "\\", "\\payment\\",
    "a||b", "!payment", "payment\0gateway", "\x1b[31m payment", "\u202epayment", "payment\ngateway", "\ufeffpayment",
    "'; DROP", "<script>payment</script>", "%00", "payment~", "~1", "words:payment~5", "\0", " ", "\u3000", "_", "-.-",
    "a" * 512, "ａ" * 170, "🙂", "🙂 payment", "́", "اَ", "i̇", "ß", "ﬁ", "Ǆ", "1" * 300, "a.b.c.d.e.f.g.h.i.j",
    "-" * 512, "支" * 170, "x " * 256, "payment " * 64,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_is_a_query_language(engine: SearchIndex, text: str) -> None:
    put(engine, listing("1", "payment gateway"), listing("2", "weather"), listing("3", owner=text))
    hits = matching_ids(engine, text)
    assert hits == {"1", "2", "3"} if not text.strip() else hits <= {"1"}
    assert ("1" in hits) == ("pay" in text and "p?" not in text) or not text.strip()
    assert {item.kind for item in engine.suggest(text, 5)} <= {"listing", "word"}
    put(engine, listing("4", text, tags=(text,), domain=text), seq=2)
    assert matching_ids(engine, tags=text.casefold()) == matching_ids(engine, domains=text) == {"4"}
    assert matching_ids(engine, owners=text) == {"3"}


def test_thirty_two_words_are_looked_for(engine: SearchIndex) -> None:
    words = [f"word{chr(97 + index // 6)}{chr(97 + index % 6)}" for index in range(32)]
    multiple = [listing(f"{index:02}", description=" ".join(words[: index + 1])) for index in range(32)]
    put(engine, *multiple, listing("99", "none of them"))
    hits = ids(ask(engine, " ".join(words), limit=100))
    assert hits[0] == "31"
    assert sorted(hits) == [f"{index:02}" for index in range(32)]


def test_a_listing_that_floods_offers_and_skills_is_filtered_exactly(engine: SearchIndex) -> None:
    skills = tuple(f"skill-{index}" for index in range(256))
    named = [[skill for number, skill in enumerate(skills) if number % 64 != index] for index in range(64)]
    offers = [
        price(
            str(index + 1),
            f"C{index % 8}",
            ("P1D", "P1M", None)[index % 3],
            f"X{index}",
            id=str(index),
            skills=named[index],
        )
        for index in range(64)
    ]
    put(engine, listing("spam", "spam", skills=skills, offers=offers), listing("plain", skills=("skill-1",)))
    assert matching_ids(engine, skills="skill-0", currencies="X0") == set()
    assert matching_ids(engine, skills="skill-0", currencies="X1") == {"spam"}
    assert (
        matching_ids(engine, skills="skill-63", currencies="X63")
        == matching_ids(engine, currencies="X63", intervals="P1M")
        == set()
    )
    assert matching_ids(engine, skills=("skill-63", "skill-62"), currencies="X63", intervals="P1D") == {"spam"}
    assert matching_ids(engine, skills="skill-8", price_currency="C0", max_price="1") == {"spam"}
    assert matching_ids(engine, skills="skill-64", price_currency="C0", max_price="1") == set()
    assert matching_ids(engine, skills="skill-64", price_currency="C0", max_price="9") == {"spam"}
    assert matching_ids(engine, skills="skill-1") == {"spam", "plain"}
    (hit,) = ask(engine, skills="skill-0", price_currency="C0").hits[:1]
    assert hit.cheapest is not None
    assert hit.cheapest.amount == "9"


def test_long_ids_owners_and_currencies_are_distinguished(engine: SearchIndex) -> None:
    long = "https://example.org/" + "a" * 2_000
    put(engine, *(listing(long + end, "alpha", owner=long + end, domain=end * 250) for end in "xy"))
    assert engine.get(long + "x") is not None
    assert engine.get(long) is None
    assert matching_ids(engine, owners=long + "y") == matching_ids(engine, domains="y" * 250) == {long + "y"}
    put(engine, listing(long + "x", "beta"), seq=2)
    assert matching_ids(engine, "alpha") == {long + "y"}


WRITER = """
import sys, time
from overlay.engines import BusyError, IndexPosition
from overlay.projection.search_index import SearchIndex
from tests.contracts.listed import listing, price
engine = SearchIndex(sys.argv[1])
while True:
    try:
        engine.replace([], [], engine.position() or IndexPosition("epoch", 0))
        break
    except BusyError:  # the lease of the one that was killed
        time.sleep(0.05)
start = (engine.position() or IndexPosition("epoch", 0)).seq
for seq in range(start + 1, start + 10_000):
    documents = [listing(str(at), f"alpha version{seq}", said=str(seq), offers=[price(str(seq))]) for at in range(40)]
    engine.replace([each.registration for each in documents], documents, IndexPosition("epoch", seq))
    print(seq, flush=True)
"""


def test_killed_at_any_instant_an_index_holds_one_whole_state(engine_url: str) -> None:
    chance = random.Random(engine_url.partition(":")[0])
    answer = 0
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, engine_url], cwd=ROOT, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        answer = int(writer.stdout.readline())
        time.sleep(chance.uniform(0, 0.5))
        os.kill(writer.pid, signal.SIGKILL)
        answer = max([answer, *map(int, writer.stdout.read().split())])
        writer.stdout.close()
        writer.wait()
        engine = SearchIndex(engine_url)
        position = engine.position()
        assert position is not None
        assert position.seq in {answer, answer + 1}
        assert (
            matching_ids(engine, f"version{position.seq}")
            == matching_ids(engine, "alpha")
            == {str(index) for index in range(40)}
        )
        assert matching_ids(engine, min_price=str(position.seq), max_price=str(position.seq)) == matching_ids(engine)
        assert count(engine) == 40
        engine.close()
    assert answer >= 5
