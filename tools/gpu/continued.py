"""Lets a program that runs a model continue a prompt, for the scripts that hold its logits against others.

Of the program's arguments {checkpoint}, {prompt} and {logits} are replaced by the folder of the checkpoint, the prompt's
ids and the .npy file to write. It prints JSON with new_ids.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy

from kit import die_with_the_caller


def continued(program, folder, prompt, new, vocab):
    """Returns the ids that the program fed, and their logits in float64."""
    fill = {"{checkpoint}": folder, "{prompt}": ",".join(map(str, prompt)), "{logits}": f"{folder}/logits.npy"}
    command = [fill.get(word, word) for word in program] + ["--max-new-tokens", str(new)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=die_with_the_caller)
    if done.returncode != 0:
        sys.exit(f"{Path(sys.argv[0]).stem}: error: the program gave exit {done.returncode}: {done.stderr.strip()[-500:]}")
    ids = prompt + json.loads(done.stdout)["new_ids"][:-1]
    got = numpy.load(f"{folder}/logits.npy").astype(numpy.float64)
    if list(got.shape) != [len(ids), vocab]:
        sys.exit(f"{Path(sys.argv[0]).stem}: error: logits of {list(got.shape)}, expected {[len(ids), vocab]}")
    return ids, got


def arguments(description, tokens, new):
    """Returns the arguments of such a script. tokens, new: of the prompt and after it, where not given."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the model's config.json")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="of the model that is compared with")
    parser.add_argument("--tokens", type=int, default=tokens, help="of the prompt")
    parser.add_argument("--new", type=int, default=new, help="tokens after it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("program", nargs="+")
    return parser.parse_args()
