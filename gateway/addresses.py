"""Where requests come from, and what trusted proxies say of it.

A proxy's word counts only where the connection itself comes from one of `gateway.trusted_proxies`.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from starlette.requests import Request as HttpRequest

from ..schemas.errors import ConfigError

Address: TypeAlias = IPv4Address | IPv6Address
_UNKNOWN: Final = "unknown"
_IPV6_BITS: Final = 64
"""Of an IPv6 address only the network counts: a machine may use any address of it."""


class Proxies:
    """The proxies that are believed.

    Args:
        trusted: addresses and networks.
    Raises:
        ConfigError: one is neither.
    """

    def __init__(self, trusted: Sequence[str]) -> None:
        try:
            self._networks = [ip_network(one) for one in trusted]
        except ValueError as error:
            raise ConfigError(
                f"gateway.trusted_proxies has no address or network: {error}.", key="gateway.trusted_proxies",
                hint="Write addresses such as 10.0.0.7, or networks such as 10.0.0.0/24.",
            ) from error  # fmt: skip

    def __contains__(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)

    def sender(self, request: HttpRequest) -> str:
        """Who sent a request, as failed logins are counted: the nearest address that is no trusted proxy's."""
        address = peer(request)
        hops = [hop.strip() for line in request.headers.getlist("x-forwarded-for") for hop in line.split(",")]
        while address in self and hops:
            said = _address(hops.pop())
            if said is None:
                break
            address = said
        return _counted(address)

    def vouched(self, request: HttpRequest, header: str) -> str | None:
        """The user whom a trusted proxy names; None where none does, or two are named."""
        if not header or peer(request) not in self:
            return None
        names = request.headers.getlist(header)
        return names[0] if len(names) == 1 and names[0] else None


def peer(request: HttpRequest) -> Address | None:
    """The other end of the connection."""
    return None if request.client is None else _address(request.client.host)


def _address(text: str) -> Address | None:
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def _counted(address: Address | None) -> str:
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> _IPV6_BITS << _IPV6_BITS, _IPV6_BITS)))
    return _UNKNOWN if address is None else str(address)
