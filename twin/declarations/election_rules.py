"""Tables that are declared ``by_election_rule`` are made once for each election rule.

An election rule says which replicas are in sync and in which order candidates are tried. Tables of
election results are declared for Kafka's rule; those for the other rules are derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from twin.declarations.declare import ElectionRule, OtherElections, Rule
from twin.declarations.signature import DeclarationError, name_of
from twin.declarations.table import KAFKA, Table


def with_each_election_rule(
    tables: Iterable[type[Table]],
    rules: Iterable[Rule],
    others: Iterable[OtherElections],
    election_rules: Sequence[ElectionRule],
) -> tuple[list[type[Table]], list[Rule]]:
    """The given tables and rules, and those derived for each election rule.

    Raises:
        DeclarationError: an election rule, or a function for other elections, makes the wrong
            table; or there are election rules, but Kafka's rule is missing.
    """
    tables, rules = list(tables), list(rules)
    others_by_table = {each.makes: each for each in others}
    makers: list[ElectionRule | OtherElections] = [*election_rules, *others_by_table.values()]
    for each in makers:
        if not each.makes.by_election_rule:
            raise DeclarationError(
                f"{name_of(each.compute)}: the table {each.makes.kind} is not by_election_rule"
            )
    names = [each.name for each in election_rules]
    if names and KAFKA not in names:
        raise DeclarationError(f"no election rule is called {KAFKA}; there are {', '.join(names)}")
    ballots = {each.makes for each in election_rules}
    made = [Rule(each.compute, each.makes.under(each.name), each.reads) for each in election_rules]
    for name in names:
        if name == KAFKA:
            continue
        tables += [table.under(name) for table in tables if table.by_election_rule]
        for rule in rules:
            if rule.makes.by_election_rule and rule.makes not in ballots:
                source = others_by_table.get(rule.makes, rule)
                own = rule.makes if isinstance(source, OtherElections) else None
                reads = tuple(
                    each if each.table is own else each.under(name) for each in source.reads
                )
                made.append(Rule(source.compute, rule.makes.under(name), reads))
    return tables, rules + [_returning_its_table(rule) for rule in made]


def _returning_its_table(rule: Rule) -> Rule:
    """The rule, with its result converted from the table of Kafka's rule to its own table."""

    @wraps(rule.compute)
    def compute(**arguments: Any) -> Table:
        return rule.makes.from_values(rule.compute(**arguments).values())

    made: Callable[..., Table] = compute
    return Rule(made, rule.makes, rule.reads)
