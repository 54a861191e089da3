#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/artefact/plan.h"
#include "runtime/session/pages.h"
#include "runtime/session/session_state.h"
#include "runtime/session/weights.h"

namespace mkrt {
namespace {

// Opening unloads an artefact that was loaded for a session, unless the session opens. It is made before the
// session's state, and therefore ends after it.
class Opening {
 public:
  explicit Opening(Device& device) : device_(device), had_artefact_(device.loaded()) {}
  ~Opening() {
    if (!done_ && !had_artefact_) device_.unload();
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
  void done() { done_ = true; }

 private:
  Device& device_;
  bool had_artefact_, done_ = false;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

// Finds the tensors and symbols that the runtime needs by name.
Status Session::State::find_names() {
  for (const ManifestTensor& t : manifest.outputs) {
    if (t.name == "logits") logits = &t;
    if (t.name == "next") next = &t;
  }
  std::vector<std::string> lists;
  for (const ManifestSymbol& s : manifest.symbols) {
    const auto max = static_cast<uint32_t>(s.hi);
    if (s.name == kTokensSymbol) limits.max_tokens = max;
    if (s.name == kRequestsSymbol) limits.max_requests = max;
    if (s.name == kKvLenSymbol) limits.context = max;
    if (s.list) lists.push_back(s.name);
  }
  limits.vocab = static_cast<uint32_t>(manifest.vocab);
  const auto& in = manifest.inputs;
  if (!logits || limits.max_tokens < 1 || limits.max_requests < 1 || limits.max_requests > kMaxRequests ||
      lists != std::vector<std::string>(std::begin(kStepListNames), std::end(kStepListNames)) ||
      in.size() != 2 || in[0].name != "tokens" || in[1].name != "positions" ||
      logits->bytes < sizeof(float) * manifest.vocab * limits.max_tokens)
    return Error{
        "manifest: error: expected symbols T and B, lists q_len, kv_len and first_row, inputs tokens and "
        "positions, output logits"};
  return {};
}

Status Session::State::load_plan(std::span<const std::byte> plan) {
  uint64_t at = 0;
  if (Status status = allocate(plan.size(), at); !status.ok()) return status;
  MkPlanHeader header;
  std::memcpy(&header, plan.data(), sizeof(header));
  const PlanLayout layout = plan_layout(header);
  session.grids = at + layout.grids;
  session.stream_begin = at + layout.stream_begin;
  session.segments = at + layout.segments;
  return device->write(at, plan);
}

Status Session::State::make_scales() {
  if (manifest.caches.empty() || manifest.caches[0].element != Element::kE4m3) return {};
  const std::vector<float> ones(manifest.caches.size() * manifest.caches[0].heads, 1.0f);
  if (Status status = allocate(ones.size() * sizeof(float), scales_at); !status.ok()) return status;
  return device->write(scales_at, std::as_bytes(std::span(ones)));
}

// Takes the caller's cache or allocates the session's own. A failure leaves everything unchanged.
Status Session::State::make_cache(const CacheOptions& o) {
  CacheSpace space;
  std::vector<uint64_t> added;
  const auto fill = [&]() -> Status {
    if (o.space) {
      space = *o.space;
      return check_cache(manifest, space);
    }
    if (Status status = check_page_size(o.page_size); !status.ok()) return status;
    const uint32_t pages =
        o.pages != 0 ? o.pages : static_cast<uint32_t>(pages_for(limits.context, o.page_size));
    const CacheForm form = o.form.value_or(best_form(manifest));
    if (form == CacheForm::kPacked && manifest.caches.size() % 2 != 0)
      return Error{fmt::format("cache: error: {} caches are no pairs to pack", manifest.caches.size())};
    const uint64_t piece = cache_piece_bytes(manifest, form, o.page_size, pages);
    const uint64_t bytes = piece * manifest.caches.size() / (form == CacheForm::kPacked ? 2 : 1);
    const Result<uint64_t> memory = device->allocate(bytes);
    if (!memory.ok()) return memory.error();
    added.push_back(memory.value());
    space = place_caches(manifest, form, o.page_size, pages, memory.value());
    if (Status status = check_cache(manifest, space); !status.ok()) return status;
    return device->clear(memory.value(), bytes);
  };
  Status status = fill();
  uint64_t table = 0;
  if (status.ok()) {
    std::vector<MkCache> records;
    for (const uint64_t base : space.base) {
      const uint64_t heads = manifest.caches[0].heads;
      records.push_back({base, scales_at ? scales_at + records.size() * heads * sizeof(float) : 0});
    }
    const Result<uint64_t> got = device->allocate(records.size() * sizeof(MkCache));
    if (got.ok()) added.push_back(table = got.value());
    status = got.ok() ? device->write(table, std::as_bytes(std::span(records))) : Status(got.error());
  }
  if (!status.ok()) {
    for (const uint64_t address : added) device->release(address);
    return status;
  }
  for (const uint64_t address : cache_memory) device->release(address);
  cache_memory = std::move(added);
  take_cache(std::move(space), table);
  return {};
}

void Session::State::take_cache(CacheSpace space, uint64_t table) {
  cache = std::move(space);
  limits.page_size = cache.page_size;
  limits.pages = cache.pages;
  seen = {};
  all_pages.clear();
  const auto own = std::min<uint64_t>(cache.pages, pages_for(limits.context, cache.page_size));
  for (uint64_t page = 0; page < own; ++page) all_pages.push_back(static_cast<int32_t>(page));
  session.caches = table;
  session.page_stride = cache.strides.page;
  session.position_stride = cache.strides.position;
  session.head_stride = cache.strides.head;
  session.page_shift = static_cast<uint32_t>(std::countr_zero(cache.page_size));
}

Status Session::State::make_arenas() {
  const uint64_t counter_bytes = uint64_t{2} * manifest.event_cells * sizeof(uint32_t);
  session.event_cells = manifest.event_cells;
  session.workers = manifest.workers;
  for (const auto& [bytes, address] : {std::pair{manifest.workspace_bytes, &session.workspace},
                                       {counter_bytes, &session.counters},
                                       {result_bytes(limits), &session.fault},
                                       {uint64_t{sizeof(MkSession)}, &session_at}})
    if (Status status = allocate(bytes, *address); !status.ok()) return status;
  if (Status status = device->clear(session.counters, counter_bytes); !status.ok()) return status;
  if (manifest.traced) {
    session.trace_stamps = options.trace_stamps;
    const uint64_t bytes = trace_bytes(manifest.workers, options.trace_stamps);
    if (Status status = allocate(bytes, session.trace); !status.ok()) return status;
    if (Status status = device->clear(session.trace, bytes); !status.ok()) return status;
  }
  return device->write(session.fault, bytes_of(MkFault{}));
}

Status Session::State::open(const Artefact& artefact, const std::function<Status()>& fill_weights) {
  if (Status status = check_artefact(artefact, options.seal); !status.ok()) return status;
  manifest = artefact.manifest;
  if (Status status = find_names(); !status.ok()) return status;
  if (Status status = device->load(artefact); !status.ok()) return status;
  if (Status status = make_scales(); !status.ok()) return status;
  if (Status status = make_cache(options.cache); !status.ok()) return status;
  if (Status status = fill_weights(); !status.ok()) return status;
  if (Status status = load_plan(artefact.plan); !status.ok()) return status;
  if (Status status = make_arenas(); !status.ok()) return status;
  return make_step();
}

Status Session::State::make_step() {
  const ResultMemory results{session.fault, result_bytes(limits)};
  sampled.reserve(limits.max_requests);
  for (StepMemory& step : steps)
    if (Status status = step.reserve(*device, limits, results); !status.ok()) return status;
  if (Status status = captured.reserve(*device, limits, results); !status.ok()) return status;
  return settle(session_at, bytes_of(session));
}

Result<Session> Session::open(const Artefact& artefact, const Checkpoint& checkpoint,
                              const std::string& config_hash, Device& device, const SessionOptions& options) {
  if (artefact.manifest.config_hash != config_hash)
    return Error{fmt::format("{}/config.json: error: has the hash {}, the artefact was made for {}",
                             checkpoint.directory, config_hash, artefact.manifest.config_hash)};
  if (Status status = check_weights(artefact.manifest, checkpoint); !status.ok()) return status.error();
  const Result<std::vector<float>> scales = cache_scales(artefact.manifest, checkpoint);
  if (!scales.ok()) return scales.error();
  Opening opening(device);
  auto state = std::make_unique<State>(device, options);
  if (Status status = state->open(artefact, [&] { return state->load_checkpoint(checkpoint); }); !status.ok())
    return status.error();
  Session session(std::move(state));
  if (!scales.value().empty())
    if (Status status = session.use_scales(scales.value()); !status.ok()) return status.error();
  opening.done();
  return session;
}

Result<Session> Session::open(const Artefact& artefact, const WeightSource& weights, Device& device,
                              const SessionOptions& options) {
  Opening opening(device);
  auto state = std::make_unique<State>(device, options);
  std::vector<std::byte> buffer;
  const auto load = [&](const ManifestWeight& w, uint64_t to) {
    buffer.resize(w.bytes);
    const Status status = weights(w, buffer);
    return status.ok() ? device.write(to, buffer) : status;
  };
  if (Status status = state->open(artefact, [&] { return state->fill_weights(load); }); !status.ok())
    return status.error();
  opening.done();
  return Session(std::move(state));
}

}  // namespace mkrt
