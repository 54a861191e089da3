// All rules of the proof share these data and functions. This header is internal to prove.
#pragma once

#include <string>
#include <vector>

#include "ir/domain.h"
#include "ir/form.h"
#include "ir/parse.h"
#include "ir/schedule.h"
#include "ir/values.h"
#include "scheduler/proof/prove.h"

namespace mkc::proof {

struct Context {
  explicit Context(const Schedule& schedule, const Places* places = nullptr);

  const Schedule& s;
  const TaskProgram& p;
  const Places* places;  // of the schedule's text, or null
  Forms forms;
  Domain at_symbols;          // domain without coordinates
  std::vector<Domain> tasks;  // by GridId: the domain of its coordinates
  std::vector<Domain> cells;  // by EventId: the domain of its cells' coordinates
  ProofReport report;
  bool is_unproved = false;  // the error is that of a rule that cannot decide

  Form form(SymbolId id) { return forms.of(symbol(id)); }
  // Tells whether the grid has a task for all values.
  bool never_empty(GridId g) const;
  // Return the text of an expression with the names of a grid's coordinates, or of the coordinates of an
  // event's cells.
  std::string text(const Expr& e, const TaskGrid& grid) const;
  std::string cell_text(const Expr& e) const;

  // Returns the error of a schedule that is wrong.
  Error wrong(Subject subject, const std::string& what) const { return error_about(subject, what, places); }
  // Returns the error `unproved: WHAT` of a rule that cannot decide.
  Error unproved(Subject subject, const std::string& what);
};

// Spans names lists whose elements start intervals that lie end to end, and the range that the intervals fill
// (docs/proof.md, lemma 1).
struct Spans {
  SymbolId starts, lengths;
  Expr total;  // the intervals [starts[i], starts[i] + lengths[i]) cover [0, total), each element once
};
// Returns false where `starts` sums no list that the host or the device is known to fill like this.
bool find_spans(const Symbols& symbols, SymbolId starts, Spans& spans);

// Tells whether a step may have these values of the symbols that are no lists, by SymbolId. Only names of
// symbols and values of `known` symbols count.
//
// A step has no more requests than tokens or blocks, and no more blocks than tokens. A step has logits of all
// rows or of each request's last row. A step has no more active experts than choices.
bool may_be(const Symbols& symbols, const StepSymbols& step, const std::vector<int64_t>& values,
            const std::vector<bool>& known);

}  // namespace mkc::proof
