#include "codegen/declared.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "codegen/given_values.h"
#include "codegen/tensor_addresses.h"
#include "ir/values.h"
#include "runtime/abi/abi.h"

namespace mkc {
namespace {

struct Span {
  int64_t begin = 0, end = 0;
};

struct Box {
  TensorId tensor;
  bool written = false;
  std::vector<Span> spans;
};

bool contains(const Box& box, const Elements& elements) {
  for (size_t d = 0; d < box.spans.size(); ++d)
    if (elements.first[d] < box.spans[d].begin || box.spans[d].end <= elements.last[d]) return false;
  return true;
}

// Returns how many bytes from the address on lie in the box, which contains the elements there.
uint32_t bytes_within(const Box& box, const Elements& at) {
  if (at.to_row_end == 1) return at.bytes;
  const int64_t elements = std::min(at.to_row_end, box.spans.back().end - at.first.back());
  return at.bytes + static_cast<uint32_t>(elements - 1) * at.element_bytes;
}

std::string text_of(const Box& box) {
  std::string text;
  for (const Span& s : box.spans)
    text += fmt::format("{}{}:+{}", text.empty() ? "" : ", ", s.begin, std::max<int64_t>(0, s.end - s.begin));
  return "[" + text + "]";
}

class DeclaredRegions final : public mkrt::AccessRules {
 public:
  explicit DeclaredRegions(const Schedule& schedule)
      : schedule_(schedule),
        requests_(step_symbols(schedule.program.symbols).requests),
        addresses_(schedule_) {}

  void begin_step(const mkrt::MkSession& session, const mkrt::MkStep& step) override {
    boxes_.clear();
    grids_.clear();
    newest_grid_ = kNone;
    newest_task_ = kNone;
    allowed_.fill({});
    given_ = mkrt::given_of(step);
    const std::vector<int64_t> values = given_values(program().symbols, given_);
    has_requests_ = requests_.valid() && values[requests_.index] > 0;
    if (has_requests_) addresses_.begin_step(session, step, values);
  }

  std::string check(uint32_t grid, uint32_t task, uint32_t count, uint64_t address, uint32_t bytes,
                    bool write) override {
    if (!has_requests_ || grid >= program().grids.size()) return {};
    for (uint32_t done = 0; done < bytes;) {
      const uint64_t first = address + done;
      Allowed& near = allowed_[(first / kNearBytes + task) % allowed_.size()];
      if (!near.covers(grid, task, count, first, write)) {
        const Touched at = touched(grid, task, count, first, write);
        if (!at.error.empty()) return at.error;
        near = {first, first + at.bytes, grid, task, count, write};
      }
      done += static_cast<uint32_t>(std::min<uint64_t>(near.end - first, bytes - done));
    }
    return {};
  }

 private:
  struct Touched {
    uint32_t bytes;
    std::string error;
  };
  // Allowed has bytes that tasks were found to touch rightly in this step.
  struct Allowed {
    uint64_t begin = 0, end = 0;
    uint32_t grid = 0, task = 0, count = 0;
    bool written = false;  // or else only read
    bool covers(uint32_t of_grid, uint32_t of_task, uint32_t of_count, uint64_t address, bool write) const {
      return begin <= address && address < end && grid == of_grid && task == of_task && count == of_count &&
             (written || !write);
    }
  };
  // GridValues has the symbol values and tasks with which a grid's regions are evaluated.
  struct GridValues {
    std::vector<int64_t> values;
    TaskSpace space;
  };

  const TaskProgram& program() const { return schedule_.program; }

  // Returns the rows of each active expert, from the tables that the grid looks up. The list is empty for
  // grids that do not look up experts. Returns nothing if the tables hold an impossible number of experts.
  std::optional<std::vector<int64_t>> active_expert_rows_of(const TaskGrid& grid) const {
    std::vector<int64_t> rows;
    const auto word = [&](const Access& access, int64_t i) {
      return reinterpret_cast<const int32_t*>(addresses_.begin_of(access.tensor))[i];
    };
    const Access* active_experts = find_operand(grid, kActiveExpertsSymbol);
    const Access* active_expert_rows = find_operand(grid, kActiveExpertRowsSymbol);
    if (active_experts == nullptr || active_expert_rows == nullptr) return rows;
    const Bounds bounds = program().symbols[step_symbols(program().symbols).active_experts].bounds;
    const int64_t count = word(*active_experts, 0);
    if (count < bounds.lo || bounds.hi < count) return std::nullopt;
    for (int64_t i = 0; i < count; ++i) rows.push_back(word(*active_expert_rows, i));
    return rows;
  }

  const GridValues* grid_values(uint32_t grid) {
    if (grid == newest_grid_) return newest_values_;
    newest_values_ = make_or_find_values(grid);
    newest_grid_ = grid;
    return newest_values_;
  }

  const GridValues* make_or_find_values(uint32_t grid) {
    const auto [found, added] = grids_.try_emplace(grid);
    if (!added) return found->second ? &*found->second : nullptr;
    const TaskGrid& g = program().grids[GridId{grid}];
    const std::optional<std::vector<int64_t>> rows = active_expert_rows_of(g);
    if (!rows) return nullptr;
    std::vector<int64_t> values = given_values(program().symbols, given_, *rows);
    const TaskSpace space(g, values);
    found->second.emplace(std::move(values), space);
    return &*found->second;
  }

