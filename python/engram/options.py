"""Options of engram's library, which takes text, as values of Python: numbers, truth and text."""

from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

Value = bool | int | float | str
Texts = list[tuple[str, str]]


class Option(NamedTuple):
    """An option: its name, its default, what is allowed ("integer 1..100", "a | b") and what it is."""

    name: str
    default: Value
    allowed: str
    help: str


def option_text(name: str, value: Any) -> str:
    """The value, one of numpy's included, as the library's text. Raises ValueError for a value of another type."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or type(value).__name__ == "bool":  # numpy's, too
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return repr(float(value))
    raise ValueError(f"{name} = {value!r} is not allowed; it takes a number, a truth value or a text")


def option_texts(options: Mapping[str, Any]) -> Texts:
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


def settings_of(config: Mapping[str, Any]) -> Texts:
    """The settings of a dict of sections, dotted keys, or both: {"run": {"steps": 1000}, "task.name": "tmaze"}.

    Raises:
        ValueError: a key is not text or stands twice, or a value is not a number, a truth value or a text.
    """
    settings = list(_flattened(config, ""))
    keys = [key for key, _ in settings]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"{key} is given twice")
    return settings


def _flattened(config: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if not isinstance(key, str):
            raise ValueError(f"the key {key!r} is not text")
        name = prefix + key
        if isinstance(value, Mapping):
            yield from _flattened(value, name + ".")
        else:
            yield name, option_text(name, value)
