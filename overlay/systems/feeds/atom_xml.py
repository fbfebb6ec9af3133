"""Elements of an Atom feed (RFC 4287)."""

from __future__ import annotations

import re
import uuid
from xml.etree import ElementTree

from overlay.api.site_links import SITE
from overlay.text.safe_text import on_one_line, visible

ATOM_TYPE = "application/atom+xml"
MAX_TITLE = 160
"""Characters of a title."""

_NAMESPACE = "http://www.w3.org/2005/Atom"
_A2B = uuid.uuid5(uuid.NAMESPACE_DNS, "a2b.network")
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def xml_text(text: str, longest: int | None = None) -> str:
    """A stranger's text on one line, without what could hide or is not allowed in XML."""
    return _NOT_IN_XML.sub("\ufffd", visible(on_one_line(text, longest)))


def entry_id(name: str) -> str:
    """The id of an entry or feed as a URN (RFC 9562, version 5): the same at every time and on every server."""
    return uuid.uuid5(_A2B, name).urn


def feed_element(name: str, title: str, updated: str) -> ElementTree.Element:
    """A feed without entries; `name` makes its id."""
    root = ElementTree.Element("feed", xmlns=_NAMESPACE)
    add(root, "id", entry_id(name))
    add(root, "title", title)
    add(root, "updated", updated)
    add(add(root, "author"), "name", SITE.get().title)
    return root


def add(parent: ElementTree.Element, name: str, text: str | None = None, **attributes: str) -> ElementTree.Element:
    """A new element in another."""
    element = ElementTree.SubElement(parent, name, attributes)
    element.text = text
    return element


def add_link(parent: ElementTree.Element, relation: str, url: str, media: str) -> None:
    """A link of a feed or entry."""
    add(parent, "link", rel=relation, type=media, href=url)


def encoded(root: ElementTree.Element) -> bytes:
    """The document."""
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document
