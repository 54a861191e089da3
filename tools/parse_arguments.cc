#include "tools/parse_arguments.h"

#include <span>
#include <string>
#include <vector>

namespace mkc {

bool has_empty_value(std::string_view argument) {
  return argument.starts_with("--") && argument.find('=') == argument.size() - 1;
}

void parse_arguments(CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> texts;
  bool has_flags = true;
  for (const char* argument : std::span(argv, static_cast<size_t>(argc))) {
    std::string& text = texts.emplace_back(argument);
    has_flags = has_flags && text != "--";
    if (!has_flags || !has_empty_value(text)) continue;
    text.pop_back();
    texts.emplace_back();
  }
  std::vector<const char*> arguments;
  for (const std::string& text : texts) arguments.push_back(text.c_str());
  app.parse(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace mkc
