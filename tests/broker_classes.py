"""Classes of the tests that a real broker loads: what verifies logins, and policies."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

from streaming.runtime import jars
from tests.oracle.oracle import javac


def on_the_class_path(folder: Path, source: Path) -> Path:
    """A jar with the class of this file, for ``-javaagent:``: an agent's jar is on a broker's class
    path, where the broker looks for the class. It needs a method ``premain`` that does nothing.

    Args:
        folder: for the jar.
        source: a file with one class, compiled with Kafka's jars.
    """
    compiler = javac(jars.java())
    assert compiler, "there is no javac: install a JDK"
    classes, classpath = folder / "classes", os.pathsep.join(map(str, jars.ensure("kafka")))
    done = subprocess.run(
        [compiler, "--release", "17", "-Xlint:all,-classfile,-options", "-Werror", "-d",
         str(classes), "-cp", classpath, str(source)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    jar = folder / f"{source.stem}.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        packed.writestr("META-INF/MANIFEST.MF", f"Premain-Class: {source.stem}\n")
        for each in sorted(classes.iterdir()):
            packed.write(each, each.name)
    return jar
