#include "runtime/text/jinja/json_value.h"

#include <nlohmann/json.hpp>

#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/limits.h"
#include "runtime/text/utf8.h"

namespace mkrt::jinja {
namespace {

using Type = nlohmann::ordered_json::value_t;

Value text_of(Arena& arena, const std::string& text) {
  if (const std::optional<std::string> fault = utf8_fault(text)) fail("{}", *fault);
  return arena.text(text);
}

Value convert(Arena& arena, const nlohmann::ordered_json& document, uint32_t levels) {
  if (levels == 0) fail("the value is nested more than {} levels deep", kMaxCallDepth);
  arena.step();
  switch (document.type()) {
    case Type::null:
      return Value::none();
    case Type::boolean:
      return Value::boolean(document.get<bool>());
    case Type::number_integer:
      return Value::integer(document.get<int64_t>());
    case Type::number_float:
      return Value::real(document.get<double>());
    case Type::string:
      return text_of(arena, document.get_ref<const std::string&>());
    case Type::number_unsigned:
      if (document.get<uint64_t>() > INT64_MAX)
        fail("the integer {} has more than 63 bits", document.get<uint64_t>());
      return Value::integer(document.get<int64_t>());
    case Type::array: {
      std::vector<Value> items;
      items.reserve(document.size());
      for (const nlohmann::ordered_json& item : document) items.push_back(convert(arena, item, levels - 1));
      return arena.list(std::move(items));
    }
    case Type::object: {
      Dict* dict = arena.make<Dict>(0);
      for (const auto& [key, item] : document.items())
        put(arena, *dict, text_of(arena, key), convert(arena, item, levels - 1));
      return dict;
    }
    case Type::binary:
    case Type::discarded:
      break;
  }
  fail("the conversation holds a value that is not JSON");
}

}  // namespace

Value from_json(Arena& arena, const nlohmann::ordered_json& document) {
  return convert(arena, document, kMaxCallDepth);
}

}  // namespace mkrt::jinja
