"""Texts that say nearly the same have samples in common, and texts that say something else do not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.copies import nearness
from overlay.copies.crowds import ALIKE, kept
from overlay.copies.nearness import SAMPLES, SHARED, telling
from overlay.copies.voices import REST, SAMPLE, spoken
from tests.bench.relevance.lists import entries

SAID = "Payment gateway. Takes a payment by card, coin or bank transfer, and pays out the same day."


def fingerprints(text: str) -> list[int]:
    """The samples of a text."""
    return nearness.fingerprints(telling(text))


def common(one: str, other: str) -> int:
    """How many samples two texts share."""
    return len(set(fingerprints(one)) & set(fingerprints(other)))


@pytest.mark.parametrize(
    "other",
    [
        SAID.upper(),
        SAID.replace("gateway", "gateway 17"),
        SAID + " v2.0.1 x8f3k2 0xabc1",
        " ".join(reversed(SAID.split())),
        SAID.replace("Payment", "Ｐａｙｍｅｎｔ"),
        SAID + " the server of your agent",
    ],
)
def test_numbers_order_case_width_and_little_words_change_nothing(other: str) -> None:
    assert common(SAID, other) == SAMPLES


def test_of_texts_that_differ_in_a_word_made_at_random_nearly_all_are_crowded() -> None:
    chance = Random(1)
    made = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=8)) for _ in range(1_000)]
    rest = "Takes a payment by card, coin or bank transfer, and pays out the same day."
    assert 990 <= len(crowded([(f"Payment {word}", rest) for word in made])) <= 1_000 - ALIKE
    anywhere = [
        (" ".join(words[:2]), " ".join(words[2:])) for words in map(str.split, (_spoilt(each) for each in made))
    ]
    assert len(crowded(anywhere)) > 900


def _spoilt(word: str) -> str:
    said = SAID.split()
    said[sum(map(ord, word)) % len(said)] = word
    return " ".join(said)


def test_texts_about_other_things_have_nothing_in_common() -> None:
    weather = "Weather service. Tells how warm it will be tomorrow wherever you live, hour by hour, with maps of rain."
    assert common(SAID, weather) == 0
    assert common("一款提供全球天气预报的智能体", "一款管理数据库的智能体工具") < SHARED
    assert common("一款提供全球天气预报的智能体", "一款提供全球天气预报的智能体 2") == SAMPLES


@given(st.text(max_size=300))
def test_any_text_has_as_many_numbers_or_none_and_they_fit(text: str) -> None:
    found = fingerprints(text)
    assert len(found) in (0, SAMPLES)
    assert all(0 <= each < 1 << 47 for each in found)
    assert found == fingerprints(text)


def crowded(listed: Sequence[tuple[str, str]]) -> list[int]:
    """Which of these, by number, several before them say nearly the same as: names, and all other text."""
    return [at for at, values in enumerate(beyond(listed)) if _is_crowd(values)]


def _is_crowd(values: list[int]) -> bool:
    kinds = [value & 3 for value in values]
    return kinds.count(SAMPLE) >= SHARED or REST in kinds


def beyond(listed: Sequence[tuple[str, str]]) -> Iterator[list[int]]:
    """What each says that as many said before it as are heard."""
    said: Counter[int] = Counter()
    for name, rest in listed:
        values = spoken(name, rest, "", "")
        yield [value for value in values if said[value] >= kept(value)]
        said.update(values)


def test_of_a_publisher_with_twenty_tools_none_is_crowded() -> None:
    what = [
        ("calendar", "Finds free hours and invites people to meetings"), ("mail", "Reads, sorts and answers letters"),
        ("drive", "Stores files and shares folders"), ("maps", "Plans routes by car, train or on foot"),
        ("photos", "Recognises faces and makes albums"), ("music", "Plays songs and keeps playlists"),
        ("notes", "Takes down what you say and searches it"), ("tasks", "Keeps lists of what is to be done"),
        ("translate", "Translates documents into forty languages"), ("news", "Sums up what papers write today"),
        ("stocks", "Tells prices of shares and charts them"), ("health", "Counts steps and watches your sleep"),
        ("travel", "Books flights, rooms and tables"), ("home", "Switches lamps, locks and heating"),
        ("games", "Finds partners for chess and go"), ("books", "Recommends novels and lends them"),
        ("recipes", "Proposes dishes from what is in the fridge"), ("weather", "Forecasts rain and storms"),
        ("video", "Cuts films and adds subtitles"), ("code", "Reviews changes and explains errors"),
    ]  # fmt: skip
    listed = [(f"Acme {name} MCP server", f"{does} with the Acme API. By Acme Corporation.") for name, does in what]
    assert not any(beyond(listed))


def test_of_servers_in_public_lists_few_are_crowded_and_those_of_one_template(shared: Path) -> None:
    listed = {
        source: [(each.name, f"{each.description}\n{' '.join(each.keywords)}") for each in rows]
        for source, rows in entries(shared / "data").items()
    }
    marked = {source: [" | ".join(rows[at]) for at in crowded(rows)] for source, rows in listed.items()}
    assert marked["toolsdk"] == []
    assert all(len(texts) < 0.05 * len(listed[source]) for source, texts in marked.items())
    templates = (
        "remote MCP server", "Markdownify transforms", "Integrate your applications with real-", "notes system",
        "Enable seamless integration of", "note storage", "GitHub API interactions", "dynamic data integration",
    )  # fmt: skip
    others = [text for texts in marked.values() for text in texts if not any(each in text for each in templates)]
    assert len(others) <= 20, json.dumps(others, indent=1)


def test_long_texts_take_time_in_proportion() -> None:
    assert len(fingerprints(" ".join(f"{at:b}".replace("0", "o").replace("1", "l") for at in range(10_000)))) == SAMPLES
