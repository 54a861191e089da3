// These edits change what grids declare that they read and write, and of which tensors.
#include <algorithm>

#include "tests/attack/schedules/mutate.h"

namespace mkc::attack {
namespace {

using Kinds = std::vector<TensorKind>;
const Kinds kComputed = {TensorKind::kActivation, TensorKind::kOutput};
const Kinds kCaches = {TensorKind::kCache};
const Kinds kConstants = {TensorKind::kWeight, TensorKind::kTable, TensorKind::kInput};

// `Found` is an access and its grid; the grid is invalid where there is none.
struct Found {
  GridId grid;
  Access* access = nullptr;
};
Found any_access(Edit& e, bool written, const Kinds& kinds) {
  std::vector<Found> found;
  for (GridId g : e.s.program.grids.ids())
    for (Access& a : written ? e.grid(g).writes : e.grid(g).reads)
      if (std::find(kinds.begin(), kinds.end(), e.s.program.tensors[a.tensor].kind) != kinds.end())
        found.push_back({g, &a});
  return found.empty() ? Found{} : e.rng.pick(found);
}

bool shrink(Edit& e, bool written, const Kinds& kinds) {
  const Found f = any_access(e, written, kinds);
  if (!f.access || f.access->region.empty()) return false;
  Range& range = e.rng.pick(f.access->region);
  switch (e.rng.below(3)) {
    case 0:
      range.size = range.size - 1;
      break;
    case 1:
      range.size = 0;
      break;
    default:
      range.offset = range.offset + 1;
      range.size = range.size - 1;
  }
  return true;
}

bool shift(Edit& e, bool written, const Kinds& kinds) {
  const Found f = any_access(e, written, kinds);
  if (!f.access || f.access->region.empty()) return false;
  Range& range = e.rng.pick(f.access->region);
  range.offset = e.rng.one_in(2) ? max(0, range.offset - 1) : range.offset + 1;
  return true;
}

bool drop(Edit& e, bool written, const Kinds& kinds) {
  const Found f = any_access(e, written, kinds);
  if (!f.access) return false;
  auto& accesses = written ? e.grid(f.grid).writes : e.grid(f.grid).reads;
  accesses.erase(accesses.begin() + (f.access - accesses.data()));
  return true;
}

// Grows one range of a region to the whole dim of the tensor.
bool grow(Edit& e, bool written, const Kinds& kinds) {
  const Found f = any_access(e, written, kinds);
  if (!f.access || f.access->region.empty()) return false;
  const auto d = static_cast<size_t>(e.rng.below(static_cast<int64_t>(f.access->region.size())));
  f.access->region[d] = {0, e.s.program.tensors[f.access->tensor].shape[d]};
  return true;
}

bool shrink_at_one_value(Edit& e, bool written, const Kinds& kinds) {
  const Found f = any_access(e, written, kinds);
  if (!f.access || f.access->region.empty()) return false;
  Range& range = e.rng.pick(f.access->region);
  range.size = range.size - Edit::only_at(e.point());
  return true;
}

bool other_constant(Edit& e, bool written, const Kinds& kinds) {
  const Found f = any_access(e, written, kinds);
  if (!f.access) return false;
  std::vector<ExprNode*> constants;
  for (Range& range : f.access->region)
    for (Expr* expr : {&range.offset, &range.size})
      for (ExprNode& node : expr->nodes)
        if (node.kind == ExprKind::kConst) constants.push_back(&node);
  if (constants.empty()) return false;
  e.rng.pick(constants)->value += e.rng.one_in(2) ? 1 : -1;
  return true;
}

// Puts another tensor of the same shape, type and kind in the access.
bool other_tensor(Edit& e, bool written, const Kinds& kinds) {
  const Found f = any_access(e, written, kinds);
  if (!f.access) return false;
  const Tensor& was = e.s.program.tensors[f.access->tensor];
  std::vector<TensorId> alike;
  for (TensorId t : e.s.program.tensors.ids()) {
    const Tensor& other = e.s.program.tensors[t];
    if (t != f.access->tensor && other.kind == was.kind && other.dtype == was.dtype &&
        other.shape == was.shape)
      alike.push_back(t);
  }
  if (alike.empty()) return false;
  f.access->tensor = e.rng.pick(alike);
  return true;
}

bool read_shrink(Edit& e) {
  return shrink(e, false, kComputed);
}
bool read_shift(Edit& e) {
  return shift(e, false, kComputed);
}
bool read_drop(Edit& e) {
  return drop(e, false, kComputed);
}
bool read_grow(Edit& e) {
  return grow(e, false, kComputed);
}
bool read_at_one_value(Edit& e) {
  return shrink_at_one_value(e, false, kComputed);
}
bool read_constant(Edit& e) {
  return other_constant(e, false, kComputed);
}
bool read_tensor(Edit& e) {
  return other_tensor(e, false, kComputed);
}
bool write_shrink(Edit& e) {
  return shrink(e, true, kComputed);
}
bool write_shift(Edit& e) {
  return shift(e, true, kComputed);
}
bool write_drop(Edit& e) {
  return drop(e, true, kComputed);
}
bool write_grow(Edit& e) {
  return grow(e, true, kComputed);
}
bool write_at_one_value(Edit& e) {
  return shrink_at_one_value(e, true, kComputed);
}
bool write_constant(Edit& e) {
  return other_constant(e, true, kComputed);
}
bool write_tensor(Edit& e) {
  return other_tensor(e, true, kComputed);
}
bool cache_read_shrink(Edit& e) {
  return shrink(e, false, kCaches);
}
bool cache_read_shift(Edit& e) {
  return shift(e, false, kCaches);
}
bool cache_read_drop(Edit& e) {
  return drop(e, false, kCaches);
}
bool cache_read_constant(Edit& e) {
  return other_constant(e, false, kCaches);
}
bool cache_read_tensor(Edit& e) {
  return other_tensor(e, false, kCaches);
}
bool cache_write_shrink(Edit& e) {
  return shrink(e, true, kCaches);
}
bool cache_write_shift(Edit& e) {
  return shift(e, true, kCaches);
}
bool cache_write_drop(Edit& e) {
  return drop(e, true, kCaches);
}
bool cache_write_constant(Edit& e) {
  return other_constant(e, true, kCaches);
}
bool cache_write_tensor(Edit& e) {
  return other_tensor(e, true, kCaches);
}
bool cache_at_one_value(Edit& e) {
  return shrink_at_one_value(e, e.rng.one_in(2), kCaches);
}
bool constant_shrink(Edit& e) {
  return shrink(e, false, kConstants);
}
bool constant_shift(Edit& e) {
  return shift(e, false, kConstants);
}
bool constant_drop(Edit& e) {
  return drop(e, false, kConstants);
}
bool constant_tensor(Edit& e) {
  return other_tensor(e, false, kConstants);
}

// Lets a grid read and write the cache of another layer throughout.
bool cache_other_layer(Edit& e) {
  const Found f = any_access(e, true, kCaches);
  if (!f.access) return false;
  const TensorId was = f.access->tensor;
  if (!other_tensor(e, true, kCaches)) return false;
  std::vector<TensorId> caches;
  for (TensorId t : e.s.program.tensors.ids())
    if (t != was && e.s.program.tensors[t].kind == TensorKind::kCache) caches.push_back(t);
  const TensorId to = e.rng.pick(caches);
  for (auto* accesses : {&e.grid(f.grid).reads, &e.grid(f.grid).writes})
    for (Access& a : *accesses)
      if (a.tensor == was) a.tensor = to;
  return true;
}

// Lets a grid declare that it reads nothing of what it waits for, and not wait.
bool read_empty_and_no_wait(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return !grid.waits.empty(); });
  if (!g.valid()) return false;
  for (Access& read : e.grid(g).reads)
    if (const TensorKind kind = e.s.program.tensors[read.tensor].kind;
        kind == TensorKind::kActivation || kind == TensorKind::kOutput)
      e.rng.pick(read.region).size = 0;
  e.grid(g).waits.clear();
  return true;
}

