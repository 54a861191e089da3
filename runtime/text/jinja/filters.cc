#include "runtime/text/jinja/filters.h"

#include <algorithm>

#include "runtime/text/jinja/fault.h"

namespace mkrt::jinja {
namespace {

constexpr std::string_view kUnsupported[] = {"attr",      "filesizeformat", "pprint",   "random", "striptags",
                                             "urlencode", "urlize",         "wordwrap", "xmlattr"};

Function::Code find_code(std::string_view name) {
  for (const std::span<const Method> filters :
       {text_filters(), number_filters(), sequence_filters(), selection_filters(), sorting_filters()}) {
    const auto found =
        std::find_if(filters.begin(), filters.end(), [&](const Method& f) { return f.name == name; });
    if (found != filters.end()) return found->code;
  }
  return nullptr;
}

bool is_unsupported(std::string_view name) {
  return std::find(std::begin(kUnsupported), std::end(kUnsupported), name) != std::end(kUnsupported);
}

}  // namespace

bool is_filter_name(std::string_view name) {
  return find_code(name) != nullptr || is_unsupported(name);
}

Function::Code find_filter(std::string_view name, uint32_t line) {
  if (const Function::Code code = find_code(name)) return code;
  if (is_unsupported(name)) fail_at(line, "unsupported: the filter {}", name);
  fail_at(line, "there is no filter {}", name);
}

}  // namespace mkrt::jinja
