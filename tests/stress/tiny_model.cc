#include "tests/stress/tiny_model.h"

#include <random>

#include "codegen/plan.h"
#include "tools/artefact.h"

namespace mkc::test {
namespace {

template <class T>
T or_fail(Result<T> result) {
  if (!result.ok()) FAIL(result.error().message);
  return std::move(result.value());
}

}  // namespace

Compiled::Compiled(const TinyModel& model) {
  write_checkpoint(reference::random_model(model.shape, 7), directory.path);
  ModelRequest request{directory.path, {}, ""};
  request.options.target = "emulator";
  request.options.max_tokens = model.max_tokens;
  request.options.max_requests = model.max_requests;
  request.options.workers = model.workers;
  Compilation c = or_fail(open_model(request, true));
  if (const Status status = run_passes(c); !status.ok()) FAIL(status.error().message);
  schedule = c.schedule();
  artefact.manifest = describe(schedule, or_fail(identify(c)));
  artefact.plan = make_plan(schedule, find_kinds(schedule));
  checkpoint = std::move(*c.checkpoint);
}

Outcome run(const Compiled& compiled, const HostKernel& kernel, const RunOptions& options) {
  const auto site = [&](uint32_t number) {
    return number < kernel.sites.size() ? kernel.sites[number] : std::string();
  };
  const std::unique_ptr<mkrt::Device> device = mkrt::open_emulator(kernel.entry, options.device, site);
  const mkrt::Manifest& manifest = compiled.artefact.manifest;
  mkrt::Session session = or_fail(mkrt::Session::open(compiled.artefact, compiled.checkpoint,
                                                      manifest.config_hash, *device, {options.timeout_ns}));
  session.set_position(options.first_position);
  Outcome outcome;
  std::mt19937 random(3);
  for (const uint32_t count : options.steps) {
    std::vector<int32_t> tokens(count);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % manifest.vocab);
    std::vector<float> logits(count * manifest.vocab);
    const Result<int32_t> next = session.step(tokens, logits.data());
    if (!next.ok()) {
      outcome.error = next.error().message;
      break;
    }
    outcome.next.push_back(next.value());
    outcome.logits.insert(outcome.logits.end(), logits.begin(), logits.end());
  }
  return outcome;
}

}  // namespace mkc::test
