#include "tests/stress/tiny_model.h"

#include <random>

#include "tests/e2e/pipeline.h"
#include "tools/artefact.h"
#include "tools/build_ids.h"

namespace mkc::test {
namespace {

template <class T>
T or_fail(Result<T> result) {
  if (!result.ok()) FAIL(result.error().message);
  return std::move(result.value());
}

// Feeds each request its share of the tokens behind `position`. Each request has pages of its own.
mkrt::Status feed(mkrt::Session& session, std::span<const int32_t> tokens, const RunOptions& options,
                  uint32_t position, mkrt::StepResult& result, float* logits) {
  const auto count = static_cast<int32_t>(tokens.size() / options.requests);
  const auto pages = static_cast<int32_t>(session.limits().pages / options.requests);
  std::vector<int32_t> row_begin{0}, kv_len, page_begin{0}, page_index;
  std::vector<mkrt::Samples> samples(options.requests);
  for (mkrt::Samples& d : samples) {
    d.limit = options.samples;
    row_begin.push_back(row_begin.back() + count);
    kv_len.push_back(static_cast<int32_t>(position) + count);
    for (int32_t i = 0; i < pages; ++i) page_index.push_back(static_cast<int32_t>(page_index.size()));
    page_begin.push_back(page_begin.back() + pages);
  }
  return session.step({tokens, row_begin, kv_len, {page_begin, page_index}, samples}, result, logits);
}

}  // namespace

Compiled::Compiled(const TinyModel& model) {
  write_checkpoint(reference::random_model(model.shape, 7), directory.path);
  ModelRequest request{directory.path, {}, ""};
  request.options.target = "emulator";
  request.options.max_tokens = model.max_tokens;
  request.options.max_requests = model.max_requests;
  request.options.workers = model.workers;
  request.options.scheduler = model.scheduler;
  request.options.batch_invariant = model.batch_invariant;
  Compilation c = or_fail(open_model(request, true));
  if (model.task_ns != 0) c.machine.task_ns = model.task_ns;
  if (const Status status = run_passes(c); !status.ok()) FAIL(status.error().message);
  schedule = c.schedule();
  artefact = describe_for_emulator(c);
  checkpoint = std::move(*c.checkpoint);
}

HostKernel kernel_of(const Compiled& compiled, HostOptions options) {
  options.cache = test_cache();
  options.program = build_ids();
  return compile_for_host(compiled.schedule, options);
}

Outcome run(const Compiled& compiled, const HostKernel& kernel, const RunOptions& options) {
  const auto site = [&](uint32_t number) {
    return number < kernel.sites.size() ? kernel.sites[number] : std::string();
  };
  const std::unique_ptr<mkrt::Device> device = mkrt::open_emulator(kernel.entries, options.device, site);
  const mkrt::Manifest& manifest = compiled.artefact.manifest;
  mkrt::SessionOptions session_options{options.timeout_ns};
  session_options.cache.pages = options.requests * 20;
  mkrt::Session session = or_fail(mkrt::Session::open(compiled.artefact, compiled.checkpoint,
                                                      manifest.config_hash, *device, session_options));
  uint32_t position = options.first_position;
  Outcome outcome;
  std::mt19937 random(3);
  for (const uint32_t count : options.steps) {
    std::vector<int32_t> tokens(count * options.requests);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % manifest.vocab);
    std::vector<float> logits(options.samples == 1 ? tokens.size() * manifest.vocab : 0);
    mkrt::StepResult result;
    const mkrt::Status status =
        feed(session, tokens, options, position, result, logits.empty() ? nullptr : logits.data());
    position += count + options.samples - 1;
    if (!status.ok()) {
      outcome.error = status.error().message;
      break;
    }
    outcome.next.insert(outcome.next.end(), result.ids.begin(), result.ids.end());
    outcome.logits.insert(outcome.logits.end(), logits.begin(), logits.end());
  }
  return outcome;
}

}  // namespace mkc::test
