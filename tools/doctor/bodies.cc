#include "tools/doctor/bodies.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "runtime/base/file.h"
#include "runtime/base/temporaries.h"
#include "runtime/session/session.h"
#include "tools/artefact.h"
#include "tools/doctor/body_family.h"
#include "tools/native.h"

namespace mkc {
namespace {

constexpr double kWorst = 2e-2;  // relative error of a row; both sides round activations between products
constexpr uint64_t kSeed = 7;
constexpr uint32_t kNew = 3;      // new tokens, which are made in steps of one token
constexpr int64_t kWorkers = 16;  // products have this many strips or a few more

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  MKC_ASSERT(at != std::string::npos, "the bodies' config.json has no " + from);
  return text.replace(at, from.size(), to);
}

struct BodyAnswer {
  std::vector<int32_t> tokens;
  std::vector<float> logits;
  size_t vocab = 0;
};

Result<BodyAnswer> answer_of_bodies(const mkrt::Artefact& artefact, mkrt::Device& device,
                                    const std::vector<int32_t>& prompt) {
  mkrt::SessionOptions options;
  options.timeout_ns = 3'000'000'000;
  mkrt::Result<mkrt::Session> session =
      mkrt::Session::open(artefact, mkrt::random_weights(kSeed), device, options);
  if (!session.ok()) return session.error();
  BodyAnswer a;
  mkrt::GenerateOptions generation;
  generation.max_new_tokens = kNew;
  generation.logits = &a.logits;
  mkrt::Result<std::vector<int32_t>> tokens = mkrt::generate(session.value(), prompt, generation);
  if (!tokens.ok()) return tokens.error();
  a.tokens = std::move(tokens.value());
  a.vocab = artefact.manifest.vocab;
  return a;
}

std::vector<int32_t> prompt_of_check(const BodyCheck& check) {
  std::vector<int32_t> prompt;
  for (uint32_t i = 0; i < check.tokens; ++i) prompt.push_back(static_cast<int32_t>((i * 7919 + 17) % 500));
  return prompt;
}

// write_answer() writes a file of new tokens and logits, and read_answer() reads one. write_answer() returns
// the error, or "".
std::string write_answer(const BodyAnswer& a, const std::string& path) {
  std::vector<std::byte> bytes(4 * (a.tokens.size() + a.logits.size()));
  std::memcpy(bytes.data(), a.tokens.data(), 4 * a.tokens.size());
  std::memcpy(bytes.data() + 4 * a.tokens.size(), a.logits.data(), 4 * a.logits.size());
  const Status written = mkrt::write_file(path, bytes);
  return written.ok() ? "" : written.error().message;
}
Result<BodyAnswer> read_answer(const std::string& path, size_t vocab) {
  const mkrt::Result<mkrt::MappedFile> file = mkrt::map_file(path);
  if (!file.ok()) return file.error();
  const std::span<const std::byte> bytes = file.value().bytes;
  BodyAnswer a;
  a.vocab = vocab;
  a.tokens.resize(kNew);
  a.logits.resize(bytes.size() / 4 - kNew);
  std::memcpy(a.tokens.data(), bytes.data(), 4 * kNew);
  std::memcpy(a.logits.data(), bytes.data() + 4 * kNew, 4 * a.logits.size());
  return a;
}

// Compares logits row by row and returns the wrong rows, or "". Rows after the first different token are left
// out, because their inputs differ.
std::string compare_answers(const BodyAnswer& device, const BodyAnswer& host, size_t prompt) {
  std::string wrong;
  double worst = 0;
  size_t count = 0, rows = host.logits.size() / host.vocab;
  for (size_t i = 0; i < kNew && prompt + i < rows; ++i)
    if (device.tokens[i] != host.tokens[i]) rows = prompt + i;
  for (size_t r = 0; r < rows; ++r) {
    double off = 0, norm = 0;
    for (size_t i = r * host.vocab; i < (r + 1) * host.vocab; ++i) {
      off += std::pow(double{device.logits[i]} - host.logits[i], 2);
      norm += std::pow(double{host.logits[i]}, 2);
    }
    const double error = std::sqrt(off / norm);
    if (error <= kWorst) continue;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    if (++count <= 8) wrong += fmt::format("{}{}", count == 1 ? "" : ", ", r);
  }
  if (count == 0) return "";
  return fmt::format("rows {}{} of {} have relative errors up to {:.1e}, expected at most {}", wrong,
                     count > 8 ? ", …" : "", rows, worst, kWorst);
}

}  // namespace

