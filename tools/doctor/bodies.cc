#include "tools/doctor/bodies.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "runtime/base/file.h"
#include "runtime/base/temporaries.h"
#include "runtime/session/session.h"
#include "tools/artefact.h"
#include "tools/doctor/body_family.h"
#include "tools/doctor/body_model.h"
#include "tools/native.h"
#include "tools/seconds.h"

namespace mkc {
namespace {

constexpr double kWorst = 1e-2;  // relative error of a row; the device rounds activations between products
constexpr uint64_t kSeed = 7;
constexpr uint32_t kNew = 3;      // new tokens, which are made in steps of one token
constexpr int64_t kWorkers = 16;  // products have this many strips or a few more

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  MKC_ASSERT(at != std::string::npos, "the bodies' config.json has no " + from);
  return text.replace(at, from.size(), to);
}

std::string config_of(const BodyCheck& check) {
  return replaced(replaced(kBodyConfig, "BODY", check.body), "\"bfloat16\"",
                  fmt::format("\"{}\"", check.dtype));
}

std::vector<int32_t> prompt_of_check(const BodyCheck& check) {
  std::vector<int32_t> prompt;
  for (uint32_t i = 0; i < check.tokens; ++i) prompt.push_back(static_cast<int32_t>((i * 7919 + 17) % 500));
  return prompt;
}

// Returns a request for the check's model, which lies in the folder. The request does not depend on what
// doctor measured, so that a second run finds the cubin in the cache.
Result<ModelRequest> request_of_check(const BodyCheck& check, const std::string& folder) {
  for (const auto& [name, text] :
       {std::pair("config.json", config_of(check)), std::pair("bodies.yaml", std::string(kBodyFamily))})
    if (Status s = mkrt::write_file(folder + "/" + name, std::as_bytes(std::span(text))); !s.ok())
      return s.error();
  const mkrt::Result<mkrt::DeviceFacts> facts = mkrt::ask_cuda();
  if (!facts.ok()) return facts.error();
  ModelRequest request;
  request.model = folder;
  request.options.family = folder + "/bodies.yaml";
  request.options.max_tokens = check.max_tokens;
  request.options.max_requests = std::min<int64_t>(4, check.max_tokens);
  request.options.target = kNative;
  request.options.workers = std::min<int64_t>(kWorkers, facts.value().sms);
  request.ignore_measured = true;
  return request;
}

// Returns a folder in the cache for the check's model, as its path is part of the cubin's cache key. Returns
// "" where the cache takes no files.
std::string body_folder(const BodyCheck& check, const Cache& cache) {
  if (cache.folder.empty()) return "";
  const std::string folder = fmt::format("{}/doctor/{}-{}", cache.folder, check.body, check.dtype);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  return mkrt::check_writable(folder + "/config.json").ok() ? folder : "";
}

Result<BuiltCubin> cubin_of_check(const BodyCheck& check, const std::vector<std::string>& without,
                                  const std::string& flag) {
  const Cache cache = default_cache();
  const mkrt::TemporaryFolder temporary;
  const std::string kept = body_folder(check, cache), folder = kept.empty() ? temporary.path : kept;
  if (folder.empty()) return Error{temporary.fault()};
  Result<ModelRequest> request = request_of_check(check, folder);
  if (!request.ok()) return request.error();
  request.value().without = without;
  Result<Compilation> opened = open_model(request.value(), false);
  if (!opened.ok()) return opened.error();
  const Result<std::unique_ptr<Assembler>> assembler = find_assembler(flag, opened.value().driver);
  if (!assembler.ok()) return assembler.error();
  return build_cubin(opened.value(), *assembler.value(), cache);
}

struct BodyAnswer {
  std::vector<int32_t> ids;  // the prompt and the new tokens
  std::vector<float> logits;
};

Result<BodyAnswer> answer_of_bodies(const mkrt::Artefact& artefact, const BodyModel& model,
                                    const BodyCheck& check) {
  mkrt::Result<std::unique_ptr<mkrt::Device>> gpu = mkrt::open_cuda();
  if (!gpu.ok()) return gpu.error();
  mkrt::SessionOptions options;
  options.timeout_ns = 3'000'000'000;
  mkrt::Result<mkrt::Session> session = mkrt::Session::open(
      artefact, model.checkpoint(), mkrt::hash_hex(config_of(check)), *gpu.value(), options);
  if (!session.ok()) return session.error();
  BodyAnswer a{prompt_of_check(check), {}};
  mkrt::GenerateOptions generation;
  generation.max_new_tokens = kNew;
  generation.logits = &a.logits;
  const mkrt::Result<std::vector<int32_t>> tokens = mkrt::generate(session.value(), a.ids, generation);
  if (!tokens.ok()) return tokens.error();
  a.ids.insert(a.ids.end(), tokens.value().begin(), tokens.value().end());
  return a;
}

// Returns the relative error of a row.
double row_error(std::span<const float> found, std::span<const double> expected) {
  double off = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    off += std::pow(double{found[i]} - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(off / norm);
}

}  // namespace

std::string compare_logits(std::span<const float> found, std::span<const double> expected, size_t vocab,
                           std::span<const int32_t> sampled) {
  if (found.size() != expected.size())
    return fmt::format("{} logits, expected {}", found.size(), expected.size());
  std::string wrong;
  double worst = 0;
  size_t count = 0;
  const size_t rows = expected.size() / vocab;
  for (size_t r = 0; r < rows; ++r) {
    const double error = row_error(found.subspan(r * vocab, vocab), expected.subspan(r * vocab, vocab));
    if (error <= kWorst) continue;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    if (++count <= 8) wrong += fmt::format("{}{}", count == 1 ? "" : ", ", r);
  }
  if (count > 0)
    return fmt::format("rows {}{} of {} have relative errors up to {:.1e}, expected at most {}", wrong,
                       count > 8 ? ", …" : "", rows, worst, kWorst);
  for (size_t i = 0; i < sampled.size(); ++i) {
    const std::span<const float> row = found.subspan((rows - sampled.size() + i) * vocab, vocab);
    const auto best = static_cast<size_t>(std::ranges::max_element(row) - row.begin());
    if (static_cast<size_t>(sampled[i]) >= vocab || row[static_cast<size_t>(sampled[i])] != row[best])
      return fmt::format("row {} sampled {}, expected {}, whose logit is the greatest",
                         rows - sampled.size() + i, sampled[i], best);
  }
  return "";
}

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

PreparedBody prepare_body(const BodyCheck& check, const std::vector<std::string>& without,
                          const std::string& assembler, const std::string& path) {
  const auto begin = std::chrono::steady_clock::now();
  PreparedBody prepared;
  const Result<BuiltCubin> cubin = cubin_of_check(check, without, assembler);
  if (!cubin.ok()) {
    prepared.fault = cubin.error().message;
  } else {
    prepared.cached = cubin.value().cached;
    const Status written = mkrt::write_file(path, cubin.value().bytes);
    if (!written.ok()) prepared.fault = written.error().message;
  }
  prepared.seconds = seconds_since(begin);
  return prepared;
}

std::string run_body(const BodyCheck& check, const std::string& path) {
  const mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(path, mkrt::SealCheck::kRequired);
  if (!artefact.ok()) return artefact.error().message;
  const BodyModel model(config_of(check), kSeed);
  const Result<BodyAnswer> answer = answer_of_bodies(artefact.value(), model, check);
  if (!answer.ok()) return answer.error().message;
  const auto& [ids, logits] = answer.value();
  if (ids.size() != check.tokens + kNew)
    return fmt::format("{} new tokens, expected {}", ids.size() - check.tokens, kNew);
  const std::span<const int32_t> sampled = std::span(ids).last(kNew);
  for (const int32_t id : sampled)
    if (id < 0 || static_cast<size_t>(id) >= model.vocab())
      return fmt::format("sampled {}, expected less than {}", id, model.vocab());
  return compare_logits(logits, model.logits(std::span(ids).first(ids.size() - 1)), model.vocab(), sampled);
}

}  // namespace mkc
