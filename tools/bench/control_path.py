"""Finds the shortest ways through a kernel's machine code between points where only control goes on.

The loader's ways lead from one copy to the next. The consumers' ways lead from a segment's start to its first poll, from
there to the first load of activations, on to the first product, and from the last product to the notification. The
shortest way has the fewest instructions; repeated waits are longer.
"""
import collections
import re
import subprocess
import tempfile
from pathlib import Path

LINE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.x]*)\s*(.*?);")
LABEL = re.compile(r"(\.L_x_\d+|\$__internal[\w$]+):")
# Branches that only diverged lanes take.
RARE = ("BRA.DIV", "BRA.U.ANY")
GLOBAL, SHARED = re.compile(r"LDG\.|LD\.|ATOMG"), re.compile(r"LDS|LDSM")
COPY = re.compile("UBLKCP|LDGSTS")

Instruction = collections.namedtuple("Instruction", "predicate opcode operands")


def instructions(sass):
    """The instructions of the text, and the number of each that may come after each."""
    code, labels, waiting = [], {}, []
    for line in sass.splitlines():
        if label := LABEL.match(line.strip()):
            waiting.append(label[1])
        elif found := LINE.match(line):
            for name in waiting:
                labels[name] = len(code)
            waiting = []
            code.append(Instruction((found[2] or "").strip(), found[3], found[4] + line[found.end():]))
    following = []
    for at, i in enumerate(code):
        targets = [labels[name] for name in re.findall(LABEL.pattern[:-1], i.operands) if name in labels]
        goes_on = [at + 1] if at + 1 < len(code) else []
        if i.opcode.startswith("BRX"):
            following.append(targets)
        elif i.opcode.startswith("BRA") and not i.opcode.startswith(RARE):
            always = not i.predicate and not re.match(r"!?U?P\d", i.operands)
            following.append(targets if always else targets + goes_on)
        elif i.opcode.startswith(("EXIT", "RET")) and not i.predicate:
            following.append([])
        elif i.opcode.startswith("CALL"):
            following.append(targets + goes_on)
        else:
            following.append(goes_on)
    return code, following


def ways_to(following, start, ends, blocked=()):
    """Yields the shortest ways from behind `start` to each of the ends, through no other end, the shortest of all first. A
    way has the numbers of its instructions, and ends with that of its end."""
    came, waiting = {}, collections.deque()
    for first in following[start]:
        came.setdefault(first, None)
        waiting.append(first)
    while waiting:
        at = waiting.popleft()
        if at in ends:
            way = [at]
            while came[way[-1]] is not None:
                way.append(came[way[-1]])
            yield way[::-1]
        elif at not in blocked:
            for then in following[at]:
                if then not in came:
                    came[then] = at
                    waiting.append(then)


def shortest(following, start, ends, blocked=()):
    """The first of ways_to(); empty: there is none."""
    return next(ways_to(following, start, ends, blocked), [])


def registers(text):
    return {f"R{int(n) + i}" for n, wide in re.findall(r"\bR(\d+)((?:\.64)?)", text) for i in range(2 if wide else 1)}


def counts(code, way):
    """Instructions of a way; loads that wait for an earlier load of it, one behind the other."""
    depth, deepest = {}, {"global": 0, "shared": 0}
    for at in way:
        i = code[at]
        parts = i.operands.split(",", 1)
        reads = registers(parts[1] if len(parts) > 1 else "") | (registers(i.operands) if "[" in parts[0] else set())
        behind = (max((depth.get(r, (0, 0)) for r in reads), default=(0, 0)))
        kind = "global" if GLOBAL.match(i.opcode) else "shared" if SHARED.match(i.opcode) else None
        if kind:
            behind = (behind[0] + (kind == "global"), behind[1] + (kind == "shared"))
            deepest["global"] = max(deepest["global"], behind[0])
            deepest["shared"] = max(deepest["shared"], behind[1])
        for r in registers(parts[0]):
            depth[r] = behind
    return {"instructions": len(way), "global_loads": deepest["global"], "shared_loads": deepest["shared"],
            "barriers": sum(code[at].opcode.startswith("BAR") and not code[at].predicate for at in way),
            "copies": sum(bool(COPY.match(code[at].opcode)) for at in way)}


def where(code, pattern):
    return {at for at, i in enumerate(code) if re.match(pattern, i.opcode)}


