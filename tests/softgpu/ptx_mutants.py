"""Small changes of PTX that spoil how threads are ordered: fences, orders, barriers, counts, descriptors.

A mutant is one changed line, and lines keep their numbers. KINDS names each change. `sites` finds where it
applies.
"""
import re
from dataclasses import dataclass

NEW_REGISTER = "%mutant"


@dataclass(frozen=True)
class Mutant:
    kind: str
    line: int  # number of the line, from 1
    before: str
    after: str


def with_changed(operand, instruction, bits=32):
    """Replaces `operand` by a new register that `instruction`, such as "add.s32 {}, {}, 1", computes from
    it."""
    def change(line):
        found = re.match(r"(\s*)(@!?%p\d+\s+)?(.*)$", line)
        blank, guard, text = found.group(1), found.group(2) or "", found.group(3)
        where = re.search(operand, text)
        if not where:
            return None
        begin, end = where.span(1)
        made = guard + instruction.format(NEW_REGISTER, where.group(1)) + ";"
        return f"{blank}{{ .reg .b{bits} {NEW_REGISTER}; {made} {guard}{text[:begin]}{NEW_REGISTER}{text[end:]} }}"
    return change


def replaced(pattern, by):
    def change(line):
        after = re.sub(pattern, by, line, count=1)
        return after if after != line else None
    return change


def dropped(line):
    """Drops the instruction. Its guard goes with it, so that all lanes go on."""
    return ""


def of_threads(more):
    """Returns a change that lets a barrier expect so many more threads."""
    def change(line):
        return re.sub(r"(bar\.sync\s+\d+,\s*)(\d+)", lambda m: m.group(1) + str(int(m.group(2)) + more), line)
    return change


def numbered(more):
    """Returns a change that adds to the number at the end of an instruction."""
    def change(line):
        return re.sub(r"(\d+);", lambda m: str(int(m.group(1)) + more) + ";", line)
    return change


def arrived_at_once(line):
    """Replaces the arrival of the thread's copies by an arrival of the thread itself."""
    address = re.search(r"\[[^\]]*\]", line).group(0)
    return f"{{ .reg .b64 {NEW_REGISTER}; mbarrier.arrive.shared.b64 {NEW_REGISTER}, {address}; }}"


LAST = r"(%rd?\d+);"
DESCRIPTOR = r"(?:\{[^}]*\},\s*)+(?:%rd\d+, )?(%rd\d+), "

