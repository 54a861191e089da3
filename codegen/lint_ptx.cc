#include "codegen/lint_ptx.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

namespace mkc {
namespace {

// Returns the mnemonic of a statement: "ld.global.b32" for "@%p1 ld.global.b32 …", ".local" for ".visible
// .local …".
std::string_view mnemonic(std::string_view statement) {
  for (;;) {
    statement.remove_prefix(std::min(statement.find_first_not_of(" \t"), statement.size()));
    const std::string_view word = statement.substr(0, statement.find_first_of(" \t"));
    const bool before = word.starts_with('@') || word == ".visible" || word == ".weak" || word == ".extern";
    if (!before) return word;
    statement.remove_prefix(word.size());
  }
}

bool has(std::string_view name, std::string_view modifier) {
  const size_t at = name.find(modifier);
  return at != name.npos && (at + modifier.size() == name.size() || name[at + modifier.size()] == '.' ||
                             name[at + modifier.size()] == ':');
}

const char* fault_of(std::string_view name) {
  if (name.starts_with("atom") || name.starts_with("red.")) {
    const bool ordered =
        has(name, ".relaxed") || has(name, ".acquire") || has(name, ".release") || has(name, ".acq_rel");
    if (!ordered || !(has(name, ".gpu") || has(name, ".cta"))) return "atomic without an order and a scope";
    if (has(name, ".f32") || has(name, ".f64") || has(name, ".f16") || has(name, ".bf16") ||
        has(name, ".f16x2") || has(name, ".bf16x2"))
      return "atomic on floats: its result depends on the order of threads";
  }
  if (name == ".local" || has(name, ".local")) return "local memory";
  if (name.starts_with("ld.") && has(name, ".nc")) return "load that need not see this launch's writes";
  if (name.starts_with("ldu")) return "load that need not see this launch's writes";
  if (name == "call" || name.starts_with("call.") || name == ".func") return "call";
  if (has(name, ".volatile")) return "volatile access";
  if (name.starts_with("membar")) return "fence without an order";
  return nullptr;
}

}  // namespace

std::vector<std::string> lint_ptx(const std::string& ptx) {
  std::vector<std::string> faults;
  std::istringstream lines(ptx);
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with("//")) continue;
    for (size_t begin = 0; begin < line.size();) {  // inline assembly puts several statements on a line
      const size_t end = std::min(line.find_first_of(";{}", begin), line.size());
      if (const char* fault = fault_of(mnemonic(std::string_view(line).substr(begin, end - begin))))
        faults.push_back(
            fmt::format("line {}: {}: {}", number, line.substr(line.find_first_not_of(" \t")), fault));
      begin = end + 1;
    }
  }
  return faults;
}

}  // namespace mkc
