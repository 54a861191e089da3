#include "runtime/text/jinja/arena.h"

#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/limits.h"

namespace mkrt::jinja {

Value Arena::text(std::string bytes, bool is_markup) {
  const size_t size = bytes.size();
  return make<Text>(size, std::move(bytes), is_markup);
}

Value Arena::list(std::vector<Value> items) {
  const size_t size = items.size() * sizeof(Value);
  return Value::list(make<Sequence>(size, std::move(items)));
}

Value Arena::tuple(std::vector<Value> items) {
  const size_t size = items.size() * sizeof(Value);
  return Value::tuple(make<Sequence>(size, std::move(items)));
}

Value Arena::undefined(std::string message) {
  const size_t size = message.size();
  return make<Undefined>(size, std::move(message));
}

void Arena::charge(size_t bytes) {
  if (bytes > kMaxMemoryBytes - bytes_)
    fail("the template needs more than {} MiB of memory", kMaxMemoryBytes >> 20);
  bytes_ += bytes;
}

void Arena::step(uint64_t steps) {
  if (steps > kMaxSteps - steps_) fail("the template takes more than {} steps", kMaxSteps);
  steps_ += steps;
}

Level::Level(Arena& arena) : arena_(arena) {
  if (arena_.depth_ >= kMaxCallDepth)
    fail("the template nests calls or values more than {} levels deep", kMaxCallDepth);
  arena_.step();
  ++arena_.depth_;
}

}  // namespace mkrt::jinja
