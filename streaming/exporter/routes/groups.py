"""Groups of consumers."""

from __future__ import annotations

from typing import Annotated, Any

from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import endpoint
from streaming.exporter.schemas import page_of, ref
from streaming.exporter.view_source import ViewSource
from streaming.exporter.views import group_page
from streaming.exporter.views import groups as groups_views
from streaming.exporter.views.groups import GroupFilter
from streaming.questions.parameters import MAX_ROWS, limit, text


@endpoint(
    "/api/v1/groups",
    "[groups of consumers](#groups), a page at a time",
    schema=page_of("groups", "Group"),
    tool="groups",
)
def groups(source: ViewSource, *, which: GroupFilter) -> dict[str, Any]:
    """A page of groups."""
    return groups_views.groups(source.view, which, source.now_ms())


@endpoint(
    "/api/v1/groups/{group:path}",  # a group's name may have a slash in it
    "one group, with what it has committed",
    schema=ref("GroupInFull"),
    tool="group",
    refusals={404: "the twin does not know the group"},
)
def group(
    source: ViewSource,
    *,
    group: Annotated[str, text("its name", place="path")],
    limit: Annotated[int, limit("partitions")] = MAX_ROWS,
) -> dict[str, Any]:
    """One group."""
    content = group_page.group(source.view, group, source.now_ms(), limit)
    if content is None:
        raise RefusedError(f"group {group} is not known", 404)
    return content
