#include "frontend/op_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "frontend/fields.h"
#include "frontend/params.h"
#include "frontend/rope.h"
#include "frontend/shapes.h"
#include "ir/values.h"

namespace mkc {
namespace {

// Returns the name with the first `mark` in it, if any, replaced by the number.
std::string with_number(std::string name, std::string_view mark, int64_t number) {
  if (const size_t at = name.find(mark); at != std::string::npos)
    name.replace(at, mark.size(), std::to_string(number));
  return name;
}

constexpr int64_t kMaxLayers = 1024, kMaxSize = 1 << 24;  // sizes of weights and caches

class GraphBuilder {
 public:
  GraphBuilder(const CompileRequest& request, Scope scope, Checkpoint checkpoint)
      : request_(request),
        family_(request.family),
        scope_(std::move(scope)),
        checkpoint_(std::move(checkpoint)) {}

  Result<OpGraph> build() {
    graph_.name = family_.name;
    add_symbols_and_inputs();
    MKC_TRY_STATUS(add_rope());
    MKC_TRY_STATUS(add_weights(family_.model));
    MKC_TRY_STATUS(add_caches(family_.model));
    MKC_TRY_STATUS(add_ops(family_.model, 0, family_.layers_at));
    MKC_TRY_STATUS(add_layers());
    MKC_TRY_STATUS(add_ops(family_.model, family_.layers_at, family_.model.ops.size()));
    MKC_TRY_STATUS(mark_outputs());
    MKC_TRY_STATUS(check_outputs());
    MKC_TRY_STATUS(set_planned_dtypes());
    MKC_TRY_STATUS(checkpoint_.check_all_used(family_, scope_));
    return std::move(graph_);
  }

 private:
  const CompileRequest& request_;
  const Family& family_;
  Scope scope_;
  Checkpoint checkpoint_;
  OpGraph graph_;
  int32_t layer_ = -1;
  std::map<std::string, TensorId, std::less<>> names_;  // meaning of the family file's names at this point
  std::set<std::string, std::less<>> set_here_;         // names set in this layer, or outside the layers
  std::set<std::string, std::less<>> absent_;           // weights whose `when` is false
  std::optional<TensorId> first_cache_;

  Loc loc(Place place) const { return family_.document.loc(place); }
  Error fail(Place place, const std::string& message) const { return family_.document.error(place, message); }

  std::string scoped_name(const std::string& name) const {
    return layer_ < 0 ? name : fmt::format("l{}.{}", layer_, name);
  }

  // Adds a tensor that `name` stands for from here on. Each name is set once in a layer. A layer may set a
  // name again that was set before the layer. Values so pass from layer to layer.
  Status define(const std::string& name, Tensor tensor, Place place) {
    if (!set_here_.insert(name).second) return fail(place, fmt::format("\"{}\" is set a second time", name));
    tensor.name = scoped_name(name);
    tensor.loc = loc(place);
    names_[name] = graph_.tensors.add(std::move(tensor));
    return {};
  }

  void add_symbols_and_inputs() {
    const Loc place = loc(family_.place);
    const SymbolId tokens = graph_.symbols.add({mkrt::kTokensSymbol, {1, request_.max_tokens}, place});
    const SymbolId requests = graph_.symbols.add({mkrt::kRequestsSymbol, {1, request_.max_requests}, place});
    graph_.symbols.add({mkrt::kLogitRowsSymbol, {1, request_.max_tokens}, place});
    const Expr count = symbol(requests);
    const int64_t max_rows = std::min(request_.max_tokens, request_.context);
    const SymbolId rows = graph_.symbols.add({mkrt::kQLenSymbol, {1, max_rows}, place, count});
    graph_.symbols.add({mkrt::kKvLenSymbol, {1, request_.context}, place, count});
    graph_.symbols.add({mkrt::kFirstRowSymbol, {0, request_.max_tokens - 1}, place, count, rows});
    for (const char* name : {"tokens", "positions"}) {
      Tensor input{name, TensorKind::kInput, DType::i32, {symbol(tokens)}, {}, {}, place};
      set_here_.insert(name);
      names_[name] = graph_.tensors.add(std::move(input));
    }
  }

