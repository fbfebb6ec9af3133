"""Generate the table of traditional characters of `overlay/search/` from Unihan's variants (Unicode 15.0):

    python -m tests.generate_han_variants Unihan_Variants.txt > overlay/search/han_variants.txt

The file is part of the Unicode Character Database's `Unihan.zip`, and of Debian's package `unicode-data`.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

_ENTRY = re.compile(r"U\+(\w+)\tkSimplifiedVariant\t(.+)")
_WIDTH = 38  # groups in a line
_HEADER = """\
# Simplified Chinese characters, each followed by its traditional ones: kSimplifiedVariant of Unihan_Variants.txt,
# Unicode {version}, first value of the Basic Multilingual Plane that differs. Made by tests/generate_han_variants.py.
# Copyright © 1991-2022 Unicode, Inc. All rights reserved. Distributed under the Terms of Use in
# https://www.unicode.org/copyright.html (the Unicode License)."""


def variants(lines: Iterable[str]) -> dict[str, str]:
    """Traditional characters and the simplified one of each."""
    simplified: dict[str, str] = {}
    for line in lines:
        if match := _ENTRY.match(line):
            letter = chr(int(match[1], 16))
            others = [other for code in match[2].split() if (other := chr(int(code.removeprefix("U+"), 16))) != letter]
            if others and max(letter, others[0]) <= "\uffff":
                simplified[letter] = others[0]
    return {letter: _last(letter, simplified) for letter in simplified}


def _last(letter: str, simplified: dict[str, str]) -> str:
    """The end of a chain of variants; the least character of a circle."""
    seen = [letter]
    while (letter := simplified.get(letter, letter)) not in seen:
        seen.append(letter)
    return min(seen[seen.index(letter) :])


def main(path: Path) -> None:
    """Print the table."""
    text = path.read_text("utf-8")
    version = re.search(r"Unicode version: (\d+\.\d+)", text)
    groups: defaultdict[str, str] = defaultdict(str)
    for traditional, simplified in sorted(variants(text.splitlines()).items()):
        groups[simplified] += traditional if traditional != simplified else ""
    entries = [f"{simplified}{others}" for simplified, others in sorted(groups.items()) if others]
    print(_HEADER.format(version=version[1] if version else "?"))
    for start in range(0, len(entries), _WIDTH):
        print(" ".join(entries[start : start + _WIDTH]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
