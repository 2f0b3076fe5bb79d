"""Options of a command, said once in its signature and read in two ways.

Rules kept here
- A command is a function whose parameters are all `Annotated[type, Option(...)]` with a default. Typer makes its help
  and its error messages from that (`for_typer`).
- A line without a mistake in it is read here (`read`), because Typer takes longer to load than a broker to start. A
  line that is not understood, or asks for help, is left to Typer, which says what is wrong with it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Final, get_args

Command = Callable[..., None]

_READERS: Final[dict[object, Callable[[str], object]]] = {str: str, Path: Path}


@dataclass(frozen=True, slots=True)
class Option:
    """One option; without names of its own it is called like its parameter."""

    names: tuple[str, ...]
    help: str
    metavar: str | None


def option(*names: str, help: str, metavar: str | None = None) -> Option:
    """What stands beside a parameter's type."""
    return Option(names, help, metavar)


def read(command: Command, words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments that these words of a command line stand for; None if they are not understood."""
    parameters = {name: one for one in signature(command).parameters.values() for name in _names(one)}
    given: dict[str, Any] = {}
    left = list(words)
    while left:
        name, equals, value = left.pop(0).partition("=")
        parameter = parameters.get(name)
        if parameter is None or (equals and not name.startswith("--")):
            return None
        kinds = _kinds(parameter)
        if bool in kinds:
            if equals:
                return None
            given[parameter.name] = True
            continue
        if not equals:
            if not left or left[0].startswith("-"):
                return None
            value = left.pop(0)
        if list[str] in kinds:
            given.setdefault(parameter.name, []).append(value)
            continue
        given[parameter.name] = _READERS[kinds[0]](value)
    return given


def for_typer(command: Command) -> Command:
    """The same command with Typer's own options beside the types."""
    import typer

    def run(**arguments: Any) -> None:
        command(**arguments)

    described = signature(command)
    run.__signature__ = described.replace(  # type: ignore[attr-defined]
        parameters=[
            one.replace(annotation=_annotated(one, typer.Option(*found.names, help=found.help, metavar=found.metavar)))
            for one in described.parameters.values()
            for found in (_option(one),)
        ]
    )
    run.__annotations__ = {one.name: one.annotation for one in signature(run).parameters.values()}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _annotated(parameter: Parameter, beside: object) -> object:
    return Annotated[get_args(parameter.annotation)[0], beside]


def _option(parameter: Parameter) -> Option:
    found = get_args(parameter.annotation)[1]
    assert isinstance(found, Option)
    return found


def _names(parameter: Parameter) -> tuple[str, ...]:
    return _option(parameter).names or (f"--{parameter.name.replace('_', '-')}",)


def _kinds(parameter: Parameter) -> tuple[object, ...]:
    """The types a parameter may have, without None."""
    kind = get_args(parameter.annotation)[0]
    if kind in _READERS or kind is bool:
        return (kind,)
    return tuple(one for one in get_args(kind) if one is not type(None))
