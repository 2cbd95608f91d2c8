"""The jars of a ``jars.xml``: fetched once, checked by checksum, kept in a cache.

Ivy fetches them, from the jar that PySpark ships, so neither Maven nor a package host's name is
needed here. The project's list is in ``deploy/``, that of another Kafka release wherever a caller
says. ``jars.sha256`` beside it says which files belong to a conf and what each must be; it is what
``sha256sum --check`` reads, inside the cache folder. A proxy is Java's matter
(``JAVA_TOOL_OPTIONS``); a mirror is set in an Ivy settings file, named by $KAFKA_TWIN_IVY_SETTINGS.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError

CONFS: Final = ("spark", "kafka", "jmx", "iam")
_QUICK: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",  # an eighth of a broker's start; checksums prove the jars
)
QUICK_START: Final = ("-XX:+UseSerialGC", *_QUICK)
"""JVM options for a fast start on few processors, at the cost of peak throughput."""

QUICK_SPARK: Final = {"SPARK_SUBMIT_OPTS": " ".join(_QUICK)}
"""Environment variables for a Spark driver that starts fast; its session chooses a collector."""


def temporary_folder() -> str:
    """The option with which a JVM keeps its temporary files where Python does: Java itself does
    not read ``TMPDIR``, and a JVM that is killed leaves the libraries that it unpacked."""
    return f"-Djava.io.tmpdir={tempfile.gettempdir()}"


JAVA_MINIMUM: Final = 17  # class files of Spark 4 and Kafka 4 brokers

_FETCH_DEADLINE_S: Final = 900.0  # 30 s on a good line; Ivy asks for one file after the other
_PATTERN: Final = "[conf]/[artifact]-[revision](-[classifier]).[ext]"
_STAMPS: Final = ".verified.json"


class JarError(UserError):
    """A jar or Java is missing; the message says in one line what to do."""


def ensure(conf: str, cache: Path | None = None, *, declared: Path | None = None) -> list[Path]:
    """The paths of a conf's verified jars; fetches them if one is missing or damaged.

    Args:
        conf: ``spark``, ``kafka``, ``jmx`` or ``iam``.
        cache: where jars are kept; ``default_cache()`` when omitted.
        declared: the folder of jars.xml and jars.sha256; the project's own when omitted.

    Raises:
        JarError: Java or PySpark is missing, the network is, or a file is not what it must be.
    """
    cache = (cache or default_cache()).absolute()
    declared = declared or declared_in()
    expected = _checksums(declared, conf)
    if _unfit(cache / conf, expected):
        with _locked(cache):
            # Another process may have fetched them while this one waited.
            if _unfit(cache / conf, expected):
                _fetch(conf, cache, declared, expected)
    return [cache / conf / name for name in sorted(expected)]


def present(conf: str, cache: Path | None = None) -> bool:
    """Every jar of the conf is in the cache and has the right checksum.

    Raises:
        JarError: the conf is not declared.
    """
    folder = (cache or default_cache()).absolute() / conf
    return not _unfit(folder, _checksums(declared_in(), conf))


def default_cache() -> Path:
    """$KAFKA_TWIN_CACHE, or kafka-twin/jars where this user's caches are."""
    if own := os.environ.get("KAFKA_TWIN_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kafka-twin" / "jars"


def declared_in() -> Path:
    """The folder of jars.xml and jars.sha256: in the package of a wheel, else in the checkout.

    Raises:
        JarError: neither has it.
    """
    here = Path(__file__).resolve()
    for folder in (here.parent / "deploy", here.parents[2] / "deploy"):
        if (folder / "jars.xml").is_file():
            return folder
    raise JarError(f"{here.parents[2] / 'deploy'} has no jars.xml; install kafka-twin again")


# Java


@functools.cache
def java() -> str:
    """The path of a Java that is new enough: that of $JAVA_HOME, else the one on the PATH.

    Raises:
        JarError: there is none.
    """
    rejected = []
    home = os.environ.get("JAVA_HOME")
    for path in (shutil.which("java", path=f"{home}/bin") if home else None, shutil.which("java")):
        if path is not None:
            version = _java_version(path)
            if version >= JAVA_MINIMUM:
                return path
            rejected.append(f"{path} is {f'version {version}' if version else 'not usable'}")
    raise JarError(
        f"Java {JAVA_MINIMUM} or newer is needed ({'; '.join(rejected) or 'there is no java'}): "
        f"install openjdk-{JAVA_MINIMUM}-jre-headless (apt), java-{JAVA_MINIMUM}-openjdk-headless "
        f"(dnf) or openjdk@{JAVA_MINIMUM} (brew), or set JAVA_HOME"
    )


def _java_version(path: str) -> int:
    """The feature release, or 0. Reads the ``release`` file if possible, which starts no JVM."""
    with suppress(OSError):
        note = (Path(path).resolve().parents[1] / "release").read_text()
        if version := re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', note, re.MULTILINE):
            return int(version[1])
    with suppress(OSError, subprocess.TimeoutExpired):
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30)
        if version := re.search(r'version "(?:1\.)?(\d+)', answer.stderr):
            return int(version[1])
    return 0


# What a file must be


