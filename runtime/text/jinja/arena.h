// The arena bounds the memory and the work of one rendering.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Arena owns every object of a rendering until its end. Values therefore may refer to each other in any way.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Returns a new object. `bytes` is what it holds beside itself. Faults: more than kMaxMemoryBytes in all.
  template <class T, class... Args>
  T* make(size_t bytes, Args&&... args) {
    charge(bytes + sizeof(T) + sizeof(void*));
    auto object = std::make_unique<T>(std::forward<Args>(args)...);
    T* address = object.get();
    objects_.push_back(std::move(object));
    return address;
  }

  Value text(std::string bytes, bool is_markup = false);
  Value list(std::vector<Value> items);
  Value tuple(std::vector<Value> items);
  Value undefined(std::string message);

  // Faults: the rendering has used kMaxMemoryBytes.
  void charge(size_t bytes);
  // Faults: the rendering has used kMaxSteps. read() counts the bytes that a function looks at.
  void step(uint64_t steps = 1);
  void read(size_t bytes) { step(1 + bytes / 16); }
  // Counts the bytes of a text whose code points are classified, mapped or copied one by one.
  void decode(size_t bytes) { step(1 + bytes / 2); }

 private:
  friend class Level;
  std::vector<std::unique_ptr<Object>> objects_;
  size_t bytes_ = 0;
  uint64_t steps_ = 0;
  uint32_t depth_ = 0;
};

// Level counts one level of recursion while it lives, and one step. Faults: more than kMaxCallDepth levels.
class Level {
 public:
  explicit Level(Arena& arena);
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  ~Level() { --arena_.depth_; }

 private:
  Arena& arena_;
};

}  // namespace mkrt::jinja
