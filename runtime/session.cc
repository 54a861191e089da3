#include "runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/plan.h"
#include "runtime/weights.h"

namespace mkrt {
namespace {

constexpr uint64_t kInputAlignment = 256;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

uint64_t align(uint64_t at) {
  return (at + kInputAlignment - 1) / kInputAlignment * kInputAlignment;
}

}  // namespace

struct Session::State {
  Manifest manifest;
  Device* device = nullptr;
  SessionOptions options;
  std::vector<uint64_t> owned;  // device memory
  MkSession session{};
  uint64_t session_at = 0, step_at = 0;
  std::vector<std::byte> step;         // MkStep and the inputs, as they lie at step_at
  std::vector<uint64_t> input_offset;  // within `step`
  const ManifestTensor *next = nullptr, *logits = nullptr;
  int64_t max_tokens = 0, context = 0, position = 0;
  uint32_t launch = 0;
  bool faulted = false;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const uint64_t address : owned) device->release(address);
  }

  // Allocates memory that lives as long as the session.
  Status allocate(uint64_t bytes, uint64_t& address) {
    const Result<uint64_t> got = device->allocate(bytes);
    if (!got.ok()) return got.error();
    owned.push_back(address = got.value());
    return {};
  }

  Status find_names();
  Status load_weights(const WeightSource& weights);
  Status load_plan(std::span<const std::byte> plan);
  Status make_arenas();
  void lay_out_step();
  Status check_tokens(std::span<const int32_t> tokens) const;
  Status check_fault();
};

// What the runtime needs to know by name.
Status Session::State::find_names() {
  for (const ManifestTensor& t : manifest.outputs) {
    if (t.name == "next") next = &t;
    if (t.name == "logits") logits = &t;
  }
  for (const ManifestSymbol& s : manifest.symbols) {
    if (s.name == "T") max_tokens = s.hi;
    if (s.name == "kv_len") context = s.hi;
  }
  const auto& in = manifest.inputs;
  if (!next || !logits || max_tokens < 1 || context < 1 || in.size() != 2 || in[0].name != "tokens" ||
      in[1].name != "positions" || next->bytes < sizeof(int32_t) * static_cast<uint64_t>(max_tokens) ||
      logits->bytes < sizeof(float) * manifest.vocab * static_cast<uint64_t>(max_tokens))
    return Error{
        "manifest: error: expected symbols T and kv_len, inputs tokens and positions, outputs next and "
        "logits"};
  return {};
}

Status Session::State::load_weights(const WeightSource& weights) {
  if (Status status = allocate(manifest.weight_bytes, session.weights); !status.ok()) return status;
  std::vector<std::byte> buffer;
  for (const ManifestWeight& w : manifest.weights) {
    buffer.resize(w.bytes);
    if (Status status = weights(w, buffer); !status.ok()) return status;
    if (Status status = device->write(session.weights + w.offset, buffer); !status.ok()) return status;
  }
  std::vector<float> table;
  for (const ManifestRope& r : manifest.ropes) {
    table.resize(r.positions * 2 * r.inv_freq.size());
    fill_rope(r, table);
    if (Status status = device->write(session.weights + r.offset, std::as_bytes(std::span(table)));
        !status.ok())
      return status;
  }
  return {};
}

Status Session::State::load_plan(std::span<const std::byte> plan) {
  if (Status status = check_plan(manifest, plan); !status.ok()) return status;
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

Status Session::State::make_arenas() {
  const uint64_t counter_bytes = uint64_t{2} * manifest.event_cells * sizeof(uint32_t);
  session.event_cells = manifest.event_cells;
  session.workers = manifest.workers;
  for (const auto& [bytes, address] : {std::pair{manifest.workspace_bytes, &session.workspace},
                                       {manifest.cache_bytes, &session.cache},
                                       {counter_bytes, &session.counters},
                                       {uint64_t{sizeof(MkFault)}, &session.fault},
                                       {uint64_t{sizeof(MkSession)}, &session_at},
                                       {uint64_t{step.size()}, &step_at}})
    if (Status status = allocate(bytes, *address); !status.ok()) return status;
  if (Status status = device->clear(session.counters, counter_bytes); !status.ok()) return status;
  if (Status status = device->clear(session.cache, manifest.cache_bytes); !status.ok()) return status;
  if (Status status = device->write(session.fault, bytes_of(MkFault{})); !status.ok()) return status;
  return device->write(session_at, bytes_of(session));
}

// MkStep and the inputs go to the device in one piece.
void Session::State::lay_out_step() {
  uint64_t end = align(sizeof(MkStep));
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    input_offset.push_back(end);
    end = align(end + sizeof(int32_t) * static_cast<uint64_t>(max_tokens));
  }
  step.resize(end);
}

Status Session::State::check_tokens(std::span<const int32_t> tokens) const {
  if (faulted) return Error{"step: error: the session had a fault and cannot go on"};
  if (tokens.empty() || tokens.size() > static_cast<uint64_t>(max_tokens))
    return Error{fmt::format("step: error: {} tokens, expected 1 to {}", tokens.size(), max_tokens)};
  if (tokens.size() > static_cast<uint64_t>(context - position))
    return Error{fmt::format("step: error: {} tokens at position {} exceed the context of {}", tokens.size(),
                             position, context)};
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || static_cast<uint64_t>(tokens[i]) >= manifest.vocab)
      return Error{fmt::format("step: error: token {} has the id {}, expected 0 to {}", i, tokens[i],
                               manifest.vocab - 1)};
  return {};
}

