#include "scheduler/search/candidates.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ceil.h"
#include "ir/values.h"
#include "runtime/abi/packing.h"
#include "scheduler/place/choose.h"
#include "scheduler/tiling/grid_pattern.h"
#include "scheduler/tiling/split.h"

namespace mkc {
namespace {

constexpr double kUneven = 1.1;  // strips of the busiest worker, relative to the mean
constexpr int64_t kNarrowSplitK = 4;

bool in_all_layers_alike(const TaskProgram& program, const std::string& pattern) {
  const TaskGrid* first = nullptr;
  for (const TaskGrid& grid : program.grids) {
    if (!matches(grid, pattern)) continue;
    if (first && first->body != grid.body) return false;
    first = &grid;
  }
  return true;
}

// Tells whether a rule fits the grid of some layer. The grid may be in the program already, or only once
// products are split.
template <class Rule>
bool is_asked(const TaskProgram& program, const std::vector<Rule>& rules, const std::string& pattern) {
  int32_t layers = 0;
  for (const TaskGrid& grid : program.grids) layers = std::max(layers, grid.layer + 1);
  TaskGrid grid;
  for (int32_t layer = 0; !rules.empty() && layer < layers; ++layer) {
    grid.name = fmt::format("l{}{}", layer, pattern.substr(pattern.find('.')));
    for (const Rule& rule : rules)
      if (matches(grid, rule.grids)) return true;
  }
  return false;
}

// The kinds of the layers' grids in their order, each with its first grid. Grids of one kind must be alike in
// all of `program`.
struct Kind {
  std::string pattern;
  GridId first;
};
template <class Rule>
std::vector<Kind> kinds_of(const TaskProgram& program, const TaskProgram& layers,
                           const std::vector<Rule>& asked) {
  std::vector<Kind> kinds;
  for (GridId g : layers.grids.ids()) {
    const std::string pattern = layer_pattern(layers.grids[g]);
    const auto known = [&](const Kind& kind) { return kind.pattern == pattern; };
    if (!pattern.empty() && std::none_of(kinds.begin(), kinds.end(), known)) kinds.push_back({pattern, g});
  }
  std::erase_if(kinds, [&](const Kind& kind) {
    return is_asked(program, asked, kind.pattern) || !in_all_layers_alike(program, kind.pattern);
  });
  return kinds;
}

bool can_be_split(const TaskProgram& program, const std::string& pattern) {
  return std::all_of(program.grids.begin(), program.grids.end(), [&](const TaskGrid& grid) {
    return !matches(grid, pattern) || why_not_split(program, grid, kKSlices).empty();
  });
}

bool has_its_rows_alone(const TaskProgram& program, const TaskGrid& product) {
  const TensorId x = find_operand(product, "x")->tensor;
  return std::none_of(program.grids.begin(), program.grids.end(), [&](const TaskGrid& other) {
    const Access* rows = multiplied_rows(other);
    return rows && rows->tensor == x && other.name != product.name;
  });
}

// Tells whether some workers must take many more strips of a product than others.
bool is_uneven(const TaskGrid& product, uint32_t workers) {
  const int64_t strips = product.coords[0].extent.constant(), max = ceil_of(strips, workers);
  return static_cast<double>(max * workers) > kUneven * static_cast<double>(strips);
}

}  // namespace

std::vector<Candidate> split_candidates(const TaskProgram& program, const Asked& asked,
                                        const std::vector<int64_t>& parts, uint32_t uneven_among) {
  std::vector<Candidate> candidates;
  for (const Kind& kind : kinds_of(program, program, asked.splits)) {
    const TaskGrid& first = program.grids[kind.first];
    if (!can_be_split(program, kind.pattern)) continue;
    if (uneven_among != 0 && !(has_its_rows_alone(program, first) && is_uneven(first, uneven_among)))
      continue;
    for (int64_t n : parts)
      candidates.push_back(
          {n == 1 ? "in one part" : fmt::format("in {} parts", n), {.splits = {{kind.pattern, n}}}});
  }
  return candidates;
}

std::vector<Candidate> narrow_candidates(const TaskProgram& program, const Asked& asked, uint32_t workers) {
  std::vector<Candidate> candidates;
  const std::vector<Bounds> limits = symbol_bounds(program.symbols);
  const auto is_narrow = [&](const TaskGrid& product) {
    const std::vector<Expr>& weight = program.tensors[find_operand(product, "weight")->tensor].shape;
    return weight[1].constant() > weight[0].constant() &&
           product.coords[0].extent.constant() < int64_t{mkrt::kMma64Strips} * workers &&
           bounds(rows_made(program, product), limits).hi > int64_t{mkrt::kMma8Tokens};
  };
  for (const Kind& kind : kinds_of(program, program, asked.splits)) {
    const std::string reduce = kind.pattern + "_reduce";
    if (can_be_split(program, kind.pattern) && has_its_rows_alone(program, program.grids[kind.first]) &&
        is_narrow(program.grids[kind.first]) && !is_asked(program, asked.placements, reduce))
      candidates.push_back(
          {fmt::format("in {} parts, added up by tasks of their own", kNarrowSplitK),
           {.splits = {{kind.pattern, kNarrowSplitK}}, .placements = {{reduce, PlacementKind::kTable}}}});
  }
  return candidates;
}

std::vector<Candidate> wgmma_candidates(const TaskProgram& program, const Asked& asked) {
  const bool can = std::any_of(program.grids.begin(), program.grids.end(),
                               [&](const TaskGrid& grid) { return wgmma_from(program, grid) != 0; });
  std::vector<Candidate> candidates;
  if (can && !asked.wgmma_from)
    candidates.push_back({fmt::format("with wgmma_from: {}", kMinWgmmaFrom), {.wgmma_from = kMinWgmmaFrom}});
  return candidates;
}

std::vector<Candidate> fp8_candidates(const TaskProgram& program, const Asked& asked) {
  const bool can = std::ranges::any_of(program.grids,
                                       [&](const TaskGrid& grid) { return multiplies_e4m3(program, grid); });
  if (!can || !asked.may_use_fp8) return {};
  return {{"with activations: fp8", {.fp8_from = kMinFp8From}}};
}

std::vector<Candidate> ring_candidates(uint32_t stages, const Asked& asked) {
  std::vector<Candidate> candidates;
  for (const uint32_t ring : {stages * 5 / 6, stages * 2 / 3})
    if (asked.ring == 0 && ring < stages && ring >= kMinRing)
      candidates.push_back({fmt::format("with ring: {}", ring), {.ring = ring}});
  return candidates;
}

std::vector<Candidate> ticket_candidates(const TaskProgram& program, const TaskProgram& layers,
                                         const Asked& asked) {
  std::vector<Candidate> candidates;
  const std::vector<Kind> kinds = kinds_of(program, layers, asked.placements);
  for (BodyKind body : {BodyKind::kAttend, BodyKind::kExpert, BodyKind::kProduct}) {
    Candidate candidate{"with tickets", {}};
    for (const Kind& kind : kinds)
      if (layers.grids[kind.first].body == body)
        candidate.settings.placements[kind.pattern] = by_tickets(layers, kind.first).kind;
    if (!candidate.settings.placements.empty()) candidates.push_back(std::move(candidate));
  }
  return candidates;
}

std::vector<Candidate> placement_candidates(const TaskProgram& program, const TaskProgram& layers,
                                            const Asked& asked) {
  std::vector<Candidate> candidates;
  for (const Kind& kind : kinds_of(program, layers, asked.placements))
    for (PlacementKind placement : kPlacementKinds)
      candidates.push_back(
          {fmt::format("by {}", placement_name(placement)), {.placements = {{kind.pattern, placement}}}});
  return candidates;
}

}  // namespace mkc
