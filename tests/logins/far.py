"""A network in which answers take long: what is sent to one address arrives late at another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
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
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    host, _, number = to.rpartition(":")

    async def serve() -> None:
        async def take(near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
            await asyncio.sleep(round_trip_s)  # of a TCP handshake
            try:
                far_in, far_out = await asyncio.open_connection(host, int(number))
            except OSError:
                near_out.close()
                return
            await asyncio.gather(
                _pass_on(near_in, far_out, round_trip_s / 2),
                _pass_on(far_in, near_out, round_trip_s / 2),
            )

        server = await asyncio.start_server(take, "127.0.0.1", port)
        ready.set()
        async with server:
            await server.serve_forever()

    task = loop.create_task(serve())

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        for left in asyncio.all_tasks(loop):
            left.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
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
        target.close()

    await asyncio.gather(take(), give())
