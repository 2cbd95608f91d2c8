"""The bill of materials of a release in CycloneDX: what its images contain of PyPI and of Maven.

Versions are those that the images are built with: of deploy/docker/constraints.txt and of
deploy/jars.xml, whose files have the checksums of deploy/jars.sha256.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

ROOT: Final = Path(__file__).resolve().parents[1]
CONSTRAINTS: Final = ROOT / "deploy" / "docker" / "constraints.txt"
JARS: Final = ROOT / "deploy" / "jars.xml"
CHECKSUMS: Final = ROOT / "deploy" / "jars.sha256"

_CLASSIFIER: Final = "{http://ant.apache.org/ivy/maven}classifier"
_SPACE: Final = uuid.UUID("d5d5b6d4-9a0a-4f0e-8f0c-0f6a3a7f2c11")
"""Of the serial numbers: the same release has the same."""


def text(version: str, at_s: int) -> str:
    """The bill as JSON.

    Args:
        version: of the release.
        at_s: when its sources were committed, as a Unix time.
    """
    bom = Bom(
        serial_number=uuid.uuid5(_SPACE, f"{version} {at_s}"),
        components=[*_packages(), *_jars()],
    )
    bom.metadata.timestamp = datetime.fromtimestamp(at_s, UTC)
    bom.metadata.component = Component(
        name="kafka-twin", version=version, type=ComponentType.APPLICATION,
        bom_ref=f"kafka-twin@{version}", purl=PackageURL("pypi", None, "kafka-twin", version),
    )  # fmt: skip
    bom.register_dependency(bom.metadata.component, bom.components)
    outputter = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    return outputter.output_as_string(indent=2) + "\n"


def _packages() -> Iterator[Component]:
    for line in CONSTRAINTS.read_text("utf-8").splitlines():
        if found := re.fullmatch(r"([\w.-]+)==(\S+)", line):
            yield _component(PackageURL("pypi", None, found[1].lower(), found[2]))


def _jars() -> Iterator[Component]:
    sums = dict(
        reversed(line.split("  ")) for line in CHECKSUMS.read_text("utf-8").splitlines() if line
    )
    for each in ElementTree.parse(JARS).iter("dependency"):
        organisation, name, revision, conf = (
            each.attrib[k] for k in ("org", "name", "rev", "conf")
        )
        for classifier in [a.get(_CLASSIFIER, "") for a in each.iter("artifact")] or [""]:
            file = f"{conf}/{name}-{revision}{f'-{classifier}' if classifier else ''}.jar"
            qualifiers = {"classifier": classifier} if classifier else None
            yield _component(
                PackageURL("maven", organisation, name, revision, qualifiers), sums[file]
            )


def _component(purl: PackageURL, sha256: str = "") -> Component:
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else []
    return Component(
        name=purl.name, group=purl.namespace, version=purl.version, purl=purl,
        type=ComponentType.LIBRARY, bom_ref=purl.to_string(), hashes=hashes,
    )  # fmt: skip
