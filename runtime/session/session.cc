#include "runtime/session/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/file.h"
#include "runtime/session/fault.h"
#include "runtime/session/session_state.h"

namespace mkrt {
namespace {

Error out_of_order(std::string message) {
  return {std::move(message), ErrorKind::kOutOfOrder};
}

Error is_under_way() {
  return out_of_order("step: error: a step is under way: end it first");
}

// Returns the status of work on the device, whose errors are faults.
Status of_device(const Status& status) {
  if (status.ok() || status.error().kind != ErrorKind::kInvalid) return status;
  return Error{status.error().message, ErrorKind::kFault};
}

Error has_faulted() {
  return {"step: error: the session had a fault and cannot go on", ErrorKind::kFault};
}

Error cannot_capture(const Device& device) {
  return {fmt::format("step: error: the device {} has no streams: no step can be captured", device.name())};
}

// Steps that are begun and ended apart leave no logits to read in between.
Status check_unscored(const Batch& batch) {
  if (batch.scored.empty()) return {};
  return Error{
      fmt::format("step: error: scored: found {} rows, expected none but in step()", batch.scored.size())};
}

}  // namespace

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const Manifest& Session::manifest() const {
  return state_->manifest;
}
const BatchLimits& Session::limits() const {
  return state_->limits;
}

const WeightsReport& Session::weights() const {
  return state_->weights;
}

Status Session::use_cache(const CacheOptions& options) {
  if (state_->begun != state_->ended) return is_under_way();
  if (state_->captured.settled())
    return out_of_order("cache: error: a graph has a step of the session: it cannot take another cache");
  if (Status status = state_->make_cache(options); !status.ok()) return status;
  state_->position = 0;
  Status status = state_->make_step();
  state_->faulted = state_->faulted || !status.ok();
  return status;
}

Status Session::use_scales(std::span<const float> scales) {
  if (state_->begun != state_->ended) return is_under_way();
  if (Status status = check_scales(state_->manifest, scales); !status.ok()) return status;
  state_->position = 0;
  return state_->settle(state_->scales_at, std::as_bytes(scales));
}

Status Session::set_stream(uint64_t stream) {
  if (state_->begun != state_->ended) return is_under_way();
  if (stream != 0 && !state_->device->has_streams())
    return Error{fmt::format("stream: error: found {:#x}, expected 0: the device {} has no streams", stream,
                             state_->device->name())};
  state_->options.stream = stream;
  return {};
}

void Session::set_timeout(uint64_t timeout_ns) {
  state_->options.timeout_ns = timeout_ns;
}

uint32_t Session::position() const {
  return static_cast<uint32_t>(state_->position);
}

void Session::set_position(uint32_t position) {
  state_->position = position;
}

// Returns the parts of a MkStep that do not lie in the launch's memory.
MkStep Session::State::step_of(const Batch& batch) {
  MkStep out{};
  for (size_t i = 0; i < manifest.symbols.size(); ++i) {
    const std::string& name = manifest.symbols[i].name;
    const bool rows = name == kTokensSymbol || (name == kLogitRowsSymbol && batch.all_logits);
    const bool requests = name == kRequestsSymbol || (name == kLogitRowsSymbol && !batch.all_logits);
    if (rows) out.symbol[i] = static_cast<int32_t>(batch.tokens.size());
    if (requests) out.symbol[i] = static_cast<int32_t>(batch.requests());
  }
  out.timeout_ns = options.timeout_ns;
  out.serial = serial;
  return out;
}

Status Session::State::check_step(const Batch& batch) {
  if (faulted) return has_faulted();
  if (begun - ended == kMaxUnderWay)
    return out_of_order(fmt::format("step: error: {} steps are under way: end one first", kMaxUnderWay));
  if (begun != ended && (several_steps || batch.steps() > 1))
    return out_of_order("step: error: beside a launch of several steps there can be no other: end it first");
  return check_batch(batch, limits, seen, sampled);
}

void Session::State::has_begun(StepMemory& step, const Batch& batch) {
  under_way[begun++ % kMaxUnderWay] = &step;
  several_steps = batch.steps() > 1;
  sampled.clear();
  for (size_t b = 0; b < batch.requests() && next && !several_steps; ++b)
    sampled.push_back(batch.samples_of(b).limit == 1);
  if (!several_steps) ++serial;  // the number of several steps is known when they end
  if (!manifest.traced) return;
  traced.clear();
  for (size_t b = 0; b < batch.requests(); ++b)
    traced.push_back({batch.row_begin[b + 1] - batch.row_begin[b], batch.kv_len[b]});
}

Status Session::State::begin(const Batch& batch) {
  StepMemory& step = steps[taken % kMaxUnderWay];
  if (Status status = step.fill(batch, step_of(batch)); !status.ok()) return status;
  if (Status status = step.enqueue(options.stream, session_at, next ? next_at() : 0); !status.ok()) {
    faulted = true;  // the stream may have some of the work
    return of_device(status);
  }
  ++taken;
  has_begun(step, batch);
  return {};
}

Status Session::State::end(StepResult& result) {
  StepMemory& step = *under_way[ended++ % kMaxUnderWay];
  Status status = step.wait(options.stream);
  if (status.ok()) status = check_fault(step.fault(), manifest, device->name(), options.timeout_ns);
  if (status.ok()) status = step.read(result);
  faulted = faulted || !status.ok();
  if (status.ok() && several_steps) serial += result.steps;
  result.scored.clear();
  return of_device(status);
}

// Reads the logits of each scored row after its step has ended.
Status Session::State::score(const Batch& batch, StepResult& result) {
  scored_logits.resize(batch.scored.empty() ? 0 : manifest.vocab);
  const std::span<std::byte> row = std::as_writable_bytes(std::span(scored_logits));
  for (const ScoredRow& of : batch.scored) {
    Status status = device->read(row, logits_at() + static_cast<uint64_t>(of.row) * row.size());
    faulted = faulted || !status.ok();
    if (!status.ok()) return status;
    const uint32_t top = std::min<uint32_t>(of.top, limits.vocab);
    result.scored.push_back(to_abi(mkrt::score(scored_logits, of.id, top)));
  }
  return {};
}

Status Session::begin_step(const Batch& batch) {
  State& s = *state_;
  if (s.device->capturing(s.options.stream))
    return out_of_order("step: error: the stream is being captured: a step is put there by capture_step");
  if (Status status = check_unscored(batch); !status.ok()) return status;
  if (Status status = s.check_step(batch); !status.ok()) return status;
  return s.begin(batch);
}

Status Session::capture_step(const Samples& max) {
  State& s = *state_;
  if (!s.device->has_streams()) return cannot_capture(*s.device);
  if (!s.device->capturing(s.options.stream))
    return out_of_order("step: error: the stream is not being captured");
  if (Status status = s.captured.settle(max); !status.ok()) return status;
  return s.captured.enqueue(s.options.stream, s.session_at, 0);
}

Status Session::fill_step(const Batch& batch) {
  State& s = *state_;
  if (!s.device->has_streams()) return cannot_capture(*s.device);
  if (!s.captured.settled()) return out_of_order("step: error: no step was captured");
  if (Status status = check_unscored(batch); !status.ok()) return status;
  if (Status status = s.check_step(batch); !status.ok()) return status;
  if (s.begun != s.ended && s.under_way[s.ended % kMaxUnderWay] == &s.captured) return is_under_way();
  if (std::ranges::any_of(batch.tokens, [](int32_t token) { return token < 0; }))
    return Error{"step: error: tokens: a captured step takes ids, found the sample of the step before"};
  if (Status status = s.captured.fill(batch, s.step_of(batch)); !status.ok()) return status;
  s.has_begun(s.captured, batch);
  return {};
}

Status Session::end_step(StepResult& result) {
  State& s = *state_;
  if (s.begun == s.ended) return out_of_order("step: error: no step is under way");
  return s.end(result);
}

bool Session::has_step_under_way() const {
  return state_->begun != state_->ended;
}

uint64_t Session::logits_address() const {
  return state_->logits_at();
}

Status Session::read_tensor(const std::string& name, std::span<std::byte> to) const {
  const State& s = *state_;
  if (s.begun != s.ended) return is_under_way();
  for (const auto* tensors : {&s.manifest.tensors, &s.manifest.outputs})
    for (const ManifestTensor& t : *tensors) {
      if (t.name != name) continue;
      if (to.size() > t.bytes)
        return Error{
            fmt::format("tensor {}: error: has {} bytes, {} are asked for", name, t.bytes, to.size())};
      return s.device->read(to, s.session.workspace + t.offset);
    }
  return Error{fmt::format("tensor {}: error: the model has none of this name", name)};
}

Result<Trace> Session::read_trace() const {
  const State& s = *state_;
  if (!s.manifest.traced) return Error{"trace: error: the kernel stamps none: compile it with --trace"};
  if (s.begun != s.ended) return is_under_way();
  std::vector<std::byte> memory(trace_bytes(s.manifest.workers, s.session.trace_stamps));
  if (Status status = s.device->read(memory, s.session.trace); !status.ok()) return status.error();
  return make_trace(s.manifest, s.device->name(), s.traced, s.session.trace_stamps, memory);
}

Status Session::write_trace(const std::string& path) const {
  const Result<Trace> trace = read_trace();
  if (!trace.ok()) return trace.error();
  const std::string text = to_json(trace.value()) + "\n";
  return write_file(path, std::as_bytes(std::span(text)));
}

Status Session::step(const Batch& given, StepResult& result, float* logits) {
  State& s = *state_;
  Batch batch = given;
  batch.all_logits |= logits != nullptr || !batch.scored.empty();
  if (s.begun != s.ended) return is_under_way();
  if (Status status = s.check_step(batch); !status.ok()) return status;
  for (size_t b = 0; b < batch.samples.size() && logits; ++b)
    if (batch.samples[b].limit > 1)
      return Error{
          fmt::format("step: error: request {}: limit: found {}, expected 0 or 1 where logits are read", b,
                      batch.samples[b].limit)};
  if (Status status = s.begin(batch); !status.ok()) return status;
  if (Status status = s.end(result); !status.ok()) return status;
  if (Status status = s.score(batch, result); !status.ok() || !logits) return status;
  const std::span<float> rows(logits, batch.tokens.size() * s.manifest.vocab);
  Status status = s.device->read(std::as_writable_bytes(rows), s.logits_at());
  s.faulted = s.faulted || !status.ok();
  return status;
}

Status Session::step(std::span<const int32_t> tokens, const Samples& samples, StepResult& result,
                     float* logits) {
  State& s = *state_;
  if (s.faulted) return has_faulted();
  const auto count = static_cast<int64_t>(tokens.size());
  if (tokens.empty() || tokens.size() > s.limits.max_tokens)
    return Error{fmt::format("step: error: {} tokens, expected 1 to {}", count, s.limits.max_tokens)};
  if (count > static_cast<int64_t>(s.limits.context) - s.position)
    return Error{fmt::format("step: error: {} tokens at position {} exceed the context of {}", count,
                             s.position, s.limits.context)};
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || static_cast<uint64_t>(tokens[i]) >= s.manifest.vocab)
      return Error{fmt::format("step: error: token {} has the id {}, expected 0 to {}", i, tokens[i],
                               s.manifest.vocab - 1)};
  const int32_t row_begin[] = {0, static_cast<int32_t>(count)};
  const auto kv_len = static_cast<int32_t>(s.position + count);
  const int32_t page_begin[] = {0, static_cast<int32_t>(s.all_pages.size())};
  const Batch batch{tokens, row_begin, {&kv_len, 1}, {page_begin, s.all_pages}, {&samples, 1}};
  if (Status status = step(batch, result, logits); !status.ok()) return status;
  s.position += count + (result.ids.empty() ? 0 : static_cast<int64_t>(result.ids.size()) - 1);
  return {};
}

Result<int32_t> Session::step(std::span<const int32_t> tokens, float* logits) {
  StepResult& result = state_->own_result;
  if (Status status = step(tokens, Samples{}, result, logits); !status.ok()) return status.error();
  if (result.ids.empty()) return Error{"step: error: the kernel has sampled nothing"};
  return result.ids[0];
}

}  // namespace mkrt
