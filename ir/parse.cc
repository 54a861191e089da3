#include "ir/parse.h"

#include <fmt/format.h>

#include <array>

#include "ir/parser.h"
#include "ir/text.h"

namespace mkc {
namespace {

// The levels are in the order of Module.
constexpr std::array kLevels = {"ops", "tasks", "schedule"};

Module parse_level(Parser& p) {
  p.expect("mkir");
  const size_t level = p.choice("a level", {kLevels.begin(), kLevels.end()});
  const Token version = p.peek();
  if (const uint32_t found = p.natural32(); !p.error && found != kTextVersion)
    p.fail(version, fmt::format("version {} of the text form, expected {}", found, kTextVersion));
  const std::string name = p.quoted("the module's name");
  p.end_line();
  if (level == 0) return parse_ops(p, name);
  if (level == 1) return parse_tasks(p, name);
  return parse_schedule(p, name);
}

}  // namespace

const char* level_of(const Module& module) {
  return kLevels[module.index()];
}

Error error_about(Subject subject, std::string_view message, const Places* places) {
  if (places)
    if (const auto at = places->at.find(subject); at != places->at.end())
      return error_at(at->second, message, places->text);
  return Error{fmt::format("error: {}", message)};
}

Result<Module> parse_mkir(std::string_view text, const std::string& file, Places* places) {
  Result<std::vector<Token>> tokens = tokenize(text, file);
  if (!tokens.ok()) return tokens.error();
  if (places) places->text = text;
  Parser p(std::move(tokens).value(), text, file, places);
  p.mark({Part::kHeader});
  Module module = parse_level(p);
  if (p.error) return *std::move(p.error);
  return module;
}

}  // namespace mkc
