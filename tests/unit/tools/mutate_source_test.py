"""These tests check what the operators of tests/attack/mutate_source change, and what they leave alone.
Usage: mutate_source_test.py ROOT
"""
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()
TOOL = ROOT / "tests" / "attack" / "mutate_source"
sys.path.insert(0, str(TOOL.parent))
from source_mutants import OPERATORS, sites

SOURCE = r'''
#include <a.h>
#define TWICE(x) ((x) + (x))
// a < b && c == 1; call();
static_assert(sizeof(A) == 8 && true);
template <class T, int n = 3>
std::array<int, 4> f(const std::vector<int>& v, int&& w) {
  const char* text = "a < b; // 7";
  if (!v.empty() && w < 0x10 || w >= 1'000) return Error{"no"};
  if (Status status = g(v); !status.ok()) {
    return status;
  }
  for (int i = 0; i < n; ++i) count += std::min(i, w - 2);
  v[i + 1].call([](int x) { return x; },
                'x');
  int declared(4);
  Type other(v);
  if (done) continue;
  ++*next;
  if (x > y) return 5;
}
'''


def edits(operator):
    return [(e.line, e.before, e.after) for e in sites(SOURCE) if e.operator == operator]


class MutateSourceTest(unittest.TestCase):
    def test_lines_behind_a_string_of_several_lines(self):
        (edit,) = [e for e in sites('f(R"(\na < b\n)");\nif (a < b) g();\n') if e.operator == "< <="]
        self.assertEqual((edit.line, edit.before), (4, "<"))

    def test_each_operator_changes_its_places_and_no_others(self):
        self.assertEqual(edits("< <="), [(9, "<", "<="), (13, "<", "<=")])
        self.assertEqual(edits("> >="), [(9, ">=", ">"), (20, ">", ">=")])
        self.assertEqual(edits("== !="), [])
        self.assertEqual(edits("&& ||"), [(9, "&&", "||"), (9, "||", "&&")])
        self.assertEqual(edits("+ -"), [(13, "-", "+"), (14, "+", "-")])
        self.assertEqual(edits("dropped !"), [(9, "!", ""), (10, "!", "")])
        self.assertEqual(edits("literal + 1"), [(13, "0", "1"), (13, "2", "3"), (14, "1", "2"), (16, "4", "5"), (20, "5", "6")])
        self.assertEqual(edits("min max"), [(13, "min", "max")])
        self.assertEqual(edits("continue break"), [(18, "continue", "break")])
        self.assertEqual([line for line, _, after in edits("dropped statement") if after == "{}"], [13, 14, 19])
        self.assertEqual(edits("dropped error return"), [(9, 'return Error{"no"};', "{}"), (11, "return status;", "{}")])

    def test_an_edit_says_what_it_replaces(self):
        found = sites(SOURCE)
        self.assertTrue(all(SOURCE[e.begin : e.end] == e.before and SOURCE[: e.begin].count("\n") + 1 == e.line for e in found))
        self.assertEqual({e.operator for e in found} | {"== !="}, set(OPERATORS))

    def test_a_seed_gives_the_same_mutants(self):
        def listed(*more):
            return subprocess.run([TOOL, "--list", "--count", "30", "--parts", "frontend", *more], capture_output=True, text=True, check=True,
                                  timeout=60).stdout.splitlines()

        first = listed("--seed", "7")
        self.assertEqual(len(first), 30)
        self.assertEqual(first, listed("--seed", "7"))
        self.assertNotEqual(first, listed("--seed", "8"))
        # The tool takes its 11 operators in turn.
        self.assertEqual(len({line.split(": ")[1] for line in first[:11]}), 11)


unittest.main(argv=sys.argv[:1])
