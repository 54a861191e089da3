#include "codegen/declared.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "codegen/bodies.h"
#include "codegen/operands.h"
#include "ir/values.h"
#include "runtime/abi.h"

namespace mkc {
namespace {

using Index = std::vector<int64_t>;

// A range of one dim; without one where routing decides.
struct Span {
  int64_t begin = 0, end = 0;
  bool open = false;
};

struct Box {
  TensorId tensor;
  bool written = false;
  std::vector<Span> spans;
};

std::string text_of(const Index& index) {
  return fmt::format("[{}]", fmt::join(index, ", "));
}

std::string text_of(const Box& box) {
  std::string text;
  for (const Span& s : box.spans)
    text += fmt::format("{}{}", text.empty() ? "" : ", ",
                        s.open ? std::string("?") : fmt::format("{}:+{}", s.begin, s.end - s.begin));
  return "[" + text + "]";
}

class DeclaredRegions final : public mkrt::AccessRules {
 public:
  explicit DeclaredRegions(const Schedule& schedule)
      : program_(schedule.program), slots_(schedule.slots), requests_(find_symbol(program_.symbols, "B")) {}

  void begin_step(const mkrt::MkSession& session, const mkrt::MkStep& step) override {
    session_ = &session;
    boxes_.clear();
    spaces_.clear();
    pages_.clear();
    read_values(step);
    if (values_.empty()) return;
    shapes_.clear();
    for (const Tensor& tensor : program_.tensors) {
      Index& shape = shapes_.emplace_back();
      for (const Expr& dim : tensor.shape) shape.push_back(evaluate(dim, values_));
    }
    const auto* begin = reinterpret_cast<const uint32_t*>(step.page_begin);
    const auto* page = reinterpret_cast<const uint32_t*>(step.page_index);
    const auto* lengths =
        reinterpret_cast<const uint32_t*>(step.lists) + mkrt::kLengthsList * mkrt::kMaxRequests;
    for (int64_t b = 0; b < values_[requests_.index]; ++b)
      for (uint32_t i = 0; i << session.page_shift < lengths[b]; ++i) pages_[page[begin[b] + i]] = {b, i};
  }

  std::string check(uint32_t grid, uint32_t task, uint32_t count, uint64_t address, uint32_t bytes,
                    bool write) override {
    if (values_.empty() || grid >= program_.grids.size()) return {};
    for (uint32_t done = 0; done < bytes;) {
      const Touched at = touched(grid, task, count, address + done, write);
      if (!at.error.empty()) return at.error;
      done += at.bytes;
    }
    return {};
  }

 private:
  struct PageOf {
    int64_t request, number;
  };
  // The element at an address: its bytes from there on.
  struct Touched {
    uint32_t bytes;
    std::string error;
  };

  void read_values(const mkrt::MkStep& step) {
    values_.clear();
    std::vector<int64_t> given(program_.symbols.size());
    uint32_t place = 0;
    for (SymbolId id : program_.symbols.ids()) {
      const Symbol& s = program_.symbols[id];
      if (s.routed || s.cut) continue;
      given[id.index] = step.symbol[place++];
    }
    if (!requests_.valid()) return;
    const auto* lists = reinterpret_cast<const int32_t*>(step.lists);
    std::vector<StepRequest> requests;
    for (int64_t b = 0; b < given[requests_.index]; ++b)
      requests.push_back({lists[mkrt::kRowsList * mkrt::kMaxRequests + b],
                          lists[mkrt::kLengthsList * mkrt::kMaxRequests + b]});
    if (requests.empty()) return;
    values_ = step_values(program_.symbols, requests);
    for (SymbolId id : program_.symbols.ids()) {
      const Symbol& s = program_.symbols[id];
      if (!s.routed && !s.cut && !s.is_list()) values_[id.index] = given[id.index];
    }
  }

  bool is_routed(const Expr& e) const {
    return std::any_of(e.nodes.begin(), e.nodes.end(), [&](const ExprNode& n) {
      return (n.kind == ExprKind::kSymbol || n.kind == ExprKind::kElement) &&
             program_.symbols[SymbolId{static_cast<uint32_t>(n.value)}].routed;
    });
  }

  const std::vector<Box>& boxes_of(uint32_t grid, uint32_t task) {
    const auto [found, added] = boxes_.try_emplace(uint64_t{grid} << 32 | task);
    if (!added) return found->second;
    const TaskGrid& g = program_.grids[GridId{grid}];
    const auto space = spaces_.try_emplace(grid, g, values_).first;
    Index coords(g.coords.size());
    if (task >= space->second.count()) return found->second;
    space->second.coords_of(task, coords);
    for (const auto* accesses : {&g.reads, &g.writes})
      for (const Access& access : *accesses) {
        Box& box = found->second.emplace_back(Box{access.tensor, accesses == &g.writes, {}});
        for (const Range& range : access.region) {
          if (is_routed(range.offset) || is_routed(range.size)) {
            box.spans.push_back({0, 0, true});
            continue;
          }
          const int64_t first = evaluate(range.offset, values_, coords);
          box.spans.push_back({first, first + evaluate(range.size, values_, coords), false});
        }
      }
    return found->second;
  }

