"""The manifests for kustomize, as Helm renders them from the chart; ``make manifests`` runs this.

What Helm adds for itself, and what is a default of Kubernetes, is left out of them. The
``kustomization.yaml`` files beside them are written by hand.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from deploy.dist import CHART, ROOT

FOLDER: Final = ROOT / "deploy" / "kubernetes"
_MADE: Final = "# Rendered from deploy/helm by `make manifests`.\n"

_OPERATOR: Final = ("query.mode=sparkOperator", "query.checkpoint=hdfs://namenode:8020/kafka-twin")

MANIFESTS: Final = {
    "base/collector.yaml": ("collector", ()),
    "base/exporter.yaml": ("exporter", ()),
    "base/network.yaml": ("network", ()),
    "query-statefulset/statefulset.yaml": ("query", ()),
    "query-spark-operator/rights.yaml": ("query-rights", _OPERATOR),
    "query-spark-operator/sparkapplication.yaml": ("query-spark", _OPERATOR),
    "archive/statefulset.yaml": ("archive", ("archive.enabled=true",)),
    "admission/webhook.yaml": ("admission", ("admission.enabled=true",)),
    "admission/certificate.yaml": ("admission-certificate", ("admission.enabled=true",)),
    "monitoring/monitors.yaml": ("monitors", ("monitoring.enabled=true",)),
}
"""By file: the chart's template, and values that are not the defaults."""

_LEFT_OUT: Final = re.compile(
    r"^(?:# Source: .*| *annotations:\n *checksum/config: .*| *| *"
    r"(?:helm\.sh/chart|app\.kubernetes\.io/(?:instance|version|managed-by)|imagePullPolicy"
    r"|spark\.kubernetes\.container\.image\.pullPolicy): .*| *type: ClusterIP)\n",
    re.MULTILINE,
)


def files(helm: str) -> dict[Path, str]:
    """The text of each manifest; ``helm`` is the program."""
    return {
        FOLDER / name: _MADE + _rendered(helm, template, values)
        for name, (template, values) in MANIFESTS.items()
    }


def _rendered(helm: str, template: str, values: tuple[str, ...]) -> str:
    given = ",".join(("existingConfigMap=kafka-twin-config", *values))
    done = subprocess.run(
        [helm, "template", "kafka-twin", CHART, "--namespace", "kafka-twin", "--set", given,
         "--show-only", f"templates/{template}.yaml"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    return _LEFT_OUT.sub("", done.stdout)


def main() -> None:
    """Write the manifests."""
    helm = sys.argv[1] if len(sys.argv) > 1 else "helm"
    try:
        made = files(helm)
    except FileNotFoundError:
        sys.exit(f"{helm} is not there: `python -m tests.kubernetes.tools helm` gets it, and "
                 "prints the path to give: make manifests ARGS=PATH")  # fmt: skip
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
