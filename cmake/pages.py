"""Copies documents to FOLDER for cmake --install. Usage: pages.py SOURCE FOLDER FILE…, files relative to SOURCE.

A relative link to a file that is not copied would lead nowhere: its text and its path take the link's place.
"""
import os
import re
import shutil
import sys
from pathlib import Path

SOURCE, FOLDER, FILES = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^()#\s]+)(#[^()\s]*)?\)")


def page(name):
    def kept(match):
        text, target = match[1], match[2]
        path = os.path.normpath(os.path.join(os.path.dirname(name), target))
        if ":" in target or path in FILES:
            return match[0]
        return text if path in text else f"{text} (`{path}`)"

    return LINK.sub(kept, (SOURCE / name).read_text(encoding="utf-8"))


shutil.rmtree(FOLDER, ignore_errors=True)  # a page that is gone from the sources goes from here
for name in FILES:
    copy = FOLDER / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".md"):
        copy.write_text(page(name), encoding="utf-8")
    else:
        shutil.copyfile(SOURCE / name, copy)
