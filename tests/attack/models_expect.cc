#include "tests/attack/models_expect.h"

#include <algorithm>
#include <random>

#include "tests/reference/distance.h"

namespace mkc::attack {
namespace {

using reference::Rounding;
using reference::Rows;
using reference::Type;

// A row may be three times as far from float64 as an honest engine's worst row. The order of f32 sums may add
// kOrder.
constexpr double kHonest = 3, kOrder = 1e-4;

Rounding rounding_of(Type type) {
  return type == Type::kF32 ? Rounding::kNone : type == Type::kF16 ? Rounding::kF16 : Rounding::kBf16;
}

Rounding product_rounding(const reference::Shape& s) {
  return s.coding != reference::Coding::kNone ? Rounding::kBf16 : rounding_of(s.type);
}

Rounding cache_rounding(const ModelCase& c) {
  if (!c.cache) return rounding_of(c.shape.type);
  if (c.cache == DType::bf16) return Rounding::kBf16;
  return c.cache == DType::f32 ? Rounding::kNone : Rounding::kF16;
}

// Returns by how much a router's choice must be clear, so that rounding makes no other choice.
double min_margin(const ModelCase& c) {
  if (c.cache == DType::e4m3) return 0.5;
  return product_rounding(c.shape) == Rounding::kNone && cache_rounding(c) == Rounding::kNone ? 1e-3 : 0.1;
}

reference::Model exact_model(reference::Model model) {
  model.shape.e4m3_cache = false;
  return model;
}

// Returns the exact rows of a sequence, up to the first that rounding may send to other experts.
Rows clear_rows(const ModelCase& c, const reference::Model& exact, const std::vector<int32_t>& ids) {
  std::vector<std::vector<reference::Routing>> routings;
  Rows rows = logits_of(exact, ids, Rounding::kNone, &routings);
  const auto unclear = [&](const auto& layers) {
    return std::any_of(layers.begin(), layers.end(), [&](const auto& r) { return r.margin < min_margin(c); });
  };
  const auto clear = std::find_if(routings.begin(), routings.end(), unclear) - routings.begin();
  rows.resize(static_cast<size_t>(clear));
  return rows;
}

size_t count_rows(const ModelCase& c) {
  size_t rows = 0;
  for (const Sequence& s : make_sequences(c)) rows += s.ids.size();
  return rows;
}

size_t count_clear_rows(const ModelCase& c, const reference::Model& model) {
  size_t rows = 0;
  for (const Sequence& s : make_sequences(c)) rows += clear_rows(c, exact_model(model), s.ids).size();
  return rows;
}

// Returns how far the rows of an honest engine are from the exact ones.
Rows honest_distances(const ModelCase& c, const reference::Model& model, const Expected& expected) {
  const std::vector<Sequence> sequences = make_sequences(c);
  Rows distances;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Rows honest =
        logits_of(model, sequences[i].ids, product_rounding(c.shape), nullptr, cache_rounding(c));
    distances.emplace_back();
    for (size_t row = 0; row < expected.exact[i].size(); ++row)
      distances[i].push_back(reference::row_distance(honest[row].data(), expected.exact[i][row]).relative);
  }
  return distances;
}

double bound_of(double distance) {
  return kOrder + kHonest * distance;
}

// Returns the greatest relative error of one rounding.
double rounding_error(Rounding rounding) {
  if (rounding == Rounding::kNone) return 0x1p-24;
  return rounding == Rounding::kF16 ? 0x1p-12 : 0x1p-9;
}

}  // namespace

reference::Model model_of(const ModelCase& c) {
  constexpr uint32_t kTries = 6;
  reference::Model best = reference::random_model(c.shape, c.weights_seed);
  if (c.shape.experts == 0 || c.shape.top_k == c.shape.experts) return best;
  size_t most = count_clear_rows(c, best);
  for (uint32_t i = 1; i < kTries && most < count_rows(c); ++i) {
    reference::Model model = reference::random_model(c.shape, c.weights_seed + i);
    const size_t rows = count_clear_rows(c, model);
    if (rows > most) most = rows, best = std::move(model);
  }
  return best;
}

Expected expect(const ModelCase& c, const reference::Model& model) {
  Expected expected;
  for (const Sequence& s : make_sequences(c))
    expected.exact.push_back(clear_rows(c, exact_model(model), s.ids));
  double worst = 0;
  for (const auto& of : honest_distances(c, model, expected))
    for (const double distance : of) worst = std::max(worst, distance);
  for (const auto& rows : expected.exact) expected.bounds.emplace_back(rows.size(), bound_of(worst));
  return expected;
}

void widen_bounds(const ModelCase& c, const reference::Model& model, Expected& expected) {
  constexpr uint32_t kRuns = 32;
  const double change = rounding_error(std::max(product_rounding(c.shape), cache_rounding(c)));
  for (uint32_t run = 0; run < kRuns; ++run) {
    std::mt19937 random(run);
    reference::Model changed = model;
    for (auto& [name, weights] : changed.weights)
      for (double& v : weights) v *= 1 + change * (static_cast<double>(random() % 1000) / 500 - 1);
    const Rows distances = honest_distances(c, changed, expected);
    for (size_t i = 0; i < distances.size(); ++i)
      for (size_t row = 0; row < distances[i].size(); ++row)
        expected.bounds[i][row] = std::max(expected.bounds[i][row], bound_of(distances[i][row]));
  }
}

}  // namespace mkc::attack
