"""A `Query` in, `Hits` out: PostgreSQL finds, counts and orders; the cheapest offer is found in the rows shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from psycopg import Connection

from overlay.engines.postgres.coverage import taken
from overlay.engines.postgres.layout import State
from overlay.engines.postgres.orders import ORDERS, Key, behind, sorted_by
from overlay.engines.postgres.question import Part, meeting
from overlay.engines.postgres.ranked import Ranked, latest, nearer, of_few, of_many, page_of
from overlay.engines.postgres.ways import Found, Way
from overlay.query import Hit, Hits, Query
from overlay.search.facts import EXACT, FACET_FIELDS, MOST_VALUES, is_plain
from overlay.search.prices import Showing, price_key
from overlay.search.ranking import BEST
from overlay.search.sorting import LATEST, is_key, is_reversed, order
from overlay.search.widening import MOST_TRIED, Counts, is_joint, merged, prices_it, without_own


def answer(connection: Connection[Any], state: State, query: Query, tried: list[Way]) -> Hits:
    """What the first way finds that finds anything."""
    tried = taken(connection, state, query, tried)
    for number, way in enumerate(tried, 1):
        hits = _answer(connection, state, query, way, tried[:number])
        if hits.total:
            return hits
    return replace(nothing(query), facets=_facets(connection, state, query, None, tried) or None)


def nothing(query: Query) -> Hits:
    """The answer where nothing is found."""
    return Hits((), 0, facets=dict.fromkeys(query.facets, ()) or None)


def current_item(connection: Connection[Any], state: State, id_: str) -> bytes | None:
    """The stored item of the current document of a listing."""
    s = state.schema
    statement = f"""
        SELECT i.item FROM {s}.documents d JOIN {s}.items i USING (number) WHERE d.id = %s AND d.until IS NULL
    """
    found = connection.execute(statement.encode(), [id_.encode()], binary=True).fetchone()
    return found[0] if found else None


def _answer(connection: Connection[Any], state: State, query: Query, way: Way, tried: list[Way]) -> Hits:
    found = way.found(state, query)
    sort = order(query)
    if query.sort == "price":
        total, rows = _by_price(connection, state, query, found)
    elif query.sort == "relevance" and not is_reversed(query):
        total, rows = _by_relevance(connection, state, query, way, found)
    else:
        near = way.closeness if sort == "relevance" else None
        ordered = found if near is None else nearer(connection, state, found, near)
        total, rows = _by_column(connection, state, query, ordered)
    find = Showing(query)
    return Hits(
        tuple(_hit(key, row, find, ranked=sort == "relevance") for key, row in rows),
        min(total, EXACT),
        at_least=total > EXACT,
        facets=(_facets(connection, state, query, found, tried) if total else {}) or None,
    )


def _by_relevance(
    connection: Connection[Any], state: State, query: Query, way: Way, found: Found
) -> tuple[int, list[tuple[Key, Shown]]]:
    """How many are found, and the page of them by their points, or the latest. Of more than are told exactly, the best
    are found without looking through all of them."""
    most = EXACT + 1
    ranked: Callable[[int], Ranked] = partial(of_few, connection, found)
    if order(query) == LATEST:
        ranked = partial(latest, connection, found, has_index=is_plain(query))
    elif way.ladders and (way.known >= most or _count(connection, found, most) >= most):
        ranked = partial(of_many, connection, state, query, way, most)
    total, page = page_of(connection, state, query, way, ranked)
    shown = _shown(connection, state, [number for _, number in page])
    return total, [(key, shown[number]) for key, number in page]


def _count(connection: Connection[Any], found: Found, most: int) -> int:
    """How many are found, of at most so many."""
    statement = f"SELECT count(*) FROM (SELECT FROM ({found.text}) f LIMIT {most}) f"
    (count,) = connection.execute(statement.encode(), found.given, binary=True).fetchone() or (0,)
    return int(count)


Shown = tuple[bytes, bytes, bytes, bytes]
"""Of a document: its id, its item, and what `prices.usual` and `prices.pack` say of its offers."""


def _hit(key: Key, row: Shown, find: Showing, *, ranked: bool) -> Hit:
    id_, item, usual, offers = row
    return Hit(id_.decode(), item, -key[0] / BEST if ranked else 0.0, find(usual.decode(), offers), key)


def _by_column(
    connection: Connection[Any], state: State, query: Query, found: Found
) -> tuple[int, list[tuple[Key, Shown]]]:
    """How many are found, and the page of them."""
    sort, reverse = order(query), is_reversed(query)
    by = ORDERS[sort]
    after = query.after if query.after is not None and is_key(sort, query.after) else None
    columns = ", ".join(name for name, _ in by)
    ordered = sorted_by(by, reverse=reverse)
    items = f"JOIN {state.schema}.items i USING (number)"
    later, skipped = behind(by, after, reverse=reverse), 0 if after else query.offset

    def ask(common: str, source: str, total: str) -> list[Any]:
        statement = f"""
            WITH {common} page AS MATERIALIZED (
                SELECT f.* FROM {source} f {items if sort == "name" else ""}
                WHERE {later.text} ORDER BY {ordered} LIMIT %s OFFSET %s
            )
            SELECT {total}, ARRAY[{columns}]::text[], f.id, i.item, i.usual, i.offers
            FROM (SELECT) AS one LEFT JOIN (page f {items}) ON true ORDER BY {ordered}
        """
        given = [*found.given, *later.given, query.limit, skipped]
        return connection.execute(statement.encode(), given, binary=True).fetchall()

    # what is ordered by an index and too much to be told exactly is not looked through
    has_index = sort in ("updated", LATEST) and is_plain(query)
    most = f"LIMIT {EXACT + 1}" if has_index else ""
    rows = ask(f"found AS MATERIALIZED ({found.text} {most}),", "found", "(SELECT count(*) FROM found)")
    if has_index and rows[0][0] > EXACT:
        rows = ask("", f"({found.text})", f"{EXACT + 1}")
    keyed = [(_key(key), (id_, item, usual, offers)) for _, key, id_, item, usual, offers in rows if id_ is not None]
    return int(rows[0][0]), keyed


def _key(key: list[str]) -> Key:
    """The columns of an order as a key; `bytea` as text is hexadecimal."""
    *numbers, last = key
    return (*(-int(number) for number in numbers), bytes.fromhex(last[2:]).decode())


def _by_price(
    connection: Connection[Any], state: State, query: Query, found: Found
) -> tuple[int, list[tuple[Key, Shown]]]:
    """The same by the cheapest offer that meets the query, which is looked for in all that is found."""
    statement = f"""
        SELECT f.number, f.id, i.usual, i.offers FROM ({found.text}) f JOIN {state.schema}.items i USING (number)
    """
    find = Showing(query)
    keyed = [
        (price_key(find(usual.decode(), offers), id_.decode()), number)
        for number, id_, usual, offers in connection.execute(statement.encode(), found.given, binary=True)
    ]
    reverse = is_reversed(query)
    keyed.sort(reverse=reverse)
    keyed.sort(key=lambda pair: pair[0][0] == 1)  # without a price: last, in either direction
    after = query.after
    if after is not None and is_key("price", after):
        page = [pair for pair in keyed if _is_behind(pair[0], after, reverse=reverse)][: query.limit]
    else:
        page = keyed[query.offset : query.offset + query.limit]
    shown = _shown(connection, state, [number for _, number in page])
    return len(keyed), [(key, shown[number]) for key, number in page]


def _is_behind(key: Key, after: Key, *, reverse: bool) -> bool:
    if key[0] != after[0]:
        return bool(key[0] > after[0])
    return key < after if reverse else key > after


def _shown(connection: Connection[Any], state: State, numbers: list[int]) -> dict[int, Shown]:
    s = state.schema
    statement = f"""
        SELECT number, d.id, i.item, i.usual, i.offers FROM {s}.documents d JOIN {s}.items i USING (number)
        WHERE number = ANY(%s)
    """
    rows = connection.execute(statement.encode(), [numbers], binary=True)
    return {number: (id_, item, usual, offers) for number, id_, item, usual, offers in rows}


def _facets(
    connection: Connection[Any], state: State, query: Query, found: Found | None, tried: list[Way]
) -> dict[str, Counts]:
    """What is counted: of all that was found, or, of a facet that is filtered by, of all that its own filter would
    leave, by the ways that were tried. Those that count the same documents are counted together."""
    together: dict[Query, list[str]] = {}
    for name in query.facets:
        together.setdefault(without_own(query, name), []).append(name)
    counts: dict[str, Counts] = dict.fromkeys(query.facets, ())
    for wide, names in together.items():
        own = [] if found is None else [found]
        ways = own if wide is query else [way.found(state, wide) for way in tried]
        told = [_counted(connection, state, wide, names, each, len(ways)) for each in ways]
        counts |= {name: merged(each[name] for each in told) for name in names}
    return counts


_SAID = {"skillId": "coalesce(o.skills, i.own)", "acceptedCurrency": "o.accepted", "interval": "ARRAY[o.interval]"}


def _counted(
    connection: Connection[Any], state: State, query: Query, names: list[str], found: Found, ways: int
) -> dict[str, list[tuple[str, int]]]:
    """The commonest values; each listing counts once. Of what offers say, where one offer must meet other filters, too,
    only those count that do."""
    joint = [name for name in names if is_joint(query, name)]
    if joint and _count(connection, found, EXACT + 1) > EXACT:
        joint = []
    most = MOST_VALUES if ways == 1 else MOST_TRIED
    columns = {name: f'i."{FACET_FIELDS[name]}"' for name in names if name not in joint}
    counted = _values(connection, state, found, columns, Part("true"), most) if columns else {}
    if joint:
        said = {name: "ARRAY[o.currency]" if prices_it(query, name) else _SAID[name] for name in joint}
        counted |= _values(connection, state, found, said, meeting(query, state.schema), most)
    return counted


def _values(
    connection: Connection[Any], state: State, found: Found, columns: dict[str, str], met: Part, most: int
) -> dict[str, list[tuple[str, int]]]:
    """The commonest values in these columns of documents `d`, items `i` and offers `o`."""
    s = state.schema
    # a document has each value once, but several offers that say it
    offers, listings = "", "count(*)"
    if met.text != "true":
        offers, listings = f"JOIN {s}.offers o USING (number)", "count(DISTINCT d.number)"
    given = ", ".join(f"('{name}', {column})" for name, column in columns.items())
    statement = f"""
        SELECT facet, value, listings FROM (
            SELECT facet, value, {listings} AS listings,
                row_number() OVER (PARTITION BY facet ORDER BY {listings} DESC, value) AS place
            FROM ({found.text}) d JOIN {s}.items i USING (number) {offers},
                LATERAL (VALUES {given}) AS c(facet, given), unnest(given) AS value
            WHERE {met.text} GROUP BY facet, value
        ) AS counted WHERE place <= {most} ORDER BY facet, place
    """
    counted: dict[str, list[tuple[str, int]]] = {name: [] for name in columns}
    for facet, value, listings in connection.execute(statement.encode(), [*found.given, *met.given], binary=True):
        counted[facet].append((value.decode(), listings))
    return counted
