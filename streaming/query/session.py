"""The Spark session of the query, and its settings."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from streaming.query.logins import java_iam
from streaming.query.logins.java_iam import Clients
from streaming.query.state.checkpoint import require_shared
from streaming.runtime import jars
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.kafka.kerberos import java_option
from streaming.runtime.local_folder import local_folder

STOP_WITHIN_SECONDS: Final = 60
TASK_TRIES: Final = 12
STATE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""Spark's setting for the number of state partitions."""

_JAVA_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1 -XX:G1HeapRegionSize=8m"
)
"""The JVM mostly copies bytes: compiling with C2 took half of its CPU time, for minutes.

States and messages of 900 kB are humongous objects in G1's regions of 1 MB: marking them took a
quarter of an executor's JVM. Other collectors ignore the region size.
"""

_COLLECTOR: Final = "-XX:+UseParallelGC"
"""For a JVM of our own: the threads of G1 compete with tasks."""

SMALL_UP_TO_SHARDS: Final = 4
"""A JVM of our own with no more shards than that saves memory; a larger one saves time."""

_SMALL_COLLECTOR: Final = (
    "-XX:+UseSerialGC -Xms96m -Xmn64m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=25"
)
"""The heap grows to what lives in it. The parallel collector keeps half a gigabyte for 120 MB."""

FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
_OF_FOLDERS: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""For local folders. Spark's default starts a process, readlink, for each file: 45 a batch.

Elsewhere the default is needed: only it replaces a file of HDFS atomically.
"""

_INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Spark would write Java for each batch anew, and compare it with what it has compiled: a seventh
of the JVM's time. A batch has a row a shard, for which that is not worth it."""

_OPTION_VARIABLES: Final = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""Environment variables from which the driver's JVM takes options."""

_REPORTS_KEPT: Final = 8
"""Of Spark's own reports of batches, for each query. They contain the reports of shards, 5 MB in a
batch of one cluster with 200 brokers and 16 shards: the hundred that Spark keeps filled the heap.
They are read twice a second."""

_TUNABLES: Final = "GLIBC_TUNABLES"
_LARGE_PAGES: Final = "glibc.malloc.hugetlb=1"
"""Of Python workers with large states: the C library asks for pages of 2 MB, where the system has
them on request. A step goes through hundreds of arrays that are made anew."""

_LOGGING = Path(__file__).with_name("log4j2.properties")


class SessionError(UserError):
    """There is no Spark to run in; the message says in one line what to do."""


@contextmanager
def spark_session(config: Config, buses: Collection[Config] = ()) -> Iterator[SparkSession]:
    """A Spark session configured for the query, stopped at the end unless it existed before.

    If there is an active session, as in a notebook, it is used; our settings are removed at the
    end. Else, if ``query.master`` is set, the session runs on this machine, offline once the jars
    are cached. Else it is the session of the spark-submit that runs this program: settings by
    ``--conf`` or by the platform take precedence, and it decides on master, memory, addresses,
    Python, jars, UI, metrics and logs.

    Args:
        config: for what all queries of the session have in common.
        buses: the clusters whose buses Java logs in to; that one if empty.

    Raises:
        CheckpointError: executors would not find the checkpoint.
        SessionError: there is neither a session, nor a master, nor spark-submit.
        JarError: Java or a jar is missing.
        TokenError: clients log in by AWS_MSK_IAM, and no region is known.
    """
    clients = [each.bus_client for each in buses or (config,)]
    spark = SparkSession.getActiveSession()
    if spark is not None:
        with _configured(spark, config):
            _require_shared(spark, config)
            java_iam.set_region(spark, clients)
            yield spark
        return
    start = _on_this_machine if config.query.master else _on_platform
    spark = start(config, clients)
    try:
        _choose_state_partitions(spark, config)
        _require_shared(spark, config)
        java_iam.set_region(spark, clients)
        yield spark
    finally:
        spark.stop()


def _require_shared(spark: SparkSession, config: Config) -> None:
    master = spark.sparkContext.master or ""
    require_shared(config.query.checkpoint, master, config.query.checkpoint_shared)


def _needed(config: Config) -> dict[str, str]:
    """Settings that can be changed in a running session."""
    partitions = config.query.state_partitions
    in_folder = local_folder(config.query.checkpoint) is not None
    options = {STATE_PARTITIONS: str(partitions)} if partitions else {}
    return options | ({FILE_MANAGER: _OF_FOLDERS} if in_folder else {}) | {
        "spark.sql.streaming.stateStore.providerClass":
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "256",
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.numRecentProgressUpdates": str(_REPORTS_KEPT),
        "spark.sql.streaming.stopTimeout": f"{STOP_WITHIN_SECONDS}s",
    }  # fmt: skip


def _needed_at_start(config: Config, clients: Clients) -> dict[str, str]:
    """The same, and settings that Spark reads only at the start of the context."""
    return _needed(config) | {
        **java_iam.of_executors(clients),
        **_of_workers(config),
        **_INTERPRETED,
        "spark.shuffle.compress": "false",  # frames are compressed already
        "spark.scheduler.mode": "FAIR",  # queries of one session take turns
        "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
        # Otherwise a task that starts just after its stage is missing from Spark's status until the
        # next heartbeat, and a slow batch looks like one without a free core.
        "spark.ui.liveUpdate.period": "0",
        "spark.task.maxFailures": str(TASK_TRIES),
    }


