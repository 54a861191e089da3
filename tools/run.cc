#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/outputs.h"
#include "tools/artefact.h"
#include "tools/commands.h"
#include "tools/model_path.h"
#include "tools/output.h"
#include "tools/run_arguments.h"
#include "tools/run_batch.h"
#include "tools/run_inputs.h"
#include "tools/run_load.h"
#include "tools/run_prompt.h"

namespace mkc {
namespace {

Result<std::vector<int32_t>> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int32_t id = 0;
    const auto [stop, fault] = std::from_chars(text.data() + begin, text.data() + end, id);
    if (fault != std::errc() || stop != text.data() + end)
      return Error{fmt::format("--prompt-ids: error: found \"{}\", expected integers with commas between",
                               text.substr(begin, end - begin))};
    ids.push_back(id);
    begin = end + 1;
  }
  return ids;
}

// Returns the first text that needs a tokenizer, with the alternative, for a message. Returns "" if all
// prompts that are known are ids.
std::string text_given(const RunArguments& a, const BatchSource& source) {
  if (a.prompt) return "--prompt; --prompt-ids needs none";
  for (const auto& [number, line] : source.lines())
    if (line.ok() && (line.value().prompt || line.value().messages))
      return fmt::format("the {} at {}; prompt_ids need none", line.value().prompt ? "prompt" : "messages",
                         line.value().request.name);
  return "";
}

// Returns the chat template for the messages of a batch, where lines may have some. Errors: a known line has
// messages, and the checkpoint has no template or one that cannot be read.
Result<RenderChat> render_for(const BatchSource& source, const std::string& directory) {
  const auto has_messages = [](const NumberedLine& n) { return n.line.ok() && n.line.value().messages; };
  const auto first = std::ranges::find_if(source.lines(), has_messages);
  if (first == source.lines().end() && !source.is_stream()) return RenderChat();
  MKC_TRY(render, read_render_chat(directory));
  if (render || first == source.lines().end()) return render;
  return Error{
      fmt::format("{}: error: has no chat template, expected one for the messages at {}; a prompt needs none",
                  directory, first->line.value().request.name)};
}

// Returns the prompt as ids.
Result<std::vector<int32_t>> prompt_of(const RunArguments& a,
                                       const std::optional<mkrt::Tokenizer>& tokenizer) {
  if (!a.prompt) return parse_ids(*a.prompt_ids);
  Result<std::vector<int32_t>> ids = mkrt::encode(*tokenizer, *a.prompt, !a.no_special);
  if (!ids.ok()) return Error{"--prompt: error: " + ids.error().message};
  return ids;
}

// Prepared holds the inputs that are read before compilation.
struct Prepared {
  std::string directory;  // directory of the checkpoint
  GenerationDefaults defaults;
  std::optional<mkrt::Tokenizer> tokenizer;
  std::vector<int32_t> prompt;
  BatchSource source;
  RenderChat render_chat;
};

Result<Prepared> prepare(const RunArguments& a) {
  Prepared p;
  MKC_TRY(directory, checkpoint_directory(a));
  MKC_TRY(defaults, read_defaults(directory));
  p.directory = std::move(directory);
  p.defaults = std::move(defaults);
  if (a.batch_file) {
    const uint32_t max_new_tokens = a.max_new_tokens.value_or(kDefaultNewTokens);
    MKC_TRY(source, BatchSource::open(*a.batch_file, {max_new_tokens, sampling_of(a.sampling, p.defaults)}));
    p.source = std::move(source);
    MKC_TRY(render, render_for(p.source, p.directory));
    p.render_chat = std::move(render);
  }
  MKC_TRY(tokenizer, find_tokenizer(p.directory, text_given(a, p.source)));
  p.tokenizer = std::move(tokenizer);
  if (!a.batch_file) {
    MKC_TRY(prompt, prompt_of(a, p.tokenizer));
    p.prompt = std::move(prompt);
  }
  return p;
}

Status run_lines(const RunArguments& a, Prepared& p, Loaded& loaded, mkrt::Session& session) {
  BatchRun batch;
  batch.source = std::move(p.source);
  batch.options = {p.tokenizer ? &*p.tokenizer : nullptr, !a.no_special, p.render_chat};
  batch.stop_ids = loaded.artefact.manifest.eos_ids;
  batch.prefix_cache = a.prefix_cache;
  batch.max_rows_beside_decodes = a.max_rows_beside_decodes;
  batch.steps_per_launch = a.steps_per_launch;
  if (a.recompute) batch.preemption = mkrt::Preemption::kRecompute;
  if (!a.json) batch.device = loaded.device->name();
  Status status = run_batch(batch, session);
  return status.ok() && !a.trace.empty() ? session.write_trace(a.trace) : status;
}

Status run_prompt_or_batch(RunArguments a) {
  if (Status status = check_run(a); !status.ok()) return status;
  MKC_TRY_STATUS(check_is_file("--logits-out", a.logits_out));
  MKC_TRY_STATUS(check_is_file("--trace", a.trace));
  MKC_TRY_STATUS(find_models(a));
  MKC_TRY(prepared, prepare(a));
  ModelRequest source = a.request;
  if (is_artefact(source.model)) source.model = a.checkpoint;
  const std::vector<std::string> inputs{a.request.model, a.batch_file.value_or("")};
  for (const std::string& output : {a.logits_out, a.trace})
    MKC_TRY_STATUS(check_output(output, source, inputs));
  MKC_TRY_STATUS(mkrt::check_apart(a.trace, a.logits_out));
  MKC_TRY(loaded, load(a));
  const uint64_t requests = prepared.source.is_stream() ? UINT32_MAX : prepared.source.lines().size();
  MKC_TRY(session, open_session(a, loaded, requests));
  if (a.batch_file) return run_lines(a, prepared, loaded, session);
  if (!a.json && isatty(STDERR_FILENO))
    print_err("{}: {} tokens of prompt\n", loaded.device->name(), prepared.prompt.size());
  const PromptRun run{std::move(prepared.prompt), std::move(prepared.tokenizer),
                      sampling_of(a.sampling, prepared.defaults)};
  return run_prompt(a, run, loaded, session);
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("run", "generate text, on a GPU, the processor or the emulator");
  auto a = std::make_shared<RunArguments>();
  add_run_options(*command, *a);
  command->callback([a, &action] { action = [a] { return run_prompt_or_batch(*a); }; });
}

}  // namespace mkc