bool stream_off(Edit& e) {
  std::vector<Access*> found;
  for (TaskGrid& grid : e.s.program.grids)
    for (Access& read : grid.reads)
      if (read.stream) found.push_back(&read);
  if (found.empty()) return false;
  e.rng.pick(found)->stream = false;
  return true;
}

bool stream_on(Edit& e) {
  std::vector<Access*> found;
  for (TaskGrid& grid : e.s.program.grids)
    for (Access& read : grid.reads)
      if (!read.stream) found.push_back(&read);
  if (found.empty()) return false;
  e.rng.pick(found)->stream = true;
  return true;
}

bool stream_swap(Edit& e) {  // exchanges which reads of a cache stream
  const GridId g = e.grid_where([](const TaskGrid& grid) { return grid.body == BodyKind::kAttend; });
  if (!g.valid()) return false;
  for (Access& read : e.grid(g).reads)
    if (read.role == "k_cache" || read.role == "v_cache") read.stream = !read.stream;
  return true;
}

bool role_rename(Edit& e) {
  const Found a = any_access(e, false, kComputed), b = any_access(e, false, kComputed);
  if (!a.access || a.access->role == b.access->role) return false;
  a.access->role = b.access->role;
  return true;
}

constexpr MutantClass kRegionClasses[] = {
    {"read_shrink", read_shrink},
    {"read_shift", read_shift},
    {"read_drop", read_drop},
    {"read_grow", read_grow},
    {"read_at_one_value", read_at_one_value},
    {"read_constant", read_constant},
    {"read_tensor", read_tensor},
    {"write_shrink", write_shrink},
    {"write_shift", write_shift},
    {"write_drop", write_drop},
    {"write_grow", write_grow},
    {"write_at_one_value", write_at_one_value},
    {"write_constant", write_constant},
    {"write_tensor", write_tensor},
    {"cache_read_shrink", cache_read_shrink},
    {"cache_read_shift", cache_read_shift},
    {"cache_read_drop", cache_read_drop},
    {"cache_read_constant", cache_read_constant},
    {"cache_read_tensor", cache_read_tensor},
    {"cache_write_shrink", cache_write_shrink},
    {"cache_write_shift", cache_write_shift},
    {"cache_write_drop", cache_write_drop},
    {"cache_write_constant", cache_write_constant},
    {"cache_write_tensor", cache_write_tensor},
    {"cache_at_one_value", cache_at_one_value},
    {"cache_other_layer", cache_other_layer},
    {"constant_shrink", constant_shrink},
    {"constant_shift", constant_shift},
    {"constant_drop", constant_drop},
    {"constant_tensor", constant_tensor},
    {"read_empty_and_no_wait", read_empty_and_no_wait},
    {"stream_off", stream_off},
    {"stream_on", stream_on},
    {"stream_swap", stream_swap},
    {"role_rename", role_rename},
};

}  // namespace

std::span<const MutantClass> region_classes() {
  return kRegionClasses;
}

}  // namespace mkc::attack
