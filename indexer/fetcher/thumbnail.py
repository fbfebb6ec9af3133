"""A separate program that makes a thumbnail of an untrusted picture: bytes on standard input, WebP on standard output.

Picture decoders are a common target of attacks. They run here, in a process with a few seconds, little memory, no
environment, no network and no files (by seccomp, see `sandbox`; without it, none that it may write). The output is
encoded again from pixels: no metadata, no second format after the first, no script.
`indexer.fetcher.logo_fetcher` runs it as `python -I thumbnail.py BYTES`, with the bytes that the result may have; every
exit code but 0 means no picture.
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
"""Pixels of the longer side: twice the size on a result card."""

_SIDES, _QUALITIES = (SIDE, 64, 44, 24), (80, 60, 45, 30, 20)
"""Sizes and WebP qualities, tried in this order. A colourful photograph fits at 88 pixels with a quality of 20 to 45,
which looks the same on a page; colour noise at 64 pixels, and at 24 with noise in its opacity, too."""

MOST_BYTES = 2_000_000
MOST_SIDE = 4_096
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
CPU_SECONDS, MEMORY = 10, 1 << 30


def thumbnail(body: bytes, most: int) -> bytes:
    """The first frame as WebP of at most `most` bytes within SIDE by SIDE pixels, with less quality or fewer pixels
    where needed. Raises OSError or ValueError for bytes that are not a picture of these formats, or cannot be made
    small enough."""
    from PIL import ImageOps
    from PIL.Image import open as read

    with read(BytesIO(body), formats=FORMATS) as opened:
        if max(opened.size) > MOST_SIDE:
            raise ValueError(f"{opened.size} is larger than {MOST_SIDE} pixels")
        picture = ImageOps.exif_transpose(opened).convert("RGBA")
    for side in _SIDES:
        picture.thumbnail((side, side))
        for quality in _QUALITIES:
            encoded = _webp(picture, quality)
            if len(encoded) <= most:
                return encoded
    raise ValueError(f"{len(encoded):,} bytes are left, more than {most:,}")


def _webp(picture: Image, quality: int) -> bytes:
    buffer = BytesIO()
    metadata = {"exif": b"", "icc_profile": b"", "xmp": b""}
    picture.save(buffer, "WEBP", quality=quality, alpha_quality=50 + quality // 2, method=4, **metadata)
    return buffer.getvalue()


def confine() -> bool:
    """Drop every permission that decoding does not need, for good; False where the kernel has no seccomp. Nothing can
    be imported afterwards: a confined process opens no file."""
    sys.path.append(str(Path(__file__).resolve().parents[2]))  # run as a program, this file belongs to no package
    from indexer.fetcher import sandbox

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
        thumbnail(drawn.getvalue(), MOST_BYTES)


def main(most: int) -> None:
    """Write the thumbnail of the picture on standard input, of at most `most` bytes, to standard output."""
    confine()
    sys.stdout.buffer.write(thumbnail(sys.stdin.buffer.read(MOST_BYTES + 1)[:MOST_BYTES], most))


if __name__ == "__main__":
    main(int(sys.argv[1]))