  Status add_rope() {
    if (!family_.rope) return {};
    const RopeDecl& rope = *family_.rope;
    MKC_TRY(values, rope_values(rope, scope_));
    Tensor table;
    table.kind = TensorKind::kTable;
    table.shape = {request_.context, static_cast<int64_t>(2 * values.inv_freq.size())};
    MKC_TRY_STATUS(define(rope.name, std::move(table), rope.place));
    graph_.ropes.push_back({names_[rope.name], values.inv_freq, values.scale});
    return {};
  }

  Result<std::vector<int64_t>> evaluate_shape(const std::vector<Formula>& shape) const {
    std::vector<int64_t> sizes;
    for (const Formula& dim : shape) {
      MKC_TRY(size, evaluate_int(dim, scope_));
      if (size < 1 || size > kMaxSize)
        return fail(dim.place, fmt::format("\"{}\" is {}, expected 1 to {}", dim.text, size, kMaxSize));
      sizes.push_back(size);
    }
    return sizes;
  }

  Result<bool> applies(const std::optional<Formula>& when) const {
    if (!when) return true;
    return evaluate_bool(*when, scope_);
  }

  // Returns prefix and name with `{n}` replaced by the layer.
  std::string source_name(const Block& block, const std::string& name) const {
    return with_number(block.prefix + name, "{n}", layer_);
  }

  // Takes the weight's tensors from the checkpoint. Returns the weight without its name.
  Result<Tensor> take(const WeightDecl& weight, const std::string& source) {
    MKC_TRY(shape, evaluate_shape(weight.shape));
    const Loc place = loc(weight.place);
    Tensor tensor;
    tensor.kind = TensorKind::kWeight;
    tensor.source = source;
    tensor.shape.assign(shape.begin(), shape.end());
    if (!weight.stack) {
      MKC_TRY(dtype, checkpoint_.take(source, shape, place, 1));
      tensor.dtype = dtype;
      return tensor;
    }
    MKC_TRY(stack, evaluate_shape({*weight.stack}));
    for (int64_t expert = 0; expert < stack[0]; ++expert) {
      const std::string name = with_number(source, kExpertMark, expert);
      MKC_TRY(dtype, checkpoint_.take(name, shape, place, stack[0]));
      if (expert > 0 && dtype != tensor.dtype)
        return checkpoint_.unexpected(name, fmt::format("{} as that of expert 0", dtype_name(tensor.dtype)));
      tensor.dtype = dtype;
    }
    tensor.shape.insert(tensor.shape.begin(), stack[0]);
    return tensor;
  }

  Status add_weights(const Block& block) {
    for (const WeightDecl& weight : block.weights) {
      MKC_TRY(present, applies(weight.when));
      if (!present) {
        absent_.insert(weight.name);
        names_.erase(weight.name);  // the weight may come from an earlier layer
        continue;
      }
      absent_.erase(weight.name);
      const std::string source = source_name(block, weight.source);
      MKC_TRY(tensor, take(weight, source));
      MKC_TRY_STATUS(define(weight.name, std::move(tensor), weight.place));
    }
    return {};
  }

  Status add_caches(const Block& block) {
    for (const CacheDecl& cache : block.caches) {
      MKC_TRY(shape, evaluate_shape(cache.shape));
      Tensor tensor;
      tensor.kind = TensorKind::kCache;
      tensor.dtype = request_.kv_dtype.value_or(checkpoint_.dtype());
      tensor.shape = {
          symbol(step_symbols(graph_.symbols).requests)};  // a cache holds every request's positions
      tensor.shape.insert(tensor.shape.end(), shape.begin(), shape.end());
      if (!cache.scales.empty()) {
        const std::string source = source_name(block, cache.scales);
        MKC_TRY_STATUS(checkpoint_.take_scales(source, shape[0]));
        if (tensor.dtype == DType::e4m3) tensor.source = source;
      }
      MKC_TRY_STATUS(define(cache.name, std::move(tensor), cache.place));
      MKC_TRY_STATUS(check_cache(names_[cache.name], shape, cache.place));
    }
    return {};
  }

  // Checks that a cache has room for the context, and the shape of the first one: sessions lay all out alike.
  Status check_cache(TensorId id, const std::vector<int64_t>& shape, Place place) {
    if (shape.size() == 3 && shape[1] < request_.context)
      return fail(place, fmt::format("cache {} has {} positions, expected at least the context, {}",
                                     graph_.tensors[id].name, shape[1], request_.context));
    if (!first_cache_) first_cache_ = id;
    const Tensor& first = graph_.tensors[*first_cache_];
    if (graph_.tensors[id].shape == first.shape) return {};
    std::vector<int64_t> expected;
    for (size_t i = 1; i < first.shape.size(); ++i) expected.push_back(first.shape[i].constant());
    return fail(place, fmt::format("cache {} is [{}], expected [{}] as cache {}", graph_.tensors[id].name,
                                   fmt::join(shape, ", "), fmt::join(expected, ", "), first.name));
  }

