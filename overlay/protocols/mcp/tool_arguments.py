"""The arguments of the tools."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from overlay.api.request_bodies import Body


class ListingArguments(Body):
    """Which listing."""

    id: str = Field(min_length=1, max_length=2_000, description="The `id` of a listing, as `search` answers it.")


class DiagnoseArguments(Body):
    """Which transaction."""

    what: str = Field(
        min_length=1,
        max_length=4 << 20,
        description="A txid (64 hex digits), an outpoint `<txid>_<output number>`, or a raw transaction as hex.",
    )


class QuoteArguments(ListingArguments):
    """Which price of a listing, in which currency, at which stage."""

    configId: str | None = Field(  # noqa: N815 - the member's name in JSON
        default=None, description="The `id` of one of the listing's offers; needed where it has several."
    )
    currency: str | None = Field(default=None, description="A currency that the offer accepts, such as BSV [its own].")
    stage: Literal["deposit", "final", "full"] | None = Field(
        default=None, description="Which part is paid [`deposit` where the offer asks for one, else `full`]."
    )
