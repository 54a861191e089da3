#include "ir/verifier.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/values.h"

namespace mkc {
namespace {

constexpr int64_t kMaxSymbol = INT32_MAX;
constexpr int64_t kMaxList = 1 << 16;
constexpr int64_t kMaxAttr = 1 << 24;

std::vector<Expr> lengths_of(const Table<SymbolId, Symbol>& symbols) {
  std::vector<Expr> out;
  for (const Symbol& s : symbols) out.push_back(s.length);
  return out;
}

// Returns the schema's entry for a name, or "" if there is none.
std::string_view find_name(const std::vector<const char*>& list, std::string_view name) {
  for (std::string_view entry : list)
    if (entry == name || role_name(entry) == name) return entry;
  return {};
}

std::string attr_fault(const Attr& attr, bool wants_float) {
  if (attr.is_float != wants_float)
    return wants_float ? "an integer, expected a number with a fraction or an exponent"
                       : "no integer, expected one";
  const double value = attr.is_float ? attr.f : static_cast<double>(attr.i);
  // Factors and limits of elements may be negative.
  const bool is_signed =
      attr.name == "by" || attr.name == "min" || attr.name == "max" || attr.name.starts_with("value");
  const int64_t min = is_signed ? -kMaxAttr : 0;
  if (value >= static_cast<double>(min) && value <= kMaxAttr) return {};
  return fmt::format("{}, expected {} to {}", attr.is_float ? spell_double(attr.f) : std::to_string(attr.i),
                     min, kMaxAttr);
}

}  // namespace

Verifier::Verifier(const std::string& module, const Table<SymbolId, Symbol>& symbol_table,
                   const Table<TensorId, Tensor>& tensor_table, const Places* text_places)
    : module_name(module),
      symbols(symbol_table),
      tensors(tensor_table),
      places(text_places),
      text(symbol_table, tensor_table),
      at_symbols{symbol_bounds(symbol_table), {}, {}, lengths_of(symbol_table)} {}

void Verifier::report(int rule, const Site& site, const std::string& message) {
  Loc loc{module_name, 0, 0};
  if (site.loc && site.loc->known()) loc = *site.loc;
  std::string_view source;
  if (places) {
    const auto at = places->at.find(site.subject);
    if (at != places->at.end()) loc = at->second, source = places->text;
  }
  errors.push_back(error_at(loc, fmt::format("V{}: {}: {}", rule, site.name, message), source));
}

Site Verifier::symbol_site(SymbolId id) const {
  const Symbol& s = symbols[id];
  return {{Part::kSymbol, id.index}, (s.is_list() ? "list " : "symbol ") + spell_name(s.name), &s.loc};
}

Site Verifier::tensor_site(TensorId id) const {
  return {{Part::kTensor, id.index}, text.tensor(id), &tensors[id].loc};
}

void Verifier::check_names_and_symbols() {
  check_names(symbols, "symbol", Part::kSymbol);
  check_names(tensors, "tensor", Part::kTensor);
  for (SymbolId id : symbols.ids()) check_symbol(id);
  for (TensorId id : tensors.ids())
    for (TensorId source : tensors[id].packing.sources)
      check_id(tensors.contains(source), tensor_site(id), "tensor " + text.tensor(source));
}

// Checks V3 of one symbol.
void Verifier::check_symbol(SymbolId id) {
  const Symbol& s = symbols[id];
  const Site site = symbol_site(id);
  const int64_t min = s.is_list() ? 0 : 1;
  if (s.bounds.lo < min || s.bounds.lo > s.bounds.hi || s.bounds.hi > kMaxSymbol)
    report(3, site,
           fmt::format("bounds [{}, {}], expected {} <= lower <= upper <= {}", s.bounds.lo, s.bounds.hi, min,
                       kMaxSymbol));
  if (s.sums.valid() && (s.sums >= id || !symbols[s.sums].is_list() || symbols[s.sums].length != s.length))
    report(3, site,
           "it sums " + reference(text.symbols, s.sums.index) + ", expected an earlier list as long");
  if (!s.is_list()) return;
  Domain earlier = at_symbols;
  earlier.symbols.resize(id.index);
  const Result<Bounds> length = checked_bounds(s.length, earlier, kMaxDeviceValue);
  const std::string why = !length.ok() ? length.error().message
                          : length.value().lo < 1 || length.value().hi > kMaxList
                              ? fmt::format("it may be {} to {}, expected 1 to {}", length.value().lo,
                                            length.value().hi, kMaxList)
                              : "";
  if (!why.empty()) report(3, site, fmt::format("length {}: {}", text.expr(s.length), why));
}

void Verifier::check_cut_symbols() {
  const StepSymbols step = step_symbols(symbols);
  const std::optional<RowBlocks>& blocks = step.blocks;
  std::vector<SymbolId> expected;
  if (blocks) {
    expected = {blocks->count, blocks->request, blocks->rows, blocks->first_row, blocks->kv_len};
    if (blocks->partial_positions.valid()) expected.push_back(blocks->partial_positions);
    if (!step.tokens.valid() || symbols[step.tokens].is_list())
      report(32, symbol_site(blocks->count), "there is no number T of rows to cut");
    for (const auto [name, list] : {std::pair{mkrt::kQLenSymbol, step.q_len},
                                    {mkrt::kKvLenSymbol, step.kv_len},
                                    {mkrt::kFirstRowSymbol, step.first_row}})
      if (!list.valid() || !symbols[list].is_list())
        report(32, symbol_site(blocks->count), fmt::format("there is no list {} to cut", name));
  }
  for (SymbolId id : symbols.ids())
    if (symbols[id].cut && std::find(expected.begin(), expected.end(), id) == expected.end())
      report(32, symbol_site(id), "it is cut, but is none of those that rows are cut into");
  for (const SymbolId id : expected) {
    if (!id.valid() || !symbols[id].cut)
      return report(32, symbol_site(blocks->count), "not all symbols of its blocks are there and cut");
    const Symbol& s = symbols[id];
    const SymbolId sums = id == blocks->first_row ? blocks->rows : SymbolId{};
    const bool is_list = id != blocks->count && id != blocks->partial_positions;
    const bool other_parts =
        id == blocks->partial_positions && s.bounds != Bounds{kKvTilePositions, kKvChunkPositions};
    if (s.length != (is_list ? symbol(blocks->count) : Expr(0)) || s.sums != sums || other_parts)
      report(32, symbol_site(id), "it does not fit the others that rows are cut into");
  }
}

void Verifier::check_id(bool known, const Site& site, std::string_view what) {
  if (!known) report(2, site, fmt::format("{} does not exist", what));
}

bool Verifier::check_expr(const Expr& e, const Domain& domain, const Site& site, std::string_view what,
                          int64_t limit) {
  const Result<Bounds> checked = checked_bounds(e, domain, limit);
  if (checked.ok()) return true;
  const Result<Bounds> unlimited = checked_bounds(e, domain);  // its faults say more than the limit
  const Error& fault = (unlimited.ok() ? checked : unlimited).error();
  report(4, site, fmt::format("{} {}: {}", what, text.expr(e), fault.message));
  return false;
}

void Verifier::check_shapes() {
  for (TensorId id : tensors.ids())
    for (const Expr& dim : tensors[id].shape)
      check_expr(dim, at_symbols, tensor_site(id), "dim", uses_symbol(dim) ? kMaxDeviceValue : kMaxValue);
}

void Verifier::check_rope_ids(const std::vector<RopeTable>& ropes) {
  for (uint32_t i = 0; i < ropes.size(); ++i)
    check_id(tensors.contains(ropes[i].tensor), {{Part::kRope, i}, "rope", nullptr},
             "tensor " + text.tensor(ropes[i].tensor));
}

void Verifier::check_attr_order(const Attrs& attrs, const Site& site) {
  for (size_t i = 1; i < attrs.size(); ++i)
    if (attrs[i - 1].name >= attrs[i].name)
      report(9, site,
             fmt::format("attribute {} after {}, expected each once and in order", spell_name(attrs[i].name),
                         spell_name(attrs[i - 1].name)));
}

bool Verifier::check_attrs(int rule, const Attrs& attrs, const std::vector<const char*>& ints,
                           const std::vector<const char*>& floats, const Site& site) {
  const size_t errors_before = errors.size();
  for (const Attr& attr : attrs) {
    const bool wants_float = !find_name(floats, attr.name).empty();
    if (!wants_float && find_name(ints, attr.name).empty()) {
      report(rule, site, "unknown attribute " + spell_name(attr.name));
      continue;
    }
    if (const std::string fault = attr_fault(attr, wants_float); !fault.empty())
      report(rule, site, fmt::format("attribute {} is {}", attr.name, fault));
  }
  for (const auto* list : {&ints, &floats})
    for (std::string_view name : *list)
      if (!name.ends_with('?') && !find_attr(attrs, name))
        report(rule, site, fmt::format("it lacks the attribute {}", name));
  return errors.size() == errors_before;
}

std::string kind_text(const Tensor& tensor) {
  return fmt::format("{} {}", dtype_name(tensor.dtype), keyword(tensor.kind));
}

Site part_site(const TaskProgram& program, GridId id, Part part, uint32_t position) {
  const TaskGrid& grid = program.grids[id];
  const auto event = [&](EventId e) {
    return "@" +
           (program.events.contains(e) ? spell_name(program.events[e].name) : "#" + std::to_string(e.index));
  };
  std::string what;
  if (part == Part::kRead) what = "reads " + spell_name(grid.reads[position].role);
  if (part == Part::kWrite) what = "writes " + spell_name(grid.writes[position].role);
  if (part == Part::kWait) what = "waits for " + event(grid.waits[position].event);
  if (part == Part::kNotify) what = "notifies " + event(grid.notifies[position].event);
  return {{part, id.index, position}, fmt::format("grid %{} {}", spell_name(grid.name), what), &grid.loc};
}

bool Verifier::check_operand(int kind_rule, std::string_view role, TensorId operand,
                             const OperandSchema& schema, Sizes& sizes, const Site& site) {
  const Tensor& t = tensors[operand];
  const std::string name = fmt::format("{} {}", role, text.tensor(operand));
  if (!fits(schema.kind, t))
    report(kind_rule, site,
           fmt::format("{} is of kind {}, expected {}", name, kind_text(t), operand_text(schema.kind)));
  const std::string_view letters = schema.dims;
  if (t.shape.size() != letters.size()) {
    report(kind_rule + 1, site,
           fmt::format("{} has {} dims, expected {}", name, t.shape.size(), letters.size()));
    return false;
  }
  bool matches = true;
  for (size_t d = 0; d < letters.size(); ++d) {
    if (t.shape[d].is_const() && t.shape[d].constant() > kMaxDeviceValue)
      report(kind_rule + 1, site,
             fmt::format("dim {} of {} is {}, expected at most {}", d, name, t.shape[d].constant(),
                         kMaxDeviceValue));
    const Expr& wanted = sizes.emplace(letters[d], t.shape[d]).first->second;
    if (wanted == t.shape[d]) continue;
    report(kind_rule + 1, site,
           fmt::format("dim {} of {} is {}, expected {}", d, name, text.expr(t.shape[d]), text.expr(wanted)));
    matches = false;
  }
  return matches;
}

void Verifier::check_box(int rule, const Region& box, const std::vector<Expr>& dims, const Domain& domain,
                         const std::string& name, const Site& site) {
  if (box.size() != dims.size())
    return report(rule, site, fmt::format("{} dims, {} has {}", box.size(), name, dims.size()));
  for (size_t d = 0; d < dims.size(); ++d) {
    if (upper_bound(box[d].size, domain) <= 0) return;  // the box is always empty
    const int64_t begin = lower_bound(box[d].offset, domain);
    const int64_t excess = upper_bound(box[d].offset + box[d].size - dims[d], domain);
    if (begin < 0) report(rule, site, fmt::format("dim {} of {} may begin at {}", d, name, begin));
    if (excess > 0)
      report(rule, site,
             fmt::format("dim {} of {} may end {} beyond its {}", d, name, excess, text.expr(dims[d])));
  }
}

std::vector<Error> verify(const Module& module, const Places* places) {
  return std::visit([&](const auto& level) { return verify(level, places); }, module);
}

}  // namespace mkc
