#include "runtime/text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>

#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/json_value.h"
#include "runtime/text/jinja/parser.h"
#include "runtime/text/utf8.h"

namespace mkrt {
namespace {

using nlohmann::ordered_json;

constexpr const char* kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

Error located(const std::string& file, uint32_t line, const std::string& message) {
  return {fmt::format("{}:{}: error: {}", file, line, message)};
}

// Returns the message with its reasoning under the names that templates read.
ordered_json with_reasoning(const ordered_json& message) {
  const auto* field =
      std::find_if(std::begin(kReasoningFields), std::end(kReasoningFields),
                   [&](const char* name) { return message.contains(name) && !message[name].is_null(); });
  if (field == std::end(kReasoningFields)) return message;
  ordered_json result = {{"thinking", message[*field]}};
  for (const auto& [key, value] : message.items()) result[key] = value;
  result["reasoning_content"] = message[*field];
  return result;
}

Result<ordered_json> all_variables(const ordered_json& messages, const ordered_json& variables) {
  if (!messages.is_array())
    return Error{fmt::format("messages: found {}, expected an array", messages.type_name())};
  if (!variables.is_object())
    return Error{
        fmt::format("the variables of the template: found {}, expected an object", variables.type_name())};
  ordered_json all = {{"messages", ordered_json::array()},
                      {"tools", nullptr},
                      {"documents", nullptr},
                      {"add_generation_prompt", false}};
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object())
      return Error{fmt::format("messages[{}]: found {}, expected an object", i, messages[i].type_name())};
    all["messages"].push_back(with_reasoning(messages[i]));
  }
  for (const auto& [name, value] : variables.items())
    if (name != "messages") all[name] = value;
  return all;
}

// Converts the variables of a template. `name` becomes the one that is converted, so that a fault has it.
jinja::Dict& convert_variables(jinja::Arena& arena, const ordered_json& variables, std::string& name) {
  jinja::Dict& dict = *arena.make<jinja::Dict>(0);
  for (const auto& [key, value] : variables.items()) {
    name = key;
    if (key != "messages") {
      put(arena, dict, arena.text(key), jinja::from_json(arena, value));
      continue;
    }
    std::vector<jinja::Value> messages;
    for (const ordered_json& message : value) {
      name = fmt::format("messages[{}]", messages.size());
      messages.push_back(jinja::from_json(arena, message));
    }
    put(arena, dict, arena.text(key), arena.list(std::move(messages)));
  }
  return dict;
}

Result<std::string> render_tree(const jinja::Template& tree, const std::string& file,
                                const ordered_json& variables) {
  jinja::Arena arena;
  uint32_t line = 1;
  std::string variable;
  const jinja::Dict* dict;
  try {
    dict = &convert_variables(arena, variables, variable);
  } catch (const jinja::Fault& fault) {
    return Error{variable + ": " + fault.message};
  } catch (const std::bad_alloc&) {
    return Error{variable + ": out of memory"};
  }
  try {
    jinja::Interpreter interpreter(arena, *dict);
    try {
      return interpreter.render(tree);
    } catch (const jinja::Fault&) {
      line = interpreter.line();
      throw;
    }
  } catch (const jinja::Fault& fault) {
    return located(file, fault.line != 0 ? fault.line : line, fault.message);
  } catch (const std::bad_alloc&) {
    return located(file, line, "out of memory");
  }
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const std::string& file) {
  if (const auto offset = find_invalid_utf8(source)) {
    const auto line =
        std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(*offset), '\n') + 1;
    return located(file, static_cast<uint32_t>(line), "the template is not valid UTF-8");
  }
  try {
    ChatTemplate result;
    result.file_ = file;
    result.tree_ = jinja::parse_template(source);
    return result;
  } catch (const jinja::Fault& fault) {
    return located(file, fault.line, fault.message);
  }
}

void ChatTemplate::set_tool_template(const ChatTemplate& other) {
  tool_file_ = other.file_;
  tool_tree_ = other.tree_;
}

Result<std::string> ChatTemplate::render(const ordered_json& messages, const ordered_json& variables) const {
  const Result<ordered_json> all = all_variables(messages, variables);
  if (!all.ok()) return all.error();
  if (tool_tree_ && !all.value()["tools"].is_null()) return render_tree(*tool_tree_, tool_file_, all.value());
  return render_tree(*tree_, file_, all.value());
}

}  // namespace mkrt
