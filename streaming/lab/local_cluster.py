"""A real Kafka cluster on this machine: KRaft nodes with tiered storage, spread over racks.

The remote tier is a folder the nodes share. Only 127.0.0.1 is used. A cluster belongs to its home
folder, not to this process: it keeps running when the process ends, and ``LocalCluster.open(home)``
finds it again. Its nodes may be killed, paused and restarted one by one.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from streaming.lab import node_logs, node_start, processes
from streaming.lab.cluster_config import MAX_NODES, ClusterError, ClusterLayout, load
from streaming.lab.node_logs import Marks
from streaming.lab.processes import Processes, State, free_base_port
from streaming.runtime.deadline import Deadline

__all__ = ["ClusterError", "LocalCluster", "NodeStatus", "free_base_port"]

_START_DEADLINE_S: Final = 300.0  # 12 s on two idle cores, over 120 s on busy ones
_STOP_DEADLINE_S: Final = 30.0  # a controlled shutdown takes 3 s
_LEADERLESS_DEADLINE_S: Final = 3.0
_KILL_DEADLINE_S: Final = 10.0
_FREEZE_DEADLINE_S: Final = 5.0
_POLL_S: Final = 0.02
_TIERING_DEADLINE_S: Final = 10.0
_TIERING_POLL_S: Final = 0.2
_TIERING_READY: Final = "Initialized topic-based RLMM resources successfully"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The current state of one node."""

    id: int
    pid: int | None
    port: int
    rack: str
    state: State


