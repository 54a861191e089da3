#include "tools/traced_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "codegen/targets.h"
#include "ir/text.h"
#include "runtime/base/file.h"
#include "tools/artefact.h"
#include "tools/native.h"

namespace mkc {
namespace {

constexpr size_t kMaxTraceBytes = size_t{1} << 30;

Result<mkrt::Trace> read_trace(const std::string& file) {
  const mkrt::Result<std::string> text = mkrt::read_text(file, kMaxTraceBytes);
  if (!text.ok()) return text.error();
  return mkrt::parse_trace(text.value(), file);
}

// Checks that the trace is of code that mkc makes. Error: an unknown target.
Status check_target(const mkrt::Trace& trace, const std::string& file) {
  if (trace.target == kEmulator || find_target(trace.target).ok()) return {};
  std::vector<std::string> names{kEmulator};
  for (const Target& target : targets()) names.emplace_back(target.name);
  return Error{fmt::format("{}: error: target: found {}, expected one of {}", file,
                           spell_string(trace.target), fmt::join(names, ", "))};
}

Result<Compilation> compile_for_trace(ModelRequest request, const mkrt::Trace& trace, bool batch_invariant) {
  request.options.target = trace.target;
  request.options.batch_invariant = batch_invariant;
  Result<Compilation> opened = open_model(request, false);
  if (!opened.ok()) return opened.error();
  if (Status status = run_passes(opened.value()); !status.ok()) return status.error();
  return opened;
}

// Compiles the model to the schedule that was traced. Error: the schedule is another one.
Result<Compilation> compile_again(const ModelRequest& model, const mkrt::Trace& trace,
                                  const std::string& file) {
  // Without the option, mkc run makes a batch-invariant schedule and mkc compile makes another one.
  const std::optional<bool> asked = model.options.batch_invariant;
  std::string found;
  for (const bool batch_invariant : {true, false}) {
    if (asked && *asked != batch_invariant) continue;
    Result<Compilation> opened = compile_for_trace(model, trace, batch_invariant);
    if (!opened.ok()) return opened;
    found = identify(opened.value()).schedule_hash;
    if (found == trace.schedule_hash) return opened;
  }
  return Error{fmt::format("{}: error: is of a {} with schedule {}, found {} for {} by these options", file,
                           trace.model, trace.schedule_hash, found, model.model)};
}

// Returns the requests of the traced step. Errors: more or longer requests than the schedule allows.
Result<std::vector<StepRequest>> requests_of(const mkrt::Trace& trace, const Symbols& symbols,
                                             const std::string& file) {
  std::vector<StepRequest> requests;
  int64_t tokens = 0;
  const StepSymbols step = step_symbols(symbols);
  const auto max = [&](SymbolId id) { return symbols[id].bounds.hi; };
  const auto check = [&](const std::string& key, const char* what, int64_t value, int64_t limit) -> Status {
    if (value >= 1 && value <= limit) return {};
    return Error{fmt::format("{}: error: {}: found {}{}, expected 1 to {}", file, key, value, what, limit)};
  };
  MKC_TRY_STATUS(check("requests", " requests", std::ssize(trace.requests), max(step.requests)));
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const auto& [rows, kv_len] = trace.requests[i];
    MKC_TRY_STATUS(check(fmt::format("requests[{}].kv_len", i), "", kv_len, max(step.kv_len)));
    MKC_TRY_STATUS(check(fmt::format("requests[{}].rows", i), "", rows, kv_len));
    requests.push_back({rows, kv_len});
    tokens += rows;
  }
  MKC_TRY_STATUS(check("requests", " tokens", tokens, max(step.tokens)));
  return requests;
}

// Times divides the time of consumers by purpose, in microseconds, as the mean of all workers.
struct Times {
  double all = 0, events = 0, ring = 0;
  std::map<BodyKind, double> work;
};

Times times_of(const Timeline& timeline, const TaskProgram& program) {
  Times times;
  for (const TimelineSpan& span : timeline.spans) {
    times.all = std::max(times.all, span.end_us);
    const double us = (span.end_us - span.begin_us) / timeline.workers;
    if (span.loader) continue;
    const double ring_us = span.ring_us / timeline.workers;
    times.ring += ring_us;
    (span.waits ? times.events : times.work[program.grids[span.grid].body]) += us - ring_us;
  }
  return times;
}

}  // namespace

Result<TracedStep> traced_step(const ModelRequest& model, const std::string& file) {
  Result<mkrt::Trace> trace = read_trace(file);
  if (!trace.ok()) return trace.error();
  MKC_TRY_STATUS(check_target(trace.value(), file));
  Result<Compilation> compilation = compile_again(model, trace.value(), file);
  if (!compilation.ok()) return compilation.error();
  auto requests = requests_of(trace.value(), compilation.value().schedule().program.symbols, file);
  if (!requests.ok()) return requests.error();
  Result<SimulatedStep> step =
      simulate_step(std::move(compilation.value()), requests.value(), {.stream = true});
  if (!step.ok()) return step.error();
  return TracedStep{std::move(trace.value()), std::move(step.value())};
}

uint32_t lost_stamps(const mkrt::Trace& trace) {
  return std::accumulate(trace.tracks.begin(), trace.tracks.end(), 0u,
                         [](uint32_t sum, const mkrt::TraceTrack& t) { return sum + t.lost; });
}

std::vector<PurposeTime> purpose_times(const Timeline& found, const Timeline& predicted,
                                       const TaskProgram& program) {
  const Times a = times_of(found, program), b = times_of(predicted, program);
  std::vector<PurposeTime> rows{
      {"all", a.all, b.all}, {"events", a.events, b.events}, {"ring", a.ring, b.ring}};
  for (const auto& [body, us] : b.work) {
    const auto at = a.work.find(body);
    rows.push_back({body_name(body), at == a.work.end() ? 0 : at->second, us});
  }
  return rows;
}

}  // namespace mkc
