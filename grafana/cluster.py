"""Cluster: which brokers can be lost now, partitions at risk, leaders by rack."""

from __future__ import annotations

from typing import Final

from grafana.layout import Dashboard, band, row
from grafana.links import SERIES_RISK, dashboard_link
from grafana.panels import (
    BY_SEVERITY,
    CLEAR,
    NONE_OR_ORANGE,
    NONE_OR_RED,
    PLAIN,
    SEVERITIES,
    YES_NO,
    Look,
    Mapping,
    PanelQuery,
    Steps,
    TableColumn,
    above_zero,
    bars,
    gauges,
    lines,
    sentence,
    stat,
    table,
)
from grafana.predictions import predicted_right
from grafana.queries import ELECTION_POLICIES, Scope
from grafana.variables import Json, broker, cluster, console, datasource, rack, severity

_HERE: Final = Scope(many=("rack", "broker", "severity"))

_OUTCOMES: Final[dict[str, tuple[str, Steps]]] = {
    "clean": ("In sync", PLAIN),
    "elr": ("Eligible (ELR)", above_zero("orange")),
    "last_known": ("Last known leader", above_zero("red")),
    "unclean": ("Unclean", above_zero("red")),
    "none": ("Nobody", above_zero("red")),
}
"""Outcomes of losing the leader of a partition, best first, in the words of the console."""

_COVERAGE: Final[dict[str, tuple[tuple[str, ...], Steps]]] = {
    "Warm": (("warm",), PLAIN),
    "Cold": (("cold",), above_zero("orange")),
    "Not judged": (("assumed", "not_judged"), PLAIN),
}
"""Whether the next leaders have enough local log to lead, for all outcomes."""

_BALANCES: Final = {
    "now": ("Now", "blue"),
    "kafka": ("Balanced by Kafka", "green"),
    "kip1303": ("Balanced under KIP-1303", "purple"),
}
"""Titles and colours of how leaders are spread over racks, by the value of the label rule."""

_SEVERITY: Final[Mapping] = {"3": ("page", "red"), "2": ("warn", "orange"), "1": ("info", "blue")}

_AGE: Final = Look("s", ((None, "green"), (30, "orange"), (60, "red")))
"""Red where kafka_twin_up becomes 0."""


def _sentence() -> Json:
    return sentence(
        "Which broker can be lost now?",
        "The same sentence as in the console and kafka-twin whatif lose --each. Partitions whose "
        "replication is too small for any loss are counted behind it, and in no verdict.",
        PanelQuery(_HERE.latest("loss_info", "sentence"), "{{sentence}}"),
        empty="No broker is known",
    )


def _losing_a_broker() -> tuple[Json, ...]:
    harmed = _HERE.latest("broker_loss_harmed_partitions", "broker")
    return (
        stat(
            "Brokers that cannot be lost",
            "Brokers whose loss takes a partition offline, loses committed records, or leaves too "
            "few replicas in sync for acks=all. Partitions of one replica, and those with no more "
            "than min.insync.replicas, do not count.",
            f"sum ({harmed} > bool 0)",
            Look(steps=NONE_OR_RED),
        ),
        stat(
            "Partitions of one replica",
            "They go with their broker, whatever the state of the cluster. Those that "
            "cluster.one_replica_topics accepts are left out.",
            _HERE.latest("partitions_one_replica"),
            Look(steps=PLAIN),
        ),
    )


def _health() -> tuple[Json, ...]:
    itself = dashboard_link("kafka-twin-itself", "Show the twin itself")
    return (
        stat(
            "Brokers down",
            "Brokers that the controller has fenced, or that did not answer the newest cycle.",
            f"count({_HERE.latest('broker_answered', 'broker')} == 0 "
            f"or {_HERE.latest('broker_fenced', 'broker')} == 1) "
            f"or 0 * {_HERE.latest('up')}",
            Look(steps=NONE_OR_RED),
        ),
        *_losing_a_broker(),
        stat(
            "Twin",
            "Up while every shard's snapshot is there and recent.",
            _HERE.latest("up"),
            Look(mapping={"1": ("up", "green"), "0": ("down", "red")}),
            links=(itself,),
        ),
        stat(
            "Age of observations",
            "Age of the oldest among the shards' newest observations.",
            _HERE.latest("observation_age_seconds"),
            _AGE,
            links=(itself,),
        ),
    )


