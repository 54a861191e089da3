#include "ir/dot.h"

#include <doctest/doctest.h>

#include <fstream>
#include <regex>

#include "ir/parse.h"

namespace mkc {
namespace {

template <class Level>
Level valid_file(const std::string& name) {
  std::ifstream in(MKC_SOURCE_DIR "/tests/mkir/valid_" + name + ".mkir");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return std::get<Level>(parse_mkir(text, name).value());
}

// Checks that every line has one of the forms that to_dot() writes, that strings are closed, and that braces
// match.
void check_syntax(const std::string& dot) {
  const std::string string = R"re("([^"\\]|\\.)*")re", id = "[a-z]+[0-9]+";
  const std::regex line("digraph " + string + " \\{|\\}|subgraph cluster_[0-9]+ \\{|label=" + string +
                        ";|node \\[shape=box, fontname=\"monospace\"\\];|" + id + " \\[label=" + string +
                        "(, shape=ellipse)?\\];|" + id + " -> " + id + " \\[label=" + string + "\\];");
  std::istringstream in(dot);
  int depth = 0;
  for (std::string text; std::getline(in, text);) {
    text.erase(0, text.find_first_not_of(' '));
    CHECK_MESSAGE(std::regex_match(text, line), text);
    depth += text.ends_with('{') ? 1 : text == "}" ? -1 : 0;
    CHECK(depth >= 0);
  }
  CHECK(depth == 0);
}

bool has(const std::string& dot, const std::string& line) {
  return dot.find("  " + line + "\n") != std::string::npos;
}

TEST_CASE("an op graph is drawn with an edge for each value, by layer") {
  const std::string dot = to_dot(valid_file<OpGraph>("ops"));
  check_syntax(dot);
  CHECK(has(dot, "op1 [label=\"rms_norm\"];"));
  CHECK(has(dot, "op0 -> op1 [label=\"%x\"];"));
  CHECK(has(dot, "op7 -> op8 [label=\"%v_cache\"];"));
  CHECK(has(dot, "label=\"layer 0\";"));
}

TEST_CASE("a task program is drawn with its events, or without them by what is read") {
  TaskProgram program = valid_file<TaskProgram>("tasks");
  const std::string dot = to_dot(program);
  check_syntax(dot);
  CHECK(has(dot, "grid1 [label=\"%head[j: 7]\\nproduct\"];"));
  CHECK(has(dot, "event0 [label=\"@x_ready[]\\nexpect T\", shape=ellipse];"));
  CHECK(has(dot, "grid0 -> event0 [label=\"[]\"];"));
  CHECK(has(dot, "event0 -> grid1 [label=\"[]\"];"));
  program.events = {};
  for (TaskGrid& grid : program.grids) grid.waits.clear(), grid.notifies.clear();
  const std::string bare = to_dot(program);
  check_syntax(bare);
  CHECK(has(bare, "grid0 -> grid1 [label=\"%x\"];"));
}

TEST_CASE("names are quoted in drawings") {
  OpGraph graph;
  graph.name = "a \"b\\\n";
  CHECK(to_dot(graph).starts_with("digraph \"a \\\"b\\\\\\n\" {\n"));
  check_syntax(to_dot(graph));
}

}  // namespace
}  // namespace mkc
