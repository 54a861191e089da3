// The simulated stream brings tiles into the rings, and records why it stands still.
#include <algorithm>

#include "scheduler/simulate/simulate_engine.h"

namespace mkc {

bool Simulator::may_issue(uint32_t w) const {
  if (runs_ahead_) return true;
  const Consumer& c = consumers_[w];
  if (c.phase <= Consumer::kWait) return false;
  const uint32_t block_end = m_.is_processor() ? c.task + c.block - c.place : c.task + 1;
  return c.task <= loaders_[w].task && loaders_[w].task < block_end;
}

void Simulator::issue_tiles(uint32_t w) {
  Loader& l = loaders_[w];
  while (!l.done && !l.for_event && !l.for_ticket && !l.for_told && l.taken < step_.schedule->ring.stages) {
    if (l.work.tiles == 0 || l.pass == l.work.passes) {
      l.done = l.walk.done();
      if (l.done) return;
      if (l.walk.at(step_).claimed) {
        claim_for_loader(w);
        continue;
      }
      l.begin(l.walk.take(step_), works_);
      l.for_event = begin_lookup(w);
      continue;
    }
    if (!may_issue(w)) return;
    const bool last = l.tile + 1 == l.work.tiles;
    l.issued.push_back({l.task, l.work.tile_bytes(l.tile), l.pass > 0 || !l.work.cold});
    ++l.taken;
    l.free_ns = std::max(l.free_ns, now_ns_) + l.work.issue_ns;
    read_later(Timer::kTile, w, l.free_ns);
    l.tile = last ? 0 : l.tile + 1;
    if (last) ++l.pass;
  }
}

// Returns false where there is nothing to wait for.
bool Simulator::begin_lookup(uint32_t w) {
  const uint32_t cell = lookup_cell_[step_.grid_of[loaders_[w].task].index];
  if (cell == kNone) return false;
  if (missing_[cell] > 0) {
    lookups_[cell].push_back(w);
    return true;
  }
  const double seen_ns = result_.tasks[completed_by_[cell]].end_ns + notified_ns(cell) - now_ns_;
  set_timer(now_ns_ + std::max(m_.poll_ns, seen_ns), Timer::kLoader, w);
  return true;
}

void Simulator::begin_tile(uint32_t w) {
  Loader& l = loaders_[w];
  if (l.arriving || l.begun == 0) return;
  l.arriving = true;
  l.since_ns = now_ns_;
  const Tile& tile = l.issued.front();
  (tile.again ? l2_ : memory_).begin(now_ns_, w, tile.bytes);
  if (!tile.again) ++reads_[w];
}

void Simulator::end_tile(uint32_t w) {
  Loader& l = loaders_[w];
  const Tile tile = l.issued.front();
  if (!tile.again) --reads_[w];
  if (options_.stream) add_span(w, tile);
  l.issued.pop_front();
  l.arriving = false;
  --l.begun;
  ++l.filled;
  begin_tile(w);
  if (consumers_[w].for_stage) resume(w);
}

void Simulator::add_span(uint32_t w, const Tile& tile) {
  std::vector<StreamSpan>& spans = result_.stream;
  const double begin_ns = loaders_[w].since_ns;
  if (span_[w] < spans.size() && spans[span_[w]].task == tile.task && spans[span_[w]].end_ns == begin_ns) {
    spans[span_[w]].end_ns = now_ns_;
    return;
  }
  span_[w] = spans.size();
  spans.push_back({w, tile.task, begin_ns, now_ns_});
}

IdleCause Simulator::idle_cause(uint32_t w) const {
  const Loader& l = loaders_[w];
  if (now_ns_ < ramp_ns_) return IdleCause::kRamp;
  if (l.arriving) return IdleCause::kReread;
  if (l.for_ticket || (!l.issued.empty() && l.filled == 0)) return IdleCause::kLatency;
  if (l.done && l.issued.empty()) return IdleCause::kTail;
  if (l.for_event) return IdleCause::kLookup;
  return consumers_[w].for_event ? IdleCause::kEvent : IdleCause::kConsumers;
}

void Simulator::note_stream(uint32_t w) {
  const uint8_t state = reads_[w] > 0 ? kFlows : static_cast<uint8_t>(idle_cause(w));
  --stream_count_[stream_[w]];
  ++stream_count_[state];
  stream_[w] = state;
}

// The reads in progress leave a part of the ceiling unused. Workers without a read lose that part, in equal
// shares.
void Simulator::pass_time(double to_ns) {
  if (memory_.reads() != share_of_reads_) {
    share_of_reads_ = memory_.reads();
    share_ = std::min(1.0, memory_.bytes_per_ns() / m_.stream_bytes_per_ns);
  }
  const double passed_ns = to_ns - now_ns_, lost_ns = passed_ns * (1 - share_);
  flowed_ns_ += passed_ns * share_;
  now_ns_ = to_ns;
  if (lost_ns == 0) return;
  const uint32_t idle = workers() - stream_count_[kFlows];
  for (size_t cause = 0; cause < kIdleCauses && idle > 0; ++cause)
    if (stream_count_[cause] > 0) result_.idle_ns[cause] += lost_ns * stream_count_[cause] / idle;
  if (idle == 0) result_.idle_ns[static_cast<size_t>(IdleCause::kWorker)] += lost_ns;
}

}  // namespace mkc