class LocalCluster:
    """The nodes of one home folder. As a context manager: started on entry, stopped on exit."""

    def __init__(
        self,
        home: Path,
        nodes: int = 3,
        brokers: int = 0,
        base_port: int = 29_090,
        settings: Mapping[str, str] | None = None,
        heap: str = "256m",
        java_opts: Sequence[str] = (),
        metrics: bool = True,
        release: Path | None = None,
        request_logs: bool = False,
        log_dirs: int = 1,
        racks: int = MAX_NODES,
    ) -> None:
        """Describe a cluster; nothing is started or written yet.

        Args:
            home: everything it writes goes there.
            nodes: how many are broker and controller, with ids from 1.
            brokers: how many more are broker only. Any of those may be lost; of three ``nodes``
                only one can be lost, or the controllers have no majority.
            base_port: brokers listen on base_port + id, controllers on base_port + 10 + id, and
                metrics are served on base_port + 20 + id.
            settings: of every node, over those in ``cluster_config``.
            heap: of each node, as Java writes it.
            java_opts: for Java itself; {node} and {port} (that of metrics) are filled in.
            metrics: each node serves its JMX metrics, by the rules of deploy/jmx/kafka.yml.
            release: the folder of another Kafka's jars.xml and jars.sha256, named after its
                version; that of deploy/jars.xml when omitted.
            request_logs: each node logs its requests from its start on, for a tap to read.
            log_dirs: how many log directories each node has (JBOD).
            racks: nodes are spread over so many, one after the other; each is in its own by
                default.

        Raises:
            ClusterError: such a cluster is not possible.
        """
        self.layout = ClusterLayout(
            Path(home).resolve(), nodes, brokers, base_port, dict(settings or {}), heap,
            tuple(java_opts), metrics, _folder_of(release), request_logs,
            log_dirs, racks,
        )  # fmt: skip
        self._processes = Processes()

    @classmethod
    def open(cls, home: Path) -> LocalCluster:
        """The cluster that was started in a home, perhaps by another process.

        Raises:
            ClusterError: none was.
        """
        layout = load(Path(home).resolve())
        if layout is None:
            raise ClusterError(f"{home} has no cluster; kafka-twin cluster start makes one")
        cluster = cls.__new__(cls)
        cluster.layout = layout
        cluster._processes = Processes()
        return cluster

    @property
    def home(self) -> Path:
        return self.layout.home

    @property
    def bootstrap(self) -> str:
        """The bootstrap addresses: every broker, running or not."""
        return self.layout.bootstrap

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def jars(self) -> list[Path]:
        """The jars of the Kafka release that nodes are started with; fetched if they are missing.

        Raises:
            JarError: Java or a jar is missing and cannot be had.
        """
        return node_start.kafka_jars(self.layout)

    def status(self) -> list[NodeStatus]:
        """Every node, in the order of ids."""
        return [self._status(node) for node in self.layout.ids]

    def use(self, release: Path | None) -> None:
        """Use another Kafka release for all nodes that are started from now on.

        Running nodes keep theirs, so a cluster is upgraded node by node.
        """
        self.layout = replace(self.layout, release=_folder_of(release))

    # Starting

    def start(self, only: Iterable[int] | None = None) -> None:
        """Start the nodes that are stopped and wait until clients can connect to each.

        If one of them does not come up, those started by this call are stopped again.

        Args:
            only: start these ids and leave the others as they are.

        Raises:
            ClusterError: a port is taken, a node died, or the home holds a different cluster.
            JarError: Java or a jar is missing and cannot be had.
        """
        stopped = [node for node in self._named(only) if self._status(node).state == "stopped"]
        before = load(self.home)
        self._check_same(before)
        self._check_ports(stopped)
        self.layout.save()
        try:
            node_start.format_disks(self.layout)
            # Only lines logged by this start can explain its failure.
            marks = {node: node_logs.marks(self.layout.folder(node)) for node in stopped}
            for node in stopped:
                self._launch(node)
            self._await_ready(stopped, marks)
            self._await_tiering(stopped, marks)
        except BaseException:  # also after Ctrl-C: leave no unwanted process
            self._end(stopped, signal.SIGKILL, _KILL_DEADLINE_S)
            # A setting that Kafka refused is not remembered.
            (before or replace(self.layout, settings={})).save()
            raise

    def _check_same(self, saved: ClusterLayout | None) -> None:
        """Refuse a home whose saved cluster has an incompatible layout."""
        mine = self.layout
        if saved is not None and (mine.nodes != saved.nodes or mine.brokers < saved.brokers):
            raise ClusterError(
                f"{self.home} holds a cluster of --nodes {saved.nodes} --brokers {saved.brokers}, "
                f"which cannot become --nodes {mine.nodes} --brokers {mine.brokers}; remove it "
                "(kafka-twin cluster stop --wipe) or choose another home"
            )
        if saved is not None and saved.base_port != mine.base_port:
            running = [n.id for n in self.status() if n.state != "stopped"]
            if running:
                raise ClusterError(
                    f"{self.home}: nodes {_listed(running)} run on base port {saved.base_port}; "
                    f"stop them before they can move to {mine.base_port}"
                )

    def _check_ports(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            for port in self.layout.listens_on(node):
                if not processes.is_free(port):
                    raise ClusterError(
                        f"port {port}, where node {node} would listen, is taken; "
                        "stop what listens there or choose another base port (--port)"
                    )

    def _launch(self, node: int) -> None:
        folder = self.layout.folder(node)
        command = node_start.command(self.layout, node)
        pid = self._processes.spawn(command, folder, folder / "stdout.log")
        (folder / "pid").write_text(f"{pid}\n")

    def _await_ready(self, nodes: Sequence[int], marks: Mapping[int, Marks]) -> None:
        """Wait for each broker port, which a node opens once the controller has registered it."""
        deadline = Deadline.after_s(_START_DEADLINE_S)
        waiting = list(nodes)
        while waiting:
            for node in waiting:
                if self._status(node).state == "stopped":
                    raise ClusterError(
                        f"node {node} died while it started: "
                        f"{node_logs.reason(node_logs.since(marks[node]))} "
                        f"(more in {self.layout.folder(node) / 'server.log'})"
                    )
            waiting = [n for n in waiting if not processes.is_listening(self.layout.port(n))]
            if waiting and deadline.is_over:
                raise ClusterError(
                    f"nodes {_listed(waiting)} are not ready after {_START_DEADLINE_S:.0f} s; see "
                    f"{self.layout.folder(waiting[0]) / 'server.log'}"
                )
            time.sleep(_POLL_S)

    def _await_tiering(self, nodes: Sequence[int], marks: Mapping[int, Marks]) -> None:
        """Wait until tiered storage of the nodes is initialized; continue without after a deadline.

        A node that is stopped in the half second of that initialization waits two minutes for its
        own admin client.
        """
        if self.layout.settings.get("remote.log.storage.system.enable") == "false":
            return
        deadline = Deadline.after_s(_TIERING_DEADLINE_S)
        waiting = list(nodes)
        while waiting and not deadline.is_over:
            waiting = [n for n in waiting if _TIERING_READY not in node_logs.since(marks[n])]
            if waiting:
                time.sleep(_TIERING_POLL_S)

    # Ending and freezing

    def stop(self, only: Iterable[int] | None = None) -> None:
        """Stop nodes in good order; kill those that do not stop in time.

        Raises:
            ClusterError: a process is still running after that.
        """
        nodes = self._named(only)
        voters = sum(self._status(node).state != "stopped" for node in self.layout.voters)
        # A controlled shutdown needs the controller, and there is none without a majority.
        is_led = 2 * voters > self.layout.nodes
        self._end(nodes, signal.SIGTERM, _STOP_DEADLINE_S if is_led else _LEADERLESS_DEADLINE_S)
        left = self._end(nodes, signal.SIGKILL, _KILL_DEADLINE_S)
        if left:
            raise ClusterError(f"nodes {_listed(left)} did not stop; see kafka-twin cluster status")

    def term(self, node: int) -> None:
        """Ask one node to shut down: its leaders move first. Returns when it has ended.

        Raises:
            ClusterError: it does not run, or has not ended in time.
        """
        self._running(node)
        if self._end([node], signal.SIGTERM, _STOP_DEADLINE_S):
            raise ClusterError(
                f"node {node} has not ended after {_STOP_DEADLINE_S:.0f} s; "
                f"kafka-twin cluster kill {node} ends it at once"
            )

    def kill(self, node: int) -> None:
        """Kill one node, as a crash would.

        Raises:
            ClusterError: it does not run.
        """
        self._running(node)
        self._end([node], signal.SIGKILL, _KILL_DEADLINE_S)

    def pause(self, node: int) -> None:
        """Freeze one node: it accepts connections and answers nothing.

        Raises:
            ClusterError: it does not run.
        """
        self._freeze(node, signal.SIGSTOP, "paused")

    def resume(self, node: int) -> None:
        """Resume a paused node.

        Raises:
            ClusterError: it does not run.
        """
        self._freeze(node, signal.SIGCONT, "running")

    def _freeze(self, node: int, number: signal.Signals, becomes: State) -> None:
        processes.send(self._running(node), number)
        deadline = Deadline.after_s(_FREEZE_DEADLINE_S)
        while self._status(node).state != becomes:  # every thread has to receive the signal
            if deadline.is_over:
                raise ClusterError(f"node {node} is not {becomes} {_FREEZE_DEADLINE_S:.0f} s later")
            time.sleep(_POLL_S)

    def wipe(self) -> None:
        """Kill every node and remove the home with all it holds.

        Raises:
            ClusterError: the home is not one of a cluster, or a process is left.
        """
        if load(self.home) is None:
            if self.home.exists():
                raise ClusterError(f"{self.home} has no cluster.json, so it is not removed")
            return
        if left := self._end(self.layout.ids, signal.SIGKILL, _KILL_DEADLINE_S):
            raise ClusterError(f"nodes {_listed(left)} did not stop")
        shutil.rmtree(self.home)

    def _end(self, nodes: Iterable[int], number: signal.Signals, deadline_s: float) -> list[int]:
        """Signal the running nodes and wait until they end; returns those that did not."""
        left = {node: pid for node in nodes if (pid := self._status(node).pid) is not None}
        for pid in left.values():
            processes.send(pid, number)
            # A frozen process receives the signal when it is resumed.
            processes.send(pid, signal.SIGCONT)
        deadline = Deadline.after_s(deadline_s)
        while left and not deadline.is_over:
            left = {node: pid for node, pid in left.items() if self._status(node).pid == pid}
            if left:
                time.sleep(_POLL_S)
        return list(left)

    # Looking

    def _named(self, only: Iterable[int] | None) -> list[int]:
        named = list(self.layout.ids if only is None else only)
        for node in named:
            if node not in self.layout.ids:
                raise ClusterError(f"there is no node {node}; ids are 1 to {len(self.layout.ids)}")
        return named

    def _status(self, node: int) -> NodeStatus:
        folder = self.layout.folder(node)
        pid: int | None = None
        state: State = "stopped"
        with suppress(FileNotFoundError, ValueError):
            pid = int((folder / "pid").read_text())
            state = self._processes.state(pid, (str(folder / "server.properties"), node_start.MAIN))
        if state == "stopped":
            pid = None
        return NodeStatus(node, pid, self.layout.port(node), self.layout.rack(node), state)

    def _running(self, node: int) -> int:
        self._named([node])
        pid = self._status(node).pid
        if pid is None:
            raise ClusterError(f"node {node} is not running")
        return pid


def _folder_of(release: Path | None) -> str:
    return "" if release is None else str(release.resolve())


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(str(node) for node in nodes)