def _counts() -> tuple[Json, ...]:
    return (
        _count("Offline", "partitions_offline", "Partitions without a leader."),
        _count(
            "Under min ISR",
            "partitions_under_min_isr",
            "Partitions with fewer replicas in sync than min.insync.replicas: acks=all is refused.",
        ),
        _count(
            "At min ISR",
            "partitions_at_min_isr",
            "Partitions with exactly min.insync.replicas in sync. Harmless where no more "
            "replicas are assigned.",
            PLAIN,
        ),
        _count(
            "Under-replicated",
            "partitions_under_replicated",
            "Partitions with fewer replicas in sync than assigned, not counting those being added.",
            NONE_OR_ORANGE,
        ),
    )


def _small() -> tuple[Json, ...]:
    """Partitions whose replication is too small for any loss, and what is not judged."""
    return (
        _count(
            "No replica to spare",
            "partitions_no_spare_replica",
            "Partitions of several replicas, but no more than min.insync.replicas: without any of "
            "them acks=all is refused.",
            PLAIN,
        ),
        _count(
            "One, accepted",
            "partitions_one_replica_accepted",
            "Partitions of one replica that cluster.one_replica_topics accepts.",
            PLAIN,
        ),
        _count(
            "Silent successor",
            "partitions_with_silent_successor",
            "Partitions whose next leader has not answered for more than ten seconds.",
            NONE_OR_ORANGE,
        ),
        _count(
            "Not described",
            "partitions_not_described",
            "Partitions that no listing has described yet: nothing about them is judged.",
            NONE_OR_ORANGE,
        ),
        _count(
            "Diskless",
            "partitions_diskless",
            "Partitions of diskless topics (KIP-1150).",
            PLAIN,
        ),
    )


def _broker_risks() -> Json:
    return table(
        "Brokers at risk",
        "Open risks of brokers; a risk has the same name in the runbook.",
        ("broker", "risk", "severity"),
        [
            TableColumn(
                "Open",
                _HERE.latest("broker_at_risk", "broker", "risk", "severity"),
                Look(mapping={"1": ("open", "orange")}),
            )
        ],
        empty="No broker is at risk",
    )


def _count(title: str, name: str, text: str, steps: Steps = NONE_OR_RED) -> Json:
    return stat(title, text, _HERE.latest(name), Look(steps=steps))


def _matrix(rule: str) -> Json:
    """A table of brokers with the partitions that each leads, by the outcome if it is lost."""
    # A broker that is lost already leads nothing: a row of zeros says nothing.
    is_there = f"unless on (broker) {_HERE.latest('broker_fenced', 'broker')} == 1"

    def partitions(over: str, of_rule: str = rule, **labels: str | tuple[str, ...]) -> str:
        added = _HERE.added(
            "broker_loss_partitions", "broker", "rack", over=over, rule=of_rule, **labels
        )
        return f"({added} {is_there})"

    columns = [
        TableColumn(title, partitions("coverage", outcome=outcome), Look(steps=steps))
        for outcome, (title, steps) in _OUTCOMES.items()
    ]
    columns += [
        TableColumn(
            title,
            f"(sum by (broker, rack) ({each}) {is_there})",
            Look(steps=steps),
        )
        for title, (coverage, steps) in _COVERAGE.items()
        for each in [
            _HERE.latest(
                "broker_loss_partitions", "broker", "rack", "outcome", "coverage",
                rule=rule, coverage=coverage,
            )
        ]
    ]  # fmt: skip
    if rule == "kafka":
        columns.append(
            TableColumn(
                "Cold by KIP-1303",
                partitions("outcome", "kip1303", coverage="cold"),
                Look(steps=above_zero("orange")),
            )
        )
    return table(
        f"If a broker were lost now: {ELECTION_POLICIES[rule]}",
        "Partitions that each broker leads, by who would lead them without it. In sync and "
        "eligible lose no committed record. Cold, of any outcome: less local log than the "
        "thresholds of KIP-1303. Not judged: no threshold is set, or a number is unknown.",
        ("broker", "rack"),
        columns,
        rule=rule,
        empty="No broker is known",
    )


