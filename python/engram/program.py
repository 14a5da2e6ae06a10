"""Where the program `engram` is, and the libraries that it is linked to."""

import importlib.util
import os
from pathlib import Path


def program() -> Path:
    """The program of this package: in bin/ of a wheel, or of the build folder that the package is imported from.

    Raises:
        FileNotFoundError: there is none.
    """
    package = Path(__file__).parent
    places = [package / "bin" / "engram", package.parent.parent / "engram"]
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(f"there is no program at {' or '.join(map(str, places))}; the target engram builds it")


def environment() -> dict[str, str]:
    """This process's environment, in which the program finds the libraries of the torch package."""
    spec = importlib.util.find_spec("torch")  # does not import it
    torch = Path(next(iter(spec.submodule_search_locations)))
    folders = [torch / "lib", *sorted((torch.parent / "nvidia").glob("*/lib"))]
    given = os.environ.get("LD_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([*map(str, folders), *([given] if given else [])])}
