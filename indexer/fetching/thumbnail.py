"""A program of its own that makes a small picture of what a stranger calls one: bytes in, WebP out, and nothing else.

Decoders of pictures are what strangers attack. So they run here, in a process that has seconds, little memory, no
environment, no network and no files (by seccomp, see `sandbox`; without it, none that it may write). What comes out
are pixels that were drawn anew: no metadata, no second format hidden behind the first, no script. Run by
`indexer.logos` as `python -I thumbnail.py`; anything but exit code 0 means that there is no picture.
"""

from __future__ import annotations

import resource
import sys
import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 88
"""Pixels of the longer side: twice what a result card shows."""

LOGO_BYTES = 1_300
"""What a small picture may have: 20 of them fit with a page of results and all it loads into 100 kB. See
`overlay.pages.measures`."""

_SIDES, _QUALITIES = (SIDE, 64, 44, 24), (80, 60, 45, 30, 20)
"""What is tried in turn. A photograph full of colours comes out at 88 pixels and a quality of 20 to 45, which looks the
same on a page; noise of all colours at 64 pixels, and at 24 with noise in its opacity, too."""

MOST_BYTES = 2_000_000
MOST_SIDE = 4_096
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
CPU_SECONDS, MEMORY = 10, 1 << 30


def thumbnail(body: bytes) -> bytes:
    """The first frame as WebP of at most LOGO_BYTES within SIDE by SIDE pixels, coarser or smaller where it needs to
    be. Raises OSError or ValueError for what is no such picture."""
    from PIL import ImageOps
    from PIL.Image import open as read

    with read(BytesIO(body), formats=FORMATS) as opened:
        if max(opened.size) > MOST_SIDE:
            raise ValueError(f"{opened.size} is larger than {MOST_SIDE} pixels")
        picture = ImageOps.exif_transpose(opened).convert("RGBA")
    for side in _SIDES:
        picture.thumbnail((side, side))
        for quality in _QUALITIES:
            made = _webp(picture, quality)
            if len(made) <= LOGO_BYTES:
                return made
    raise ValueError(f"{len(made):,} bytes are left, more than {LOGO_BYTES:,}")


def _webp(picture: Image, quality: int) -> bytes:
    made = BytesIO()
    metadata = {"exif": b"", "icc_profile": b"", "xmp": b""}
    picture.save(made, "WEBP", quality=quality, alpha_quality=50 + quality // 2, method=4, **metadata)
    return made.getvalue()


def confine() -> bool:
    """Give up everything that drawing does not need, for good; False where the kernel has no seccomp. Nothing can be
    imported afterwards: a confined process opens no file."""
    sys.path.append(str(Path(__file__).resolve().parents[2]))  # run as a program, this file belongs to no package
    from indexer.fetching import sandbox

    _draw_once()
    warnings.simplefilter("ignore")  # to print one, Python would open the source
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return sandbox.install()


def _draw_once() -> None:
    """Import all that Pillow imports on first use: every plugin, and what reading and writing a picture needs."""
    from PIL.Image import init, new

    init()
    for form in FORMATS:
        drawn = BytesIO()
        new("RGB", (2, 2)).save(drawn, form)
        thumbnail(drawn.getvalue())


def main() -> None:
    """Standard input to standard output."""
    confine()
    sys.stdout.buffer.write(thumbnail(sys.stdin.buffer.read(MOST_BYTES + 1)[:MOST_BYTES]))


if __name__ == "__main__":
    main()
