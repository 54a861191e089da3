#include "runtime/text/jinja/lazy.h"

#include "runtime/text/jinja/attributes.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/parse_number.h"
#include "runtime/text/jinja/search.h"
#include "runtime/text/jinja/text.h"

namespace mkrt::jinja {
namespace {

Value path_key(Arena& arena, std::string_view part) {
  const bool is_index = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
  return is_index ? Value::integer(parse_integer(part, 10).value_or(0)) : arena.text(std::string(part));
}

}  // namespace

Value lazy(Arena& arena, std::function<Advance()> begin) {
  return make_iterator(arena, [begin = std::move(begin), advance = Advance()](Value& value) mutable {
    if (!advance) advance = begin();
    return advance(value);
  });
}

Value get_path(Arena& arena, const Value& value, const Value& path) {
  if (path.is_none()) return value;
  if (!path.is_text()) return get_item(arena, value, path);
  Value item = value;
  for (const std::string_view part : split_at(path.text().bytes, ".", -1))
    item = get_item(arena, item, path_key(arena, part));
  return item;
}

Value ignore_case(Arena& arena, const Value& value) {
  if (!value.is_text()) return value;
  arena.decode(value.text().bytes.size());
  return arena.text(to_lower(value.text().bytes));
}

}  // namespace mkrt::jinja
