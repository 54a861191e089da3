// Ids are typed numbers of 32 bits, and index tables. Every IR object lives in a vector and is named by its
// id.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace mkc {

template <class Tag>
struct Id {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t index = kNone;

  bool valid() const { return index != kNone; }
  auto operator<=>(const Id&) const = default;
};

using SymbolId = Id<struct SymbolTag>;
using TensorId = Id<struct TensorTag>;
using OpId = Id<struct OpTag>;
using GridId = Id<struct GridTag>;
using EventId = Id<struct EventTag>;

// Table is a vector addressed by Key. Loops that need the id are written `for (Key id : table.ids())`.
template <class Key, class T>
struct Table {
  std::vector<T> items;

  Key add(T item) {
    items.push_back(std::move(item));
    return Key{static_cast<uint32_t>(items.size() - 1)};
  }
  T& operator[](Key id) { return items[id.index]; }
  const T& operator[](Key id) const { return items[id.index]; }
  uint32_t size() const { return static_cast<uint32_t>(items.size()); }
  bool contains(Key id) const { return id.index < items.size(); }
  auto begin() { return items.begin(); }
  auto end() { return items.end(); }
  auto begin() const { return items.begin(); }
  auto end() const { return items.end(); }
  std::vector<Key> ids() const {
    std::vector<Key> out(items.size());
    for (uint32_t i = 0; i < out.size(); ++i) out[i] = Key{i};
    return out;
  }
  bool operator==(const Table&) const = default;
};

}  // namespace mkc
