"""Options of commands, made from the parameters of the API's URLs."""

from __future__ import annotations

from typing import Any, Final

import click

from streaming.questions.parameters import InputParameter, duration_ms


class ParameterType(click.ParamType[Any]):
    """Text that is parsed as in a URL, with the same error messages."""

    def __init__(self, parameter: InputParameter) -> None:
        self.name, self._read = parameter.kind, parameter.read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):  # a default
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION: Final = ParameterType(duration_ms("a duration"))


def option(name: str, parameter: InputParameter) -> click.Option:
    """The option of a command for that parameter; None or empty if it is not given."""
    flag = f"--{name.replace('_', '-')}"
    if parameter.kind == "flag":
        return click.Option([flag, name], is_flag=True, help=parameter.in_help)
    default: Any = {}  # click treats None as a given value
    if parameter.default is not None:
        default = {"default": parameter.write(parameter.default), "show_default": True}
    return click.Option(
        [flag, name],
        type=ParameterType(parameter),
        multiple=parameter.repeated,
        required=parameter.required,
        help=parameter.in_help,
        **default,
    )
