"""Settings as the library takes them: text under dotted keys, of dicts with Python's values."""

from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

Settings = list[tuple[str, str]]


def settings_of(config: Mapping[str, Any]) -> Settings:
    """The settings of a dict of sections, dotted keys, or both: {"run": {"steps": 1000}, "task.name": "tmaze"}.

    Raises:
        ValueError: a key is not text or stands twice, or a value is not a number, text or bool.
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
            yield name, _text(name, value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return repr(float(value))
    raise ValueError(f"{name} = {value!r} is not allowed; it takes a number, text or a bool")
