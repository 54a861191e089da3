#include <fmt/format.h>

#include <cmath>

#include "ir/verifier.h"

namespace mkc {
namespace {

constexpr size_t kMaxRank = 4;
constexpr int64_t kMaxElements = int64_t{1} << 40;

bool is_constant(const Tensor& t) {
  for (const Expr& dim : t.shape)
    if (!dim.is_const()) return false;
  return true;
}

// Checks V5.
void check_size(Verifier& v, TensorId id) {
  const Tensor& t = v.tensors[id];
  const Site site = v.tensor_site(id);
  if (t.shape.size() > kMaxRank)
    return v.report(5, site, fmt::format("{} dims, at most {}", t.shape.size(), kMaxRank));
  int64_t elements = 1;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (const int64_t min = lower_bound(t.shape[d], v.at_symbols); min < 1)
      v.report(5, site, fmt::format("dim {} may be {}, expected at least 1", d, min));
    const int64_t max = std::max<int64_t>(1, upper_bound(t.shape[d], v.at_symbols));
    if (max > kMaxElements / elements)
      return v.report(5, site, fmt::format("more than {} elements", kMaxElements));
    elements *= max;
  }
}

// Checks V6.
void check_kind(Verifier& v, TensorId id) {
  const Tensor& t = v.tensors[id];
  const Site site = v.tensor_site(id);
  const bool fixed = t.kind == TensorKind::kWeight || t.kind == TensorKind::kTable;
  if (fixed && !is_constant(t))
    v.report(6, site,
             fmt::format("the shape of a {} is [{}], expected constants", keyword(t.kind),
                         v.text.expr_list(t.shape)));
  if (t.source.find(kExpertMark) != std::string::npos && t.shape.size() < 2)
    v.report(6, site, fmt::format("it is named for each expert, but has {} dims", t.shape.size()));
  const bool packed = !t.packing.sources.empty() || t.packing.group != 0, from = !t.source.empty();
  const bool e4m3 = t.dtype == DType::e4m3, cache = t.kind == TensorKind::kCache,
             activation = t.kind == TensorKind::kActivation;
  const bool matrix = t.kind == TensorKind::kWeight && t.shape.size() >= 2 && find_weight_type(t.dtype);
  if (e4m3 && !cache && !activation && !matrix)
    v.report(6, site, "only activations, caches and matrices of weights are e4m3");
  const bool grouped = find_weight_type(t.dtype) && weight_format(t).grouped();
  if (grouped && !matrix)
    v.report(6, site, fmt::format("only matrices of weights are {}", dtype_name(t.dtype)));
  if (cache && !packed) {
    if (from && !e4m3) v.report(6, site, fmt::format("a cache of {} has no scales", dtype_name(t.dtype)));
  } else if (t.kind != TensorKind::kWeight) {
    if (packed || from) v.report(6, site, "only weights are packed or from the checkpoint");
  } else if (packed == from) {
    v.report(6, site,
             packed ? "it is both packed and from the checkpoint"
                    : "it is neither packed nor from the checkpoint");
  }
}

// Checks V7.
void check_packing(Verifier& v, TensorId id) {
  const Tensor& t = v.tensors[id];
  if (t.packing.sources.empty() || t.kind != TensorKind::kWeight) return;
  const Site site = v.tensor_site(id);
  const auto count = static_cast<int64_t>(t.packing.sources.size());
  if (count == 1 ? t.packing.group != 0 : kTileRows % count != 0 || t.packing.group != kTileRows / count)
    return v.report(7, site,
                    fmt::format("groups of {} rows of {} sources, expected {}", t.packing.group, count,
                                count == 1 ? "0" : "a strip of 16 in all"));
  const Tensor& first = v.tensors[t.packing.sources[0]];
  for (TensorId source : t.packing.sources) {
    const Tensor& s = v.tensors[source];
    if (s.kind != TensorKind::kWeight || s.source.empty() || s.dtype != t.dtype || s.shape != first.shape ||
        s.shape.size() != t.shape.size() || s.shape.size() < 2 || s.shape.size() > 3 || !is_constant(s))
      return v.report(
          7, site,
          fmt::format("its source {} is of kind {} [{}], expected {} matrices of the checkpoint, all "
                      "of one shape",
                      v.text.tensor(source), kind_text(s), v.text.expr_list(s.shape), dtype_name(t.dtype)));
  }
  std::vector<Expr> expected = first.shape;
  Expr& rows = expected[expected.size() - 2];
  rows = rows * count;
  if (t.shape != expected)
    v.report(7, site,
             fmt::format("its shape is [{}], that of its sources together [{}]", v.text.expr_list(t.shape),
                         v.text.expr_list(expected)));
}

bool is_positive(double value) {
  return std::isfinite(value) && value > 0;
}

// Checks V8.
void check_ropes(Verifier& v, const std::vector<RopeTable>& ropes) {
  std::vector<uint32_t> described(v.tensors.size(), 0);
  for (uint32_t i = 0; i < ropes.size(); ++i) {
    const RopeTable& rope = ropes[i];
    const Tensor& t = v.tensors[rope.tensor];
    const Site site{{Part::kRope, i}, "rope " + v.text.tensor(rope.tensor), &t.loc};
    const auto columns = static_cast<int64_t>(2 * rope.inv_freq.size());
    if (!fits(OperandKind::kTable, t) || t.shape.size() != 2 || !t.shape[1].is_const(columns))
      v.report(8, site,
               fmt::format("it is of kind {} [{}], expected f32 table of {} columns", kind_text(t),
                           v.text.expr_list(t.shape), columns));
    if (!is_positive(rope.scale)) v.report(8, site, fmt::format("scale {}", spell_double(rope.scale)));
    for (double f : rope.inv_freq)
      if (!is_positive(f)) v.report(8, site, fmt::format("a frequency of {}", spell_double(f)));
    if (++described[rope.tensor.index] == 2) v.report(8, site, "another line is of this table");
  }
  for (TensorId id : v.tensors.ids())
    if (v.tensors[id].kind == TensorKind::kTable && described[id.index] == 0)
      v.report(8, v.tensor_site(id), "no rope line says what it holds");
}

}  // namespace

void Verifier::check_tensors(const std::vector<RopeTable>& ropes) {
  for (TensorId id : tensors.ids()) {
    check_size(*this, id);
    check_kind(*this, id);
    check_packing(*this, id);
  }
  check_ropes(*this, ropes);
}

}  // namespace mkc