def _at_risk() -> Json:
    by = ("topic", "partition", "risk")
    ranks = {"page": 3, "warn": 2, "info": 1}
    worst_first = " or ".join(
        f"{_HERE.latest('partition_at_risk', *by, severity=name)} * {rank}"
        for name, rank in ranks.items()
    )
    return table(
        "Partitions at risk",
        "The 500 partitions with the highest severity. docs/runbook.md explains each risk and says "
        "what to do.",
        by,
        [TableColumn("Severity", f"topk(500, {worst_first})", Look(mapping=_SEVERITY))],
        sort="Severity",
        empty="No partition is at risk",
    )


def _risks() -> Json:
    # The worst severity first, and of each the risk of most partitions.
    counts = " or ".join(
        f"sort_desc({_HERE.latest('partitions_at_risk', 'risk', 'severity', severity=name)} > 0)"
        for name in SEVERITIES
    )
    return gauges(
        "Partitions by risk",
        "A partition may have several risks. The worst severity is first.",
        PanelQuery(counts, "{{risk}} ({{severity}})"),
        Look(steps=((None, "orange"),), lowest=0),
        links=SERIES_RISK,
        colors=BY_SEVERITY,
        empty="No partition is at risk",
    )


def _risks_over_time() -> Json:
    return lines(
        "Partitions at risk over time",
        "Number of partitions with each risk that occurs.",
        [
            PanelQuery(
                f"{_HERE.latest('partitions_at_risk', 'risk', 'severity')} > 0",
                "{{risk}} ({{severity}})",
            )
        ],
        Look(lowest=0),
        colors=BY_SEVERITY,
        empty="No partition was at risk",
    )


def _leaders_by_rack() -> Json:
    columns = [
        TableColumn(
            title, _HERE.latest("rack_leaders", "rack", rule=rule), Look(steps=((None, color),))
        )
        for rule, title, color in (
            (rule, title, color) for rule, (title, color) in _BALANCES.items()
        )
    ]
    return bars(
        "Leaders by rack",
        "Leaders now, and once leaders are balanced under each election policy.",
        "rack",
        columns,
    )


def _skew_by(rule: str) -> str:
    """Of all racks, also where the dashboard shows one; no value without a leader."""
    leaders = Scope().latest("rack_leaders", "rack", rule=rule)
    return f"max({leaders}) / (avg({leaders}) > 0)"


def _skew() -> Json:
    return lines(
        "Skew of leaders over racks",
        "Leaders of the rack with the most over the mean of all racks: 1 is even.",
        [PanelQuery(_skew_by(rule), title) for rule, (title, _) in _BALANCES.items()],
        Look(decimals=2, lowest=1),
        colors=dict(_BALANCES.values()),
    )


def _by_election_rule() -> Json:
    return lines(
        "Partitions by election rule",
        "Partitions that are offline or under min ISR now, and that would be offline, or led from "
        "outside the ISR, if their leader were lost. States without partitions are left out.",
        [
            PanelQuery(
                f"{_HERE.latest('partitions_by_election_rule', 'rule', 'state')} > 0",
                "{{rule}}: {{state}}",
            )
        ],
        Look(lowest=0),
        empty="No partition is in any of these states under any election rule",
    )


def _time_to_balance() -> Json:
    def expr(name: str) -> str:
        return _HERE.latest(f"rack_{name}", "rack")

    orange = above_zero("orange")
    return table(
        "Time until leaders are balanced",
        "Cold preferred leaders (replica 0 with too little local log, KIP-1303) in each rack, and "
        "the time until the last of them is warm.",
        ("rack",),
        [
            TableColumn("Cold", expr("preferred_cold"), Look(steps=orange)),
            TableColumn("Never warm", expr("preferred_never_warm"), Look(steps=above_zero("red"))),
            TableColumn("Time unknown", expr("preferred_eta_unknown"), Look(steps=orange)),
            TableColumn("Others warm in", expr("time_to_balance_seconds"), Look("s")),
        ],
        empty="No rack is known",
    )


