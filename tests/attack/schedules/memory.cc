#include "tests/attack/schedules/memory.h"

#include <fmt/format.h>

#include <bit>

#include "tests/attack/schedules/finding.h"

namespace mkc::attack {
namespace {

constexpr uint64_t kUnit = 2;  // bytes; no element of the workspace is smaller

bool is_workspace(TensorKind kind) {
  return kind == TensorKind::kActivation || kind == TensorKind::kOutput;
}

// Calls visit(first, elements) for each run of a box's elements in a row-major tensor.
template <class Visit>
void for_each_run(const Box& box, const std::vector<int64_t>& dims, Visit visit) {
  size_t inner = box.rank;  // first dim from which on all dims are whole
  int64_t length = 1;
  while (inner > 0 && box.lo[inner - 1] == 0 && box.hi[inner - 1] == dims[inner - 1]) length *= dims[--inner];
  if (inner == 0) return visit(0, length);
  const int64_t count = (box.hi[inner - 1] - box.lo[inner - 1]) * length;
  std::array<int64_t, kDims> at = box.lo;
  for (;;) {
    int64_t first = 0;
    for (size_t d = 0; d < inner; ++d) first = first * dims[d] + at[d];
    visit(first * length, count);
    size_t d = inner - 1;
    while (d > 0 && ++at[d - 1] == box.hi[d - 1]) at[d - 1] = box.lo[d - 1], --d;
    if (d == 0) return;
  }
}

}  // namespace

Memory::Memory(const Schedule& s, const Step& step)
    : s_(s), step_(step), cache_base_(s.program.tensors.size()), dims_(s.program.tensors.size()) {
  end_ = (s.workspace_bytes + 255) / 256 * 256;
  last_.resize(s.program.grids.size());
  note_owned();
}

const std::vector<int64_t>& Memory::dims_of(TensorId tensor) {
  std::vector<int64_t>& dims = dims_[tensor.index];
  if (dims.empty())
    for (const Expr& dim : s_.program.tensors[tensor].shape) dims.push_back(step_.at(dim));
  return dims;
}

// Outputs lie in the workspace. The step owns the cache positions of its rows. Each row and head of these is
// one unit, as bodies write whole vectors.
void Memory::note_owned() {
  std::vector<bool> used(s_.program.tensors.size(), false);
  for (const TaskGrid& grid : s_.program.grids)
    for (const auto* accesses : {&grid.reads, &grid.writes})
      for (const Access& a : *accesses) used[a.tensor.index] = true;
  int64_t rows = 0;
  for (const StepRequest& r : step_.requests) rows += r.rows;
  for (TensorId t : s_.program.tensors.ids()) {
    const Tensor& tensor = s_.program.tensors[t];
    if (tensor.kind == TensorKind::kOutput) {
      auto bytes = static_cast<uint64_t>(dtype_bytes(tensor.dtype));
      for (int64_t dim : dims_of(t)) bytes *= static_cast<uint64_t>(dim);
      const uint64_t begin = s_.slots[t.index].offset;
      outputs_.push_back({begin / kUnit, (begin + bytes) / kUnit});
      output_tensor_.push_back(t.index);
    }
    if (tensor.kind != TensorKind::kCache || !used[t.index]) continue;
    const auto units = static_cast<uint64_t>(rows * dims_of(t).at(1));
    cache_base_[t.index] = end_;
    outputs_.push_back({end_ / kUnit, end_ / kUnit + units});
    output_tensor_.push_back(t.index);
    end_ += units * kUnit;
  }
}

bool Memory::is_history(const Touch& touch) const {
  const StepRequest& r = step_.requests.at(static_cast<size_t>(touch.box.lo[0]));
  return touch.box.hi[2] <= r.kv_len - r.rows;
}

void Memory::require_slot(const Touch& touch, uint64_t end) const {
  const Slot& slot = s_.slots[touch.access->tensor.index];
  if (end <= slot.bytes && slot.offset + end <= s_.workspace_bytes) return;
  throw Finding{"slot", fmt::format("%{} of {} bytes at {} ends at byte {} of the {} of the workspace, at {}",
                                    s_.program.tensors[touch.access->tensor].name, slot.bytes, slot.offset,
                                    slot.offset + end, s_.workspace_bytes, to_text(step_))};
}

uint32_t Memory::runs_of(const Touch& touch) {
  const TensorId t = touch.access->tensor;
  const Tensor& tensor = s_.program.tensors[t];
  const auto first = static_cast<uint32_t>(runs_.size());
  const std::vector<int64_t>& dims = dims_of(t);
  if (tensor.kind == TensorKind::kCache) {
    const StepRequest& r = step_.requests.at(static_cast<size_t>(touch.box.lo[0]));
    const int64_t earlier = r.kv_len - r.rows, heads = dims.at(1);
    if (touch.box.lo[2] < earlier || touch.box.hi[2] > r.kv_len)
      throw Finding{"cache", fmt::format("positions [{}, {}) of %{} are not the step's own [{}, {}), at {}",
                                         touch.box.lo[2], touch.box.hi[2], tensor.name, earlier, r.kv_len,
                                         to_text(step_))};
    int64_t row = touch.box.lo[2] - earlier;
    for (int64_t b = 0; b < touch.box.lo[0]; ++b) row += step_.requests[static_cast<size_t>(b)].rows;
    for (int64_t i = 0; i < touch.box.hi[2] - touch.box.lo[2]; ++i) {
      const uint64_t at =
          cache_base_[t.index] / kUnit + static_cast<uint64_t>((row + i) * heads + touch.box.lo[1]);
      runs_.push_back({at, at + 1});
    }
  } else {
    const auto bytes = static_cast<uint64_t>(dtype_bytes(tensor.dtype));
    const uint64_t base = s_.slots[t.index].offset;
    for_each_run(touch.box, dims, [&](int64_t begin, int64_t count) {
      const uint64_t from = static_cast<uint64_t>(begin) * bytes,
                     to = from + static_cast<uint64_t>(count) * bytes;
      require_slot(touch, to);
      runs_.push_back({(base + from) / kUnit, (base + to) / kUnit});
    });
  }
  lists_.emplace_back(first, static_cast<uint32_t>(runs_.size()) - first);
  users_.push_back(0);
  return static_cast<uint32_t>(lists_.size()) - 1;
}

std::vector<Use> Memory::uses_of(const std::vector<Touch>& touches, uint32_t grid) {
  std::vector<Use> uses;
  for (size_t i = 0; i < touches.size(); ++i) {
    const Touch& touch = touches[i];
    const TensorKind kind = s_.program.tensors[touch.access->tensor].kind;
    if (!is_workspace(kind) && kind != TensorKind::kCache) continue;
    if (kind == TensorKind::kCache && !touch.writes && is_history(touch)) continue;
    if (last_[grid].size() <= i) last_[grid].resize(i + 1);
    Last& last = last_[grid][i];
    if (last.access != touch.access || last.box != touch.box)
      last = {touch.access, touch.box, runs_of(touch)};
    ++users_[last.runs];
    uses.push_back({last.runs, touch.access->tensor.index, touch.writes, touch.by});
  }
  return uses;
}

void Memory::cut() {
  std::vector<uint64_t> bits(end_ / kUnit / 64 + 2, 0);
  const auto mark = [&](uint64_t unit) { bits[unit / 64] |= uint64_t{1} << unit % 64; };
  for (const std::vector<Run>* runs : {&runs_, &outputs_})
    for (const Run& run : *runs) mark(run.begin), mark(run.end);
  std::vector<uint32_t> before(bits.size() + 1, 0);
  for (size_t i = 0; i < bits.size(); ++i)
    before[i + 1] = before[i] + static_cast<uint32_t>(std::popcount(bits[i]));
  const auto cut_at = [&](uint64_t unit) {
    const uint64_t below = bits[unit / 64] & ((uint64_t{1} << unit % 64) - 1);
    return before[unit / 64] + static_cast<uint32_t>(std::popcount(below));
  };
  for (std::vector<Run>* runs : {&runs_, &outputs_})
    for (Run& run : *runs) run = {cut_at(run.begin), cut_at(run.end)};
  cut_count_ = before.back() + 1;
}

void Memory::begin() {
  cuts_.assign(cut_count_, {});
  readers_.clear();
}

void Memory::fail(const char* kind, const char* what, const Use& use, uint32_t task, const Cut& cut,
                  uint32_t other) const {
  throw Finding{kind, fmt::format("task {} {} %{} (task {}, grid {}), at {}", task, what,
                                  s_.program.tensors[TensorId{use.tensor}].name, other,
                                  cut.grid == kNone ? -1 : static_cast<int64_t>(cut.grid), to_text(step_))};
}

void Memory::read(const Use& use, Moment now, std::span<const uint32_t> clocks, uint32_t task,
                  uint32_t grid) {
  const auto [first, count] = lists_[use.runs];
  for (uint32_t r = first; r < first + count; ++r)
    for (uint64_t c = runs_[r].begin; c < runs_[r].end; ++c) {
      Cut& cut = cuts_[c];
      if (cut.task == kNone) fail("unwritten", "reads what nobody wrote of", use, task, cut, kNone);
      if (cut.tensor != use.tensor)
        fail("overwritten", "reads another tensor in the place of", use, task, cut, cut.task);
      if (clocks[cut.writer.thread] < cut.writer.clock)
        fail("race", "reads at once with a write of", use, task, cut, cut.task);
      if (cut.grid >= grid)
        fail("order", "reads what a later grid or its own wrote of", use, task, cut, cut.task);
      if (cut.readers == kNone) {
        cut.readers = readers_.size();
        readers_.resize(readers_.size() + clocks.size());
      }
      readers_[cut.readers + now.thread] = {now.clock, task};
    }
}

void Memory::write(const Use& use, Moment now, std::span<const uint32_t> clocks, uint32_t task,
                   uint32_t grid) {
  const auto [first, count] = lists_[use.runs];
  const bool cached = s_.program.tensors[TensorId{use.tensor}].kind == TensorKind::kCache;
  for (uint32_t r = first; r < first + count; ++r)
    for (uint64_t c = runs_[r].begin; c < runs_[r].end; ++c) {
      Cut& cut = cuts_[c];
      if (cut.task != kNone) {
        if (clocks[cut.writer.thread] < cut.writer.clock)
          fail("race", "writes at once with a write of", use, task, cut, cut.task);
        if (cut.tensor == use.tensor && (cached || cut.grid == grid) && cut.task != task)
          fail("meet", "writes a second time in the step", use, task, cut, cut.task);
      }
      if (cut.readers != kNone)
        for (size_t thread = 0; thread < clocks.size(); ++thread) {
          Reader& reader = readers_[cut.readers + thread];
          if (clocks[thread] < reader.clock)
            fail("race", "writes over what a task may still read, for", use, task, cut, reader.task);
          reader = {};
        }
      cut = {now, task, grid, use.tensor, cut.readers};
    }
}

void Memory::end() {
  for (size_t i = 0; i < outputs_.size(); ++i)
    for (uint64_t c = outputs_[i].begin; c < outputs_[i].end; ++c)
      if (cuts_[c].tensor != output_tensor_[i])
        throw Finding{"missing",
                      fmt::format("%{} is not all written, at {}",
                                  s_.program.tensors[TensorId{output_tensor_[i]}].name, to_text(step_))};
}

}  // namespace mkc::attack
