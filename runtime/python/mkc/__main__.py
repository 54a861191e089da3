"""The command mkc of the wheel: `python -m mkc`, and the script mkc."""
import os
import sys

from ._native import path_of
from .errors import Error


def main() -> None:
    try:
        program = str(path_of("mkc"))
    except Error as e:
        sys.exit(f"mkc: {e}")
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as e:
        sys.exit(f"mkc: {program}: error: cannot run: {e.strerror}")


if __name__ == "__main__":
    main()