def _rack_gaps() -> Json:
    def latest(name: str) -> str:
        return _HERE.latest(f"rack_{name}", "rack")

    return table(
        "Racks without an in-sync replica",
        "Partitions without an in-sync replica in the rack, and what is written to them: consumers "
        "in the rack read them from another rack (KIP-392).",
        ("rack",),
        [
            TableColumn("Partitions", latest("partitions_without_in_sync_replica")),
            TableColumn("Written", latest("without_in_sync_replica_bytes_per_second"), Look("Bps")),
            TableColumn("Rate unknown", latest("without_in_sync_replica_unknown_rates")),
        ],
        empty="No rack is known",
    )


def _brokers() -> Json:
    def expr(name: str) -> str:
        return _HERE.latest(f"broker_{name}", "broker", "rack")

    return table(
        "Brokers",
        "Answered: the broker answered the newest cycle in time. Fenced: the controller has "
        "fenced it. KIP-1023: empty followers start where uploads end.",
        ("broker", "rack"),
        [
            TableColumn("Leads", expr("leaders")),
            TableColumn("Replicas", expr("replicas")),
            TableColumn("Answered", expr("answered"), Look(mapping=YES_NO)),
            TableColumn(
                "Fenced", expr("fenced"), Look(mapping={"1": ("yes", "red"), "0": ("no", "green")})
            ),
            TableColumn(
                "KIP-1023",
                expr("last_tiered_fetch"),
                Look(mapping={"1": ("yes", "green"), "0": ("no", "transparent")}),
            ),
            TableColumn("Cold replicas", expr("cold_replicas"), Look(steps=above_zero("orange"))),
            TableColumn("Local log", expr("local_log_bytes"), Look("bytes")),
            TableColumn(
                "Of the even share",
                expr("local_log_even_share_ratio"),
                Look("percentunit", steps=(*CLEAR, (1.5, "yellow"))),
            ),
            TableColumn("Free on disk", expr("log_dir_usable_bytes"), Look("bytes")),
            TableColumn(
                "Under min ISR if lost",
                expr("loss_under_min_isr_partitions"),
                Look(steps=above_zero("orange")),
            ),
        ],
        empty="No broker is known",
    )


_CLASSES: Final = {
    "tiered": "Uploaded",
    "waiting": "To upload",
    "untiered": "Not tiered",
    "unjudged": "Unknown",
    "future": "Moved in",
    "unassigned": "Of nobody",
    "unlisted": "Not observed",
    "other": "Other",
}
"""Legend of the bytes in a log directory, by the value of the label ``class``."""


def _log_dirs() -> Json:
    def expr(name: str, **chosen: str) -> str:
        return _HERE.latest(f"log_dir_{name}", "broker", "log_dir", **chosen)

    yes = Look(mapping={"1": ("yes", "red"), "0": ("no", "transparent")})
    return table(
        "Log directories",
        "What is in each by class: sizes of segments, without indexes. Free and size are of the "
        "volume, other files too, at the first directory of one that several are on.",
        ("broker", "log_dir"),
        [
            TableColumn("Failed", expr("failed"), yes),
            TableColumn("Offline replicas", expr("offline_replicas"), Look(steps=NONE_OR_RED)),
            TableColumn("Free", expr("usable_bytes"), Look("bytes")),
            TableColumn("Size", expr("total_bytes"), Look("bytes")),
            *(
                TableColumn(title, expr("bytes", **{"class": name}), Look("bytes"))
                for name, title in _CLASSES.items()
            ),
        ],
        sort="Failed",
        empty="No log directory is known: brokers do not describe them",
    )


def _free_by_log_dir() -> Json:
    def expr(name: str) -> str:
        return _HERE.latest(f"log_dir_{name}", "broker", "log_dir")

    return lines(
        "Free by log directory",
        "Free space of the volume of each log directory as a share of its size.",
        [PanelQuery(f"{expr('usable_bytes')} / {expr('total_bytes')}", "{{broker}} {{log_dir}}")],
        Look("percentunit", lowest=0),
        empty="No broker says how large its disks are, as before Kafka 3.3",
    )


_IN_SIGHT: Final = "< +Inf"
"""Of times: an axis with one that is not in sight would show nothing else."""


def _until_full() -> Json:
    until = _HERE.latest("log_dir_full_seconds", "broker", "log_dir", "bound")
    return lines(
        "Time until a disk is full",
        "By the model: earliest if logs take the most that they may, latest if the least. By the "
        "line of the last hour: if it goes on so. A bound that is not in sight has no line. At the "
        "first directory of a volume.",
        [PanelQuery(f"{until} {_IN_SIGHT}", "{{broker}} {{log_dir}} {{bound}}")],
        Look("s", lowest=0),
        empty="No disk is foretold to be full within two weeks, or none is of known size",
    )


