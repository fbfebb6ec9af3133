"""Stores the parts of an answer as files of one folder: names are a stranger's, and nothing is replaced."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from overlay.client.hire.replies import AnswerPart

MAX_NAME = 100
"""Characters of the name of a file."""

_ENDINGS = {"text/plain": ".txt", "application/json": ".json", "text/html": ".html.txt", "image/png": ".png"}


def store_answer(parts: Sequence[AnswerPart], folder: Path) -> list[Path]:
    """Write each part into the folder, which is made. Returns the files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_write_new(folder, file_name(part, number), part.content) for number, part in enumerate(parts, 1)]


def file_name(part: AnswerPart, number: int) -> str:
    """The name of the file of a part: letters, digits, `.`, `-` and `_` of the base name that the agent gives it."""
    base = re.split(r"[/\\]", part.name)[-1]
    plain = re.sub(r"[^\w.-]+", "_", base, flags=re.ASCII).lstrip(".-_")[-MAX_NAME:].lstrip(".-_")
    media = part.media.partition(";")[0].strip().lower()
    return plain or f"answer-{number}{_ENDINGS.get(media, '.bin')}"


def _write_new(folder: Path, name: str, content: bytes) -> Path:
    """Write a file under a name that no file has. It is written once more after a crash, under the next name."""
    stem, dot, ending = name.rpartition(".")
    for number in range(1, 10_000):
        numbered = name if number == 1 else f"{stem or ending}-{number}{dot if stem else ''}{ending if stem else ''}"
        try:
            file = os.open(folder / numbered, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
        return folder / numbered
    raise FileExistsError(f"{folder} has too many files of the name {name}")