  bool is_plain(TensorId t) const {
    const Tensor& tensor = program_.tensors[t];
    return tensor.kind != TensorKind::kCache && tensor.kind != TensorKind::kInput &&
           tensor.packing.sources.empty();
  }

  // Whether the tensor has an element at the address, and which.
  bool find(TensorId t, uint64_t address, Index& index, uint32_t& left) const {
    const Tensor& tensor = program_.tensors[t];
    return tensor.kind == TensorKind::kCache ? find_in_cache(t, address, index, left)
                                             : is_plain(t) && find_in_arena(t, address, index, left);
  }

  bool find_in_arena(TensorId t, uint64_t address, Index& index, uint32_t& left) const {
    const Tensor& tensor = program_.tensors[t];
    const bool weight = tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kTable;
    const Slot& slot = slots_[t.index];
    const uint64_t begin = (weight ? session_->weights : session_->workspace) + slot.offset;
    if (address < begin || address - begin >= slot.bytes) return false;
    // Plain weights of rank 1 are kept in f32.
    const auto bytes =
        weight && tensor.shape.size() < 2 ? 4 : static_cast<uint64_t>(dtype_bytes(tensor.dtype));
    auto element = static_cast<int64_t>((address - begin) / bytes);
    left = static_cast<uint32_t>(bytes - (address - begin) % bytes);
    index.assign(tensor.shape.size(), 0);
    for (size_t d = index.size(); d-- > 0;) {
      const int64_t extent = std::max<int64_t>(1, shapes_[t.index][d]);
      index[d] = d == 0 ? element : element % extent;
      element /= extent;
    }
    return true;
  }

  bool find_in_cache(TensorId t, uint64_t address, Index& index, uint32_t& left) const {
    const auto* caches = reinterpret_cast<const mkrt::MkCache*>(session_->caches);
    const uint64_t base = caches[number_in_kind(program_.tensors, t)].base;
    if (address < base) return false;
    const auto page = pages_.find((address - base) / session_->page_stride);
    if (page == pages_.end()) return false;
    const uint64_t in_page = (address - base) % session_->page_stride;
    const uint64_t outer = std::max(session_->head_stride, session_->position_stride),
                   inner = std::min(session_->head_stride, session_->position_stride);
    const uint64_t at_outer = in_page / outer, at_inner = in_page % outer / inner,
                   in_head = in_page % outer % inner;
    const bool heads_inside = session_->head_stride <= session_->position_stride;
    const uint64_t head = heads_inside ? at_inner : at_outer, position = heads_inside ? at_outer : at_inner;
    const auto bytes = static_cast<uint64_t>(dtype_bytes(program_.tensors[t].dtype));
    const Index& shape = shapes_[t.index];
    if (head >= static_cast<uint64_t>(shape[1]) || in_head / bytes >= static_cast<uint64_t>(shape[3]))
      return false;
    left = static_cast<uint32_t>(bytes - in_head % bytes);
    index = {page->second.request, static_cast<int64_t>(head),
             (page->second.number << session_->page_shift) + static_cast<int64_t>(position),
             static_cast<int64_t>(in_head / bytes)};
    return true;
  }

  Touched touched(uint32_t grid, uint32_t task, uint32_t count, uint64_t address, bool write) {
    Index index;
    uint32_t left = 0, found = 0;
    std::string declared, element;
    for (uint32_t i = 0; i < count; ++i)
      for (const Box& box : boxes_of(grid, task + i)) {
        if ((write && !box.written) || !find(box.tensor, address, index, left)) continue;
        found = left;
        bool inside = true;
        for (size_t d = 0; d < index.size(); ++d)
          inside = inside &&
                   (box.spans[d].open || (box.spans[d].begin <= index[d] && index[d] < box.spans[d].end));
        if (inside) return {left, ""};
        element = "%" + program_.tensors[box.tensor].name + text_of(index);
        declared += " %" + program_.tensors[box.tensor].name + text_of(box);
      }
    const char* verb = write ? "writes" : "reads";
    if (found != 0)
      return {found, fmt::format("{} {}, of which it declares only{}", verb, element, declared)};
    for (TensorId t : program_.tensors.ids())
      if (find(t, address, index, left))
        return {left, fmt::format("{} %{}{}, of which it declares nothing", verb, program_.tensors[t].name,
                                  text_of(index))};
    return {1u << 30, ""};  // no tensor's: counters, lists, packed weights
  }

  const TaskProgram program_;
  const std::vector<Slot> slots_;
  const SymbolId requests_;
  const mkrt::MkSession* session_ = nullptr;
  std::vector<int64_t> values_;  // of the step; empty: nothing is known
  std::vector<Index> shapes_;    // by TensorId
  std::unordered_map<uint64_t, PageOf> pages_;
  std::unordered_map<uint64_t, std::vector<Box>> boxes_;  // by grid and task
  std::map<uint32_t, TaskSpace> spaces_;
};

}  // namespace

std::shared_ptr<mkrt::AccessRules> declared_regions(const Schedule& schedule) {
  return std::make_shared<DeclaredRegions>(schedule);
}

}  // namespace mkc
