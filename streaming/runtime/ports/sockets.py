"""Listening sockets of all ports that a program serves."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address
from typing import Final

_BACKLOG: Final = 128
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""What a kernel answers that has no IPv6."""


def listening_at(host: str, port: int) -> socket.socket:
    """A socket that listens at an address of this machine; port 0: at any that is free.

    ``::`` is every address of both families, whatever ``net.ipv6.bindv6only`` says. It is the same
    on a machine with IPv4 alone, so one setting serves pods of each kind of cluster.

    Raises:
        OSError: the address or the port is not available.
    """
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    if family != socket.AF_INET6 or not is_every_address(host):
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    try:
        return socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=True
        )
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
        return socket.create_server(("0.0.0.0", port), backlog=_BACKLOG)


def is_every_address(host: str) -> bool:
    """Whether that is ``0.0.0.0`` or ``::``, in any spelling."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def url_of(listening: socket.socket, scheme: str) -> str:
    """The URL of a socket that listens."""
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"


def why_not(error: OSError) -> str:
    """The reason of the system alone: Python adds the address, which the message has already."""
    return str(error.strerror or error).partition(" (while")[0]
