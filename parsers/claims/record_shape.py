"""The members of signed records: the needed ones, the optional ones, and the form of each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from parsers.claims.canonical_json import SAFE_INTEGER, DocumentError
from parsers.claims.rfc3339 import instant

MemberTest = tuple[Callable[[Any], bool], str]
"""A test of a value, and a noun for the values that pass it."""

_HEX_KEY = re.compile(r"[0-9a-f]{64}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    is_whole = _is_number(value) and (isinstance(value, int) or value.is_integer())
    return is_whole and 0 <= value <= SAFE_INTEGER


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(element, str) for element in value)


ANYTHING: MemberTest = (lambda _value: True, "anything")
TEXT: MemberTest = (lambda value: isinstance(value, str), "a text")
NAME: MemberTest = (lambda value: isinstance(value, str) and value != "", "a text that is not empty")
NUMBER: MemberTest = (_is_number, "a number")
COUNT: MemberTest = (_is_count, "an integer from 0")
BOOLEAN: MemberTest = (lambda value: isinstance(value, bool), "true or false")
TEXTS: MemberTest = (_is_texts, "a list of texts")
OBJECT: MemberTest = (lambda value: isinstance(value, dict), "an object")
OBJECTS: MemberTest = (
    lambda value: isinstance(value, list) and all(isinstance(element, dict) for element in value),
    "a list of objects",
)
TIME: MemberTest = (lambda value: instant(value) is not None, "a time by RFC 3339")
HEX_KEY: MemberTest = (
    lambda value: isinstance(value, str) and _HEX_KEY.fullmatch(value) is not None,
    "a public key of 64 lower-case hex digits",
)


def one_of(*values: str) -> MemberTest:
    """One of these texts."""
    return (lambda value: value in values if isinstance(value, str) else False), f"one of {', '.join(values)}"


def or_null(test: MemberTest) -> MemberTest:
    """A value of this kind, or null."""
    return (lambda value: value is None or test[0](value)), f"{test[1]}, or null"


class RecordShape(NamedTuple):
    """The members of a record; no other may be there unless it is open."""

    noun: str
    required: Mapping[str, MemberTest]
    optional: Mapping[str, MemberTest]
    is_open: bool = False

    def missing(self, value: Any) -> list[str]:
        """The required members that a value does not have."""
        return [name for name in self.required if name not in value] if isinstance(value, dict) else []

    def fault(self, value: Any) -> str | None:
        """The first fault of a value, None where it has none."""
        if not isinstance(value, dict):
            return f"{self.noun} is not a JSON object"
        missing = self.missing(value)
        if missing:
            return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing in {self.noun}"
        tests = {**self.required, **self.optional}
        for name, member in value.items():
            if name not in tests:
                if self.is_open:
                    continue
                return f"{name[:100]!a} is not a member of {self.noun}"
            is_one, noun = tests[name]
            if not is_one(member):
                return f"{name} is not {noun}"
        return None

    def check(self, value: Any, code: str = "malformed") -> None:
        """Raises DocumentError with this code."""
        fault = self.fault(value)
        if fault is not None:
            raise DocumentError(code, fault, self.missing(value))

    def without(self, *names: str) -> RecordShape:
        """The shape of records that do not have these required members."""
        return self._replace(required={name: test for name, test in self.required.items() if name not in names})
