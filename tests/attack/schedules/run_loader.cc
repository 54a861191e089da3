#include <fmt/format.h>

#include <algorithm>

#include "tests/attack/schedules/finding.h"
#include "tests/attack/schedules/run.h"
#include "tests/attack/schedules/stages.h"

namespace mkc::attack {
namespace {

constexpr const char* kFull = "for its consumers";
constexpr size_t kHanded = 16;  // tasks that a loader claims ahead of its consumers, at most

}  // namespace

bool Run::draws_by_loader(GridId id) const {
  return p_.s.placements[id.index].kind == PlacementKind::kQueue && streams(grid(id));
}

// Returns the stages of a segment whose tasks are not claimed.
int64_t Run::static_stages(uint32_t w, GridId id, const Segment& segment) const {
  auto [first, end] = share(w, id, segment);
  end = std::min(end, p_.tasks[id.index].count);
  const bool blocks = multiplies(grid(id)) && grid(id).body != BodyKind::kExpert;
  int64_t taken = 0;
  std::vector<int64_t> coords;
  for (int64_t task = first, count; task < end; task += count) {
    count = blocks ? std::min(end - task, max_strips(p_.s, p_.step, grid(id))) : 1;
    if (grid(id).body == BodyKind::kSplitKPartial) {
      const int64_t strips = p_.tasks[id.index].within(1);
      count = std::min(count, strips - task % strips);
    }
    p_.tasks[id.index].coords_of(task, coords);
    taken += stages_of(p_.s, p_.step, grid(id), coords, count).taken;
  }
  return taken;
}

// A ring with fewer stages than the tasks hold at once never fills them all.
void Run::require_stages(GridId id, const std::vector<int64_t>& tasks) {
  if (!streams(grid(id))) return;
  std::vector<int64_t> coords;
  p_.tasks[id.index].coords_of(tasks.front(), coords);
  const Stages stages = stages_of(p_.s, p_.step, grid(id), coords, static_cast<int64_t>(tasks.size()));
  if (stages.held > p_.s.ring.stages)
    throw Finding{"ring", fmt::format("%{} holds {} stages at once, the ring has {}, at {}", grid(id).name,
                                      stages.held, p_.s.ring.stages, to_text(p_.step))};
}

// Returns whether the loader brings what comes next for the consumers. The loader then goes on as they free
// stages. False: the consumers are blocked.
bool Run::wait_ring(uint32_t w, GridId id) {
  if (!loads_ || !streams(grid(id))) return true;
  const Loader& loader = loaders_[w];
  const bool claimed = p_.s.placements[id.index].kind == PlacementKind::kReady;
  const bool there = claimed ? loader.segment >= consumers_[w].segment : loader.issued > loader.freed;
  if (!there) consumers_[w].blocked = {kNone, "for its loader"};
  return there;
}

void Run::free_stages(uint32_t w, GridId id, const std::vector<int64_t>& tasks) {
  if (!loads_ || !streams(grid(id))) return;
  std::vector<int64_t> coords;
  p_.tasks[id.index].coords_of(tasks.front(), coords);
  Loader& loader = loaders_[w];
  loader.freed += stages_of(p_.s, p_.step, grid(id), coords, static_cast<int64_t>(tasks.size())).taken;
  const int64_t behind = loader.freed - loader.issued;
  if (behind > 0) loader.issued += behind, loader.left = std::max<int64_t>(0, loader.left - behind);
  if (draws_by_loader(id)) loader.handed.pop_front();
  wake_loader(w);
}

void Run::wake_loader(uint32_t w) {
  Loader& loader = loaders_[w];
  if (loader.blocked.why != kFull) return;
  loader.blocked.why.clear();
  ready_.push_back(workers_ + w);
}

void Run::wake_consumer(uint32_t w) {
  Worker& c = consumers_[w];
  if (c.blocked.counter != kNone || c.blocked.why.empty()) return;
  c.blocked.why.clear();
  ready_.push_back(w);
}

void Run::step_loader(uint32_t w) {
  Loader& loader = loaders_[w];
  const std::vector<Segment>& stream = p_.s.streams[w];
  while (loader.segment < stream.size()) {
    const GridId id = stream[loader.segment].grid;
    const PlacementKind kind = p_.s.placements[id.index].kind;
    const bool serves = streams(grid(id)) && kind != PlacementKind::kInline;
    if (serves && kind == PlacementKind::kReady && consumers_[w].segment <= loader.segment)
      return wake_consumer(w), void(loader.blocked = {kNone, kFull});  // its consumers claim the tasks
    if (serves && kind != PlacementKind::kReady && !load_segment(w, id)) return;
    loader.begun = false;
    ++loader.segment;
  }
}

// Returns false where the loader is blocked or goes on later.
bool Run::load_segment(uint32_t w, GridId id) {
  Loader& loader = loaders_[w];
  if (!loader.begun) {
    std::vector<uint32_t> unseen(workers_ + 1, 0);
    if (!look_up(unseen, loader.blocked, id)) {
      block(workers_ + w, loader.blocked.counter);
      return false;
    }
    loader.begun = true;
    loader.left = draws_by_loader(id) ? 0 : static_stages(w, id, p_.s.streams[w][loader.segment]);
  }
  for (;;) {
    const int64_t room = p_.s.ring.stages - (loader.issued - loader.freed), now = std::min(room, loader.left);
    loader.issued += now, loader.left -= now;
    if (now > 0) wake_consumer(w);
    if (loader.left > 0 || (draws_by_loader(id) && loader.handed.size() >= kHanded)) {
      loader.blocked = {kNone, kFull};
      return false;
    }
    if (!draws_by_loader(id)) return true;
    const int64_t task = take_ticket(id);
    const bool over = task >= p_.tasks[id.index].count;
    loader.handed.push_back(over ? -1 : task);
    wake_consumer(w);
    if (over) return true;
    std::vector<int64_t> coords;
    p_.tasks[id.index].coords_of(task, coords);
    loader.left = stages_of(p_.s, p_.step, grid(id), coords, 1).taken;
    ready_.push_back(workers_ + w);  // other workers claim in the meantime
    return false;
  }
}

}  // namespace mkc::attack
