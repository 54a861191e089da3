#include "runtime/text/jinja/loop.h"

#include <memory>

#include "runtime/text/jinja/call.h"
#include "runtime/text/jinja/compare.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/iterate.h"

namespace mkrt::jinja {
namespace {

// Reads one element early and returns whether there is one.
bool look_ahead(Loop& loop) {
  if (!loop.ahead.is(ValueKind::kMissing)) return true;
  Value next;
  if (!loop.advance(next)) return false;
  loop.ahead = next;
  return true;
}

Value cycle(Call& call) {
  if (call.positional.empty()) fail("loop.cycle needs a value");
  const auto index = static_cast<size_t>(call.receiver.loop().index0);
  return call.positional[index % call.positional.size()];
}

Value changed(Call& call) {
  Loop& loop = call.receiver.loop();
  const Value now = call.arena.tuple(call.positional);
  if (!loop.changed.is(ValueKind::kMissing) && equals(call.arena, loop.changed, now))
    return Value::boolean(false);
  loop.changed = now;
  return Value::boolean(true);
}

}  // namespace

bool advance_loop(Loop& loop) {
  Value next = loop.ahead;
  loop.ahead = Value();
  if (next.is(ValueKind::kMissing) && !loop.advance(next)) return false;
  ++loop.index0;
  loop.before = loop.current;
  loop.current = next;
  return true;
}

int64_t loop_length(Loop& loop) {
  if (loop.length < 0) loop.length = length_of(loop.iterable);
  if (loop.length >= 0) return loop.length;
  auto rest = std::make_shared<std::vector<Value>>();
  for (Value item; loop.advance(item);) rest->push_back(item);
  loop.advance = [rest, at = size_t{0}](Value& item) mutable {
    if (at == rest->size()) return false;
    item = (*rest)[at++];
    return true;
  };
  const bool has_ahead = !loop.ahead.is(ValueKind::kMissing);
  loop.length = static_cast<int64_t>(rest->size()) + loop.index0 + 1 + (has_ahead ? 1 : 0);
  return loop.length;
}

Value loop_attribute(Arena& arena, Loop& loop, std::string_view name) {
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(!look_ahead(loop));
  if (name == "length") return Value::integer(loop_length(loop));
  if (name == "revindex") return Value::integer(loop_length(loop) - loop.index0);
  if (name == "revindex0") return Value::integer(loop_length(loop) - loop.index0 - 1);
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem")
    return loop.index0 == 0 ? arena.undefined("there is no previous item") : loop.before;
  if (name == "nextitem") return look_ahead(loop) ? loop.ahead : arena.undefined("there is no next item");
  if (name == "cycle") return arena.make<Function>(64, "loop.cycle", cycle, Value(&loop));
  if (name == "changed") return arena.make<Function>(64, "loop.changed", changed, Value(&loop));
  return {};
}

}  // namespace mkrt::jinja
