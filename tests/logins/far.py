"""A network in which answers take long: what is sent to one address arrives late at another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

_MOST_BYTES = 1 << 16


@contextmanager
def far_away(port: int, to: str, round_trip_s: float) -> Iterator[None]:
    """Pass on what is sent to a port of this machine, and what comes back, each half of a round
    trip later. As many bytes as one likes are under way at a time.

    Args:
        port: where clients connect.
        to: address ``host:port`` of the broker.
        round_trip_s: from a request to the first byte of its answer.
    """
    host, _, number = to.rpartition(":")
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def take(near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        await asyncio.sleep(round_trip_s)  # of a TCP handshake
        try:
            far_in, far_out = await asyncio.open_connection(host, int(number))
        except OSError:
            near_out.close()
            return
        with suppress(asyncio.CancelledError):  # asyncio would log that the network is gone
            await asyncio.gather(
                _pass_on(near_in, far_out, round_trip_s / 2),
                _pass_on(far_in, near_out, round_trip_s / 2),
            )

    async def serve() -> None:
        over = asyncio.Event()
        server = await asyncio.start_server(take, "127.0.0.1", port)
        started.set_result((asyncio.get_running_loop(), over))
        await over.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))  # which ends what still waits
    thread.start()
    loop, over = started.result(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


async def _pass_on(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, later_s: float
) -> None:
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def take() -> None:
        data = b"not the end"
        while data:
            with suppress(OSError):
                data = await source.read(_MOST_BYTES)
            await under_way.put((loop.time() + later_s, data))

    async def give() -> None:
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                break
            with suppress(OSError):
                target.write(data)
                await target.drain()

    try:
        await asyncio.gather(take(), give())
    finally:
        target.close()
