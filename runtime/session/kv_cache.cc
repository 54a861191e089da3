#include "runtime/session/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mkrt {
namespace {

// Returns the bytes of one head at one position.
uint64_t vector_bytes(const Manifest& m) {
  return m.caches[0].head_dim * element_bytes(m.caches[0].element);
}

uint64_t pieces(const Manifest& m, CacheForm form) {
  return form == CacheForm::kPacked ? m.caches.size() / 2 : m.caches.size();
}

}  // namespace

Status check_page_size(uint32_t positions) {
  if (positions == 16 || positions == 32 || positions == 64) return {};
  return Error{fmt::format("cache: error: the page size is {}, expected 16, 32 or 64", positions)};
}

Status check_cache(const Manifest& m, const CacheSpace& s) {
  for (const ManifestCache& c : m.caches)
    if (c.element != m.caches[0].element || c.heads != m.caches[0].heads ||
        c.head_dim != m.caches[0].head_dim)
      return Error{fmt::format("cache: error: {} is of another shape than {}", c.name, m.caches[0].name)};
  if (Status status = check_page_size(s.page_size); !status.ok()) return status;
  if (s.pages == 0 || s.pages > INT32_MAX)
    return Error{fmt::format("cache: error: {} pages, expected 1 to {}", s.pages, INT32_MAX)};
  if (s.base.size() != m.caches.size())
    return Error{
        fmt::format("cache: error: {} addresses, the model has {} caches", s.base.size(), m.caches.size())};
  if (m.caches.empty()) return {};
  const uint64_t vector = vector_bytes(m), unit = std::min<uint64_t>(16, vector & -vector);
  const uint64_t heads = m.caches[0].heads, inner = std::min(s.strides.position, s.strides.head);
  const bool heads_inside = s.strides.head <= s.strides.position;
  const uint64_t inner_count = heads_inside ? heads : s.page_size,
                 outer_count = heads_inside ? s.page_size : heads;
  const uint64_t outer = std::max(s.strides.position, s.strides.head);
  if (inner < vector || outer / inner_count < inner || s.strides.page / outer_count < outer)
    return Error{
        fmt::format("cache: error: strides of {} bytes a page, {} a position and {} a head overlap: a page "
                    "has {} positions "
                    "of {} heads of {} bytes",
                    s.strides.page, s.strides.position, s.strides.head, s.page_size, heads, vector)};
  for (const uint64_t stride : {s.strides.page, s.strides.position, s.strides.head})
    if (stride % unit != 0)
      return Error{
          fmt::format("cache: error: a stride is {} bytes, expected a multiple of {}", stride, unit)};
  for (size_t i = 0; i < s.base.size(); ++i)
    if (s.base[i] == 0 || s.base[i] % unit != 0)
      return Error{
          fmt::format("cache: error: the address of {} is {}, expected a multiple of {} that is not 0",
                      m.caches[i].name, s.base[i], unit)};
  return {};
}

Status check_scales(const Manifest& m, std::span<const float> scales) {
  if (m.caches.empty() || m.caches[0].element != Element::kE4m3)
    return Error{
        fmt::format("cache: error: found {} scales, the model has no caches of e4m3", scales.size())};
  const uint64_t heads = m.caches[0].heads;
  if (scales.size() != m.caches.size() * heads)
    return Error{fmt::format("cache: error: found {} scales, expected {} caches of {} heads", scales.size(),
                             m.caches.size(), heads)};
  for (size_t i = 0; i < scales.size(); ++i)
    if (!(scales[i] > 0) || !std::isfinite(scales[i]))
      return Error{fmt::format("cache: error: the scale of head {} of {} is {}, expected a positive number",
                               i % heads, m.caches[i / heads].name, scales[i])};
  return {};
}

uint64_t position_bytes(const Manifest& m) {
  uint64_t bytes = 0;
  for (const ManifestCache& c : m.caches) bytes += c.heads * c.head_dim * element_bytes(c.element);
  return bytes;
}

CacheForm best_form(const Manifest& m) {
  return m.target.starts_with("x86-64") ? CacheForm::kHnd : CacheForm::kNhd;
}

CacheStrides cache_strides(const Manifest& m, CacheForm form, uint32_t page_size) {
  if (m.caches.empty()) return {};
  const uint64_t vector = vector_bytes(m) * (form == CacheForm::kPacked ? 2 : 1), heads = m.caches[0].heads;
  if (form == CacheForm::kHnd) return {page_size * heads * vector, vector, page_size * vector};
  return {page_size * heads * vector, heads * vector, vector};
}

uint64_t cache_piece_bytes(const Manifest& m, CacheForm form, uint32_t page_size, uint32_t pages) {
  return cache_strides(m, form, page_size).page * pages;
}

CacheSpace place_caches(const Manifest& m, CacheForm form, uint32_t page_size, uint32_t pages,
                        uint64_t memory) {
  CacheSpace s{page_size, pages, cache_strides(m, form, page_size), {}};
  const uint64_t piece = cache_piece_bytes(m, form, page_size, pages);
  for (uint64_t i = 0; i < pieces(m, form); ++i) {
    s.base.push_back(memory + i * piece);
    if (form == CacheForm::kPacked) s.base.push_back(s.base.back() + vector_bytes(m));
  }
  return s;
}

}  // namespace mkrt
