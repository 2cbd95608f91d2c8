"""``kafka-twin plan``: changes to the cluster, printed with their reasons; applied on request."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from streaming.bus import snapshots
from streaming.cli.exporter_client import (
    Parameters,
    ask,
    at_option,
    at_parameters,
    note_moment,
    url_option,
)
from streaming.cli.options import DURATION
from streaming.cli.plan_roll import roll
from streaming.cli.whatif import print_answer
from streaming.history.moment import Moment
from streaming.plans import files, journal
from streaming.plans.admin import Admin
from streaming.plans.apply import Applier, ChangeOutcome, ChangeResult, RateLimit
from streaming.plans.demote import plan_demote
from streaming.plans.journal import Journal
from streaming.plans.judge import judge
from streaming.plans.order import plan_order
from streaming.plans.place import DEFAULT_STEPS, MAX_STEPS, plan_place
from streaming.plans.plan import Origin, Plan, PlanError
from streaming.plans.plan_data import PlanData
from streaming.plans.proposed import read_proposal
from streaming.plans.watch import WatchOptions, watch
from streaming.questions.answer import Answer, some
from streaming.questions.parameters import MAX_ROWS
from streaming.runtime.configuration.chosen import Chosen, naming
from streaming.runtime.errors import UserError
from streaming.runtime.stop import on_stop_signal
from twin.arrays.plain import counted

FOLDER: Final = Path(".kafka-twin/plans")
_WELL: Final = {ChangeOutcome.DONE, ChangeOutcome.NOT_NEEDED}


@click.group()
def plan() -> None:
    """Plan changes to the cluster.

    A plan is made from the newest snapshots and printed. Nothing is changed without --apply.
    """


def _reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that every plan has."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Plain data, all rows."),
        click.option(
            "--out",
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder for files that Kafka's tools take, and that restore what was.",
        ),
        at_option,
        url_option,
    ):
        command = option(command)
    return command


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of plans that may be applied."""
    applies = click.option("--apply", "applies", is_flag=True, help="Change the cluster.")
    return applies(_limit_option(_reading_options(command)))


_limit_option = click.option(
    "--max-changes-per-minute",
    "per_minute",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Partitions that are changed within 60 seconds.",
)


@plan.command()
@click.option("--preferred", is_flag=True, help="Move slot 0, the preferred leader, as well.")
@click.option("--watch", "watches", is_flag=True, help="With --apply: go on until stopped.")
@click.option(
    "--every",
    type=DURATION,
    default="10s",
    show_default=True,
    help="Time between rounds of --watch.",
)
@_options
@click.pass_obj
def order(
    chosen: Chosen, preferred: bool, watches: bool, every: int, applies: bool, per_minute: int,
    out: Path | None, url: str | None, at: Moment | None, as_json: bool,
) -> None:  # fmt: skip
    """Put warm replicas before cold ones.

    Kafka elects the first replica in sync by the order of the assignment. The new order has the
    same replicas, so no data moves; without --preferred no leader moves either.

    With --watch the order follows the replicas as they become cold and warm, and a partition gets
    its original order back once all its replicas are warm.
    """
    if url is not None or at is not None:
        changes = applies or watches or out is not None
        _show_of_exporter(url, at, "order", {"preferred": preferred}, changes, as_json)
        return
    config = chosen.config()

    def planned() -> Plan:
        now_ms = time.time_ns() // 1_000_000
        return plan_order(snapshots.newest(config), now_ms, preferred=preferred)

    if not watches:
        _plan(chosen, planned, applies, per_minute, out, as_json)
        return
    if not applies:
        raise PlanError("--watch changes the cluster: give --apply as well")
    terms = WatchOptions(preferred, per_minute, every / 1_000, chosen.of_several)
    stop = threading.Event()
    with on_stop_signal(stop):
        folder = out or FOLDER / f"watch-{config.cluster.name}"
        watch(config, folder, terms, lambda: snapshots.newest(config), stop, _say)
        undo = f"`kafka-twin plan restore {folder / journal.FILE}`"
        click.echo(naming(chosen.cluster, f"stopped; undo with {undo}"))


