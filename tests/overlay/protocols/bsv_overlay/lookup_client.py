"""Looks outputs up with the LookupResolver of bsv-sdk: python lookup_client.py URL SERVICE QUERY. In a process of its
own, as the package puts its folder first on the path of imports, where its `base58` shadows the real one."""

from __future__ import annotations

import asyncio
import json
import sys

from bsv.overlay_tools import lookup_resolver
from bsv.transaction import Transaction


async def main(url: str, service: str, query: str) -> None:
    """Print the id in the context of each output, by outpoint."""
    facilitator = lookup_resolver.HTTPSOverlayLookupFacilitator(allow_http=True)
    config = lookup_resolver.LookupResolverConfig(
        network_preset="local", host_overrides={service: [url]}, facilitator=facilitator
    )
    question = lookup_resolver.LookupQuestion(service=service, query=json.loads(query))
    answer = await lookup_resolver.LookupResolver(config).query(question)
    ids = {}
    for output in answer.outputs:
        txid = Transaction.from_beef(output.beef).txid()
        ids[f"{txid}_{output.output_index}"] = json.loads(output.context)["id"]
    print(json.dumps(ids))


asyncio.run(main(*sys.argv[1:]))
