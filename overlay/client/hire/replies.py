"""Replies of agents: the answer, work that goes on, a final payment that is due, a refusal or a failure. An answer is
data of a stranger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class AnswerPart(NamedTuple):
    """A part of an answer: its media type, its bytes, and the name that the agent gives it, "" for none."""

    media: str
    content: bytes
    name: str = ""


class Answered(NamedTuple):
    """The answer: its parts, the bytes whose hash a receipt has, the receipt, not verified (None without one), and the
    id of the agent's task."""

    parts: Sequence[AnswerPart]
    body: bytes
    receipt: object = None
    agent_task: str = ""


class Working(NamedTuple):
    """The agent has the task, by its id, and works on it. The receipt of a gate, and the bytes whose hash it has, may
    be with this answer, and not with the later one."""

    agent_task: str
    body: bytes = b""
    receipt: object = None


class FinalDue(NamedTuple):
    """The work is done, and the rest is due."""

    detail: str


class Declined(NamedTuple):
    """The agent refuses the payment, and has not worked: its reason code and sentence."""

    reason: str
    detail: str


class WorkFailed(NamedTuple):
    """The agent failed, rejected the task, or asks for what a hire cannot give."""

    detail: str


class Busy(NamedTuple):
    """The agent asks to call again in some seconds."""

    seconds: float
    detail: str


Reply = Answered | Working | FinalDue | Declined | WorkFailed | Busy
