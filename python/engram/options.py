"""Options of engram's library as values of Python: numbers, truth and text."""

from collections.abc import Mapping
from typing import NamedTuple

Value = bool | int | float | str


class Option(NamedTuple):
    """An option: its name, its default, what is allowed ("integer 1..100", "a | b") and what it is."""

    name: str
    default: Value
    allowed: str
    help: str


def option_text(name: str, value: Value) -> str:
    """The value as the library's text. Raises ValueError for a value of another type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, str)):
        return str(value)
    raise ValueError(f"{name} = {value!r} is not allowed; it takes a number, a truth value or a text")


def option_texts(options: Mapping[str, Value]) -> list[tuple[str, str]]:
    """Names and texts of all, in their order."""
    return [(name, option_text(name, value)) for name, value in options.items()]


def option_value(text: str, allowed: str) -> Value:
    """The library's text as a value, of the type that what is allowed begins with."""
    if allowed.startswith("integer "):
        return int(text)
    if allowed.startswith("number "):
        return float(text)
    if allowed == "false | true":
        return text == "true"
    return text