def _checksums(declared: Path, conf: str) -> dict[str, str]:
    """File name → SHA-256 of every jar of a conf."""
    path = declared / "jars.sha256"
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise JarError(f"{path}: {error.strerror}; install kafka-twin again") from None
    entries = (line.split(maxsplit=1) for line in lines if line)
    expected = {
        name.removeprefix(f"{conf}/"): checksum
        for checksum, name in entries
        if name.startswith(f"{conf}/")
    }
    if not expected:
        raise JarError(f"{path} has no jars of conf {conf}; there are {', '.join(CONFS)}")
    return expected


def _unfit(folder: Path, expected: Mapping[str, str]) -> list[str]:
    """Why each jar cannot be used, one line a file; empty if all can.

    A checksum is remembered with the size and time of the file, so the next look costs one stat.
    """
    stamps: dict[str, list[int | str]] = {}
    with suppress(OSError, ValueError):
        stamps = json.loads((folder / _STAMPS).read_text())
    fresh, problems = {}, []
    for name, checksum in expected.items():
        try:
            stat = (folder / name).stat()
            stamp: list[int | str] = [stat.st_size, stat.st_mtime_ns, checksum]
            if stamps.get(name) != stamp and _sha256(folder / name) != checksum:
                problems.append(f"{name} is not the file that jars.sha256 names (checksum differs)")
                continue
        except FileNotFoundError:
            problems.append(f"{name} is missing")
            continue
        except OSError as error:
            raise JarError(f"{folder / name}: {error.strerror}") from None
        fresh[name] = stamp
    if fresh != stamps and folder.is_dir():
        with suppress(OSError):  # a cache that may only be read is checked anew each time
            _write(folder / _STAMPS, json.dumps(fresh))
    return problems


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, text: str) -> None:
    """Replace the file atomically."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(text)
    beside.replace(path)


# Fetching


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Lock the cache: one process fetches, others wait for it."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / ".lock").open("w")
    except OSError as error:
        raise JarError(f"{cache}: {error.strerror}; set KAFKA_TWIN_CACHE to a folder") from None
    deadline = Deadline.after_s(_FETCH_DEADLINE_S)
    with lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if deadline.is_over:
                    raise JarError(f"{cache / '.lock'} is held by another process") from None
                time.sleep(0.2)
        yield


def _fetch(conf: str, cache: Path, declared: Path, expected: Mapping[str, str]) -> None:
    """Fetch a conf into a temporary folder, verify it, and move its files into the cache."""
    with tempfile.TemporaryDirectory(prefix=f".{conf}-", dir=cache) as temporary:
        fresh = Path(temporary)
        _ivy(conf, declared, fresh)
        if problems := _unfit(fresh / conf, expected):
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise JarError(
                f"fetched conf {conf}, but {problems[0]}{more}: "
                "do not use it; try again, or see what stands between here and the repository"
            )
        (cache / conf).mkdir(exist_ok=True)
        for name in expected:
            (fresh / conf / name).replace(cache / conf / name)
    _unfit(cache / conf, expected)  # remembers the checksums


def _ivy(conf: str, declared: Path, target: Path) -> None:
    """Run Ivy with a temporary cache of its own, so that it fetches every file anew."""
    command = [java(), "-jar", str(_ivy_jar()), "-ivy", str(declared / "jars.xml")]
    command += ["-cache", str(target / "ivy"), "-confs", conf]
    command += ["-retrieve", f"{target}/{_PATTERN}"]
    if settings := os.environ.get("KAFKA_TWIN_IVY_SETTINGS"):
        command += ["-settings", settings]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_FETCH_DEADLINE_S,
        )
    except subprocess.TimeoutExpired:
        raise JarError(f"conf {conf} was not fetched in {_FETCH_DEADLINE_S:.0f} s") from None
    if done.returncode:
        raise JarError(f"cannot fetch the jars of conf {conf}: {_ivy_reason(done.stdout)}")


def _ivy_jar() -> Path:
    # PySpark is only looked for: importing it takes half a second and is not needed.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError("PySpark is not installed, and Ivy comes with it: pip install pyspark")
    jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-2*.jar"))
    if not jars:
        raise JarError(f"{Path(spec.origin).parent / 'jars'} has no Ivy: install pyspark again")
    return jars[-1]


def _ivy_reason(output: str) -> str:
    """The line of Ivy's report that gives the cause."""
    patterns = {
        r"(Host \S+) not found": "{} is not known: is there a network?",
        r"Server access error at url \S+ \((.*)\)": "{}: is there a network?",
        r":: (\S+: not found)": "{} in the repository",
        r"\[FAILED\s*\]\s*(\S+)": "{} could not be downloaded",
    }
    for pattern, text in patterns.items():
        if match := re.search(pattern, output):
            return text.format(match[1])
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "Ivy printed nothing"


def pin(declared: Path) -> None:
    """Fetch what jars.xml lists and write jars.sha256; run this after a version has changed."""
    listed = ElementTree.parse(declared / "jars.xml").iter("conf")
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        for conf in (each.attrib["name"] for each in listed):
            _ivy(conf, declared, Path(temporary))
            jars = sorted((Path(temporary) / conf).glob("*.jar"), key=lambda jar: jar.name)
            lines += [f"{_sha256(jar)}  {conf}/{jar.name}\n" for jar in jars]
    _write(declared / "jars.sha256", "".join(lines))


if __name__ == "__main__":
    pin(Path(sys.argv[1]) if len(sys.argv) > 1 else declared_in())