def _of_workers(config: Config) -> dict[str, str]:
    is_small = 0 < config.bus.shards <= SMALL_UP_TO_SHARDS
    if is_small or _TUNABLES in os.environ:
        return {}
    return {f"spark.executorEnv.{_TUNABLES}": _LARGE_PAGES}


def _choose_state_partitions(spark: SparkSession, config: Config) -> None:
    """Set one state partition for each core, unless the number is set: more would have to wait.

    Executors of a standalone master may not have registered yet, so requested cores count too.
    """
    if STATE_PARTITIONS in spark.conf.getAll:
        return
    conf = spark.sparkContext.getConf()
    executors = int(conf.get("spark.executor.instances", "0"))
    cores = max(
        spark.sparkContext.defaultParallelism,
        executors * int(conf.get("spark.executor.cores", "1")),
        int(conf.get("spark.cores.max", "0")),
    )
    # The number of shards is open where a command runs before the collector ever did.
    spark.conf.set(STATE_PARTITIONS, str(min(cores, config.bus.shards or cores)))


@contextmanager
def _configured(spark: SparkSession, config: Config) -> Iterator[None]:
    """Add the query's settings to an existing session, unless they are set; remove them at the end.

    Other shuffles of the session would otherwise use the number of state partitions.
    """
    ours = {*_needed(config), STATE_PARTITIONS} - spark.conf.getAll.keys()
    for name, value in _needed(config).items():
        if name in ours:
            spark.conf.set(name, value)
    _choose_state_partitions(spark, config)
    try:
        yield
    finally:
        for name in ours:
            spark.conf.unset(name)


def _on_platform(config: Config, clients: Clients) -> SparkSession:
    """The session of a spark-submit; our settings are defaults, which its settings override."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        raise SessionError(
            "query.master: is empty, and no spark-submit runs this program; set it to local[2], "
            "or start the query with spark-submit (docs/spark.md)"
        )
    # SparkConf has what spark-submit was given once there is a connection to its JVM, and PySpark
    # has no public call that connects without starting a context.
    SparkContext._ensure_initialized()
    given = SparkConf()
    builder = SparkSession.builder
    for name, value in _needed_at_start(config, clients).items():
        if not given.contains(name):
            builder = builder.config(name, value)
    return builder.getOrCreate()


def _on_this_machine(config: Config, clients: Clients) -> SparkSession:
    """A session of our own, in one process."""
    # Workers must be this interpreter: only it has the twin installed.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = _needed_at_start(config, clients) | _of_this_machine(config, clients)
    builder = SparkSession.builder.appName("kafka-twin").master(_persistent(config.query.master))
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _output_to(log_file(config)):
        return builder.getOrCreate()


def log_file(config: Config) -> Path:
    """Spark's own log of a local master: beside the checkpoint, or in the working directory."""
    folder = local_folder(config.query.checkpoint)
    return Path("spark.log").resolve() if folder is None else folder.parent / "spark.log"


def _of_this_machine(config: Config, clients: Clients) -> dict[str, str]:
    """Settings that only take effect when the driver starts."""
    os.environ["JAVA_HOME"] = str(Path(jars.java()).resolve().parents[1])
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # The C library would keep memory for each of 250 threads.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.metricsEnabled": "false",
        # Spark's status keeps what ended for a UI that is not there: a thousand jobs and batches.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.jars": ",".join(map(str, [*jars.ensure("spark"), *java_iam.jars_for(clients)])),
        "spark.driver.memory": config.query.driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Driver and executor are one process, so a missed heartbeat proves nothing. After a pause
        # of minutes, as when a laptop sleeps, Spark would count its own executor as lost, refuse
        # its heartbeats and end the JVM.
        "spark.storage.blockManagerHeartbeatTimeoutMs": "30d",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} "
        f"{_JAVA_OPTIONS} {_collector(os.environ, config.bus.shards)} "
        + java_option(os.environ, *clients),
    }


def _collector(environment: Mapping[str, str], shards: int) -> str:
    """Our garbage collector, unless one is set: Java does not start with two."""
    given = " ".join(environment.get(name, "") for name in _OPTION_VARIABLES)
    if re.search(r"-XX:\+Use\w+GC\b", given):
        return ""
    return _SMALL_COLLECTOR if 0 < shards <= SMALL_UP_TO_SHARDS else _COLLECTOR


def _persistent(master: str) -> str:
    """A local master that retries tasks like a cluster; by default a local task runs only once.

    A task that reads from a lost broker fails until another broker leads.
    """
    return re.sub(r"^local\[([^,\]]+)\]$", rf"local[\1,{TASK_TRIES}]", master)


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Send the output of processes started inside to the file: Spark and its workers print much."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():  # it may say why the JVM of the start before ended
        path.replace(path.with_name(f"{path.name}.1"))
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    with path.open("wb") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        for number, original in zip((1, 2), kept, strict=True):
            os.dup2(original, number)
            os.close(original)
