"""Small edits of C++ source. sites(text) gives every Edit that the operators below make of a file.

The operators rely on the format that tools/lint asks for: binary operators stand between spaces, template
brackets do not.
"""
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    operator: str
    line: int
    begin: int  # offsets into the text
    end: int
    before: str
    after: str


SWAPS = {  # operators and the two texts that each exchanges
    "< <=": ("<", "<="),
    "> >=": (">", ">="),
    "== !=": ("==", "!="),
    "&& ||": ("&&", "||"),
    "+ -": ("+", "-"),
}
WORDS = {
    "min max": re.compile(r"(?<=std::)(ranges::)?(min|max)(?=[<(_])"),
    "continue break": re.compile(r"\b(continue|break)(?=;)"),
}
OPERATORS = [*SWAPS, "dropped !", "literal + 1", *WORDS, "dropped statement", "dropped error return"]

SKIPPED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^\s()\\]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\''
    r"|^[ \t]*#(?:\\\n|[^\n])*|\bstatic_assert\([^;]*;",
    re.S | re.M,
)
NOT = re.compile(r"(?<=[\s(\[!])!(?=[\w(:*])")
LITERAL = re.compile(r"(?<![\w.'<])(\d+)([uUlL]*)(?![\w.'>])")
CONTROL = re.compile(r"(?:else\s+)?(?:if(?:\s+constexpr)?|for|while)\s*(?=\()|else\b")
KEYWORD = re.compile(
    r"(return|break|continue|using|delete|throw|goto|static|const|constexpr|auto|struct|class|enum|case|default|typedef|namespace)\b")
LVALUE = r"[*&]?[\w.:]+(?:->[\w.:]+)*"
ASSIGNMENT = re.compile(LVALUE + r"\s+(?:[-+*/%|&^]|<<|>>)?=\s")
STEP = re.compile(r"(?:\+\+|--)" + LVALUE + "$|" + LVALUE + r"(?:\+\+|--)$")
CALL = re.compile(LVALUE + "$")
ERROR = re.compile(r"[Ee]rror|fail|nullopt")
OPENING = {")": "(", "]": "[", "}": "{"}


def masked(text):
    """Returns the text with comments, strings, macros and static assertions blanked at the same length."""
    return SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0][0] not in "\"'R" else '"' + re.sub(r"[^\n]", "_", m[0][1:-1]) + '"', text)


def opening_of(text, close):
    """Returns the offset of the bracket that the one at `close` closes; -1 if there is none."""
    depth = 0
    for at in range(close, -1, -1):
        depth += (text[at] in OPENING) - (text[at] in "([{")
        if depth == 0:
            return at
    return -1


def closing_of(text, start, ends):
    """Returns the offset of the first of `ends` outside brackets, from `start` on; -1 if a bracket closes
    first."""
    depth = 0
    for at in range(start, len(text)):
        if depth == 0 and text[at] in ends:
            return at
        depth += (text[at] in "([{") - (text[at] in OPENING)
        if depth < 0:
            return -1
    return -1


def flat(text):
    """Returns the text without what is in brackets."""
    out, depth = [], 0
    for c in text:
        depth -= c in OPENING
        if depth == 0 and c not in OPENING and c not in "([{":
            out.append(c)
        depth += c in "([{"
    return "".join(out)


def statement_start(text, semicolon):
    """Returns where the statement starts that ends at this semicolon; -1 within the head of a loop."""
    at = semicolon - 1
    while at >= 0:
        c = text[at]
        if c in ")]":
            at = opening_of(text, at)
        elif c in "([":
            return -1
        elif c in ";{}" or (c == ":" and text[at - 1] != ":" and text[at + 1] == "\n"):
            break
        at -= 1
    start = at + 1
    while True:
        start += len(text[start:semicolon]) - len(text[start:semicolon].lstrip())
        control = CONTROL.match(text, start, semicolon)
        if not control:
            return start
        start = control.end()
        if text[start] == "(":
            start = closing_of(text, start + 1, ")") + 1


def statements(text):
    for match in re.finditer(";", text):
        start = statement_start(text, match.start())
        if start < 0:
            continue
        body = text[start : match.start()].rstrip()
        if not body or "{" in flat(body) or KEYWORD.match(body):
            continue
        plain = flat(body).rstrip()
        is_call = body.endswith(")") and CALL.match(plain)
        if is_call or ASSIGNMENT.match(plain + " ") or STEP.match(plain):
            yield start, match.end()


def error_returns(text, original):
    for match in re.finditer(r"\breturn\b", text):
        end = closing_of(text, match.end(), ";")
        before = text[: match.start()].rstrip()
        if before.endswith("{"):
            before = before[:-1].rstrip()
        if end < 0 or not before.endswith(")"):
            continue
        condition = opening_of(text, len(before) - 1)
        if not re.search(r"\bif\s*$", text[:condition]):
            continue
        if ERROR.search(original[match.end() : end]) or ".ok()" in text[condition : len(before)]:
            yield match.start(), end + 1


def sites(original):
    """Returns every edit of a source file, in the order of operators and places."""
    text = masked(original)
    found = []

    def add(operator, begin, end, after):
        found.append(Edit(operator, text.count("\n", 0, begin) + 1, begin, end, original[begin:end], after))

    for operator, pair in SWAPS.items():
        for match in re.finditer(r"(?<=\s)(" + "|".join(map(re.escape, pair)) + r")(?=\s)", text):
            add(operator, *match.span(), pair[match[1] == pair[0]])
    for match in NOT.finditer(text):
        add("dropped !", *match.span(), "")
    for match in LITERAL.finditer(text):
        add("literal + 1", *match.span(), str(int(match[1]) + 1) + match[2])
    other = {"min": "max", "max": "min", "continue": "break", "break": "continue"}
    for operator, pattern in WORDS.items():
        for match in pattern.finditer(text):
            word = match[match.lastindex]
            add(operator, match.end() - len(word), match.end(), other[word])
    for begin, end in statements(text):
        add("dropped statement", begin, end, "{}")
    for begin, end in error_returns(text, original):
        add("dropped error return", begin, end, "{}")
    return found
