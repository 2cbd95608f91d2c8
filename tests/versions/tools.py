"""The state of a cluster by the release's own command line tools."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streaming.runtime import jars
from tests.cluster.broker_client import Key

_SOURCE: Final = Path(__file__).parent / "java" / "Tools.java"
_END: Final = "\x04"
_DEADLINE_S: Final = 60.0

_TOPICS: Final = "org.apache.kafka.tools.TopicCommand|kafka.admin.TopicCommand"
_OFFSETS: Final = "org.apache.kafka.tools.GetOffsetShell|kafka.tools.GetOffsetShell"
_LOG_DIRS: Final = "org.apache.kafka.tools.LogDirsCommand|kafka.admin.LogDirsCommand"

_GROUPS: Final = (
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand|kafka.admin.ConsumerGroupCommand"
)

_PARTITION: Final = re.compile(r"\tTopic: \S+\tPartition: .*")
_OF_A_GROUP: Final = ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
_OFFSET: Final = re.compile(r"(\S+):(\d+):(\d+)")


@dataclass(frozen=True)
class Described:
    """A partition as TopicCommand describes it."""

    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]
    elr: frozenset[int]


@dataclass(frozen=True)
class GroupOffset:
    """A partition of a group as ConsumerGroupCommand describes it, None where it has no value."""

    committed: int | None
    log_end: int | None
    lag: int | None
    has_member: bool


@dataclass(frozen=True)
class GroupStatus:
    """A group as ConsumerGroupCommand describes it."""

    coordinator: int
    state: str
    members: int


class Tools:
    """Kafka's tools in a JVM of their own; a context manager."""

    def __init__(self, classpath: Sequence[Path], bootstrap: str) -> None:
        self._bootstrap = bootstrap
        path = os.pathsep.join(map(str, classpath))
        self._child = subprocess.Popen(
            [jars.java(), "-Xmx128m", *jars.QUICK_START, "-Dlog4j2.level=OFF",
             "-cp", path, str(_SOURCE)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, encoding="utf8",
        )  # fmt: skip

    def __enter__(self) -> Tools:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()

    def partitions(self) -> dict[Key, Described]:
        """Leader, replicas, ISR and ELR of every partition."""
        text = self._run(_TOPICS, "--describe")
        partitions: dict[Key, Described] = {}
        for line in _PARTITION.findall(text):
            named = (field.partition(": ") for field in line.strip().split("\t"))
            fields = {name: value for name, _, value in named}
            leader = fields["Leader"]
            partitions[fields["Topic"], int(fields["Partition"])] = Described(
                -1 if leader == "none" else int(leader),
                tuple(_numbers(fields["Replicas"])),
                frozenset(_numbers(fields.get("Isr", ""))),
                frozenset(_numbers(fields.get("Elr", ""))),
            )
        return partitions

    def offsets(self, kind: int, partitions: Iterable[Key]) -> dict[Key, int]:
        """The offset of one kind of the leaders of these partitions, where there is one.

        The tool waits for the leader of a partition that has none.
        """
        chosen = ",".join(f"{topic}:{number}" for topic, number in partitions)
        text = self._run(_OFFSETS, "--time", str(kind), "--topic-partitions", chosen)
        lines = (_OFFSET.fullmatch(line) for line in text.splitlines())
        return {(match[1], int(match[2])): int(match[3]) for match in lines if match}

    def sizes(self, brokers: Iterable[int]) -> dict[tuple[str, int, int], int]:
        """The bytes of each replica on these brokers, by topic, partition and broker."""
        listed = ",".join(map(str, brokers))
        text = self._run(_LOG_DIRS, "--describe", "--broker-list", listed)
        [line] = [line for line in text.splitlines() if line.startswith("{")]
        sizes: dict[tuple[str, int, int], int] = {}
        for broker in json.loads(line)["brokers"]:
            for log_dir in broker["logDirs"]:
                for each in log_dir["partitions"]:
                    topic, _, number = each["partition"].rpartition("-")
                    sizes[topic, int(number), int(broker["broker"])] = int(each["size"])
        return sizes

    def group_offsets(self) -> dict[tuple[str, str, int], GroupOffset]:
        """Offset and lag of each group, topic and partition, by kafka-consumer-groups.sh."""
        rows = _tables(self._run(_GROUPS, "--describe", "--all-groups", "--offsets"))
        return {
            (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): GroupOffset(
                *(None if (cell := row[name]) == "-" else int(cell) for name in _OF_A_GROUP),
                has_member=row["CONSUMER-ID"] != "-",
            )
            for row in rows
            if row["TOPIC"] != "-"  # a member without a partition
        }

    def group_states(self) -> dict[str, GroupStatus]:
        """Coordinator, state and members of each group, by kafka-consumer-groups.sh."""
        text = self._run(_GROUPS, "--describe", "--all-groups", "--state")
        # The coordinator is written as "host:port (id)".
        rows = _tables(re.sub(r"\S+ +\((\d+)\)", r"\1", text).replace("COORDINATOR (ID)", "ID"))
        return {
            row["GROUP"]: GroupStatus(int(row["ID"]), row["STATE"], int(row["#MEMBERS"]))
            for row in rows
        }

    def delete_group(self, name: str) -> None:
        """Delete a group without members, by kafka-consumer-groups.sh."""
        self._run(_GROUPS, "--delete", "--group", name)

    def _run(self, tool: str, *arguments: str) -> str:
        """The output of a tool."""
        assert self._child.stdin
        assert self._child.stdout
        words = [tool, "--bootstrap-server", self._bootstrap, *arguments]
        # A tool that does not end is ended with its JVM, which ends the reading.
        watchdog = threading.Timer(_DEADLINE_S, self._child.kill)
        watchdog.start()
        lines: list[str] = []
        try:
            self._child.stdin.write("\t".join(words) + "\n")
            self._child.stdin.flush()
            for line in self._child.stdout:
                if line.startswith(_END):
                    code = int(line.removeprefix(_END))
                    assert code == 0, (words, "".join(lines))
                    return "".join(lines)
                lines.append(line)
        finally:
            watchdog.cancel()
        raise AssertionError(f"{tool} did not end in {_DEADLINE_S:.0f} s: {''.join(lines)}")


def _numbers(text: str) -> list[int]:
    """Broker ids of a list as the tools print it; none of ``N/A``."""
    return [int(each) for each in text.split(",") if each.strip().isdigit()]


def _tables(text: str) -> Iterator[dict[str, str]]:
    """The rows of tables that begin with a line of names."""
    header: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["GROUP"]:
            header = words
        elif header and len(words) == len(header):
            yield dict(zip(header, words, strict=True))
