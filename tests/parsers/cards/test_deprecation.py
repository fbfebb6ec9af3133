"""An owner's notice that a listing is deprecated, as MAP and as a member of a card."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.cards import AgentCard, ToolConfig, examine
from parsers.cards.deprecation import (
    MAX_MESSAGE,
    MEMBER,
    Deprecation,
    from_map,
    map_fields,
    states_status,
)
from parsers.inscriptions import map_protocol
from parsers.reasons import Reason

NEW = "ab" * 32 + "_0"
FILE_TYPE = "https://eips.ethereum.org/EIPS/eip-8004#registration-v1"
AGENT = {"name": "A", "url": "https://a.example/", "skills": [{"id": "a"}]}
TOOL = {"mcpServers": {"one": {"command": "npx"}, "two": {"command": "uvx"}}}
FILE = {"type": FILE_TYPE, "name": "A", "services": [{"name": "A2A", "endpoint": "https://a.example/"}]}
TOOL_FILE = {"type": FILE_TYPE, "name": "A", "services": [{"name": "MCP", "endpoint": "https://a.example/"}]}


def read(card: dict[str, Any], notice: Any) -> tuple[list[Deprecation | None], list[Reason]]:
    """The notices of what a card lists, and the warnings about its notice."""
    checked = examine(json.dumps({**card, MEMBER: notice}).encode(), entry="eip155:1:0x" + "ab" * 20 + "/1")
    assert isinstance(checked.card, AgentCard | ToolConfig)
    shown = checked.card.servers if isinstance(checked.card, ToolConfig) else (checked.card,)
    about = [warning for warning in checked.warnings if warning.pointer.startswith(f"/{MEMBER}")]
    return [listed.deprecated for listed in shown], about


@pytest.mark.parametrize("card", [AGENT, TOOL, FILE, TOOL_FILE])
def test_a_card_may_name_a_successor_and_a_message(card: dict[str, Any]) -> None:
    notices, about = read(card, {"successor": NEW, "message": " Use the new one. "})
    assert set(notices) == {Deprecation(NEW, "Use the new one.")}
    assert about == []
    assert set(read(card, {})[0]) == {Deprecation()}
    assert set(read(card, None)[0]) == {None}


@pytest.mark.parametrize("notice", [True, "yes", [], 1])
def test_a_notice_of_a_card_is_an_object(notice: object) -> None:
    notices, [warning] = read(AGENT, notice)
    assert (notices, warning.code) == ([None], "wrong-type")


def test_what_is_too_long_or_no_id_is_warned_of() -> None:
    notices, about = read(AGENT, {"successor": "the new one", "message": "m" * 501})
    assert notices == [Deprecation("", "m" * 500)]
    assert [warning.code for warning in about] == ["ignored", "not-indexed"]


def test_a_later_map_takes_a_notice_back() -> None:
    notice = map_fields(Deprecation(NEW, "Use the new one."))
    assert from_map(notice) == Deprecation(NEW, "Use the new one.")
    assert from_map(notice | map_fields(None)) is None
    assert states_status(map_fields(None))
    assert from_map(notice | map_fields(None) | map_fields(Deprecation())) == Deprecation()


@pytest.mark.parametrize("status", ["", "Deprecated", "deleted", "DEPRECATED "])
def test_another_status_states_nothing(status: str) -> None:
    assert from_map({"a2b-status": status}) is None
    assert not states_status({"a2b-status": status})


@pytest.mark.parametrize("notice", [Deprecation("a b"), Deprecation(" a"), Deprecation("", "m" * 501)])
def test_what_would_be_read_otherwise_is_not_written(notice: Deprecation) -> None:
    with pytest.raises(ValueError, match=r"the message has 501|the successor is"):
        map_fields(notice)


@given(st.text(max_size=1_100), st.text(max_size=600))
def test_every_map_gives_a_bounded_notice_that_is_written_as_it_is_read(successor: str, message: str) -> None:
    notice = from_map({"a2b-status": "deprecated", "a2b-successor": successor, "a2b-message": message})
    assert notice is not None
    assert len(notice.message) <= MAX_MESSAGE
    assert not any(map(str.isspace, notice.successor))
    stable = Deprecation(notice.successor, notice.message.strip())
    assert from_map(map_fields(stable)) == stable


def test_empty_texts_replace_earlier_ones_on_chain() -> None:
    fields = map_fields(Deprecation())
    written = map_protocol.read(map_protocol.build(fields))
    assert written is not None
    assert written.fields == fields