# Each kind has a pattern of the instructions it applies to, and the change of their lines.
KINDS = {
    "fence dropped": (r"fence\.(release|acquire|acq_rel|sc)\.\w+;", dropped),
    "fence of a CTA": (r"fence\.(release|acquire|acq_rel|sc)\.gpu;", replaced(r"\.gpu", ".cta")),
    "fence.acq_rel that acquires alone": (r"fence\.acq_rel\.gpu;", replaced("acq_rel", "acquire")),
    "fence.proxy.async dropped": (r"fence\.proxy\.async[^;]*;", dropped),
    "fence.mbarrier_init dropped": (r"fence\.mbarrier_init[^;]*;", dropped),
    "st.release relaxed": (r"st\.release\.", replaced(r"\.release\.", ".relaxed.")),
    "st.release weak": (r"st\.release\.", replaced(r"\.release\.\w+\.", ".")),
    "st.release of a CTA": (r"st\.release\.gpu", replaced(r"\.gpu", ".cta")),
    "ld.acquire relaxed": (r"ld\.acquire\.", replaced(r"\.acquire\.", ".relaxed.")),
    "ld.acquire weak": (r"ld\.acquire\.", replaced(r"\.acquire\.\w+\.", ".")),
    "ld.acquire of a CTA": (r"ld\.acquire\.gpu", replaced(r"\.gpu", ".cta")),
    "ld.relaxed weak": (r"ld\.relaxed\.", replaced(r"\.relaxed\.\w+\.", ".")),
    "ld.relaxed of a CTA": (r"ld\.relaxed\.gpu", replaced(r"\.gpu", ".cta")),
    "atom.acq_rel relaxed": (r"atom\.acq_rel\.", replaced("acq_rel", "relaxed")),
    "atom.acq_rel without release": (r"atom\.acq_rel\.", replaced("acq_rel", "acquire")),
    "atom.acq_rel without acquire": (r"atom\.acq_rel\.", replaced("acq_rel", "release")),
    "atomic of a CTA": (r"(atom|red)\.\w+\.gpu", replaced(r"\.gpu", ".cta")),
    "red dropped": (r"\bred\.\w+\.\w+\.global", dropped),
    "bar.sync dropped": (r"bar\.sync", dropped),
    "bar.sync of fewer threads": (r"bar\.sync\s+\d+, ", of_threads(-32)),
    "bar.sync of more threads": (r"bar\.sync\s+\d+, ", of_threads(32)),
    "bar.warp.sync dropped": (r"bar\.warp\.sync", dropped),
    "mbarrier.init of one more": (r"mbarrier\.init", with_changed(LAST, "add.s32 {}, {}, 1")),
    "mbarrier.init of one fewer": (r"mbarrier\.init", with_changed(LAST, "sub.s32 {}, {}, 1")),
    "mbarrier.arrive dropped": (r"mbarrier\.arrive\.shared", dropped),
    "mbarrier.arrive counted once more": (r"mbarrier\.arrive\.shared", with_changed(LAST, "add.s32 {}, {}, 1")),
    "parity of the other phase": (r"try_wait\.parity", with_changed(LAST, "xor.b32 {}, {}, 1")),
    "expect_tx of more bytes": (r"mbarrier\.arrive\.expect_tx", with_changed(LAST, "add.s32 {}, {}, 16")),
    "expect_tx of fewer bytes": (r"mbarrier\.arrive\.expect_tx", with_changed(LAST, "sub.s32 {}, {}, 16")),
    "bulk copy of more bytes": (r"cp\.async\.bulk", with_changed(r"\], (%r\d+), \[", "add.s32 {}, {}, 16")),
    "bulk copy of fewer bytes": (r"cp\.async\.bulk", with_changed(r"\], (%r\d+), \[", "sub.s32 {}, {}, 16")),
    "bulk copy dropped": (r"cp\.async\.bulk\.shared", dropped),
    "cp.async dropped": (r"cp\.async\.c[ag]\.", dropped),
    "cp.async.mbarrier.arrive dropped": (r"cp\.async\.mbarrier\.arrive", dropped),
    "cp.async.mbarrier.arrive at once": (r"cp\.async\.mbarrier\.arrive", arrived_at_once),
    "wgmma.fence dropped": (r"wgmma\.fence", dropped),
    "wgmma.commit_group dropped": (r"wgmma\.commit_group", dropped),
    "wgmma.wait_group dropped": (r"wgmma\.wait_group", dropped),
    "wgmma.wait_group for one fewer": (r"wgmma\.wait_group", numbered(1)),
    "wgmma dropped": (r"wgmma\.mma_async", dropped),
    "descriptor: start address": (r"wgmma\.mma_async", with_changed(DESCRIPTOR, "xor.b64 {}, {}, 2", 64)),
    "descriptor: leading dimension": (r"wgmma\.mma_async", with_changed(DESCRIPTOR, "xor.b64 {}, {}, 262144", 64)),
    "descriptor: stride": (r"wgmma\.mma_async", with_changed(DESCRIPTOR, "xor.b64 {}, {}, 34359738368", 64)),
    "descriptor: swizzle": (r"wgmma\.mma_async", with_changed(DESCRIPTOR, "xor.b64 {}, {}, 4611686018427387904", 64)),
    "descriptor: base offset": (r"wgmma\.mma_async", with_changed(DESCRIPTOR, "xor.b64 {}, {}, 562949953421312", 64)),
    "wgmma transposed": (r"wgmma\.mma_async", replaced(r"0;$", "1;")),
    "xor of an address dropped": (r"xor\.b32\s+%r\d+, %r\d+, %r\d+;", replaced(r"xor\.b32(\s+%r\d+, %r\d+), %r\d+;", r"mov.b32\1;")),
    "setmaxnreg dropped": (r"setmaxnreg", dropped),
    "setmaxnreg of 8 more": (r"setmaxnreg", numbered(8)),
    "setmaxnreg of 8 fewer": (r"setmaxnreg", numbered(-8)),
    "griddepcontrol.wait dropped": (r"griddepcontrol\.wait", dropped),
    "griddepcontrol.launch_dependents dropped": (r"griddepcontrol\.launch_dependents", dropped),
}


def step_lines(text):
    """Yields the lines of kernels that steps run. The kernel that packs weights once is left out."""
    inside = True
    for number, line in enumerate(text.splitlines(), 1):
        if ".entry" in line:
            inside = "mk_pack" not in line
        if inside:
            yield number, line


def sites(text, executed=None):
    """Yields every mutant of a PTX text. `executed` holds the numbers of the lines that may change; None:
    all."""
    lines = [(number, line) for number, line in step_lines(text) if executed is None or number in executed]
    for kind, (pattern, change) in KINDS.items():
        for number, line in lines:
            if not re.search(pattern, line):
                continue
            after = change(line)
            if after is not None and after != line:
                yield Mutant(kind, number, line.strip(), after.strip())


def mutated(text, mutants):
    """Returns the text with these changes."""
    lines = text.splitlines()
    for mutant in mutants:
        lines[mutant.line - 1] = mutant.after
    return "\n".join(lines) + "\n"
