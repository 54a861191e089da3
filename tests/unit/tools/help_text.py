"""Commands and options as `--help` prints them, read without the code that makes the manual and the completions."""
import re
import subprocess
from pathlib import Path

FLAGS = re.compile(r"^  (-\S+)(?: (\S+))?")
COMMAND = re.compile(r"^  ([a-z]\S*) ")


class Help:
    """options: first flag -> (all flags, type, names of values); commands: names."""

    def __init__(self, *command):
        text = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
        self.options, self.commands = {}, []
        section = ""
        for line in text.splitlines():
            section = line if line.endswith(":") and not line.startswith(" ") else section
            if section == "Options:" and (match := FLAGS.match(line)):
                flags = [re.sub(r"\{.*", "", flag) for flag in match[1].split(",")]
                names = re.search(r":\{(.*)\}", match[2] or "")
                self.options[flags[0]] = flags, match[2], names[1].split(",") if names else []
            if section == "Subcommands:" and (match := COMMAND.match(line)):
                self.commands.append(match[1])

    def flags(self):
        return sorted(flag for flags, _, _ in self.options.values() for flag in flags)


def commands_of(program):
    """Yields (words before the options, help) of a program and of each of its commands."""
    top = Help(program)
    yield (Path(program).name,), top
    for name in top.commands:
        yield (Path(program).name, name), Help(program, name)
