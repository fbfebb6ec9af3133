"""The networks that requests of an address are counted in: a /64 by itself, and all of a /48 together."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import Column, MetaData, String, Table, create_engine, insert, select

from indexer.client_networks import SITE_FACTOR, ClientCounter, client_of, networks_of
from indexer.store.queries import of_network


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("2001:db8:1:2:3:4:5:6", ["2001:db8:1:2::/64", "2001:db8:1::/48"]),
        ("2001:db8:1::6", ["2001:db8:1::/64", "2001:db8:1::/48"]),
        ("192.0.2.7", ["192.0.2.7"]),
        ("::ffff:192.0.2.7", ["192.0.2.7"]),
        ("nonsense", ["unknown"]),
        ("", ["unknown"]),
    ],
)
def test_the_networks_of_an_address(text: str, names: list[str]) -> None:
    networks = networks_of(client_of(text))
    assert [network.name for network in networks] == names
    assert [network.factor for network in networks] == [1, SITE_FACTOR][: len(names)]


@given(st.text())
@example("/64")
@example("::/64")
@example("192.0.2.7::/64")
def test_any_name_of_a_client_is_a_network(name: str) -> None:
    assert networks_of(name)[0].name == name


_groups = st.sampled_from([0, 1, 0x10, 0xFFFF])
_addresses = st.builds(
    lambda groups, rest: IPv6Address(sum(group << 112 - 16 * n for n, group in enumerate(groups)) + rest),
    st.tuples(*[_groups] * 4),
    st.sampled_from([0, 1, 1 << 63]),
)
clients = Table("clients", MetaData(), Column("client", String))


@given(_addresses, st.lists(_addresses, min_size=1))
@example(IPv6Address("2001:db8::1"), [IPv6Address("2001:db8:0:1::1"), IPv6Address("2001:db8:0:10::"), IPv6Address(0)])
def test_the_database_finds_the_clients_of_a_network(asking: IPv6Address, others: list[IPv6Address]) -> None:
    """Against the arithmetic of addresses."""
    client_network, site = networks_of(client_of(str(asking)))
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        clients.create(connection)
        connection.execute(insert(clients), [{"client": client_of(str(other))} for other in others])
        for network in (client_network, site):
            condition = of_network(connection, clients.c.client, network)
            stored = connection.execute(select(clients.c.client).where(condition)).scalars().all()
            expected = [client_of(str(other)) for other in others if other in ip_network(network.name)]
            assert sorted(stored) == sorted(expected)
    engine.dispose()


def test_of_a_site_sixteen_clients_may_have_all_that_one_may() -> None:
    counter = ClientCounter()
    for client in (f"2001:db8:1:{number:x}::/64" for number in range(SITE_FACTOR)):
        assert counter.full_network(client, 2) is None
        counter.add(client)
        counter.add(client)
        full = counter.full_network(client, 2)
        assert full is not None
        assert full.name == client
    full = counter.full_network("2001:db8:1:ffff::/64", 2)
    assert full is not None
    assert full.title == "the network 2001:db8:1::/48"
    assert counter.full_network("2001:db8:2::/64", 2) is None, "another site"
    assert counter.full_network("192.0.2.1", 2) is None
    counter.remove("2001:db8:1:3::/64")
    assert counter.full_network("2001:db8:1:ffff::/64", 2) is None
    assert counter.total == 2 * SITE_FACTOR - 1
