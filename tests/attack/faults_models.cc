#include "tests/attack/faults_models.h"

#include <cstring>
#include <random>

namespace mkc::attack {
namespace {

using reference::Type;

constexpr uint64_t kTimeoutNs = 1'000'000'000;  // time limit of a wait, by the emulator's clock
constexpr uint32_t kPages = 24;                 // pages of each sequence, of 16 positions each

FaultModel model_of(const char* name, const char* family, Scheduler scheduler, std::vector<Feed> feeds) {
  FaultModel m;
  m.name = name;
  reference::Shape& shape = m.model.shape;
  shape.family = family;
  shape.type = Type::kBf16;
  shape.layers = 1;
  shape.hidden = 32;
  shape.ffn = 48;
  shape.vocab = 64;
  shape.context = 64;
  m.model.weights_seed = 7;
  m.setting.scheduler = scheduler;
  m.setting.race = true;  // The code reports accesses, so that a run may look for races.
  m.feeds = std::move(feeds);
  return m;
}

// Feeds one request 3 rows, and then 1.
std::vector<Feed> one_request() {
  return {{{{0, 3}}}, {{{0, 1}}}};
}
// Feeds three requests ragged chunks, and then two of them in another order.
std::vector<Feed> ragged() {
  return {{{{0, 5}, {1, 1}, {2, 9}}}, {{{2, 1}, {0, 2}}}};
}
// Feeds ragged chunks. The last launch has two steps.
std::vector<Feed> ragged_steps() {
  std::vector<Feed> feeds = ragged();
  feeds.back().samples = 2;
  return feeds;
}
// Feeds a launch of three steps, and then a launch of one token.
std::vector<Feed> steps() {
  return {{{{0, 2}, {1, 3}}, 3}, {{{1, 1}}}};
}

}  // namespace

std::vector<FaultModel> fault_models() {
  std::vector<FaultModel> all;
  all.push_back(model_of("tickets", "llama", Scheduler::kDynamic, ragged_steps()));
  all.push_back(model_of("tables", "llama", Scheduler::kStatic, one_request()));
  all.push_back(model_of("steps", "llama", Scheduler::kAuto, steps()));
  FaultModel& experts = all.emplace_back(model_of("experts", "qwen3_moe", Scheduler::kAuto, ragged()));
  experts.model.shape.experts = 4;
  experts.model.shape.expert_ffn = 24;

  FaultModel& split = all.emplace_back(model_of("split products", "qwen2", Scheduler::kAuto, one_request()));
  split.model.shape.ffn = 600;
  split.model.shape.type = Type::kF16;
  split.setting.splits = {{"l*.down", 2, {}}};
  split.setting.bulk_copy = false;

  FaultModel& pieces =
      all.emplace_back(model_of("pieces of attention", "qwen3", Scheduler::kStatic, ragged()));
  pieces.model.shape.context = 330;
  pieces.first_position = 250;

  FaultModel& queued = all.emplace_back(model_of("queues", "mistral", Scheduler::kStatic, ragged()));
  queued.model.shape.window = 8;
  queued.model.shape.type = Type::kF32;
  queued.setting.placements = {{"l*.[qkv]", PlacementKind::kQueue, {}},
                               {"l*.down", PlacementKind::kQueue, {}}};

  FaultModel& handed =
      all.emplace_back(model_of("tickets of loaders", "mixtral", Scheduler::kDynamic, steps()));
  handed.model.shape.experts = 3;
  handed.model.shape.layers = 2;
  handed.setting.bulk_copy = false;

  FaultModel& kernels = all.emplace_back(model_of("a kernel a grid", "llama", Scheduler::kStatic, ragged()));
  kernels.setting.mode = Mode::kKernels;
  kernels.setting.splits = {{"l*.o", 2, {}}};

  FaultModel& ranges =
      all.emplace_back(model_of("ranges, a small ring", "llama", Scheduler::kStatic, ragged()));
  ranges.setting.placements = {{"*", PlacementKind::kRange, {}}};
  ranges.setting.ring = 4;
  ranges.setting.workers = 7;

  all.emplace_back(model_of("one worker", "qwen3", Scheduler::kDynamic, ragged())).setting.workers = 1;

  FaultModel& traced = all.emplace_back(model_of("traced", "llama", Scheduler::kDynamic, one_request()));
  traced.setting.mode = Mode::kTraced;
  traced.model.cache = DType::e4m3;
  return all;
}

bool Outcome::same_bits(const Outcome& other) const {
  return next == other.next && logits.size() == other.logits.size() &&
         std::memcmp(logits.data(), other.logits.data(), logits.size() * sizeof(float)) == 0;
}

std::unique_ptr<mkrt::Device> open_device(const Fixture& fixture,
                                          const mkrt::EmulatorDeviceOptions& options) {
  const HostKernel& kernel = fixture.compiled.host.kernel;
  return mkrt::open_emulator(kernel.entries, options, [&kernel](uint32_t site) {
    return site < kernel.sites.size() ? kernel.sites[site] : std::string();
  });
}

mkrt::Result<mkrt::Session> open_session(const Fixture& fixture, mkrt::Device& device) {
  mkrt::SessionOptions options;
  options.timeout_ns = kTimeoutNs;
  options.trace_stamps = 64;
  options.cache.pages = kPages * static_cast<uint32_t>(fixture.of.setting.max_requests);
  const Compiled& c = fixture.compiled;
  return mkrt::Session::open(c.host.artefact, c.checkpoint, c.config_hash, device, options);
}

Outcome feed_all(const Fixture& fixture, mkrt::Session& session) {
  const uint64_t vocab = session.manifest().vocab;
  std::vector<uint32_t> fed(static_cast<size_t>(fixture.of.setting.max_requests), fixture.of.first_position);
  Outcome outcome;
  std::mt19937 random(3);
  for (const Feed& feed : fixture.of.feeds) {
    std::vector<int32_t> tokens, row_begin{0}, kv_len, page_begin{0}, page_index;
    std::vector<mkrt::Samples> samples;
    for (const Feed::Part& part : feed.parts) {
      for (uint32_t i = 0; i < part.rows; ++i) tokens.push_back(static_cast<int32_t>(random() % vocab));
      row_begin.push_back(static_cast<int32_t>(tokens.size()));
      kv_len.push_back(static_cast<int32_t>(fed[part.sequence] += part.rows));
      fed[part.sequence] += feed.samples - 1;
      for (uint32_t i = 0; i < kPages; ++i)
        page_index.push_back(static_cast<int32_t>(part.sequence * kPages + i));
      page_begin.push_back(static_cast<int32_t>(page_index.size()));
      samples.emplace_back().limit = feed.samples;
    }
    std::vector<float> logits(feed.samples == 1 ? tokens.size() * vocab : 0);
    mkrt::StepResult result;
    const mkrt::Batch batch{tokens, row_begin, kv_len, {page_begin, page_index}, samples};
    const mkrt::Status status = session.step(batch, result, logits.empty() ? nullptr : logits.data());
    if (!status.ok()) {
      outcome.error = status.error().message;
      break;
    }
    ++outcome.launches;
    outcome.next.insert(outcome.next.end(), result.ids.begin(), result.ids.end());
    outcome.logits.insert(outcome.logits.end(), logits.begin(), logits.end());
  }
  return outcome;
}

mkrt::Status feed_one(mkrt::Session& session) {
  const std::vector<int32_t> tokens{1}, row_begin{0, 1}, kv_len{1}, page_begin{0, 1}, page_index{0};
  mkrt::StepResult result;
  return session.step({tokens, row_begin, kv_len, {page_begin, page_index}}, result);
}

namespace {

// Sorts counters into cells of events, logs of completed cells, and tickets.
void sort_counters(Fixture& fixture) {
  const mkrt::Manifest& manifest = fixture.compiled.host.artefact.manifest;
  fixture.counters = manifest.event_cells;
  std::vector<bool> of_event(manifest.event_cells);
  for (const mkrt::ManifestEvent& e : manifest.events)
    for (uint32_t i = e.first_cell; i < e.first_cell + e.cells; ++i) {
      of_event[i] = true;
      (e.name.ends_with(".log") ? fixture.logs : fixture.cells).push_back(i);
    }
  for (uint32_t i = 0; i < fixture.counters; ++i)
    if (!of_event[i]) fixture.tickets.push_back(i);
}

}  // namespace

Result<Fixture> make_fixture(const FaultModel& model, const std::string& directory) {
  reference::write_checkpoint(reference::random_model(model.model.shape, model.model.weights_seed),
                              directory);
  auto compiled = compile(model.model, model.setting, directory);
  if (!compiled.ok()) return compiled.error();
  Fixture fixture{model, std::move(compiled.value()), {}, {}, 0, {}, {}, {}};
  sort_counters(fixture);
  mkrt::EmulatorDeviceOptions options;
  options.disturbed = &fixture.counts;
  const auto device = open_device(fixture, options);
  auto session = open_session(fixture, *device);
  if (!session.ok()) return session.error();
  fixture.clean = feed_all(fixture, session.value());
  if (!fixture.clean.error.empty()) return Error{fixture.clean.error};
  return fixture;
}

}  // namespace mkc::attack
