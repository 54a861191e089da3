#include "runtime/text/jinja/call.h"

#include <algorithm>

#include "runtime/text/jinja/compare.h"
#include "runtime/text/jinja/fault.h"

namespace mkrt::jinja {

Value Call::take(std::string_view parameter, Value if_absent) {
  if (taken_ < positional.size()) return positional[taken_++];
  return take_keyword(parameter, if_absent);
}

Value Call::take_keyword(std::string_view parameter, Value if_absent) {
  const auto named = std::find_if(keywords.begin(), keywords.end(), [&](const auto& keyword) {
    return !parameter.empty() && keyword.first == parameter;
  });
  if (named == keywords.end()) return if_absent;
  const Value value = named->second;
  keywords.erase(named);
  return value;
}

Value Call::take(std::string_view parameter) {
  const Value value = take(parameter, Value());
  if (value.is(Value::Kind::kMissing))
    fail("{} needs more arguments{}{}", name, parameter.empty() ? "" : ": ", parameter);
  return value;
}

bool Call::take_bool(std::string_view parameter, bool if_absent) {
  return is_true(take(parameter, Value::boolean(if_absent)));
}

int64_t Call::take_integer(std::string_view parameter, std::optional<int64_t> if_absent) {
  const Value value = if_absent ? take(parameter, Value::integer(*if_absent)) : take(parameter);
  return to_index(value, name);
}

std::string_view Call::take_text(std::string_view parameter) {
  const Value value = take(parameter);
  if (!value.is_text()) fail("{}: found {}, expected text", name, value.described());
  return value.text().bytes;
}

std::optional<int64_t> Call::take_optional_integer(std::string_view parameter) {
  const Value value = take(parameter, Value::none());
  if (value.is_none()) return std::nullopt;
  return to_index(value, name);
}

std::optional<std::string_view> Call::take_optional_text(std::string_view parameter) {
  const Value value = take(parameter, Value::none());
  if (value.is_none()) return std::nullopt;
  if (!value.is_text()) fail("{}: found {}, expected text", name, value.described());
  return value.text().bytes;
}

std::vector<Value> Call::take_rest() {
  const auto begin = positional.begin() + static_cast<std::ptrdiff_t>(taken_);
  taken_ = positional.size();
  return {begin, positional.end()};
}

void Call::finish() const {
  if (taken_ < positional.size())
    fail("{} was given {} arguments, expected at most {}", name, positional.size(), taken_);
  if (!keywords.empty()) fail("{} has no argument {}, or was given it twice", name, keywords[0].first);
}

int64_t to_index(const Value& value, std::string_view what) {
  if (!value.is_integer()) fail("{}: found {}, expected an integer", what, value.described());
  return value.as_integer();
}

}  // namespace mkrt::jinja
