#include "ir/printer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace mkc {

std::string reference(const std::vector<std::string>& names, uint32_t index) {
  return index < names.size() ? names[index] : "#" + std::to_string(index);
}

std::string spell_attrs(const Attrs& attrs) {
  std::string text;
  for (const Attr& a : attrs)
    text += fmt::format("{}{} = {}", text.empty() ? " {" : ", ", spell_name(a.name),
                        a.is_float ? spell_double(a.f) : std::to_string(a.i));
  return text.empty() ? text : text + "}";
}

std::string spell_layer(int32_t layer) {
  return layer == -1 ? "" : fmt::format(" layer {}", layer);
}

void Printer::add_coord(const Coord& c) {
  const std::string name = spell_name(c.name);
  coords.push_back(is_coord(name) ? "$" + std::to_string(coords.size()) : name);
}

void Printer::set_coords(const TaskGrid& grid) {
  coords.clear();
  for (const Coord& c : grid.coords) add_coord(c);
}

bool Printer::is_coord(const std::string& name) const {
  return std::find(coords.begin(), coords.end(), name) != coords.end();
}

std::string Printer::leaf(const ExprNode& node) const {
  const auto index = static_cast<uint32_t>(node.value);
  if (node.kind == ExprKind::kCoord)
    return index < coords.size() ? coords[index] : "$" + std::to_string(index);
  const std::string name = reference(symbols, index);
  return is_coord(name) ? "#" + std::to_string(index) : name;
}

std::string Printer::expr(const Expr& e) const {
  Expr numbered = e;  // copy whose names are numbered in order, so that each has a spelling
  std::vector<std::string> names;
  for (ExprNode& node : numbered.nodes) {
    const bool has_name =
        node.kind == ExprKind::kSymbol || node.kind == ExprKind::kCoord || node.kind == ExprKind::kElement;
    if (!has_name) continue;
    names.push_back(leaf(node));
    if (is_leaf(node.kind)) node.kind = ExprKind::kCoord;
    node.value = static_cast<int64_t>(names.size() - 1);
  }
  return to_string(numbered, names, names);
}

std::string Printer::expr_list(std::span<const Expr> list) const {
  std::string text;
  for (const Expr& e : list) text += (text.empty() ? "" : ", ") + expr(e);
  return text;
}

std::string Printer::region(const Region& region) const {
  std::string text;
  for (const Range& r : region) text += (text.empty() ? "" : ", ") + expr(r.offset) + ":+" + expr(r.size);
  return "[" + text + "]";
}

std::string Printer::tensor(TensorId id) const {
  return "%" + reference(tensors, id.index);
}

std::string Printer::tensor_list(std::span<const TensorId> ids) const {
  std::string text;
  for (TensorId id : ids) text += (text.empty() ? "" : ", ") + tensor(id);
  return text;
}

std::string Printer::loc(const Loc& loc) {
  if (loc == Loc{}) return "";
  const auto [at, added] = file_numbers_.emplace(loc.file, files_.size());
  if (added) files_.push_back(loc.file);
  return fmt::format(" loc(f{}:{}:{})", at->second, loc.line, loc.col);
}

void Printer::add_symbols(const Table<SymbolId, Symbol>& table) {
  for (const Symbol& s : table) {
    const std::string name = spell_name(s.name);
    out += s.is_list() ? fmt::format("list {}[{}]", name, expr(s.length)) : "symbol " + name;
    out += fmt::format(" in [{}, {}]", s.bounds.lo, s.bounds.hi);
    if (s.sums.valid()) out += " sums " + reference(symbols, s.sums.index);
    if (s.routed) out += " routed";
    if (s.cut) out += " cut";
    out += loc(s.loc) + "\n";
  }
}

void Printer::add_tensors(const Table<TensorId, Tensor>& table, const std::vector<Slot>* slots) {
  for (TensorId id : table.ids()) {
    const Tensor& t = table[id];
    out += fmt::format("{} %{}: {}[{}]", keyword(t.kind), spell_name(t.name), dtype_name(t.dtype),
                       expr_list(t.shape));
    if (!t.source.empty()) out += " from " + spell_string(t.source);
    if (!t.packing.sources.empty()) out += fmt::format(" packed({})", tensor_list(t.packing.sources));
    if (t.packing.group != 0) out += fmt::format(" group {}", t.packing.group);
    if (slots && id.index < slots->size() && (*slots)[id.index] != Slot{})
      out += fmt::format(" slot {}:+{}", (*slots)[id.index].offset, (*slots)[id.index].bytes);
    out += loc(t.loc) + "\n";
  }
}

void Printer::add_ropes(const std::vector<RopeTable>& ropes) {
  for (const RopeTable& rope : ropes) {
    std::vector<std::string> frequencies;
    for (double f : rope.inv_freq) frequencies.push_back(spell_double(f));
    out += fmt::format("rope {} scale {} inv_freq [{}]\n", tensor(rope.tensor), spell_double(rope.scale),
                       fmt::join(frequencies, ", "));
  }
}

std::string Printer::finish(std::string_view level, std::string_view name, std::string_view facts) const {
  std::string text = fmt::format("mkir {} {} {}\n{}", level, kTextVersion, spell_string(name), facts);
  for (size_t i = 0; i < files_.size(); ++i) text += fmt::format("file f{} {}\n", i, spell_string(files_[i]));
  return text + out;
}

}  // namespace mkc
