"""Shells that say what they offer for a command line. offers() returns sorted words, without descriptions."""
import os
import pty
import re
import select
import subprocess
import time


class Bash:
    PATHS = "bash-completion/completions"

    def __init__(self, share, folder):
        self.share, self.folder = share, folder

    def offers(self, line):
        # Words break at spaces and at "=", as bash breaks them.
        words = re.findall(r"=|[^\s=]+", line) + ([""] if line.endswith(" ") else [])
        script = f"""source "$0/{words[0]}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _{words[0]}
            ((${{#COMPREPLY[@]}} == 0)) || printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(["bash", "--norc", "-c", script, self.share / self.PATHS, *words], cwd=self.folder,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return sorted(done.stdout.splitlines())

    def short_flags(self, line):
        return self.offers(line + " -")

    def close(self):
        pass


class Fish(Bash):
    PATHS = "fish/vendor_completions.d"

    def offers(self, line):
        script = "for file in $argv[1]/*.fish; source $file; end; complete -C $argv[2]"
        done = subprocess.run(["fish", "--no-config", "-c", script, self.share / self.PATHS, line], cwd=self.folder,
                              capture_output=True, text=True, timeout=60, env={**os.environ, "HOME": str(self.folder)})
        assert done.returncode == 0 and not done.stderr, done.stderr
        return sorted({row.split("\t")[0].rstrip("/") for row in done.stdout.splitlines()})


class Zsh:
    """A terminal's zsh. A key records what compadd gets; zsh offers the recorded words that match."""

    SETUP = r"""
        PS1= PROMPT_EOL_MARK= ; unsetopt zle_bracketed_paste; stty -echo rows 200 cols 200; LISTMAX=9999
        fpath=($SITE $fpath); autoload -Uz compinit; compinit -u -D
        compadd() {
          if [[ " $* " == *" -O "* || " $* " == *" -A "* || " $* " == *" -D "* ]]; then builtin compadd "$@"; return; fi
          local -a matching; builtin compadd -O matching "$@"
          print -rl -- $IPREFIX${^matching} >>$FOUND
          builtin compadd "$@"
        }
        offer() { : >$FOUND; zle list-choices; print -r -- END >>$FOUND; zle kill-buffer; zle -R -c }
        zle -N offer; bindkey '^I' offer; print READY >$FOUND
    """

    def __init__(self, share, folder):
        self.found = os.path.join(folder, ".found")
        with open(os.path.join(folder, ".setup"), "w", encoding="utf-8") as setup:
            setup.write(self.SETUP)
        self.terminal, inner = pty.openpty()
        environment = {**os.environ, "SITE": str(share / "zsh/site-functions"), "FOUND": self.found, "TERM": "dumb", "HOME": folder}
        self.process = subprocess.Popen(["zsh", "-f", "-i"], stdin=inner, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        cwd=folder, env=environment, start_new_session=True)
        os.close(inner)
        self.type("source .setup\n", "READY")

    def type(self, keys, end):
        """Types keys, waits until the file of findings ends with this line, and returns the lines before it."""
        os.write(self.terminal, keys.encode())
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 0.02)[0]:
                os.read(self.terminal, 65536)  # zsh waits where nobody reads
            if os.path.exists(self.found):
                with open(self.found, encoding="utf-8") as file:
                    lines = file.read().splitlines()
                if lines and lines[-1] == end:
                    os.remove(self.found)
                    return lines[:-1]
        raise AssertionError(f"zsh does not answer {keys!r}")

    def offers(self, line):
        found = {word.rstrip("=").replace("\\ ", " ") for word in self.type(line + "\t", "END") if word}
        # Behind the last positional argument zsh offers options for an empty word, too.
        return sorted(word for word in found if not (line.endswith(" ") and word.startswith("-")))

    def short_flags(self, line):
        return self.offers(line + " -")

    def close(self):
        self.process.kill()
        self.process.wait(timeout=60)
        os.close(self.terminal)


SHELLS = {"bash": Bash, "fish": Fish, "zsh": Zsh}
