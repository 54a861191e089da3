#include "tests/attack/models_feed.h"

#include <algorithm>
#include <random>
#include <span>

#include "runtime/session/pages.h"
#include "tools/passes.h"

namespace mkc::attack {
namespace {

using Random = std::mt19937;

struct Step {
  std::vector<size_t> chosen;  // numbers of the sequences
  std::vector<int32_t> tokens, row_begin{0}, kv_len, page_begin{0}, page_index;
};

class Feeder {
 public:
  Feeder(const ModelCase& c, const Setting& setting, const Run& run)
      : setting_(setting), run_(run), random_(run.feed_seed), sequences_(make_sequences(c)) {
    uint32_t pages = 3;
    for (const Sequence& s : sequences_) pages += mkrt::pages_for(s.ids.size(), run.page_size);
    for (uint32_t i = 0; i < pages; ++i) free_pages_.push_back(static_cast<int32_t>(i));
    std::shuffle(free_pages_.begin(), free_pages_.end(), random_);
  }

  uint32_t pages() const { return static_cast<uint32_t>(free_pages_.size()); }

  Status run(mkrt::Session& session, Fed& fed) {
    const uint64_t vocab = session.manifest().vocab;
    std::vector<float> logits(static_cast<size_t>(setting_.max_tokens) * vocab);
    for (;;) {
      const Step step = next();
      if (step.chosen.empty()) break;
      fed.max_rows = std::max(fed.max_rows, step.tokens.size());
      mkrt::StepResult result;
      const mkrt::Batch batch{step.tokens, step.row_begin, step.kv_len, {step.page_begin, step.page_index}};
      if (Status status = session.step(batch, result, logits.data()); !status.ok()) return status;
      for (size_t b = 0; b < step.chosen.size(); ++b) {
        Sequence& s = sequences_[step.chosen[b]];
        const auto begin = static_cast<uint64_t>(step.row_begin[b]) * vocab,
                   end = static_cast<uint64_t>(step.row_begin[b + 1]) * vocab;
        s.logits.insert(s.logits.end(), logits.begin() + static_cast<ptrdiff_t>(begin),
                        logits.begin() + static_cast<ptrdiff_t>(end));
        s.fed += (end - begin) / vocab;
      }
    }
    fed.sequences = std::move(sequences_);
    return {};
  }

 private:
  // Returns some of the sequences that have tokens left, in any order; none at the end.
  std::vector<size_t> choose() {
    std::vector<size_t> left, chosen;
    for (size_t i = 0; i < sequences_.size(); ++i)
      if (sequences_[i].fed < sequences_[i].ids.size()) left.push_back(i);
    std::shuffle(left.begin(), left.end(), random_);
    for (const size_t i : left)
      if (chosen.empty() || random_() % 3 != 0) chosen.push_back(i);
    chosen.resize(std::min(chosen.size(), static_cast<size_t>(setting_.max_requests)));
    return chosen;
  }

  Step next() {
    Step step;
    step.chosen = choose();
    for (size_t b = 0; b < step.chosen.size(); ++b) {
      Sequence& s = sequences_[step.chosen[b]];
      const size_t others = step.chosen.size() - b - 1,
                   room = static_cast<size_t>(setting_.max_tokens) - step.tokens.size() - others;
      const size_t wanted = random_() % 2 == 0 ? run_.max_rows : 1 + random_() % run_.max_rows;
      const size_t rows = std::min({wanted, room, s.ids.size() - s.fed});
      const auto from = s.ids.begin() + static_cast<ptrdiff_t>(s.fed);
      step.tokens.insert(step.tokens.end(), from, from + static_cast<ptrdiff_t>(rows));
      step.row_begin.push_back(static_cast<int32_t>(step.tokens.size()));
      step.kv_len.push_back(static_cast<int32_t>(s.fed + rows));
      while (s.pages.size() < mkrt::pages_for(s.fed + rows, run_.page_size)) {
        s.pages.push_back(free_pages_.back());
        free_pages_.pop_back();
      }
      step.page_index.insert(step.page_index.end(), s.pages.begin(), s.pages.end());
      step.page_begin.push_back(static_cast<int32_t>(step.page_index.size()));
    }
    return step;
  }

