"""Compares the binary interface of libmkrt.so with runtime/c_api/mkrt.abi, the table of the last one.
Usage: abi_table_test.py LIBRARY ROOT COMPILER

MKC_BLESS=1 writes the table anew. docs/c-abi.md says which changes old programs survive.
"""
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY, ROOT, COMPILER = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
TABLE = ROOT / "runtime" / "c_api" / "mkrt.abi"
HEADER = (ROOT / "runtime" / "c_api" / "mkrt.h").read_text(encoding="utf-8")
CODE = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
sys.path.insert(0, str(ROOT / "runtime" / "python"))
sys.dont_write_bytecode = True
from mkc import mkrt  # noqa: E402
from mkc.mkrt import _library  # noqa: E402


def bodies(kind):
    """The bodies of structs or enums, by name."""
    return {name: body for body, name in re.findall(rf"typedef {kind} mkrt_\w+ \{{(.*?)\}} (mkrt_\w+);", CODE, re.S)}


# Fields of each struct as (name, type), and values of each enum by name.
STRUCTS = {name: [(field, " ".join((kind + (length or "")).split()))
                  for kind, field, length in re.findall(r"([\w* ]+[ *])(\w+)(\[\d+\])?;", body)]
           for name, body in bodies("struct").items()}
ENUMS = {name: re.findall(r"(MKRT_\w+) =", body) for name, body in bodies("enum").items()}
FUNCTIONS = {name: " ".join(f"{result}({arguments})".split())
             for result, name, arguments in re.findall(r"^([\w* ]+[ *])(mkrt_\w+)\(((?:[^()]|\([^()]*\))*)\);", CODE, re.M)}


def compiled():
    """(size, offset) of fields, sizes of structs and values of enums, as the C compiler has them: {name: numbers}."""
    asked = {f"{s}.{f}": (f"sizeof((({s}*)0)->{f})", f"offsetof({s}, {f})") for s, fields in STRUCTS.items() for f, _ in fields}
    asked |= {name: (f"sizeof({name})", "0") for name in [*STRUCTS, *ENUMS]}
    asked |= {value: ("0", value) for values in ENUMS.values() for value in values}
    lines = "".join(f'printf("{name} %zu %zu\\n", (size_t){size}, (size_t){at});' for name, (size, at) in asked.items())
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "table.c"), Path(folder, "table")
        source.write_text(f'#include "runtime/c_api/mkrt.h"\n#include <stdio.h>\nint main(void) {{{lines} return 0;}}\n')
        subprocess.run([COMPILER, "-std=c11", f"-I{ROOT}", source, "-o", program], check=True, timeout=120)
        out = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout
    return {name: (int(size), int(at)) for name, size, at in map(str.split, out.splitlines())}


def exported():
    out = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True, timeout=60).stdout
    return {line.split()[-1] for line in out.splitlines()}


def soname():
    out = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True, timeout=60).stdout
    return re.search(r"SONAME.*\[(.*)\]", out)[1]


NUMBERS = compiled()


def versions():
    """The sizes of the versions of each struct, which the library accepts."""
    text = (ROOT / "runtime" / "c_api" / "versions.h").read_text(encoding="utf-8")
    return {name: list(map(int, sizes.split(","))) for name, sizes in re.findall(r"^MKRT_VERSIONS\((\w+), ([\d, ]+)\);", text, re.M)}


def table():
    lines = [f"library {soname()}"]
    for name, values in sorted(ENUMS.items()):
        lines += ["", f"enum {name}: {NUMBERS[name][0]} bytes", *(f"  {NUMBERS[value][1]} {value}" for value in values)]
    for name, fields in sorted(STRUCTS.items()):
        known = f", versions of {' '.join(map(str, versions()[name]))} bytes" if name in versions() else ""
        lines += ["", f"struct {name}: {NUMBERS[name][0]} bytes{known}"]
        lines += [f"  {NUMBERS[f'{name}.{field}'][1]} {field}: {kind}" for field, kind in fields]
    lines += [""] + [f"function {name}: {FUNCTIONS.get(name, 'not declared')}" for name in sorted(exported())]
    return "\n".join(lines) + "\n"