  Status add_layers() {
    MKC_TRY(count, evaluate_int(family_.layer_count, scope_));
    if (count < 1 || count > kMaxLayers)
      return fail(family_.layer_count.place,
                  fmt::format("repeat is {}, expected 1 to {}", count, kMaxLayers));
    const auto outer = std::move(set_here_);
    const auto outer_names = scope_.names;
    for (layer_ = 0; layer_ < count; ++layer_) {
      set_here_.clear();
      scope_.names["n"] = int_node(layer_);
      MKC_TRY_STATUS(bind(family_.layer_params, scope_));
      MKC_TRY_STATUS(add_weights(family_.layer));
      MKC_TRY_STATUS(add_caches(family_.layer));
      MKC_TRY_STATUS(add_ops(family_.layer, 0, family_.layer.ops.size()));
    }
    layer_ = -1;
    set_here_ = outer;
    scope_.names = outer_names;
    return {};
  }

  Status add_ops(const Block& block, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      MKC_TRY(present, applies(block.ops[i].when));
      if (present) MKC_TRY_STATUS(add_op(block.ops[i]));
    }
    return {};
  }

  Result<TensorId> resolve(const Operand& operand) const {
    const auto found = names_.find(operand.name);
    if (found != names_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [name, id] : names_) known.push_back(name);
    return fail(operand.place,
                fmt::format("\"{}\" is {}{}", operand.name,
                            absent_.contains(operand.name) ? "not there in this model" : "not known",
                            suggestion(operand.name, known)));
  }

  // Tells whether an optional operand is left out: it is not given, or its weight is not there in this model.
  bool left_out(const OpSchema& schema, const Operand& operand, size_t position) const {
    const bool optional = std::string_view(schema.inputs[position].name).ends_with('?');
    return optional && (operand.name.empty() || absent_.contains(operand.name));
  }

  Status evaluate_attrs(const OpDecl& decl, Attrs& attrs) const {
    for (const AttrDecl& attr : decl.attrs) {
      MKC_TRY(value, evaluate(attr.value, scope_));
      if (!attr.is_float && value.is(Node::Kind::kBool)) value = int_node(value.boolean);
      const bool fits = attr.is_float ? value.is_number() : value.is(Node::Kind::kInt);
      if (!fits) {
        return fail(attr.value.place, fmt::format("{} is {}, expected {}", attr.name, describe(value),
                                                  attr.is_float ? "a float" : "an int"));
      }
      if (attr.is_float)
        set_attr(attrs, attr.name, value.number());
      else
        set_attr(attrs, attr.name, value.integer);
    }
    return {};
  }

  // Products alone take weights that have scales.
  Status check_quantized(OpKind op, const Tensor& tensor) const {
    if (!is_matrix(tensor) || !weight_format(tensor).coded()) return {};
    if (op == OpKind::kLinear || op == OpKind::kExpertLinear) return {};
    const std::string expected = fmt::format("bf16, f16 or f32 for op {}", op_schema(op).name);
    return checkpoint_.unexpected(mkc::source_name(tensor, 0), expected);
  }

  Status add_op(const OpDecl& decl) {
    const OpSchema& schema = op_schema(decl.kind);
    Op op;
    op.kind = decl.kind;
    op.layer = layer_;
    op.loc = loc(decl.place);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < decl.inputs.size(); ++i) {
      if (left_out(schema, decl.inputs[i], i)) continue;
      MKC_TRY(id, resolve(decl.inputs[i]));
      MKC_TRY_STATUS(check_quantized(decl.kind, graph_.tensors[id]));
      op.inputs.push_back(id);
      inputs.push_back(graph_.tensors[id]);
    }
    MKC_TRY_STATUS(evaluate_attrs(decl, op.attrs));

