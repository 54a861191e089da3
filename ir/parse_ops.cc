#include "ir/parser.h"

namespace mkc {
namespace {

bool op_line(Parser& p, Table<OpId, Op>& ops) {
  if (!p.peek().is("op")) return false;
  p.mark({Part::kOp, ops.size()});
  p.take();
  Op op;
  op.kind = static_cast<OpKind>(p.choice("an op", op_names()));
  p.expect("(");
  op.inputs = p.tensor_list(")");
  if (p.accept("->")) {
    do op.outputs.push_back(p.tensor());
    while (p.accept(","));
  }
  op.attrs = p.attrs();
  op.layer = p.layer();
  op.loc = p.loc();
  p.end_line();
  ops.add(std::move(op));
  return true;
}

}  // namespace

OpGraph parse_ops(Parser& p, const std::string& name) {
  OpGraph graph;
  graph.name = name;
  while (!p.at_end())
    if (!p.file_line() && !p.symbol_line(graph.symbols) && !p.tensor_line(graph.tensors, nullptr) &&
        !p.rope_line(graph.ropes) && !op_line(p, graph.ops))
      p.unknown_line({"op"});
  return graph;
}

}  // namespace mkc
