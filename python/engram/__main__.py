"""The program `engram`: `python -m engram ARGUMENTS`, and the console script of the package."""

import os
import sys

from engram.program import environment, program


def main() -> None:
    """Becomes the program, with this process's arguments."""
    try:
        path = program()
    except FileNotFoundError as error:
        sys.exit(f"engram: {error}")
    os.execve(path, ["engram", *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
