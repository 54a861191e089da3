#include "tools/manual/completions.h"

#include <array>
#include <stdexcept>

namespace mkc {
namespace {

struct Shell {
  const char* name;
  std::string (*script)(const OptionTable&);
};
constexpr std::array kShells{Shell{"bash", bash_completion}, Shell{"zsh", zsh_completion},
                             Shell{"fish", fish_completion}};

}  // namespace

std::vector<std::string> shell_names() {
  std::vector<std::string> names;
  for (const Shell& shell : kShells) names.emplace_back(shell.name);
  return names;
}

std::string completion_for(const std::string& shell, const OptionTable& table) {
  for (const Shell& known : kShells)
    if (shell == known.name) return known.script(table);
  throw std::invalid_argument("no completion for the shell " + shell);
}

}  // namespace mkc
