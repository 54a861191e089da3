// What all rules of the proof have in common. Internal to prove.
#pragma once

#include <string>
#include <vector>

#include "ir/domain.h"
#include "ir/form.h"
#include "ir/schedule.h"
#include "ir/values.h"
#include "scheduler/prove.h"

namespace mkc::proof {

struct Context {
  explicit Context(const Schedule& schedule);

  const Schedule& s;
  const TaskProgram& p;
  Forms forms;
  Domain at_symbols;          // no coordinates
  std::vector<Domain> tasks;  // by GridId: its coordinates
  std::vector<Domain> cells;  // by EventId: the coordinates of its cells
  ProofReport report;

  Form form(SymbolId id) { return forms.of(symbol(id)); }
  // Whether the grid has a task for all values.
  bool never_empty(GridId g) const;
  // The coordinates' names of a grid, and those of an event's cells, in the text of an expression.
  std::string text(const Expr& e, const TaskGrid& grid) const;
  std::string cell_text(const Expr& e) const;
};

// Why a rule refuses: what is wrong at values that it names, or what it cannot decide.
Error unproved(const std::string& what);

// The lists whose elements begin intervals that lie end to end, and what these fill: docs/proof.md, lemma 1.
struct Spans {
  SymbolId starts, lengths;
  Expr total;  // the intervals [starts[i], starts[i] + lengths[i]) are those of [0, total), each once
};
// Nothing where `starts` sums no list that the host or the device is known to fill so.
bool find_spans(const Symbols& symbols, SymbolId starts, Spans& spans);

// Whether a step may have these values of the symbols that are no lists, by SymbolId, as far as their names
// tell: no more requests than tokens or blocks, no more blocks than tokens, logits of all rows or of each
// request's last, no more experts than choices. Values of `known` symbols count alone.
bool may_be(const Symbols& symbols, const std::vector<int64_t>& values, const std::vector<bool>& known);

}  // namespace mkc::proof
