// All levels are verified by this verifier. This header is internal to verify.
#pragma once

#include <map>
#include <set>
#include <string_view>

#include "ir/bodies.h"
#include "ir/domain.h"
#include "ir/printer.h"
#include "ir/verify.h"

namespace mkc {

// Site is the object that a message is about.
struct Site {
  Subject subject;
  std::string name;  // "grid %l0.q"
  const Loc* loc;    // null: the object has no place of its own
};

// Sizes has the sizes of the letters of OperandSchema.
using Sizes = std::map<char, Expr>;

struct Verifier {
  Verifier(const std::string& module_name, const Table<SymbolId, Symbol>& symbol_table,
           const Table<TensorId, Tensor>& tensor_table, const Places* places);

  const std::string& module_name;
  const Table<SymbolId, Symbol>& symbols;
  const Table<TensorId, Tensor>& tensors;
  const Places* places;
  Printer text;       // spells expressions, regions and tensors
  Domain at_symbols;  // no coordinates
  std::vector<Error> errors;

  // Records a violation of rule V`rule` at `site`.
  void report(int rule, const Site& site, const std::string& message);

  // Checks V1 to V4 of objects that all levels have. The caller checks its other objects.
  void check_names_and_symbols();
  // Checks V3 of one symbol.
  void check_symbol(SymbolId id);
  template <class Items>
  void check_names(const Items& items, std::string_view what, Part part);
  void check_id(bool known, const Site& site, std::string_view what);  // V2
  // Checks V4 and returns whether it holds.
  bool check_expr(const Expr& e, const Domain& domain, const Site& site, std::string_view what,
                  int64_t limit = kMaxDeviceValue);
  void check_shapes();
  void check_rope_ids(const std::vector<RopeTable>& ropes);

  // Checks V5 to V9.
  void check_tensors(const std::vector<RopeTable>& ropes);
  void check_attr_order(const Attrs& attrs, const Site& site);

  // Checks V13 or V18. Returns whether the attributes are those of the lists, where '?' marks optional ones.
  bool check_attrs(int rule, const Attrs& attrs, const std::vector<const char*>& ints,
                   const std::vector<const char*>& floats, const Site& site);
  // Checks V11 and V12, or V16 and V17. Returns whether the shape fits. Adds letters that `sizes` lacks.
  bool check_operand(int kind_rule, std::string_view role, TensorId operand, const OperandSchema& schema,
                     Sizes& sizes, const Site& site);

  // Checks V20, V24 or V25: the box has a range for each of `dims`, and lies within them or is empty. `name`
  // is the object that has the dims.
  void check_box(int rule, const Region& box, const std::vector<Expr>& dims, const Domain& domain,
                 const std::string& name, const Site& site);

  // Checks V31 for symbols and shapes.
  void check_routed_symbols();
  // Checks V32.
  void check_cut_symbols();
  // Checks V34.
  void check_symbol_bounds();
  // Checks V34 of schedules alone.
  void check_given_symbols();

  // Return the site of a symbol or of a tensor.
  Site symbol_site(SymbolId id) const;
  Site tensor_site(TensorId id) const;
};

std::string kind_text(const Tensor& tensor);  // "f32 weight"

// Returns the site of a read, write, wait or notification of a grid.
Site part_site(const TaskProgram& program, GridId grid, Part part, uint32_t position);

// Checks V1 to V9, V15 to V26, V31, V32 and V34. Returns whether V1 to V4 hold.
bool check_program(Verifier& v, const TaskProgram& program);

// check_event_exprs checks V4 of events. check_events checks V23 to V26; `domains` are those of each grid's
// coordinates.
void check_event_exprs(Verifier& v, const TaskProgram& program);
void check_events(Verifier& v, const TaskProgram& program, const std::vector<Domain>& domains);
// Checks V31 of grids and events. Requires that each grid's operands have their shapes.
void check_routed(Verifier& v, const TaskProgram& program);
// Checks V33. Requires that all rules before it hold.
void check_footprints(Verifier& v, const TaskProgram& program);

template <class Items>
void Verifier::check_names(const Items& items, std::string_view what, Part part) {
  std::set<std::string_view> seen;
  uint32_t index = 0;
  for (const auto& item : items) {
    const Site site{{part, index++}, std::string(what) + " " + spell_name(item.name), &item.loc};
    if (item.name.empty()) report(1, site, "it has no name");
    if (!seen.insert(item.name).second) report(1, site, "another has this name");
  }
}

}  // namespace mkc
