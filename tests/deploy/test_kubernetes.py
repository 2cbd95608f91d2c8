"""The Kubernetes manifests, as far as they can be judged without a cluster."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import generate
from streaming.runtime.configuration.loading import load
from streaming.runtime.local_folder import local_folder
from streaming.runtime.ports.probes import ALIVE, READY

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
LARGEST_CONFIG_MAP = 1_048_576
KUSTOMIZE = ("Kustomization", "Component")

# Required fields of the operators' v1 resources, and all of their fields that are used here.
SPARK_SPEC = {
    "pyFiles", "runtimeVersions", "applicationTolerations", "sparkConf", "driverSpec",
    "executorSpec",
}  # fmt: skip

Manifest = dict[str, Any]


def documents() -> Iterator[tuple[Path, Manifest]]:
    """Every manifest of every file."""
    for path in sorted(FOLDER.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield path, document


RESOURCES = [
    (path, d)
    for path, d in documents()
    if d.get("kind") not in KUSTOMIZE and path.name != "references.yaml"
]


def of_kind(kind: str) -> list[Manifest]:
    return [d for _, d in RESOURCES if d["kind"] == kind]


def pods() -> dict[str, Manifest]:
    """The spec of every pod by whose it is."""
    specs = {}
    for _, d in RESOURCES:
        if d["kind"] in ("Deployment", "StatefulSet"):
            specs[d["metadata"]["name"]] = d["spec"]["template"]["spec"]
        if d["kind"] == "SparkApplication":
            for role in ("driver", "executor"):
                specs[role] = d["spec"][f"{role}Spec"]["podTemplateSpec"]["spec"]
    return specs


PODS = pods()


def test_the_spark_application_has_what_the_operator_asks_for():
    [application] = of_kind("SparkApplication")
    assert set(application["spec"]) == SPARK_SPEC
    conf = application["spec"]["sparkConf"]
    assert {type(value) for value in conf.values()} == {str}
    assert application["spec"]["runtimeVersions"] == {"sparkVersion": "4.2.0"}
    assert application["spec"]["applicationTolerations"]["restartConfig"]["restartPolicy"] == (
        "Always"
    )
    accounts = {each["metadata"]["name"] for each in of_kind("ServiceAccount")}
    driver = "spark.kubernetes.authenticate.driver.serviceAccountName"
    assert conf[driver] in accounts
    [policy] = [d for d in of_kind("NetworkPolicy") if d["metadata"]["name"] == "kafka-twin-query"]
    [ingress] = policy["spec"]["ingress"]
    assert {str(port["port"]) for port in ingress["ports"]} == {
        conf["spark.driver.port"],
        conf["spark.blockManager.port"],
    }


def test_every_file_is_named_by_its_folder_and_every_named_file_is_there():
    for path in FOLDER.rglob("kustomization.yaml"):
        folder = yaml.safe_load(path.read_text())
        generated = [f for g in folder.get("configMapGenerator", ()) for f in g["files"]]
        names = [*folder.get("resources", ()), *folder.get("configurations", ()), *generated]
        here = {name for name in names if "/" not in name}
        assert here == {f.name for f in path.parent.iterdir() if f != path}, path
        for name in [*names, *folder.get("components", ())]:
            assert (path.parent / name).exists(), name


@pytest.mark.parametrize("pod", PODS)
def test_no_pod_may_do_more_than_it_must(pod: str):
    spec = PODS[pod]
    own = spec["securityContext"]
    assert own["runAsNonRoot"]
    assert not {"runAsUser", "runAsGroup"} & own.keys()  # OpenShift refuses users of others
    assert own["seccompProfile"] == {"type": "RuntimeDefault"}
    # KAFKA_TWIN_EXPORTER_PORT=tcp://... would be taken for a setting, and refused.
    assert spec["enableServiceLinks"] is False
    if pod not in ("driver", "kafka-twin-admission"):  # they ask the API server
        assert spec["automountServiceAccountToken"] is False
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("pod", PODS)
def test_every_container_has_limits_and_probes_that_the_images_can_answer(pod: str):
    for container in PODS[pod]["containers"]:
        if pod in ("driver", "executor"):
            assert set(container["resources"]["limits"]) == {"cpu"}  # memory is Spark's to set
        else:
            for bound in ("requests", "limits"):
                assert set(container["resources"][bound]) == {"cpu", "memory"}
        if pod == "executor":
            continue  # the driver watches over it
        if pod not in ("driver", "kafka-twin-admission"):
            port = "http" if pod == "kafka-twin-exporter" else "metrics"
            assert container["readinessProbe"]["httpGet"] == {"path": READY, "port": port}
        for probe in ("startupProbe", "livenessProbe"):
            if pod == "kafka-twin-admission":  # it has nothing to do but to answer
                answered = {"path": "/healthz", "port": "https", "scheme": "HTTPS"}
                assert container[probe]["httpGet"] == answered
                continue
            if pod == "kafka-twin-exporter":
                assert container[probe]["httpGet"] == {"path": ALIVE, "port": "http"}
                continue
            program, name, seconds = container[probe]["exec"]["command"]
            assert (program, int(seconds) >= 60) == ("kafka-twin-alive", True)
            assert name in ("collector", "query", "archive")


@pytest.mark.parametrize("pod", PODS)
def test_what_is_mounted_is_there_and_secrets_come_by_reference(pod: str):
    spec = PODS[pod]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for of_set in (each for each in of_kind("StatefulSet") if each["metadata"]["name"] == pod):
        volumes |= {t["metadata"]["name"]: t for t in of_set["spec"]["volumeClaimTemplates"]}
    for container in spec["containers"]:
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounted.keys() == volumes.keys()
        assert mounted["tmp"] == "/tmp"
        assert mounted["ca"] == "/etc/kafka-twin-ca"
        assert not of_kind("Secret")
        if pod == "executor":
            continue
        assert mounted["config"] == "/etc/kafka-twin"
        assert volumes["config"]["configMap"]["name"] == "kafka-twin-config"
        assert [source["secretRef"]["name"] for source in container["envFrom"]] == [
            "kafka-twin-secrets"
        ]
        for variable in container.get("env", ()):
            assert "PASSWORD" not in variable["name"]


def test_executors_get_the_certificate_authority_and_no_secret():
    spec = PODS["executor"]
    assert [volume["name"] for volume in spec["volumes"]] == ["ca", "tmp"]
    [container] = spec["containers"]
    assert not {"env", "envFrom"} & container.keys()


def test_the_webhook_is_called_at_its_service_and_its_certificate_is_that_of_the_service():
    [webhooks] = of_kind("ValidatingWebhookConfiguration")
    [webhook] = webhooks["webhooks"]
    at = webhook["clientConfig"]["service"]
    [service] = [d for d in of_kind("Service") if d["metadata"]["name"] == at["name"]]
    assert at["port"] in {port["port"] for port in service["spec"]["ports"]}
    [certificate] = of_kind("Certificate")
    assert certificate["spec"]["dnsNames"] == [f"{at['name']}.{at['namespace']}.svc"]
    named = f"{at['namespace']}/{certificate['metadata']['name']}"
    assert webhooks["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": named}
    spec = PODS["kafka-twin-admission"]
    [tls] = [volume for volume in spec["volumes"] if volume["name"] == "tls"]
    assert tls["secret"]["secretName"] == certificate["spec"]["secretName"]
    [container] = spec["containers"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    config = load(None, environment)
    assert webhook["timeoutSeconds"] * 1_000 > config.admission.deadline_ms
    [port] = container["ports"]
    assert port["containerPort"] == config.admission.port
    assert {each["port"] for each in of_named_policy("kafka-twin-admission")} == {port["name"]}


def of_named_policy(name: str) -> list[Manifest]:
    """The ports of a NetworkPolicy."""
    [policy] = [d for d in of_kind("NetworkPolicy") if d["metadata"]["name"] == name]
    [ingress] = policy["spec"]["ingress"]
    ports: list[Manifest] = ingress["ports"]
    return ports


def test_one_query_works_on_a_checkpoint():
    sets = {each["metadata"]["name"]: each["spec"]["replicas"] for each in of_kind("StatefulSet")}
    assert sets == {"kafka-twin-query": 1, "kafka-twin-archive": 1}


def test_an_exporter_reads_the_archive_with_an_image_that_can():
    component = yaml.safe_load((FOLDER / "archive" / "kustomization.yaml").read_text())
    [patch] = component["patches"]
    [change] = yaml.safe_load(patch["patch"])
    [deployed] = [
        d for d in of_kind("Deployment") if d["metadata"]["name"] == patch["target"]["name"]
    ]
    containers = deployed["spec"]["template"]["spec"]["containers"]
    assert change["path"] == "/spec/template/spec/containers/0/image"
    assert containers[0]["image"].startswith("kafka-twin:")
    [archive] = PODS["kafka-twin-archive"]["containers"]
    assert change["value"] == archive["image"]


def test_executors_find_the_checkpoint_wherever_they_run():
    [driver] = PODS["driver"]["containers"]
    variables = {variable["name"]: variable["value"] for variable in driver["env"]}
    assert local_folder(variables["KAFKA_TWIN_QUERY_CHECKPOINT"]) is None
    assert not of_kind("PersistentVolumeClaim")


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("twin.toml")), ids=lambda p: p.parent.name)
def test_the_programs_accept_the_configuration(path: Path):
    load(path, {})
    client = tomllib.loads(path.read_text())["cluster"].get("client", {})
    assert not {key for key in client if "password" in key}


def test_images_and_versions_are_those_of_the_project():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    images = {c["image"] for pod in PODS.values() for c in pod["containers"] if "image" in c}
    [application] = of_kind("SparkApplication")
    images.add(application["spec"]["sparkConf"]["spark.kubernetes.container.image"])
    assert images == {f"kafka-twin:{version}", f"kafka-twin-spark:{version}"}
    overlay = yaml.safe_load((FOLDER / "overlays/example/kustomization.yaml").read_text())
    assert {f"{i['name']}:{i['newTag']}" for i in overlay["images"]} == images


def test_the_exporters_port_is_one_number():
    [deployed] = [d for d in of_kind("Deployment") if "exporter" in d["metadata"]["name"]]
    [container] = deployed["spec"]["template"]["spec"]["containers"]
    [port] = container["ports"]
    assert port == {"name": "http", "containerPort": load(None, {}).exporter.port}
    [service] = [d for d in of_kind("Service") if "exporter" in d["metadata"]["name"]]
    assert service["spec"]["ports"] == [{"name": "http", "port": 9410, "targetPort": "http"}]
    [monitor] = of_kind("ServiceMonitor")
    assert monitor["spec"]["endpoints"][0]["port"] == "http"
    [policy] = [d for d in of_kind("NetworkPolicy") if "exporter" in d["metadata"]["name"]]
    [ingress] = policy["spec"]["ingress"]
    assert ingress["ports"] == [{"protocol": "TCP", "port": "http"}]
    # Whoever narrows it to Prometheus does not cut off the webhook.
    [webhook] = [d for d in of_kind("Deployment") if "admission" in d["metadata"]["name"]]
    webhook = webhook["spec"]["template"]["metadata"]["labels"]
    assert {"podSelector": {"matchLabels": webhook}} in ingress["from"]
    wanted = monitor["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]
    assert service["metadata"]["labels"]["app.kubernetes.io/component"] == wanted


def ports_of_images() -> dict[str, int]:
    """The ports at which programs in the images serve metrics, by program."""
    path = ROOT / "deploy" / "docker" / "defaults.toml"
    metrics = load(None, {"KAFKA_TWIN_DEFAULTS": str(path)}).metrics
    return {
        name: getattr(metrics, f"{name}_port") for name in ("tap", "collector", "query", "archive")
    }


def test_prometheus_reaches_the_ports_at_which_the_images_serve_metrics():
    served = ports_of_images()
    named = {"kafka-twin-collector": "collector", "kafka-twin-query": "query", "driver": "query",
             "kafka-twin-archive": "archive"}  # fmt: skip
    for pod, program in named.items():
        [container] = PODS[pod]["containers"]
        assert container["ports"] == [{"name": "metrics", "containerPort": served[program]}]
        # A file may have another number, and probes, scrapes and policies know this one.
        variable = f"KAFKA_TWIN_METRICS_{program}_PORT".upper()
        assert {"name": variable, "value": str(served[program])} in container["env"]
    [executor] = PODS["executor"]["containers"]
    assert "ports" not in executor
    [monitor] = of_kind("PodMonitor")
    assert [end["port"] for end in monitor["spec"]["podMetricsEndpoints"]] == ["metrics"]
    [policy] = [d for d in of_kind("NetworkPolicy") if d["metadata"]["name"].endswith("metrics")]
    [ingress] = policy["spec"]["ingress"]
    assert ingress["ports"] == [{"protocol": "TCP", "port": "metrics"}]
    chosen = policy["spec"]["podSelector"]["matchExpressions"]
    assert chosen == monitor["spec"]["selector"]["matchExpressions"]
    assert chosen[0]["values"] == ["collector", "query", "archive"]


def test_prometheus_of_compose_scrapes_the_ports_of_the_images():
    ports = ports_of_images()
    config = yaml.safe_load((ROOT / "deploy/docker/prometheus.yml").read_text())
    [job] = config["scrape_configs"]
    [static] = job["static_configs"]
    found = [f"{name}:{each['port']}" for each in job["dns_sd_configs"] for name in each["names"]]
    assert found == ["archive:9414"]
    for target in [*static["targets"], *found]:
        service, _, port = target.partition(":")
        program = service.partition("-")[0]
        assert int(port) == ports.get(program, load(None, {}).exporter.port), target
    assert {target.partition(":")[0] for target in static["targets"]} >= {
        "exporter",
        "collector",
        "query",
    }


@pytest.mark.parametrize("path", generate.files(), ids=lambda path: path.name)
def test_a_generated_file_is_the_one_that_is_committed(path: Path):
    assert path.read_text() == generate.files()[path], "run: make docs"


def test_prometheus_rules_are_the_projects_own():
    rules = {d["metadata"]["name"]: d["spec"] for d in of_kind("PrometheusRule")}
    assert rules == {
        path.name.removesuffix(".rules.yml"): yaml.safe_load(path.read_text())
        for path in (ROOT / "deploy/prometheus/rules").glob("*.rules.yml")
    }


def test_monitoring_makes_a_config_map_of_each_dashboard():
    """kustomize reads files of its own folder alone, so the component lies beside them."""
    monitoring = FOLDER / "monitoring"
    [component] = yaml.safe_load((monitoring / "kustomization.yaml").read_text())["components"]
    folder = monitoring / component
    made = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert made["generatorOptions"]["labels"]["grafana_dashboard"] == "1"
    files = [folder / name for each in made["configMapGenerator"] for name in each["files"]]
    assert {f.resolve() for f in files} == set((ROOT / "grafana/dashboards").glob("*.json"))
    for each in made["configMapGenerator"]:
        assert sum((folder / name).stat().st_size for name in each["files"]) < LARGEST_CONFIG_MAP
