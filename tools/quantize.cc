#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "frontend/quantization.h"
#include "runtime/base/json_text.h"
#include "runtime/device/container_limits.h"
#include "runtime/session/kept_key.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/model_path.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/quantize/folder.h"
#include "tools/quantize/held_out.h"
#include "tools/quantize/matrices.h"
#include "tools/quantize/write.h"

namespace mkc {
namespace {

using namespace quantize;

constexpr uint32_t kMaxThreads = 1024;

struct Arguments {
  std::string model, out, format, held_out;
  Selection selection;
  uint32_t threads = 0;  // 0: as many as this process may use
};

// Original is the checkpoint to quantize.
struct Original {
  Compilation compilation;
  Matrices matrices;
  std::vector<Shard> shards;
  Documents documents;  // of --held-out

  const mkrt::Checkpoint& checkpoint() const { return *compilation.checkpoint; }
  const std::string& config() const { return compilation.request.config.source.text; }
};

const Format& target_format_of(const Arguments& a) {
  return *std::ranges::find_if(formats(), [&](const Format& f) { return f.name == a.format; });
}

Status check_plain(const Compilation& c) {
  const Document& config = c.request.config;
  const Result<std::optional<Quantization>> found = read_quantization(config, c.request.checkpoint);
  if (found.ok() && !found.value()) return {};
  const Node node = config_value(config, "quantization_config");
  if (node.is(Node::Kind::kNull))
    return Error{fmt::format("{}: error: has hf_quant_config.json, expected weights that are not quantized",
                             c.request.checkpoint)};
  return config.error(
      node.place,
      fmt::format("quantization_config has quant_method {}, expected weights that are not quantized",
                  describe(config_value(config, "quantization_config.quant_method"))));
}

// Returns the number of tokens that the model's embeddings know.
uint64_t vocab_of(const OpGraph& graph) {
  uint64_t vocab = INT32_MAX;
  for (const Op& op : graph.ops)
    if (op.kind == OpKind::kEmbed)
      vocab = std::min(vocab, static_cast<uint64_t>(evaluate(graph.tensors[op.inputs[1]].shape[0], {})));
  return vocab;
}

// Refuses a config that nlohmann's parser would change. The written config has its numbers.
Status check_integers(const Original& original) {
  const Document& config = original.compilation.request.config;
  const std::string fault = mkrt::wide_integer_fault(original.config());
  return fault.empty() ? Status() : config.error(config.wide_integer, fault);
}

Result<Original> open_original(const Arguments& a) {
  MKC_TRY(model, find_model(a.model));
  MKC_TRY(compilation, open_model({model, {}, ""}, true));
  Original original{std::move(compilation), {}, {}, {}};
  MKC_TRY_STATUS(check_plain(original.compilation));
  MKC_TRY_STATUS(check_integers(original));
  MKC_TRY_STATUS(run_passes(original.compilation, passes()[0].name));
  const auto& graph = std::get<OpGraph>(original.compilation.module);
  const uint64_t vocab = vocab_of(graph);
  MKC_TRY(matrices, choose_matrices(graph, a.selection, target_format_of(a)));
  MKC_TRY(shards, plan_shards(original.checkpoint(), matrices));
  original.matrices = std::move(matrices);
  original.shards = std::move(shards);
  if (a.held_out.empty()) return original;
  MKC_TRY(documents, read_documents(a.held_out, original.checkpoint().directory, vocab));
  original.documents = std::move(documents);
  return original;
}

double relative(const SquareSums& sums) {
  return sums.weights > 0 ? std::sqrt(sums.errors / sums.weights) : 0;
}

void print_tensor(const ShardSource& source, const Format& format, const SquareSums& sums) {
  const mkrt::StoredTensor& t = *source.tensor;
  const std::string shape = fmt::format("[{}]", fmt::join(t.shape, ", "));
  if (source.quantized)
    print_out("{:<52} {:>16}  {:<9} relative error {:.5f}\n", source.name, shape, format.name,
              relative(sums));
  else
    print_out("{:<52} {:>16}  as it is\n", source.name, shape);
}

// Writes the folder, and returns the sums of all quantized matrices.
Result<SquareSums> write_folder(const Arguments& a, const Original& original, OutputFolder& folder) {
  const Format& format = *original.matrices.format;
  MKC_TRY(left_out, copy_other_files(original.checkpoint(), folder));
  MKC_TRY_STATUS(write_config(original.config(), original.matrices, folder.path()));
  uint64_t read = 0, all = 0;
  for (const Shard& shard : original.shards)
    for (const ShardSource& source : shard.sources) all += source.tensor->bytes.size();
  ProgressLine progress;
  SquareSums sums;
  WriteOptions options;
  options.threads = a.threads != 0 ? a.threads : mkrt::usable_threads();
  options.on_read = [&](uint64_t bytes) {
    progress.count("quantizing", (read += bytes) / kMega, all / kMega, "MB");
  };
  options.on_tensor = [&](const ShardSource& tensor, const SquareSums& of) {
    progress.clear();
    print_tensor(tensor, format, of);
    sums.add(of);
  };
  for (const Shard& shard : original.shards)
    MKC_TRY_STATUS(write_shard(shard, format, folder.path(), options));
  progress.clear();
  MKC_TRY_STATUS(write_index(original.shards, folder.path()));
  MKC_TRY_STATUS(mkrt::check_stamps(original.checkpoint()));
  MKC_TRY_STATUS(folder.commit());
  if (!left_out.empty()) print_out("left out: {}\n", fmt::join(left_out, ", "));
  return sums;
}

// Returns the error with the output's path in the place of the temporary folder's.
Error error_of_output(Error error, const OutputFolder& folder, const std::string& out) {
  std::string& text = error.message;
  const std::string& path = folder.path();
  for (size_t at; (at = text.find(path)) != text.npos;) text.replace(at, path.size(), out);
  return error;
}

// Says what transformers cannot do with the output.
void print_limits(const Original& original) {
  const Format& format = *original.matrices.format;
  if (format.stacked || format.scale != ScaleType::kE8m0) return;
  for (const mkrt::StoredTensor& t : original.checkpoint().tensors)
    if (original.matrices.quantized.contains(t.name) && t.dtype != "BF16")
      return print_err(
          "{}: warning: weights of {} become {}, which transformers opens, but cannot run: it needs BF16\n",
          original.checkpoint().directory, t.dtype, format.name);
}

Status quantize_model(const Arguments& a) {
  MKC_TRY(original, open_original(a));
  MKC_TRY(folder, OutputFolder::create(a.out, original.checkpoint().directory));
  Loss before;
  if (!original.documents.empty()) {
    MKC_TRY(loss, loss_of(original.checkpoint().directory, original.documents));
    before = loss;
  }
  const Result<SquareSums> written = write_folder(a, original, folder);
  if (!written.ok()) {
    MKC_TRY_STATUS(mkrt::check_stamps(original.checkpoint()));  // a file that changed explains other errors
    return error_of_output(written.error(), folder, a.out);
  }
  const SquareSums& sums = written.value();
  uint64_t from = 0, to = 0;
  for (const mkrt::StoredTensor& t : original.checkpoint().tensors) from += t.bytes.size();
  for (const Shard& shard : original.shards) to += shard.bytes;
  print_out("{}: {} matrices, relative error {:.5f}, {:.1f} MB of {:.1f} MB\n", a.out,
            original.matrices.count(), relative(sums), static_cast<double>(to) / kMega,
            static_cast<double>(from) / kMega);
  print_limits(original);
  if (original.documents.empty()) return {};
  MKC_TRY(after, loss_of(a.out, original.documents));
  print_out("held-out loss of {} tokens: {:.4f} nats/token before, {:.4f} after\n", after.tokens, before.nats,
            after.nats);
  return {};
}

}  // namespace

void add_quantize(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("quantize", "write a checkpoint with weights of 8 or 4 bits");
  auto a = std::make_shared<Arguments>();
  command
      ->add_option(
          "MODEL", a->model,
          "checkpoint directory (config.json, *.safetensors), or its name in the local Hugging Face cache "
          "(org/name)")
      ->type_name("PATH")
      ->required();
  command->add_option("-o", a->out, "directory to write, which must be new or empty")
      ->type_name("DIR")
      ->required();
  std::vector<std::string> names;
  for (const Format& format : formats()) names.emplace_back(format.name);
  command->add_option("--format", a->format, "format of the weights (docs/quantized.md)")
      ->check(one_of(names))
      ->required();
  command
      ->add_option(
          "--keep", a->selection.keep,
          "modules to leave as they are: a name, its end, or what it lies in; * is any text, re: begins a "
          "regular expression; may be repeated")
      ->type_name("PATTERN")
      ->expected(1)
      ->take_all();
  command->add_flag("--head", a->selection.head,
                    "quantize the head, too; one that is the embedding becomes a matrix of its own");
  command
      ->add_option(
          "--held-out", a->held_out,
          "file with a document in each line, text or a JSON list of ids: print the loss before and after")
      ->type_name("FILE");
  add_integer<uint32_t>(*command, "--threads", a->threads, 1, kMaxThreads,
                        "threads of the processor; default: as many as this process may use");
  command->callback([a, &action] { action = [a] { return quantize_model(*a); }; });
}

}  // namespace mkc
