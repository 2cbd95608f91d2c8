"""Tools for agents, made of the declared endpoints.

A tool is an endpoint that names one. Its parameters are those of the endpoint, and a call becomes a
request to it: what a parameter may be is decided there, once, and so is the line that refuses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from streaming.exporter.endpoint import Endpoint
from streaming.exporter.fleet.below import BELOW
from streaming.exporter.openapi import without_links
from streaming.questions.parameters import InputParameter, read_all, text

_PLACE: Final = re.compile(r"{(\w+)(?::\w+)?}")

Request = tuple[str, list[tuple[str, str]]]
"""A path, and the parameters of the query."""

Ask = Callable[[str, Sequence[tuple[str, str]]], Awaitable[tuple[int, bytes]]]
"""Sends a request: status and body of the answer. Raises a UserError where there is none."""


@dataclass(frozen=True, slots=True)
class Tool:
    """An endpoint as a tool."""

    endpoint: Endpoint

    @property
    def description(self) -> str:
        """Its meaning for an agent, made of declarations alone, without names of the cluster."""
        endpoint = self.endpoint
        parts = [without_links(endpoint.summary) + ".", endpoint.help]
        if endpoint.needs_one_of:
            parts.append(f"At least one is needed of: {', '.join(endpoint.needs_one_of)}.")
        text = "\n\n".join(filter(None, parts))
        return text[0].upper() + text[1:]

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        parameters = self._parameters()
        return {
            "type": "object",
            "properties": {name: _schema(each) for name, each in parameters.items()},
            "required": [name for name, each in parameters.items() if each.required],
            "additionalProperties": False,
        }

    def request(self, arguments: Mapping[str, Any]) -> Request:
        """The request that answers the call.

        Raises:
            ValueError: one line on a parameter of the path. Others are for the endpoint to judge.
        """
        left_out = self.endpoint.not_for_tool
        given = [
            (name, text)
            for name, value in arguments.items()
            if name not in left_out
            for text in _texts(value)
        ]
        in_path = self.endpoint.path_parameters
        read_all([each for each in given if each[0] in in_path], in_path)
        texts = dict(given)
        path = _PLACE.sub(lambda place: _in_path(texts[place[1]]), self.endpoint.path)
        return path, [each for each in given if each[0] not in in_path]

    def _parameters(self) -> dict[str, InputParameter]:
        declared = {**self.endpoint.path_parameters, **(self.endpoint.parameters or {})}
        left_out = self.endpoint.not_for_tool
        return {
            name: each
            for name, each in declared.items()
            if each.place != "header" and name not in left_out
        }


Tools = Mapping[str, Tool]
"""By name."""

FLEET: Final = "fleet"
"""The tool that names all clusters, where there are several."""

CLUSTER: Final = "cluster"
_CLUSTER: Final = replace(
    text("name of the cluster, as the tool `fleet` has it", place="path"), required=True
)


def tools_of_fleet(of_all: Iterable[Endpoint], of_each: Iterable[Endpoint]) -> Tools:
    """The tools about all clusters, and those about each, to which its name is given."""
    return {**tools_of(of_all), **tools_of(map(_below_its_path, of_each))}


def _below_its_path(endpoint: Endpoint) -> Endpoint:
    path = f"{BELOW}/{{{CLUSTER}}}{endpoint.path}"
    return replace(
        endpoint, path=path, path_parameters={CLUSTER: _CLUSTER, **endpoint.path_parameters}
    )


def tools_of(endpoints: Iterable[Endpoint]) -> Tools:
    """The tools of those endpoints that are one, by name."""
    return {each.tool: Tool(each) for each in endpoints if each.tool}


def _in_path(text: str) -> str:
    """A text as one part of a path; dots alone would be taken as steps to the parts before it."""
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def _schema(parameter: InputParameter) -> dict[str, Any]:
    schema = dict(parameter.schema)
    if parameter.default is not None:
        is_number = schema["type"] == "integer"
        schema["default"] = parameter.default if is_number else parameter.write(parameter.default)
    if parameter.repeated:
        schema = {"type": "array", "items": schema, "minItems": 1}
    return {**schema, "description": without_links(parameter.in_url)}


def _texts(value: Any) -> list[str]:
    """An argument as the texts of a URL; null is none."""
    match value:
        case None:
            return []
        case list():
            return [text for each in value for text in _texts(each)]
        case str():
            return [value]
        case float() if value.is_integer():
            return [str(int(value))]
        case _:
            return [json.dumps(value)]
