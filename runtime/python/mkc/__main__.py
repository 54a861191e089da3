"""The command mkc of the wheel: `python -m mkc`, and the script mkc."""
import os
import sys

from ._native import path_of


def main() -> None:
    program = str(path_of("mkc"))
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
