#include "tests/attack/tamper/target.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/artefact/seal.h"
#include "runtime/session/session.h"

namespace mkc::attack {
namespace {

constexpr uint64_t kTimeoutNs = 1'000'000;  // time limit of a wait, by the emulator's clock

template <class T>
T or_die(Result<T> result) {
  if (result.ok()) return std::move(result.value());
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::abort();
}

struct Form {
  const char *name, *fixture;
  Mode mode;
  Scheduler scheduler;
};
constexpr Form kForms[] = {
    {"llama", "llama", Mode::kMegakernel, Scheduler::kStatic},
    {"llama_tickets", "llama", Mode::kMegakernel, Scheduler::kDynamic},
    {"llama_kernels", "llama", Mode::kKernels, Scheduler::kStatic},
    {"qwen3_moe_traced", "qwen3_moe", Mode::kTraced, Scheduler::kAuto},
};

// Runs a prompt, and then one more token.
Verdict run(const Target& target, const mkrt::Artefact& artefact, mkrt::SealCheck seal,
            std::vector<float>& logits) {
  const std::unique_ptr<mkrt::Device> device = mkrt::open_emulator(target.host.kernel.entries, {});
  mkrt::SessionOptions options;
  options.timeout_ns = kTimeoutNs;
  options.trace_stamps = 64;
  options.seal = seal;
  mkrt::Result<mkrt::Session> session = mkrt::Session::open(
      artefact, target.checkpoint, target.host.artefact.manifest.config_hash, *device, options);
  if (!session.ok()) return Verdict::kRefused;
  const uint64_t vocab = session.value().limits().vocab;
  const std::vector<int32_t> prompt{5, 17, 3, 9, 1};
  if (session.value().max_tokens() < prompt.size()) return Verdict::kRefused;
  for (const std::vector<int32_t>& tokens : {prompt, std::vector<int32_t>{7}}) {
    std::vector<float> rows(tokens.size() * vocab);
    if (!session.value().step(tokens, rows.data()).ok()) return Verdict::kFault;
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return Verdict::kSame;
}

}  // namespace

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Form& form : kForms) names.emplace_back(form.name);
  return names;
}

Target make_target(const std::string& name) {
  Target target;
  target.name = name;
  const Form* form = std::ranges::find(kForms, name, &Form::name);
  ModelRequest request{
      std::string(MKC_SOURCE_DIR "/tests/fixtures/models/") + form->fixture, {}, "", form->mode};
  request.options.target = "emulator";
  request.options.workers = 3;
  request.options.max_tokens = 8;
  request.options.max_requests = 2;
  request.options.scheduler = form->scheduler;
  Compilation c = or_die(open_model(request, true));
  if (const Status status = run_passes(c); !status.ok()) or_die(Result<int>(status.error()));
  target.host = or_die(build_for_emulator(c));
  target.manifest = mkrt::to_json(target.host.artefact.manifest);
  target.checkpoint = std::move(*c.checkpoint);
  if (run(target, target.host.artefact, mkrt::SealCheck::kRequired, target.logits) != Verdict::kSame)
    or_die(Result<int>(Error{name + " does not run"}));
  return target;
}

Verdict load_and_run(const Target& target, const std::string& manifest, const std::vector<std::byte>& plan,
                     bool sealed_anew) {
  mkrt::Result<mkrt::Artefact> artefact = mkrt::Error{};
  if (sealed_anew) {
    mkrt::Result<mkrt::Manifest> parsed = mkrt::parse_manifest(manifest);
    if (!parsed.ok()) return Verdict::kRefused;
    artefact = mkrt::Artefact{std::move(parsed.value()), plan, {}};
    mkrt::seal(artefact.value());
  } else {
    artefact = mkrt::make_artefact(manifest, plan, {});
    if (!artefact.ok()) return Verdict::kRefused;
  }
  std::vector<float> logits;
  const Verdict verdict = run(target, artefact.value(), mkrt::SealCheck::kRequired, logits);
  if (verdict != Verdict::kSame) return verdict;
  const bool same = logits.size() == target.logits.size() &&
                    std::memcmp(logits.data(), target.logits.data(), logits.size() * sizeof(float)) == 0;
  return same ? Verdict::kSame : Verdict::kOther;
}

}  // namespace mkc::attack