  const Setting& setting_;
  const Run& run_;
  Random random_;
  std::vector<Sequence> sequences_;
  std::vector<int32_t> free_pages_;
};

struct Opened {
  std::unique_ptr<mkrt::Device> device;
  std::optional<mkrt::Session> session;
};

constexpr uint64_t kPatienceNs = 1'200'000'000'000;  // a busy machine may stop a thread for minutes

std::unique_ptr<mkrt::Device> open_device(const ModelCase& c, const Setting& setting, const Run& run,
                                          const HostKernel& kernel) {
  if (c.device == DeviceKind::kProcessor) return mkrt::open_processor();
  mkrt::EmulatorDeviceOptions options;
  options.seed = run.device_seed;
  options.os_threads = run.os_threads;
  options.race = setting.race;
  return mkrt::open_emulator(kernel.entries, options, [&kernel](uint32_t site) {
    return site < kernel.sites.size() ? kernel.sites[site] : std::string();
  });
}

Status open(const ModelCase& c, const Run& run, const Compiled& compiled, uint32_t pages, Opened& opened) {
  opened.session.reset();
  mkrt::SessionOptions session;
  session.cache = {run.page_size, pages, run.form, {}};
  if (c.device == DeviceKind::kProcessor) session.timeout_ns = kPatienceNs;
  auto made = mkrt::Session::open(compiled.host.artefact, compiled.checkpoint, compiled.config_hash,
                                  *opened.device, session);
  if (!made.ok()) return made.error();
  opened.session.emplace(std::move(made.value()));
  return {};
}

// Generates tokens by a new session of the same device.
Status generate(const ModelCase& c, const Setting& setting, const Run& run, const Compiled& compiled,
                Opened& opened, Fed& fed) {
  if (Status status = open(c, run, compiled, 0, opened); !status.ok()) return status;
  mkrt::GenerateOptions options;
  options.max_new_tokens = c.new_tokens;
  options.steps_per_launch = run.steps_per_launch;
  options.sampling = c.sampling;
  const std::span prompt = std::span(fed.sequences[0].ids).first(c.prompt);
  fed.prompt_rows = std::min(prompt.size(), static_cast<size_t>(setting.max_tokens));
  auto tokens = mkrt::generate(*opened.session, prompt, options);
  if (!tokens.ok()) return tokens.error();
  fed.tokens = std::move(tokens.value());
  return {};
}

ModelRequest request_of(const ModelCase& c, const Setting& setting, const std::string& directory) {
  ModelRequest request{directory, {}, "", setting.mode};
  request.options.target = c.target;
  request.options.workers = setting.workers;
  request.options.max_tokens = std::min(setting.max_tokens, setting.max_requests * c.shape.context);
  request.options.max_requests = setting.max_requests;
  request.options.context = c.shape.context;  // the default ends at 4096
  request.options.batch_invariant = c.batch_invariant;
  if (!c.batch_invariant) request.options.wgmma_from = c.wgmma_from;
  request.options.activations = Activations::kBf16;  // what rows are compared with does not round to fp8
  request.options.kv_dtype = c.cache;
  request.options.ring = setting.ring;
  request.options.scheduler = setting.scheduler;
  return request;
}

// Compiles an opened model for the processor.
Result<HostArtefact> build_for_processor(Compilation& compilation, bool quick, const std::string& directory) {
  compilation.quick = quick;
  const auto object = build_shared_object(compilation, {});
  if (!object.ok()) return object.error();
  auto artefact = mkrt::read_artefact(object.value().bytes, directory);
  if (!artefact.ok()) return artefact.error();
  return HostArtefact{std::move(artefact.value()), {}};
}

Result<HostArtefact> build(const ModelCase& c, const Setting& setting, const std::string& directory,
                           Compilation& compilation) {
  if (c.device == DeviceKind::kProcessor) return build_for_processor(compilation, setting.quick, directory);
  if (Status status = run_passes(compilation); !status.ok()) return status.error();
  return build_for_emulator(compilation,
                            {.bulk_copy = setting.bulk_copy, .race = setting.race, .quick = setting.quick});
}

}  // namespace

std::vector<Sequence> make_sequences(const ModelCase& c) {
  Random random(c.weights_seed);
  std::vector<Sequence> sequences;
  for (const size_t length : c.lengths) {
    Sequence& s = sequences.emplace_back();
    for (size_t i = 0; i < length; ++i)
      s.ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(c.shape.vocab)));
  }
  return sequences;
}

Result<Compiled> compile(const ModelCase& c, const Setting& setting, const std::string& directory) {
  auto opened = open_model(request_of(c, setting, directory), true);
  if (!opened.ok()) return opened.error();
  Compilation& compilation = opened.value();
  compilation.request.placements = setting.placements;
  compilation.request.splits = setting.splits;
  auto host = build(c, setting, directory, compilation);
  if (!host.ok()) return host.error();
  std::string hash = host.value().artefact.manifest.config_hash;
  return Compiled{std::move(hash), std::move(*compilation.checkpoint), std::move(host.value())};
}

Result<Fed> feed(const ModelCase& c, const Setting& setting, const Run& run, const Compiled& compiled) {
  Feeder feeder(c, setting, run);
  Opened opened{open_device(c, setting, run, compiled.host.kernel), {}};
  if (Status status = open(c, run, compiled, feeder.pages(), opened); !status.ok()) return status.error();
  Fed fed;
  if (Status status = feeder.run(*opened.session, fed); !status.ok()) return status.error();
  if (Status status = generate(c, setting, run, compiled, opened, fed); !status.ok()) return status.error();
  return fed;
}

}  // namespace mkc::attack