@plan.command()
@click.option("--broker", type=int, required=True, help="The broker that is to lead nothing.")
@_options
@click.pass_obj
def demote(
    chosen: Chosen, broker: int, applies: bool, per_minute: int, out: Path | None, url: str | None,
    at: Moment | None, as_json: bool,
) -> None:  # fmt: skip
    """Give the leaderships of a broker to others.

    Before a restart, or while it is a slow leader. They go to warm replicas in sync, spread evenly
    over brokers and racks, and stay there until kafka-twin plan restore.
    """
    if url is not None or at is not None:
        changes = applies or out is not None
        _show_of_exporter(url, at, "demote", {"broker": broker}, changes, as_json)
        return
    config = chosen.config()

    def planned() -> Plan:
        return plan_demote(snapshots.newest(config), time.time_ns() // 1_000_000, broker)

    _plan(chosen, planned, applies, per_minute, out, as_json)


@plan.command()
@click.option(
    "--most",
    type=click.IntRange(min=1, max=MAX_STEPS),
    default=DEFAULT_STEPS,
    show_default=True,
    help="Steps: two replicas that change places, or one that moves.",
)
@_reading_options
@click.pass_obj
def place(
    chosen: Chosen, most: int, out: Path | None, url: str | None, at: Moment | None, as_json: bool
) -> None:
    """Move replicas against the loss of a rack.

    And of two brokers. Two replicas change places, so each broker holds as many as before. First
    come partitions with more replicas in one rack than the racks require, then those of a pair of
    brokers that share far more partitions than others. Data move, so nothing is applied: --out
    writes files for Kafka's own tools.
    """
    if url is not None or at is not None:
        _show_of_exporter(url, at, "place", {"most": most}, out is not None, as_json)
        return
    planned = plan_place(snapshots.newest(chosen.config()), time.time_ns() // 1_000_000, most=most)
    _show(planned, as_json)
    if out is not None and planned.changes:
        _write(chosen, planned, out, _origin(chosen), as_json)


@plan.command("judge")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Plain data.")
@click.pass_obj
def judge_proposal(chosen: Chosen, file: Path, as_json: bool) -> None:
    """Say if a reassignment makes losses worse.

    And if it fits on the disks that it goes to. FILE is for kafka-reassign-partitions.sh, or an
    answer of Cruise Control (json=true). Exits with 1 if it is worse for some loss, or does not
    fit.
    """
    proposed = read_proposal(file)
    answer = judge(snapshots.newest(chosen.config()), time.time_ns() // 1_000_000, proposed)
    print_answer(answer, as_json, sys.stdout)
    if answer.data["worse"] or answer.data["fits"] == "does_not_fit":
        click.get_current_context().exit(1)


@plan.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_limit_option
@click.pass_obj
def restore(chosen: Chosen, file: Path, per_minute: int) -> None:
    """Bring back what was before a plan.

    FILE is the journal of what was applied, or the file restore.json of a plan.
    """
    config = chosen.config()
    origin, changed = journal.read(file)
    origin.require_name(file, config.cluster.name)
    stop, of_several = threading.Event(), chosen.of_several
    with on_stop_signal(stop), Admin(config) as admin:
        here = admin.origin()
        origin.require(file, here, of_several=of_several)
        with Journal(file.parent, here, of_several=of_several) as written:
            applier = Applier(admin, written, RateLimit(per_minute), stop)
            results = applier.restore_all(changed.values())
    if not results:
        click.echo("nothing is left to restore")
    _report(results, written.path)


def _plan(
    chosen: Chosen, planned: Callable[[], Plan], applies: bool, per_minute: int, out: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Print a plan, write its files, and apply it if that is asked for."""
    first = planned()
    _show(first, as_json)
    if not first.changes:
        return
    if not applies:
        if out is not None:
            _write(chosen, first, out, _origin(chosen), as_json)
        click.echo("nothing was changed: --apply does it", err=as_json)
        return
    folder = out or FOLDER / f"{first.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    stop = threading.Event()
    with Admin(chosen.config()) as admin:
        origin = admin.origin()
        _write(chosen, first, folder, origin, as_json)
        with (
            on_stop_signal(stop),
            Journal(folder, origin, of_several=chosen.of_several) as written,
        ):
            try:
                applier = Applier(admin, written, RateLimit(per_minute), stop)
                results = applier.apply_all(first, planned)
            except UserError as error:
                raise PlanError(f"{error}; what was done is in {written.path}") from None
    _report(results, written.path, to_err=as_json)


def _origin(chosen: Chosen) -> Origin:
    """The cluster as it says who it is; only its name where it does not answer and is the only one.

    Raises:
        PlanError: it does not answer, and is one of several.
    """
    config = chosen.config()
    try:
        with Admin(config) as admin:
            return admin.origin()
    except PlanError:
        if chosen.of_several:
            raise
        return Origin(config.cluster.name)


def _write(chosen: Chosen, planned: Plan, folder: Path, origin: Origin, as_json: bool) -> None:
    """Write the files of a plan, and print the commands that use them."""
    for command in files.write(planned, folder, origin, of_several=chosen.of_several):
        click.echo(f"  {command}", err=as_json)


def _show_of_exporter(
    url: str | None, at: Moment | None, name: str, parameters: Parameters, changes: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Print the plan that an exporter makes, of now or of a past moment; nothing is changed."""
    moment = at_parameters(url, at)
    if changes:
        raise PlanError("--apply, --watch and --out cannot be combined with --url or --at")
    given = {**parameters, "limit": MAX_ROWS, **moment}
    data = ask(str(url), f"plans/{name}", given, PlanData)
    note_moment(data)
    answer = Answer(data, data["lines"], data["header"], data["rows"], data["total"])
    print_answer(answer, as_json, sys.stdout)


def _report(results: Sequence[ChangeResult], path: Path, *, to_err: bool = False) -> None:
    """Print one line for each outcome; exit with 1 if a partition is not as planned."""
    for outcome in ChangeOutcome:
        them = [result for result in results if result.outcome is outcome]
        if them:
            names = [result.detail or str(result.change) for result in them]
            number = counted(len(them), "partition")
            click.echo(f"{number} {outcome.value}: {some(names)}", err=to_err)
    if any(result.outcome is ChangeOutcome.DONE for result in results):
        click.echo(f"what was done is in {path}", err=to_err)
    if any(result.outcome not in _WELL for result in results):
        click.get_current_context().exit(1)


def _say(line: str) -> None:
    click.echo(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}")


def _show(planned: Plan, as_json: bool) -> None:
    """Print a plan for a person, or as one line of JSON."""
    data = {
        "plan": planned.name,
        "cluster": planned.cluster,
        "observed_at_ms": planned.observed_at_ms,
        "changes": [files.as_json(change) for change in planned.changes],
        "unchanged": planned.undone,
        "room": list(planned.room),
    }
    print_answer(Answer(data, planned.lines, planned.header, planned.rows), as_json, sys.stdout)


plan.add_command(roll)