def _without_remote_storage() -> Json:
    survived = _HERE.latest("tier_outage_survived_seconds", "broker")
    return lines(
        "How long remote storage may be away",
        "Time from now on until the first disk of the broker is full, at the earliest, if nothing "
        "is uploaded meanwhile. A broker of which that is not in sight has no line.",
        [PanelQuery(f"{survived} {_IN_SIGHT}", "{{broker}}")],
        Look("s", lowest=0),
        empty="Nothing is tiered, or no disk would be full within two weeks",
    )


def _spare_controllers() -> Json:
    return _count(
        "Controllers to spare",
        "controllers_spare",
        "Voters of the controller quorum that may go before no leader is elected.",
        PLAIN,
    )


def _controllers() -> Json:
    def expr(name: str) -> str:
        return _HERE.latest(f"controller_{name}", "node")

    return table(
        "Controllers",
        "The voters of the controller quorum, which need not be brokers. One that does not follow "
        "the active controller is away or behind, and does not count towards a majority.",
        ("node",),
        [
            TableColumn("Follows", expr("follows"), Look(mapping=YES_NO)),
            TableColumn("Not caught up for", expr("behind_seconds"), Look("s")),
            TableColumn("Records behind", expr("behind_records")),
        ],
        empty="No controller is known: the quorum does not answer, or there is ZooKeeper",
    )


def _loads_after_loss() -> Json:
    """A table of brokers with the share of their capacity that they carry after the worst loss."""
    return table(
        "Capacity after the loss of one other broker",
        "Bytes from producers or to consumers over the capacity in the configuration, after the "
        "loss that brings the broker most. Whatif load of the command line has all losses.",
        ("broker", "rack"),
        [
            TableColumn(
                "Of its capacity",
                _HERE.latest("broker_capacity_after_loss_ratio", "broker", "rack"),
                Look("percentunit", steps=(*CLEAR, (1.0, "orange"))),
            ),
            TableColumn(
                "If this broker is lost",
                _HERE.latest("broker_capacity_after_loss_lost_broker", "broker", "rack"),
            ),
        ],
        empty="No capacity is configured, or no loss brings any broker more",
    )


DASHBOARD: Final = Dashboard(
    uid="kafka-twin-cluster",
    title="Kafka twin / Cluster",
    text="Which brokers can be lost now, which partitions are at risk, who leads in which rack. "
    "The variables broker and rack do not narrow numbers of the whole cluster.",
    variables=(datasource(), cluster(), rack(), broker(), severity(), console()),
    rows=(
        row(
            "Now",
            band(3, _sentence()),
            band(4, *_health(), widths=(4, 5, 6, 4, 5)),
            band(4, *_counts(), predicted_right(_HERE), widths=(5, 5, 5, 5, 4)),
        ),
        row("Brokers", band(8, _brokers(), _broker_risks(), widths=(17, 7))),
        row("Loss of a broker", band(8, _matrix("kafka")), band(6, _loads_after_loss())),
        row(
            "Partitions at risk",
            band(10, _at_risk(), _risks(), widths=(15, 9)),
            band(7, _risks_over_time()),
        ),
        row(
            "Controllers",
            band(5, _spare_controllers(), _controllers(), widths=(5, 19)),
            is_collapsed=True,
        ),
        row(
            "Disks",
            band(8, _log_dirs()),
            band(8, _until_full(), _without_remote_storage()),
            band(7, _free_by_log_dir()),
            is_collapsed=True,
        ),
        row("Too small for any loss, and not judged", band(4, *_small()), is_collapsed=True),
        row(
            "Other election rules",
            band(8, _matrix("kip1303"), _matrix("kip501")),
            band(8, _by_election_rule()),
            is_collapsed=True,
        ),
        row(
            "Racks",
            band(8, _leaders_by_rack(), _skew()),
            band(8, _time_to_balance(), _rack_gaps()),
            is_collapsed=True,
        ),
    ),
    marked=("Partitions at risk over time",),
)