  const std::vector<Box>& boxes_of(uint32_t grid, uint32_t task, const GridValues& with) {
    const uint64_t key = uint64_t{grid} << 32 | task;
    if (key == newest_task_) return *newest_boxes_;
    newest_boxes_ = &make_or_find_boxes(key, grid, task, with);
    newest_task_ = key;
    return *newest_boxes_;
  }

  const std::vector<Box>& make_or_find_boxes(uint64_t key, uint32_t grid, uint32_t task,
                                             const GridValues& with) {
    const auto [found, added] = boxes_.try_emplace(key);
    if (!added || task >= with.space.count()) return found->second;
    const TaskGrid& g = program().grids[GridId{grid}];
    std::vector<int64_t> coords(g.coords.size());
    with.space.coords_of(task, coords);
    for (const auto* accesses : {&g.reads, &g.writes})
      for (const Access& access : *accesses) {
        Box& box = found->second.emplace_back(Box{access.tensor, accesses == &g.writes, {}});
        for (const Range& range : access.region) {
          const int64_t first = evaluate(range.offset, with.values, coords);
          box.spans.push_back({first, first + evaluate(range.size, with.values, coords)});
        }
      }
    return found->second;
  }

  Touched touched(uint32_t grid, uint32_t task, uint32_t count, uint64_t address, bool write) {
    const GridValues* with = grid_values(grid);
    if (with == nullptr) return {~0u, ""};
    const auto tasks = static_cast<uint64_t>(with->space.count());
    if (uint64_t{task} + count > tasks)
      return {~0u, fmt::format("works for tasks {} to {} of a grid of {}", task, task + uint64_t{count} - 1,
                               tasks)};
    Elements& at = at_;
    uint32_t found = 0;
    // Tasks taken together touch their regions in order, so the search begins at the last task that matched.
    const uint32_t hint = last_ - task < count ? last_ - task : 0;
    for (uint32_t n = 0; n < count; ++n) {
      const uint32_t i = task + (hint + n) % count;
      for (const Box& box : boxes_of(grid, i, *with)) {
        if (write && !box.written) continue;
        for (size_t user = 0; addresses_.find(box.tensor, address, at, user); ++user) {
          found = at.bytes;
          if (!contains(box, at)) continue;
          last_ = i;
          return {bytes_within(box, at), ""};
        }
      }
    }
    if (found != 0) return {found, outside(grid, task, count, address, write)};
    for (TensorId t : program().tensors.ids())
      if (addresses_.find(t, address, at))
        return {at.bytes,
                fmt::format("{} {}, of which it declares nothing", verb(write), element(t, at.first))};
    return {16 - static_cast<uint32_t>(address % 16), ""};  // no tensor: counters, lists or padding
  }

  std::string outside(uint32_t grid, uint32_t task, uint32_t count, uint64_t address, bool write) {
    constexpr uint32_t kNamed = 4;  // most regions that the message names
    Elements at;
    std::string first, regions;
    uint32_t named = 0;
    for (uint32_t i = task; i < task + count; ++i)
      for (const Box& box : boxes_of(grid, i, *grid_values(grid))) {
        if ((write && !box.written) || !addresses_.find(box.tensor, address, at)) continue;
        if (first.empty()) first = element(box.tensor, at.first);
        if (named++ < kNamed)
          regions += fmt::format(" %{}{}", program().tensors[box.tensor].name, text_of(box));
      }
    if (named > kNamed) regions += fmt::format(" and {} more", named - kNamed);
    return fmt::format("{} {}, of which it declares only{}", verb(write), first, regions);
  }

  static const char* verb(bool write) { return write ? "writes" : "reads"; }
  std::string element(TensorId tensor, const std::vector<int64_t>& index) const {
    return fmt::format("%{}[{}]", program().tensors[tensor].name, fmt::join(index, ", "));
  }

  const Schedule schedule_;
  const SymbolId requests_;
  TensorAddresses addresses_;
  mkrt::StepGiven given_;
  bool has_requests_ = false;  // a step without requests is not checked
  std::map<uint32_t, std::optional<GridValues>> grids_;
  std::unordered_map<uint64_t, std::vector<Box>> boxes_;  // by grid and task
  Elements at_;                                           // elements at the checked address
  // Most accesses are by the task of the access before. Its values and boxes are kept at hand.
  static constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t newest_grid_ = kNone, newest_task_ = kNone;
  const GridValues* newest_values_ = nullptr;
  const std::vector<Box>* newest_boxes_ = nullptr;
  uint32_t last_ = 0;  // task whose region matched last
  // Most accesses lie near an earlier one of their tasks.
  static constexpr uint64_t kNearBytes = 256;
  std::array<Allowed, 256> allowed_;  // by place and task: what was found last
};

}  // namespace

std::shared_ptr<mkrt::AccessRules> declared_regions(const Schedule& schedule) {
  return std::make_shared<DeclaredRegions>(schedule);
}

}  // namespace mkc
