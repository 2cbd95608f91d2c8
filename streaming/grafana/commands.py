"""``kafka-twin grafana``: publish the dashboards, or mark a time on them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from streaming.runtime.configuration.chosen import chosen

if TYPE_CHECKING:
    from streaming.grafana.client import GrafanaClient

FOLDER_UID: Final = "kafka-twin"
TAG: Final = "kafka-twin"
BY_HAND: Final = "by-hand"
"""The tag of what a person marks."""


def _web_address(_: click.Context, __: click.Parameter, url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"{url} begins with neither http:// nor https://")
    return url and url.rstrip("/")


@click.group()
def grafana() -> None:
    """Publish Grafana dashboards; annotate them.

    Grafana is the one of the configuration's [grafana]; keep its token in KAFKA_TWIN_GRAFANA_TOKEN.
    """


@grafana.command()
@click.option(
    "--console",
    metavar="URL",
    callback=_web_address,
    help="Address of the console, where links of panels lead. Default: that of before.",
)
@click.pass_context
def publish(ctx: click.Context, console: str | None) -> None:
    """Create or update folder and dashboards."""
    client = _client(ctx)
    title = chosen(ctx).common().grafana.folder
    client.ensure_folder(FOLDER_UID, title)
    for path in dashboards():
        dashboard = msgspec.json.decode(path.read_bytes())
        address = console or console_of(client.dashboard(dashboard["uid"]))
        if address:
            set_console(dashboard, address)
        url = client.save_dashboard(dashboard, FOLDER_UID, "kafka-twin grafana publish")
        click.echo(f"{dashboard['title']}: {url}")


@grafana.command()
@click.argument("text")
@click.option("--tag", "tags", multiple=True, help="A tag beside kafka-twin; repeatable.")
@click.option("--at-ms", type=int, help="Since the epoch; now if not given.")
@click.pass_context
def annotate(ctx: click.Context, text: str, tags: tuple[str, ...], at_ms: int | None) -> None:
    """Mark a time on the dashboards.

    For example when a broker is restarted on purpose.
    """
    config = chosen(ctx).config()
    marks = [TAG, f"cluster:{config.cluster.name}", BY_HAND, *tags]
    _client(ctx).annotate(text, marks, int(time.time() * 1_000) if at_ms is None else at_ms)


def set_console(dashboard: dict[str, Any], url: str) -> None:
    """Let the links of a dashboard lead to the console at this address."""
    for variable in dashboard["templating"]["list"]:
        if variable["name"] == "console":
            address = {"selected": True, "text": url, "value": url}
            variable |= {"query": url, "current": address, "options": [address]}


def console_of(dashboard: Mapping[str, Any] | None) -> str | None:
    """The address of the console in a dashboard that was published."""
    variables = dashboard["templating"]["list"] if dashboard else []
    return next((v["query"] for v in variables if v["name"] == "console"), None)


def dashboards() -> list[Path]:
    """The dashboards' files, as they are committed."""
    folder = Path(str(resources.files("grafana"))) / "dashboards"
    return sorted(folder.glob("*.json"))


def _client(ctx: click.Context) -> GrafanaClient:
    try:
        from streaming.grafana.client import GrafanaClient
    except ModuleNotFoundError as missing:
        raise click.ClickException(
            f"{missing.name} is not installed: pip install 'kafka-twin[grafana]'"
        ) from None
    return GrafanaClient(chosen(ctx).common().grafana)