std::vector<BodyCheck> body_checks(const Engines& engines) {
  std::vector<BodyCheck> checks{{"attention, bf16", "attention", "bfloat16", 41, 64},
                                {"product, bf16", "product", "bfloat16", 12, 16},
                                {"norm, bf16", "norm", "bfloat16", 12, 16},
                                {"gated layer, bf16", "gated", "bfloat16", 41, 64},
                                {"gated layer, f16", "gated", "float16", 12, 16},
                                {"gated layer, f32", "gated", "float32", 12, 16}};
  if (engines.warpgroups)
    checks.push_back({"gated layer by warpgroups, bf16", "gated", "bfloat16", 100, 128, "wgmma"});
  return checks;
}

std::string prepare_body(const BodyCheck& check, const std::vector<std::string>& without,
                         const std::string& assembler, const std::string& path) {
  const mkrt::TemporaryFolder folder;  // files of the check's model
  if (folder.path.empty()) return mkrt::kNoTemporaryFolder;
  const std::string config =
      replaced(replaced(kBodyConfig, "BODY", check.body), "\"bfloat16\"", fmt::format("\"{}\"", check.dtype));
  for (const auto& [name, text] :
       {std::pair("config.json", config), std::pair("bodies.yaml", std::string(kBodyFamily))})
    if (Status s = mkrt::write_file(folder.path + "/" + name, std::as_bytes(std::span(text))); !s.ok())
      return s.error().message;
  ModelRequest request;
  request.model = folder.path;
  request.options.family = folder.path + "/bodies.yaml";
  request.options.max_tokens = check.max_tokens;
  request.options.max_requests = 4;
  request.options.target = kNative;
  request.without = without;
  const mkrt::Result<mkrt::DeviceFacts> facts = mkrt::ask_cuda();
  if (!facts.ok()) return facts.error().message;
  request.options.workers = std::min<int64_t>(kWorkers, facts.value().sms);
  Result<Compilation> opened = open_model(request, false);
  if (!opened.ok()) return opened.error().message;
  const Result<std::unique_ptr<Assembler>> found = find_assembler(assembler);
  if (!found.ok()) return found.error().message;
  const Result<BuiltCubin> cubin = build_cubin(opened.value(), *found.value(), default_cache());
  if (!cubin.ok()) return cubin.error().message;
  if (Status s = mkrt::write_file(path + ".cubin", cubin.value().bytes); !s.ok()) return s.error().message;

  request.options.target = "emulator";
  request.options.workers = 4;
  Result<Compilation> on_host = open_model(request, false);
  if (!on_host.ok()) return on_host.error().message;
  if (Status s = run_passes(on_host.value()); !s.ok()) return s.error().message;
  const Result<HostArtefact> host = build_for_emulator(on_host.value());
  if (!host.ok()) return host.error().message;
  const std::unique_ptr<mkrt::Device> emulator = mkrt::open_emulator(host.value().kernel.entries, {});
  const Result<BodyAnswer> reference =
      answer_of_bodies(host.value().artefact, *emulator, prompt_of_check(check));
  if (!reference.ok()) return "on this processor: " + reference.error().message;
  return write_answer(reference.value(), path + ".reference");
}

std::string run_body(const BodyCheck& check, const std::string& path) {
  mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(path + ".cubin", mkrt::SealCheck::kRequired);
  if (!artefact.ok()) return artefact.error().message;
  mkrt::Result<std::unique_ptr<mkrt::Device>> gpu = mkrt::open_cuda();
  if (!gpu.ok()) return gpu.error().message;
  const Result<BodyAnswer> device = answer_of_bodies(artefact.value(), *gpu.value(), prompt_of_check(check));
  if (!device.ok()) return device.error().message;
  const Result<BodyAnswer> reference = read_answer(path + ".reference", device.value().vocab);
  return reference.ok() ? compare_answers(device.value(), reference.value(), check.tokens)
                        : reference.error().message;
}

}  // namespace mkc
