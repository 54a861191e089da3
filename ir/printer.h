// All levels are printed by this printer. This header is internal to print.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/text.h"

namespace mkc {

// Returns how the objects of a table are referred to: by name, or by number where an earlier object has the
// name.
template <class Items>
std::vector<std::string> reference_names(const Items& items) {
  std::vector<std::string> names;
  std::set<std::string_view> taken;
  for (const auto& item : items)
    names.push_back(taken.insert(item.name).second ? spell_name(item.name)
                                                   : "#" + std::to_string(names.size()));
  return names;
}

struct Printer {
  Printer(const Table<SymbolId, Symbol>& symbol_table, const Table<TensorId, Tensor>& tensor_table)
      : symbols(reference_names(symbol_table)), tensors(reference_names(tensor_table)) {}

  std::string out;  // the lines after the file table
  std::vector<std::string> symbols, tensors;
  std::vector<std::string> coords;  // coordinates of the grid being printed, as expressions spell them
  void add_coord(const Coord& coord);
  void set_coords(const TaskGrid& grid);

  std::string expr(const Expr& e) const;
  std::string expr_list(std::span<const Expr> list) const;  // "a, b"
  std::string region(const Region& region) const;           // "[offset:+size, …]"
  std::string tensor(TensorId id) const;
  std::string tensor_list(std::span<const TensorId> ids) const;  // "%a, %b"

  std::string loc(const Loc& loc);  // " loc(f0:line:col)", "" for the empty place
  void add_symbols(const Table<SymbolId, Symbol>& table);
  void add_tensors(const Table<TensorId, Tensor>& table, const std::vector<Slot>* slots);
  void add_ropes(const std::vector<RopeTable>& ropes);

  // Returns the whole text. `facts` are lines that follow the header.
  std::string finish(std::string_view level, std::string_view name, std::string_view facts = {}) const;

 private:
  bool is_coord(const std::string& name) const;
  std::string leaf(const ExprNode& node) const;  // spells a symbol or a coordinate

  std::map<std::string, size_t> file_numbers_;
  std::vector<std::string> files_;
};

// Returns the name of object `index`, or its number where there is no such object.
std::string reference(const std::vector<std::string>& names, uint32_t index);

// Returns " {name = value, …}", or "" where there are no attributes.
std::string spell_attrs(const Attrs& attrs);
// Returns " layer n", or "" outside the layers.
std::string spell_layer(int32_t layer);

}  // namespace mkc
