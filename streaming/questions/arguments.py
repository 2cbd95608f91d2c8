"""What a function is given: parameters that a user gives, declared in its signature.

    Annotated[T, InputParameter]    a value; required without a default
    a dataclass of such fields      several of them, which belong together

A name that Python has for itself has an underscore behind it.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from keyword import iskeyword
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from streaming.questions.parameters import InputParameter
from twin.declarations.signature import DeclarationError, name_of
from twin.declarations.table import UNKNOWN


@dataclass(frozen=True, slots=True)
class Signature:
    """What the positional parameters of a function are, and what a user gives."""

    reads: Sequence[Any]
    given: Mapping[str, InputParameter]
    together: Mapping[str, type[Any]]  # dataclasses, by keyword
    returns: Any

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments that the given values are."""
        rest = {_in_python(name): value for name, value in values.items()}
        return {
            name: kind(**{f.name: rest.pop(f.name) for f in fields(kind) if f.name in rest})
            for name, kind in self.together.items()
        } | rest


def signature_of(function: Callable[..., Any], kinds: Collection[Any]) -> Signature:
    """The signature of a function whose positional parameters are of those kinds.

    Raises:
        DeclarationError: a parameter is none of them, and not given by a user either.
    """
    hints = get_type_hints(function, include_extras=True)
    reads: list[Any] = []
    given: dict[str, InputParameter] = {}
    together: dict[str, type[Any]] = {}
    for each in inspect.signature(function).parameters.values():
        hint = hints.get(each.name)
        is_keyword = each.kind is each.KEYWORD_ONLY
        if not is_keyword and hint in kinds:
            reads.append(hint)
        elif is_keyword and isinstance(hint, type) and is_dataclass(hint):
            together[each.name] = hint
            of_fields = get_type_hints(hint, include_extras=True)
            for one in fields(hint):
                default = inspect.Parameter.empty if one.default is MISSING else one.default
                given |= _given(one.name, of_fields[one.name], default)
        elif is_keyword and (found := _given(each.name, hint, each.default)):
            given |= found
        else:
            *others, last = (getattr(kind, "__name__", "OwnTopics") for kind in kinds)
            raise DeclarationError(
                f"{name_of(function)}: parameter {each.name} is neither {', '.join(others)} nor "
                f"{last}, nor a keyword with Annotated[..., InputParameter]"
            )
    return Signature(reads, given, together, hints.get("return"))


def _given(name: str, hint: Any, default: Any) -> dict[str, InputParameter]:
    """The parameter by the name that a user writes; nothing if it is none."""
    if get_origin(hint) is not Annotated or not isinstance(get_args(hint)[1], InputParameter):
        return {}
    parameter = _with_default(get_args(hint)[1], default)
    return {parameter.header or name.rstrip("_"): parameter}


def _in_python(name: str) -> str:
    """The name of the argument: Last-Event-ID is last_event_id, and from is from_."""
    name = name.lower().replace("-", "_")
    return f"{name}_" if hasattr(builtins, name) or iskeyword(name) else name


def _with_default(parameter: InputParameter, default: Any) -> InputParameter:
    """The parameter with the default of a signature, unless it has one for URLs."""
    if default is inspect.Parameter.empty:
        return replace(parameter, required=True)
    is_nothing = default is None or default in (UNKNOWN, "", (), 0)
    if is_nothing or parameter.default is not None:
        return parameter
    return replace(parameter, default=default)