Status Session::State::check_fault() {
  MkFault fault;
  if (Status status = device->read(std::as_writable_bytes(std::span(&fault, 1)), session.fault); !status.ok())
    return status;
  if (fault.state == 0) return {};
  const auto named =
      std::find_if(manifest.events.begin(), manifest.events.end(), [&](const ManifestEvent& e) {
        return fault.cell >= e.first_cell && fault.cell - e.first_cell < e.cells;
      });
  const std::string event = named == manifest.events.end()
                                ? fmt::format("cell {}", fault.cell)
                                : fmt::format("{}[{}]", named->name, fault.cell - named->first_cell);
  const std::string grid =
      fault.grid < manifest.grids.size() ? manifest.grids[fault.grid] : fmt::format("grid {}", fault.grid);
  if (fault.cell == kRingCell)
    return Error{fmt::format(
        "{}: error: worker {} at task {}[{}] waited for stage {} of its ring beyond {} ms", device->name(),
        fault.worker, grid, fault.task, fault.seen, options.timeout_ns / 1'000'000)};
  return Error{
      fmt::format("{}: error: worker {} task {}[{}] waited for event {} beyond {} ms: seen {}, expected {}",
                  device->name(), fault.worker, grid, fault.task, event, options.timeout_ns / 1'000'000,
                  fault.seen, fault.expected)};
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::open(const Artefact& artefact, const Checkpoint& checkpoint,
                              const std::string& config_hash, Device& device, const SessionOptions& options) {
  if (artefact.manifest.config_hash != config_hash)
    return Error{fmt::format("{}/config.json: error: has the hash {}, the artefact was made for {}",
                             checkpoint.directory, config_hash, artefact.manifest.config_hash)};
  if (Status status = check_weights(artefact.manifest, checkpoint); !status.ok()) return status.error();
  const auto pack = [&](const ManifestWeight& w, std::span<std::byte> out) {
    pack_weight(w, checkpoint, out);
    return Status();
  };
  return open(artefact, pack, device, options);
}

Result<Session> Session::open(const Artefact& artefact, const WeightSource& weights, Device& device,
                              const SessionOptions& options) {
  auto state = std::make_unique<State>();
  State& s = *state;
  s.manifest = artefact.manifest;
  s.device = &device;
  s.options = options;
  if (Status status = s.find_names(); !status.ok()) return status.error();
  s.lay_out_step();
  if (Status status = device.load(artefact); !status.ok()) return status.error();
  if (Status status = s.load_weights(weights); !status.ok()) return status.error();
  if (Status status = s.load_plan(artefact.plan); !status.ok()) return status.error();
  if (Status status = s.make_arenas(); !status.ok()) return status.error();
  return Session(std::move(state));
}

const Manifest& Session::manifest() const {
  return state_->manifest;
}
uint32_t Session::max_tokens() const {
  return static_cast<uint32_t>(state_->max_tokens);
}
uint32_t Session::context() const {
  return static_cast<uint32_t>(state_->context);
}
uint32_t Session::position() const {
  return static_cast<uint32_t>(state_->position);
}

void Session::set_position(uint32_t position) {
  state_->position = position;
}

Result<int32_t> Session::step(std::span<const int32_t> tokens, float* logits) {
  State& s = *state_;
  if (Status status = s.check_tokens(tokens); !status.ok()) return status.error();
  const auto count = static_cast<int64_t>(tokens.size());
  MkStep step{};
  for (size_t i = 0; i < s.manifest.symbols.size(); ++i)
    step.symbol[i] = static_cast<int32_t>(s.manifest.symbols[i].name == "T" ? count : s.position + count);
  for (size_t i = 0; i < s.input_offset.size(); ++i) step.input[i] = s.step_at + s.input_offset[i];
  step.timeout_ns = s.options.timeout_ns;
  step.launch = s.launch++;
  std::memcpy(s.step.data(), &step, sizeof(step));
  for (int64_t i = 0; i < count; ++i) {
    const auto position = static_cast<int32_t>(s.position + i);
    const uint64_t at = static_cast<uint64_t>(i) * sizeof(int32_t);
    std::memcpy(s.step.data() + s.input_offset[0] + at, &tokens[static_cast<size_t>(i)], sizeof(int32_t));
    std::memcpy(s.step.data() + s.input_offset[1] + at, &position, sizeof(position));
  }
  if (Status status = s.device->write(s.step_at, s.step); !status.ok()) return status.error();
  s.faulted = true;  // until shown otherwise
  if (Status status = s.device->launch(s.session_at, s.step_at); !status.ok()) return status.error();
  if (Status status = s.check_fault(); !status.ok()) return status.error();
  const uint64_t rows = tokens.size();
  int32_t next = 0;
  Status read = s.device->read(std::as_writable_bytes(std::span(&next, 1)),
                               s.session.workspace + s.next->offset + (rows - 1) * sizeof(next));
  if (read.ok() && logits)
    read = s.device->read(std::as_writable_bytes(std::span(logits, rows * s.manifest.vocab)),
                          s.session.workspace + s.logits->offset);
  if (!read.ok()) return read.error();
  s.faulted = false;
  s.position += count;
  return next;
}

}  // namespace mkrt
