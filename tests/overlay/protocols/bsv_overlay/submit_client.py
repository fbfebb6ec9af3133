"""Submits with bsv-sdk: python submit_client.py URL BEEF (hex). In a process of its own, as the package puts its folder
first on the path of imports, where its `base58` shadows the real one."""

from __future__ import annotations

import asyncio
import json
import sys

from bsv.overlay_tools.ship_broadcaster import HTTPSOverlayBroadcastFacilitator, TaggedBEEF


async def main(url: str, beef: str) -> None:
    """Print the answer for two topics, which this client names in a comma list."""
    facilitator = HTTPSOverlayBroadcastFacilitator(allow_http=True)
    tagged = TaggedBEEF(beef=bytes.fromhex(beef), topics=["tm_agent_registry", "tm_a2b"])
    print(json.dumps(await facilitator.send(url, tagged)))


asyncio.run(main(*sys.argv[1:]))
