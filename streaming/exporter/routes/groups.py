"""Groups of consumers."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Endpoint, Values
from streaming.exporter.schemas import page_of, ref
from streaming.exporter.source import ViewSource
from streaming.exporter.views import group_page
from streaming.exporter.views import groups as groups_views
from streaming.exporter.views.groups import GroupFilter
from streaming.questions.parameters import DEFAULT_ROWS, MAX_ROWS, limit, offset, one_of, text


def endpoints(source: ViewSource) -> list[Endpoint]:
    """The endpoints of this file."""

    def groups(_: Request, values: Values) -> Any:
        return groups_views.groups(source.view, GroupFilter(**values), source.now_ms())

    def group(_: Request, values: Values) -> Any:
        name = values["group"]
        most = values["limit"]
        content = group_page.group(source.view, name, source.now_ms(), most)
        if content is None:
            raise RefusedError(f"group {name} is not known", 404)
        return content

    return [
        Endpoint(
            path="/api/v1/groups",
            tool="groups",
            summary="[groups of consumers](#groups), a page at a time",
            answer=groups,
            schema=page_of("groups", "Group"),
            parameters={
                "topic": text("groups that have committed offsets of this topic"),
                "search": text("groups whose names contain this, in upper or lower case"),
                "sort": one_of("`worst`: the worst first, else by name", {"worst": "worst"}),
                "limit": limit("groups", DEFAULT_ROWS),
                "offset": offset("groups"),
            },
        ),
        Endpoint(
            path="/api/v1/groups/{group:path}",  # a group's name may have a slash in it
            tool="group",
            summary="one group, with what it has committed",
            answer=group,
            schema=ref("GroupInFull"),
            path_parameters={"group": text("its name", place="path", required=True)},
            parameters={"limit": limit("partitions", MAX_ROWS)},
            refusals={404: "the twin does not know the group"},
        ),
    ]
