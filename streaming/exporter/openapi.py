"""The description of the API in OpenAPI 3.1, made from the declared endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, Final

from streaming.exporter.endpoint import JSON, Endpoint
from streaming.exporter.schemas import components, ref
from streaming.questions.parameters import InputParameter
from twin.engine.catalog import Catalog

NEEDS_ONE_OF: Final = "x-needs-one-of"
"""Extension with the parameters of which one must be given: OpenAPI 3.1 cannot say that."""

OF_MOMENT: Final = {
    "properties": {
        "at": {"type": "string", "format": "date-time", "description": "the cycle that it is of"},
        "resolution_ms": {"type": "integer", "description": "the usual time between two cycles"},
        "complete": {"type": "boolean", "description": "nothing is missing of that moment"},
        "filled": {
            "type": "boolean",
            "description": "the archive had a gap there, and the state was computed from "
            "observations",
        },
    }
}
"""Fields that an answer about a moment of the past has as well."""

_CONVERTER: Final = re.compile(r":\w+}")
_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")
"""Links of the documentation would be broken here."""


def description(catalog: Catalog, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document of a cluster."""
    endpoints = list(endpoints)
    return document(endpoints, components(catalog, forms_of(endpoints)))


def forms_of(endpoints: Iterable[Endpoint]) -> list[Any]:
    """The types of their answers."""
    return [*dict.fromkeys(each.form for each in endpoints if each.form is not None)]


def document(endpoints: Iterable[Endpoint], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """The OpenAPI document of endpoints whose answers have these schemas."""
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "kafka-twin",
            "version": version("kafka-twin"),
            "summary": "A live digital twin of every partition of a Kafka cluster.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {described_path(each): {"get": _operation(each)} for each in endpoints},
        "components": {"schemas": schemas},
    }


def described_path(endpoint: Endpoint) -> str:
    """The path as OpenAPI writes it, without the types of its parameters."""
    return _CONVERTER.sub("}", endpoint.path)


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    parameters = {**endpoint.path_parameters, **(endpoint.parameters or {})}
    answer = {endpoint.media_type: {"schema": _schema(endpoint)}}
    refusals = dict(endpoint.refusals)
    if endpoint.of_state:
        refusals.setdefault(404, "there is no such moment")
    if endpoint.parameters is not None:
        refusals.setdefault(400, "a parameter is wrong, or there is no such parameter")
    is_json = endpoint.refusal_media_type == JSON
    refusal = {
        endpoint.refusal_media_type: {"schema": ref("Error") if is_json else {"type": "string"}}
    }
    needed = ", ".join(endpoint.needs_one_of)
    return {
        "operationId": _operation_id(endpoint),
        "summary": without_links(endpoint.summary),
        **({"description": f"At least one is needed of: {needed}."} if needed else {}),
        **({NEEDS_ONE_OF: list(endpoint.needs_one_of)} if needed else {}),
        "parameters": [_parameter(name, each) for name, each in parameters.items()],
        "responses": {
            "200": {"description": without_links(endpoint.summary), "content": answer},
            **{
                str(status): {"description": why, "content": refusal}
                for status, why in sorted(refusals.items())
            },
        },
    }


def _schema(endpoint: Endpoint) -> Mapping[str, Any]:
    """The schema of an answer; of a past moment, it says which it is."""
    return {"allOf": [endpoint.schema], **OF_MOMENT} if endpoint.of_state else endpoint.schema


def _operation_id(endpoint: Endpoint) -> str:
    """Words of the path, e.g. partitions_topic_partition_epochs."""
    words = re.findall(r"[a-z]+", described_path(endpoint).removeprefix("/api/v1"))
    return "_".join(words) or "page"


def _parameter(name: str, parameter: InputParameter) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = parameter.schema
    if parameter.repeated:
        schema = {"type": "array", "items": schema, "minItems": 1}
    return {
        "name": name,
        "in": parameter.place,
        "description": without_links(parameter.in_url),
        "required": parameter.required,
        "schema": schema,
    }


def without_links(text: str) -> str:
    """A text of the documentation without the addresses of its links."""
    return _LINK.sub(r"\1", text)
