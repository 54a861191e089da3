"""The relative links of Markdown pages, and which of them lead nowhere."""
import re
from pathlib import Path
from urllib.parse import unquote

FENCE = re.compile(r"^\s*(```|~~~)")
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\s*\[[^\]^]+\]:\s+<?([^\s>]+)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")


def prose(page):
    """Yields (line number, line) outside fenced code."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def links(page):
    """Yields (line number, target) of each link to a file or an anchor."""
    for number, line in prose(page):
        for match in LINK.finditer(CODE.sub("code", line)):
            target = match[1] or match[2]
            if not re.match(r"[a-z][a-z0-9+.-]*:", target):
                yield number, unquote(target)


def anchors(page):
    """Returns the anchors of a page's headings, as GitHub makes them."""
    found = set()
    for _, line in prose(page):
        if match := HEADING.match(line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            repeats = sum(1 for other in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", other))
            found.add(f"{slug}-{repeats}" if slug in found else slug)
    return found


def broken(pages, root):
    """Returns "page:line: error: …" for each link to no file or heading, or to a file outside root."""
    errors = []
    for page in pages:
        for number, target in links(page):
            name, _, anchor = target.partition("#")
            to = (page.parent / name).resolve() if name else page.resolve()
            if not to.exists() or not to.is_relative_to(Path(root).resolve()):
                errors.append(f"{page}:{number}: error: {target} leads to no file")
            elif anchor and anchor not in anchors(to):
                errors.append(f"{page}:{number}: error: {target} names no heading, expected one of {sorted(anchors(to))}")
    return errors