class AbiTableTest(unittest.TestCase):
    maxDiff = None

    def test_the_interface_is_that_of_the_table(self):
        if os.environ.get("MKC_BLESS") == "1":
            TABLE.write_text(table(), encoding="utf-8")
        self.assertEqual(TABLE.read_text(encoding="utf-8"), table(), "old programs may break; see docs/c-abi.md#versions")

    def test_the_header_is_read_whole(self):
        self.assertEqual(CODE.count("typedef struct mkrt_"), len(STRUCTS) + 3)  # and three kinds of handles
        self.assertEqual(CODE.count("typedef enum mkrt_"), len(ENUMS))
        self.assertEqual(sum(body.count(";") for body in bodies("struct").values()), sum(map(len, STRUCTS.values())))
        self.assertEqual(sum(body.count("=") for body in bodies("enum").values()), sum(map(len, ENUMS.values())))
        self.assertEqual(set(FUNCTIONS), exported())

    def test_structs_have_no_padding_that_a_later_field_could_fall_into(self):
        for name, fields in STRUCTS.items():
            end = 0
            for field, _ in fields:
                size, at = NUMBERS[f"{name}.{field}"]
                self.assertEqual(at, end, f"{name}.{field}")
                end = at + size
            self.assertEqual(NUMBERS[name][0], end, name)

    def test_structs_that_callers_fill_in_begin_with_their_size(self):
        self.assertEqual({name for name, fields in STRUCTS.items() if fields[0] == ("size", "uint32_t")} | {"mkrt_logprobs"},
                         set(versions()))
        for name, sizes in versions().items():
            self.assertEqual((sizes, sizes[-1]), (sorted(sizes), NUMBERS[name][0]), name)

    def test_every_function_says_which_threads_may_call_it(self):
        groups = re.findall(r"/\*((?:[^*]|\*(?!/))*)\*/\n((?:[^/]|/(?!\*))*?mkrt_\w+\(.*?)(?=\n\n|\n/\*|\n#)", HEADER, re.S)
        said = {}
        for comment, declarations in groups:
            mark = re.search(r"Threads:\s+(?:\*\s+)?(any|one)\.", comment)
            for name in re.findall(r"\b(mkrt_\w+)\(", re.sub(r"/\*.*?\*/", "", declarations, flags=re.S)):
                said[name] = mark and mark[1]
        self.assertEqual(set(said), exported())
        self.assertEqual([name for name, threads in said.items() if threads is None], [])

    def test_structs_of_python_have_the_same_fields(self):
        pairs = {"mkrt_" + re.sub(r"(?<!^)(?=[A-Z])", "_", of.__name__.strip("_")).lower(): of
                 for of in vars(_library).values() if isinstance(of, type) and issubclass(of, ctypes.Structure) and of.__name__ != "_Sized"}
        pairs["mkrt_engine_stats"] = pairs.pop("mkrt_stats")
        self.assertEqual(set(pairs), set(STRUCTS))
        for name, of in pairs.items():
            mine = [(field, getattr(of, field).offset, getattr(of, field).size) for field, _ in of._fields_]
            self.assertEqual(mine, [(field, *NUMBERS[f"{name}.{field}"][::-1]) for field, _ in STRUCTS[name]], name)

    def test_enums_of_python_have_the_same_values(self):
        values = {value: NUMBERS[value][1] for value in ENUMS["mkrt_status"]}
        self.assertEqual({f"MKRT_{status.name}": status for status in mkrt.Status}, values)
        reasons = {value: NUMBERS[value][1] for value in ENUMS["mkrt_finish_reason"]}
        self.assertEqual({f"MKRT_{reason.name}": reason for reason in mkrt.Reason}, reasons)
        self.assertEqual((mkrt.NHD, mkrt.HND, mkrt.PACKED), tuple(NUMBERS[value][1] for value in ENUMS["mkrt_form"]))

    def test_functions_of_python_have_the_same_types(self):
        self.assertEqual(set(_library._SIGNATURES), set(FUNCTIONS))
        plain = {"void": None, "int": ctypes.c_int, "mkrt_status": ctypes.c_int, "mkrt_form": ctypes.c_int,
                 "const char*": ctypes.c_char_p, "size_t": ctypes.c_size_t, "float": ctypes.c_float,
                 **{f"{kind}_t": getattr(ctypes, f"c_{kind}") for kind in ("int32", "uint32", "uint64")}}

        def fits(kind, of):
            kind = kind.replace(" *", "*").strip()
            if kind in plain or not kind.endswith("*"):
                return plain.get(kind) is of
            pointees = [ctypes.POINTER(plain[name]) for name in plain if f"{name}*" == kind.removeprefix("const ") and plain[name]]
            return of in (ctypes.c_void_p, *pointees) or (kind, of) == ("const void*", ctypes.c_char_p)  # bytes

        for name, declared in FUNCTIONS.items():
            if "(*" in declared:  # pointers to functions are numbers in Python
                continue
            result, arguments = re.fullmatch(r"([^(]*)\((.*)\)", declared).groups()
            kinds = [] if arguments == "void" else [re.sub(r"\w+$", "", of.strip()) for of in arguments.split(",")]
            types = _library._SIGNATURES[name]
            self.assertEqual(len(kinds), len(types) - 1, name)
            for kind, of in zip([result, *kinds], types):
                self.assertTrue(fits(kind, of), f"{name}: {kind} is {of}")


unittest.main(argv=sys.argv[:1])
