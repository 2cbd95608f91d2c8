"""Keys of the state that spread shards evenly over any number of state partitions.

Spark puts a key into the partition ``hash(key) mod partitions``. With plain names, the fullest of
16 partitions gets 2.3 times the mean of 70 shards, and the slowest task decides when a batch ends.
So each shard's key gets a suffix that makes its hash equal to the shard's number. Then shard i is
in partition i mod partitions for any number of partitions, also after ``kafka-twin query
repartition``, and partitions differ by at most one shard.

Spark's hash is Murmur3 (32 bits, seed 42) of the UTF-8 bytes, four at a time. Every step of it can
be inverted, so the last four bytes follow from the required hash; the bytes before are tried until
the last ones are printable.
"""

from __future__ import annotations

from typing import Final

_SEED: Final = 42
_BITS: Final = 0xFFFFFFFF
_C1, _C2, _M1, _M2, _ADDED = 0xCC9E2D51, 0x1B873593, 0x85EBCA6B, 0xC2B2AE35, 0xE6546B64
_PRINTABLE: Final = frozenset(range(0x21, 0x7F))
_TRIES: Final = 10_000
"""The last bytes are printable in one of 55 tries."""


def state_keys(cluster: str, shards: int) -> dict[str, str]:
    """The key of the state of each shard, by the key of its observations."""
    return {f"{cluster}/{shard}": state_key(f"{cluster}/{shard}", shard) for shard in range(shards)}


def state_key(name: str, wanted_hash: int) -> str:
    """The name with a suffix, such that Spark's hash of it is that number."""
    start = f"{name}#".encode()
    start += b"." * (-len(start) % 4)
    end = _undo_finish(wanted_hash & _BITS, len(start) + 8)
    before = _SEED
    for at in range(0, len(start), 4):
        before = _mixed(before, start[at : at + 4])
    for number in range(_TRIES):
        tried = f"{number:04d}".encode()
        last = _block_between(_mixed(before, tried), end)
        if _PRINTABLE.issuperset(last):
            return (start + tried + last).decode()
    raise AssertionError(f"no suffix of {name} was found in {_TRIES} tries")


def _mixed(state: int, block: bytes) -> int:
    """Murmur3's state after four more bytes."""
    number = int.from_bytes(block, "little") * _C1 & _BITS
    state ^= _rotated(number, 15) * _C2 & _BITS
    return (_rotated(state, 13) * 5 + _ADDED) & _BITS


def _block_between(state: int, after: int) -> bytes:
    """The four bytes that lead from one state to another."""
    mixed = state ^ _rotated((after - _ADDED) * _inverse(5) & _BITS, 32 - 13)
    number = _rotated(mixed * _inverse(_C2) & _BITS, 32 - 15) * _inverse(_C1) & _BITS
    return number.to_bytes(4, "little")


def _undo_finish(result: int, length: int) -> int:
    """The state before Murmur3's last step, which mixes in the length."""
    result ^= result >> 16
    result = result * _inverse(_M2) & _BITS
    result ^= result >> 13 ^ result >> 26
    result = result * _inverse(_M1) & _BITS
    result ^= result >> 16
    return result ^ length


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _BITS


def _inverse(factor: int) -> int:
    return pow(factor, -1, 1 << 32)