    const bool writes_caches = decl.kind == OpKind::kKvWrite;
    std::vector<Tensor> caches;
    for (size_t i = 0; writes_caches && i < decl.outputs.size(); ++i) {
      MKC_TRY(id, resolve(decl.outputs[i]));
      op.outputs.push_back(id);
      caches.push_back(graph_.tensors[id]);
    }
    if (writes_caches && op.outputs[0] == op.outputs[1])
      return fail(
          decl.outputs[1].place,
          fmt::format("k_cache and v_cache are both \"{}\", expected two caches", decl.outputs[1].name));
    const auto outputs = infer_outputs(graph_.symbols, decl.kind, inputs, caches, op.attrs);
    if (!outputs.ok()) return fail(decl.place, outputs.error().message);
    for (size_t i = 0; i < outputs.value().size(); ++i) {
      Tensor tensor;
      tensor.dtype = outputs.value()[i].dtype;
      tensor.shape = outputs.value()[i].shape;
      const Operand& out = decl.outputs[i];
      MKC_TRY_STATUS(define(out.name, std::move(tensor), out.place));
      op.outputs.push_back(names_[out.name]);
    }
    graph_.ops.add(std::move(op));
    return {};
  }

  // Gives the matrices that products alone read the dtypes that a config without checkpoint plans.
  Status set_planned_dtypes() {
    std::map<TensorId, bool> products_alone;
    for (const Op& op : graph_.ops)
      for (const TensorId id : op.inputs) {
        const Tensor& tensor = graph_.tensors[id];
        if (!is_matrix(tensor)) continue;
        const bool product = op.kind == OpKind::kLinear || op.kind == OpKind::kExpertLinear;
        const auto [at, added] = products_alone.emplace(id, product);
        if (!added) at->second = at->second && product;
      }
    for (const auto& [id, alone] : products_alone) {
      if (!alone) continue;
      Tensor& tensor = graph_.tensors[id];
      MKC_TRY(dtype, checkpoint_.planned_dtype(mkc::source_name(tensor, 0), evaluate(tensor.shape.back(), {}),
                                               scope_));
      if (dtype) tensor.dtype = *dtype;
    }
    return {};
  }

  Status mark_outputs() {
    for (const Operand& output : family_.outputs) {
      MKC_TRY(id, resolve(output));
      if (graph_.tensors[id].kind != TensorKind::kActivation) {
        return fail(output.place, fmt::format("\"{}\" is not computed by an op", output.name));
      }
      graph_.tensors[id].kind = TensorKind::kOutput;
    }
    return {};
  }

  const Operand* find_output(std::string_view name) const {
    const auto found = std::ranges::find(family_.outputs, name, &Operand::name);
    return found == family_.outputs.end() ? nullptr : &*found;
  }

  // Checks that the outputs that sessions know by name are those of a sample: its logits, and its result.
  Status check_outputs() const {
    const Node& root = family_.document.root;
    const Operand *logits = find_output("logits"), *next = find_output("next");
    if (!logits)
      return fail(find(root, "outputs")->place, "outputs lack \"logits\", expected the logits of a sample");
    bool any = false, of_logits = false;
    for (const Op& op : graph_.ops) {
      if (op.kind != OpKind::kSample) continue;
      any = true;
      if (op.inputs[0] != names_.find("logits")->second) continue;
      of_logits = true;
      if (!next || op.outputs[0] == names_.find("next")->second) return {};
    }
    if (!any) return fail(find(root, "ops")->place, "no op is a sample, expected one of \"logits\"");
    if (!of_logits) return fail(logits->place, "no sample reads \"logits\", expected its logits");
    return fail(next->place, "\"next\" is not what the sample of \"logits\" gives");
  }
};

}  // namespace

Result<OpGraph> build_op_graph(const CompileRequest& request, std::span<const CheckpointTensor> tensors) {
  MKC_TRY(scope, request_scope(request));
  MKC_TRY(checkpoint, Checkpoint::open(tensors, request.family, scope, request.checkpoint));
  return GraphBuilder(request, std::move(scope), std::move(checkpoint)).build();
}

Result<std::vector<DeclaredCopy>> declared_copies(const CompileRequest& request) {
  MKC_TRY(scope, request_scope(request));
  std::vector<DeclaredCopy> copies;
  for (const IgnoreDecl& ignore : request.family.ignore) {
    if (ignore.copy_of.empty()) continue;
    MKC_TRY(applies, is_ignored(ignore, scope));
    if (!applies) continue;
    const std::string value = describe(config_value(*scope.config, ignore.key));
    copies.push_back({ignore.name, ignore.copy_of, fmt::format("{} is {}", ignore.key, value)});
  }
  return copies;
}

}  // namespace mkc