def summary(ways):
    """Returns the number of ways, the shortest one, and the one in the middle."""
    ways = sorted(ways, key=lambda way: way["instructions"])
    return {"ways": len(ways), "shortest": ways[0], "middle": ways[len(ways) // 2]} if ways else {"ways": 0}


def through(following, start, *ends):
    """The shortest way from behind `start` to one of the first ends, from there to one of the second, and so on; empty:
    there is none."""
    whole = []
    for reached in ends:
        way = shortest(following, start, reached)
        if not way:
            return []
        whole += way
        start = way[-1]
    return whole


def last_of_tile(code, following, product):
    """The last of the matrix instructions that follow `product` without a branch."""
    at = last = product
    while following[at] == [at + 1]:
        at += 1
        last = at if code[at].opcode.startswith(("HMMA", "HGMMA")) else last
    return last


def product_path(code, following, polls, products, blocked):
    """The ways of a product of up to 8 tokens: from its poll to the first load, on to the first product, from the last
    product to the barrier behind which sums are added, through the epilogue with norm outputs, and to the notification.
    Such a product stores the sums of four strips before that barrier, more than any other."""
    stores, barriers = where(code, "STS"), where(code, "BAR")
    best = None
    for poll in polls:
        for way in ways_to(following, poll, products, blocked):
            sums = through(following, last_of_tile(code, following, way[-1]), stores, barriers)
            worth = (sum(at in stores for at in sums), -len(way))
            if sums and (not best or worth > best[0]):
                best = (worth, way, sums)
    if not best:
        return {}
    _, way, sums = best
    loads, to_memory = where(code, r"LDG\.") - where(code, r"LDG\.\S*STRONG"), where(code, "STG")
    load = next((number for number, at in enumerate(way) if at in loads), -1)
    epilogue = through(following, sums[-1], where(code, "FADD"), to_memory, where(code, "SHFL"), to_memory)
    notify = epilogue and through(following, epilogue[-1], where(code, "MEMBAR"), where(code, "RED"))
    return {"poll_to_loads": way[:load + 1], "loads_to_product": way[load + 1:], "product_to_sums": sums,
            "epilogue": epilogue, "epilogue_to_notify": notify}


def control_path(sass):
    code, following = instructions(sass)
    copies, polls = where(code, COPY), {at - 1 for at in where(code, r"CCTL\.IVALL")}
    faults = where(code, r"LDG\.\S*STRONG") - polls  # looked at while something is waited for
    products, dispatch = where(code, "HMMA|HGMMA"), where(code, "BRX")
    ends = {at + 1 for at in polls}
    def between(pattern):
        return summary([counts(code, way) for at in sorted(where(code, pattern)) if (way := shortest(following, at, {at}, faults))])

    to_poll = [counts(code, [to] + way) for at in sorted(dispatch) for to in following[at]
               if (way := shortest(following, to, ends, products | copies))]
    found = {"instructions": len(code), "bulk_to_bulk": between("UBLKCP"), "rows_to_rows": between("LDGSTS"),
             "dispatch_to_poll": summary(to_poll)}
    for name, way in product_path(code, following, sorted(ends), products, ends | copies).items():
        found[name] = summary([counts(code, way)] if way else [])
    return found


BRACKETS = re.compile(r"\[[^]]*\]")


def covered(opcode):
    """How many registers an operand of this instruction covers at most, from the one that it names."""
    if found := re.match(r"[HQ]GMMA\.64x(\d+)", opcode):
        return int(found[1]) // 2  # 64 rows of f32 in 128 threads
    if "MMA" in opcode or ".128" in opcode:
        return 4
    return 2 if ".64" in opcode or ".WIDE" in opcode else 1


def highest_register(instruction):
    """The highest register that an instruction reads or writes; -1: it has none."""
    addresses = registers(" ".join(BRACKETS.findall(instruction.operands)))
    values = registers(BRACKETS.sub("", instruction.operands))
    return max([int(r[1:]) for r in addresses] + [int(r[1:]) + covered(instruction.opcode) - 1 for r in values], default=-1)


def register_limits(sass):
    """Returns (limit, highest register) of each setmaxnreg: the limit that it sets, and the highest register of the
    code up to the next one."""
    code, following = instructions(sass)
    starts = where(code, "USETMAXREG")
    found = []
    for start in sorted(starts):
        reached, waiting = {start}, [start]
        while waiting:
            for then in following[waiting.pop()]:
                if then not in reached and then not in starts:
                    reached.add(then)
                    waiting.append(then)
        limit = int(re.search(r"0x[0-9a-f]+", code[start].operands)[0], 16)
        found.append((limit, max(highest_register(code[at]) for at in reached)))
    return found


MATRIX = ("HMMA", "QMMA", "HGMMA", "QGMMA")  # mma.sync and wgmma, of 2-byte types and of 8-bit floats


def fullest(code, following, begin, end):
    """The way through a loop's body with the most matrix instructions and conversions of packed floats, and among such
    ways the shortest."""
    best = {begin: (0, 0, None)}
    for at in range(begin, end + 1):
        if at not in best:
            continue
        matrix, length, _ = best[at]
        for to in following[at]:
            found = (matrix + code[to].opcode.startswith((*MATRIX, "F2FP")), length - 1, at)
            if at < to <= end and (to not in best or found[:2] > best[to][:2]):
                best[to] = found
    way = [end] if end in best else []
    while way and best[way[-1]][2] is not None:
        way.append(best[way[-1]][2])
    return way[::-1]


def matrix_loops(sass):
    """Returns counts of each loop with matrix instructions of its own: those of its fullest way, its
    instructions, and its issue slots. Instructions that convert packed floats take two slots. Loops that take stages
    of the ring wait for an mbarrier."""
    code, following = instructions(sass)
    loops = {(to, at) for at, tos in enumerate(following) for to in tos if to <= at}
    owner = {}
    for loop in sorted(loops, key=lambda loop: loop[1] - loop[0]):
        for at in range(loop[0], loop[1] + 1):
            owner.setdefault(at, loop)
    found = []
    for loop in sorted({owner[at] for at in where(code, "|".join(MATRIX)) if at in owner}):
        opcodes = [code[at].opcode for at in fullest(code, following, *loop)]
        of = collections.Counter(opcode.split(".")[0] for opcode in opcodes)
        found.append({"matrix": sum(of[name] for name in MATRIX), "instructions": len(opcodes), "slots": len(opcodes) + of["F2FP"],
                      "global": of["LDG"], "shared": of["LDS"], "ring": of["SYNCS"] > 0})
    return found


def machine_code(mkc, nvdisasm, model, *options):
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "model.cubin"
        subprocess.run([mkc, "compile", model, "-o", cubin, *options], capture_output=True, check=True, timeout=300)
        return subprocess.run([nvdisasm, "-c", cubin], capture_output=True, check=True, text=True, timeout=300).stdout
