"""Sockets and probes, which are the same at each port of each program."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from streaming.lab.processes import free_base_port
from streaming.runtime.ports import probes
from streaming.runtime.ports.sockets import listening_at, url_of
from streaming.runtime.program_metrics import ProgramMetrics, served
from tests.web import get


def reaches(host: str, port: int) -> bool:
    """Whether somebody listens at the address."""
    try:
        socket.create_connection((host, port), 5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "ipv4", "ipv6"),
    [("::", True, True), ("0:0::0", True, True), ("0.0.0.0", True, False), ("::1", False, True),
     ("127.0.0.1", True, False)],
)  # fmt: skip
def test_a_host_means_these_families(host: str, ipv4: bool, ipv6: bool):
    with listening_at(host, 0) as listening:
        port = listening.getsockname()[1]
        assert (reaches("127.0.0.1", port), reaches("::1", port)) == (ipv4, ipv6)


def test_every_address_is_that_of_ipv4_where_the_kernel_has_no_ipv6(monkeypatch):
    made = socket.create_server

    def create_server(address: Any, **options: Any) -> socket.socket:
        if options.get("family") == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return made(address, **options)

    monkeypatch.setattr(socket, "create_server", create_server)
    with listening_at("::", 0) as listening:
        assert reaches("127.0.0.1", listening.getsockname()[1])
    with pytest.raises(OSError, match="not supported"):
        listening_at("::1", 0)


def test_a_url_has_brackets_around_an_address_of_ipv6():
    with listening_at("::1", 0) as six, listening_at("127.0.0.1", 0) as four:
        assert url_of(six, "https") == f"https://[::1]:{six.getsockname()[1]}/"
        assert url_of(four, "http") == f"http://127.0.0.1:{four.getsockname()[1]}/"


def test_a_program_is_alive_and_ready_while_it_is_not_fresh():
    registry = ProgramMetrics("c", ()).registry
    port, wrong = free_base_port(span=1), [""]
    with served(registry, "::", port, "x", lambda: wrong[0]):
        for host in ("127.0.0.1", "[::1]"):
            url = f"http://{host}:{port}"
            assert get(f"{url}{probes.ALIVE}") == (200, "alive\n")
            assert get(f"{url}{probes.READY}") == (200, "ready; fresh\n")
        wrong[0] = "no batch ends"
        assert get(f"{url}{probes.ALIVE}") == (200, "alive\n")
        assert get(f"{url}{probes.READY}") == (200, "ready; not fresh: no batch ends\n")
        assert get(f"{url}{probes.FRESH}") == (503, "no batch ends\n")


def test_a_program_that_cannot_tell_is_ready_while_it_answers():
    registry = ProgramMetrics("c", ()).registry
    port = free_base_port(span=1)
    with served(registry, "127.0.0.1", port, "x"):
        assert get(f"http://127.0.0.1:{port}{probes.READY}") == (200, "ready\n")
