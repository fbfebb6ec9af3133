"""`docs/relevance.md` names every rule that the ablation measures, and tests that exist."""

from __future__ import annotations

import re
from pkgutil import resolve_name

from tests.bench.relevance.ablation import RULES, without
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "relevance.md").read_text()
NAMED = re.findall(r"^\| ((?:planner|stage one|stage two|diversity)[^|]*) \|", PAGE, re.MULTILINE)


def test_every_rule_is_documented_and_measured() -> None:
    assert [rule.name for rule in RULES] == NAMED


def test_every_rule_can_be_switched_off() -> None:
    for rule in RULES:
        with without(rule):
            assert all(resolve_name(target) is value for target, value in rule.without)
        assert not any(resolve_name(target) is value for target, value in rule.without)


def test_the_files_that_prove_rules_exist() -> None:
    paths = re.findall(r"`((?:tests|overlay)/[\w/]+\.py)`", PAGE)
    assert len(paths) > len(RULES) // 2
    assert [path for path in paths if not (ROOT / path).exists()] == []
