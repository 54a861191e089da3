// Some structs of mkrt.h have versions, and begin with their size.
#pragma once

#include <cstddef>
#include <cstring>
#include <iterator>

#include "runtime/c_api/last_error.h"

namespace mkrt {

// Versions<T> has the name of a struct and the sizes of its versions, the oldest first. A new version adds
// fields at the end, whose default is 0, and a size to the list.
template <class T>
struct Versions;

#define MKRT_VERSIONS(type, ...)                                                                 \
  template <>                                                                                    \
  struct Versions<type> {                                                                        \
    static constexpr const char* kName = #type;                                                  \
    static constexpr uint32_t kSizes[] = {__VA_ARGS__};                                          \
    static_assert(sizeof(type) == kSizes[std::size(kSizes) - 1], "a new version: add its size"); \
  }

MKRT_VERSIONS(mkrt_sampling, 40);
MKRT_VERSIONS(mkrt_logprobs, 168);
MKRT_VERSIONS(mkrt_samples, 80, 88);
MKRT_VERSIONS(mkrt_batch, 48);
MKRT_VERSIONS(mkrt_engine_options, 48);
MKRT_VERSIONS(mkrt_request, 104);
MKRT_VERSIONS(mkrt_progress, 40);
MKRT_VERSIONS(mkrt_outcome, 64);
MKRT_VERSIONS(mkrt_engine_stats, 80);

// Keeps the error of a size that is none of a version of T. `field` holds the size.
template <class T>
void refuse_size(uint32_t size, const std::string& field) {
  std::string known;
  for (const uint32_t of : Versions<T>::kSizes) known += fmt::format("{}{}", known.empty() ? "" : " or ", of);
  refuse("{}: found {}, expected {}, the size of {}", field, size, known, Versions<T>::kName);
}

// Tells whether `size` is none of a version of T, and keeps the error. A known size allocates nothing.
template <class T>
bool unknown_size(uint32_t size, const char* field = nullptr) {
  for (const uint32_t of : Versions<T>::kSizes)
    if (size == of) return false;
  refuse_size<T>(size, field ? field : fmt::format("{}.size", Versions<T>::kName));
  return true;
}

// Copies a caller's struct of a known size. Fields of later versions are 0.
template <class T>
T known_fields(const void* from, uint32_t size) {
  T to{};
  std::memcpy(static_cast<void*>(&to), from, size);
  return to;
}

// Copies a caller's struct of any version. Returns false, and keeps the error, if there is none of its size.
template <class T>
bool take(const T* from, T& to) {
  if (unknown_size<T>(from->size)) return false;
  to = known_fields<T>(from, from->size);
  return true;
}

// Tells whether a caller's struct of a known size is of a version with a field, by the field's offset.
inline bool has_field(uint32_t size, size_t offset) {
  return size > offset;
}

// Fills in a caller's struct of any version, but not its size. Returns false, and keeps the error, if there
// is none of its size.
template <class T>
bool give(const T& from, T* to) {
  if (unknown_size<T>(to->size)) return false;
  constexpr size_t head = sizeof(to->size);
  std::memcpy(reinterpret_cast<std::byte*>(to) + head, reinterpret_cast<const std::byte*>(&from) + head,
              to->size - head);
  return true;
}

// Returns element i of a caller's list of structs, all of which have the size of the first.
template <class T>
T* element(T* list, size_t i) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(list) + i * list->size);
}

}  // namespace mkrt
