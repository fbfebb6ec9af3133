"""JSON Schemas (2020-12) of every answer, generated from the models; tests validate real answers by both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from overlay.answers import (
    history,
    items,
    observed_tools,
    pages,
    payments,
    publishing,
    registry_status,
    side_by_side,
    usage_snippets,
    verdicts,
)
from overlay.answers.record import Amount
from overlay.answers.schema_parts import REFERENCE, Schema, array_of, ref

MODELS: dict[str, Any] = {
    "Item": items.Item,
    "ConfigServers": items.ServerList,
    "Skill": items.ItemSkill,
    "Offer": items.ItemOffer,
    "Cheapest": items.CheapestOffer,
    "Anchor": items.ItemAnchor,
    "Warning": items.CardWarning,
    "Fault": items.FaultNote,
    "ListingIds": items.ListingIds,
    "Page": pages.SearchPage,
    "Rates": pages.AnswerRates,
    "Suggestions": pages.SuggestionPage,
    "Changes": pages.ChangePage,
    "Change": pages.RegistryChange,
    "History": history.ListingHistory,
    "Revision": history.ListingRevision,
    "Comparison": side_by_side.ListingComparison,
    "Tools": observed_tools.ListedTools,
    "Snippets": usage_snippets.UsageSnippets,
    "Snippet": usage_snippets.UsageSnippet,
    "Proof": history.ListingProof,
    "Hop": history.ProofHop,
    "Current": history.CurrentHop,
    "Witness": history.MinedWitness,
    "Headers": history.HeaderRun,
    "Quote": payments.PriceQuote,
    "ListingPayment": payments.ListingPayment,
    "PaymentCheck": payments.PaymentReview,
    "PaymentRequired": payments.GateRefusal,
    "Diagnosis": publishing.DiagnosisTrace,
    "DiagnosedRecord": publishing.TracedRecord,
    "RegistrationNow": publishing.CurrentRegistration,
    "Check": publishing.CardReview,
    "Findability": publishing.Findability,
    "Preview": publishing.CardPreview,
    "Ingest": publishing.IngestState,
    "Recheck": publishing.RecheckSchedule,
    "WalletFile": publishing.WalletFile,
    "Hidden": publishing.HiddenCards,
    "Problem": publishing.ProblemDetails,
    "Verdict": verdicts.VerdictAnswer,
    "Revoked": verdicts.RevokedBlock,
    "Revocations": verdicts.RevocationPage,
    "AcceptedEvidence": verdicts.SubmittedReceipts,
    "Evidence": verdicts.ReceiptPage,
    "Status": registry_status.RegistryStatus,
    "ChainStatus": registry_status.ChainSummary,
    "SourceStatus": registry_status.SourceSummary,
    "PeerStatus": registry_status.PeerSummary,
    "JobStatus": registry_status.JobSummary,
    "RatesStatus": registry_status.RatesSummary,
    "Feed": registry_status.RatesFeed,
    "Health": registry_status.ProcessHealth,
}
"""The models by their names in the OpenAPI document; a model without a name here has the name of its class."""

_NAMES = {model.__name__: name for name, model in MODELS.items()}


def _of_amount(kind: type) -> Schema:
    if kind is Amount:
        return {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$", "description": "A decimal number."}
    raise NotImplementedError(f"{kind} has no schema")


def tidy(value: Any) -> Any:
    """A generated schema with the names of components, without titles and defaults."""
    if isinstance(value, list):
        return [tidy(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        name = value["$ref"].removeprefix(REFERENCE)
        return value | ref(_NAMES.get(name, name))
    tidied: dict[str, Any] = {}
    for name, part in value.items():
        if name == "properties":
            tidied[name] = {member: tidy(schema) for member, schema in part.items()}
        elif name == "description":
            tidied[name] = " ".join(part.split())
        elif name not in ("title", "default"):
            tidied[name] = part if name == "enum" else tidy(part)
    return tidied


def _generated() -> dict[str, Schema]:
    _, components = msgspec.json.schema_components(
        MODELS.values(), schema_hook=_of_amount, ref_template=REFERENCE + "{name}"
    )
    return {_NAMES.get(name, name): tidy(schema) for name, schema in components.items()}


def members(model: type[msgspec.Struct]) -> tuple[str, ...]:
    """The names of the members of a model in JSON, in their order."""
    return tuple(field.encode_name for field in msgspec.structs.fields(model))


def subset(component: str, names: Iterable[str]) -> dict[str, Schema]:
    """The schemas of some members of a component. Raises KeyError for a name that it does not have."""
    properties = SCHEMAS[component]["properties"]
    return {name: properties[name] for name in names}


def outline(component: str, required: Sequence[str], optional: Iterable[str] = ()) -> Schema:
    """The schema of an answer with some members of a component, in which objects are not described further. Raises
    KeyError for a name that it does not have."""
    chosen = subset(component, (*required, *optional))
    properties = {name: _flat(part) for name, part in chosen.items()}
    return {"type": "object", "properties": properties, "required": list(required)}


def _flat(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"type": "object"}
    if "anyOf" in schema:
        parts = list(map(_flat, schema["anyOf"]))
        first, *others = [part for number, part in enumerate(parts) if part not in parts[:number]]
        return {"anyOf": [first, *others]} if others else first
    flat = {name: part for name, part in schema.items() if name in ("type", "enum")}
    return flat | ({"items": _flat(schema["items"])} if "items" in schema else {})


CARD_MEMBERS = tuple(name for name in members(items.StoredItem) if name not in members(items.ListingHead))
"""The members of an item that come from its card, or from statements of others about it."""

SCHEMAS: dict[str, Schema] = _generated()
"""The schemas by their names."""

SCHEMAS["Preview"]["properties"] = subset("Item", CARD_MEMBERS) | SCHEMAS["Preview"]["properties"]
SCHEMAS["ItemMembers"] = {
    **SCHEMAS["Item"],
    "description": "With `fields`: the id, and the members of an item that were named.",
    "required": ["id"],
}
SCHEMAS["Page"]["properties"]["items"] = array_of({"anyOf": [ref("Item"), ref("ItemMembers")]})
SCHEMAS |= {
    "Listing": {"anyOf": [ref("Item"), ref("ConfigServers")]},
    "ListingOrIds": {"anyOf": [ref("Listing"), ref("ListingIds")]},
    "Card": {"type": "object", "description": "The exact bytes that were published."},
    "ClaimDocument": {"description": "The bytes of the document, as they were hashed."},
    "OpenApi": {"type": "object"},
}
