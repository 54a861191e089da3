// Warps compare (PTX ISA, "setp") and exchange values between lanes ("shfl.sync", "vote.sync").
#include <cmath>

#include "tests/softgpu/forms.h"
#include "tests/softgpu/views.h"

namespace softgpu {
namespace {

// Ordered comparisons with NaN are false. Unordered ones (`.equ` and so on) are true.
template <class T>
void add_comparisons(Forms& f, const std::string& type) {
  f["setp.eq." + type] = map<+[](T a, T b) { return a == b; }>();
  f["setp.ne." + type] = map<+[](T a, T b) { return a < b || a > b; }>();
  f["setp.lt." + type] = map<+[](T a, T b) { return a < b; }>();
  f["setp.le." + type] = map<+[](T a, T b) { return a <= b; }>();
  f["setp.gt." + type] = map<+[](T a, T b) { return a > b; }>();
  f["setp.ge." + type] = map<+[](T a, T b) { return a >= b; }>();
}

void add_unordered(Forms& f) {
  f["setp.equ.f32"] = map<+[](float a, float b) { return !(a < b || a > b); }>();
  f["setp.neu.f32"] = map<+[](float a, float b) { return !(a == b); }>();
  f["setp.ltu.f32"] = map<+[](float a, float b) { return !(a >= b); }>();
  f["setp.leu.f32"] = map<+[](float a, float b) { return !(a > b); }>();
  f["setp.gtu.f32"] = map<+[](float a, float b) { return !(a <= b); }>();
  f["setp.geu.f32"] = map<+[](float a, float b) { return !(a < b); }>();
  f["setp.num.f32"] = map<+[](float a, float b) { return !std::isnan(a) && !std::isnan(b); }>();
  f["setp.nan.f32"] = map<+[](float a, float b) { return std::isnan(a) || std::isnan(b); }>();
}

void check_members(Warp& w, const Instruction& i, uint32_t lanes, uint32_t members) {
  if (members != lanes)
    w.machine().fault(&w, &i, "member mask " + hex(members) + ", but lanes " + hex(lanes) + " execute it");
}

enum class Shuffle { kUp, kDown, kButterfly, kIndex };

// Operand `c` bounds the segment: the clamp in bits 0 to 4, the mask of segments in bits 8 to 12.
template <Shuffle Mode>
Flow shuffle(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint32_t *a = w.at<uint32_t>(w.operand(i, 1)), *b = w.at<uint32_t>(w.operand(i, 2)),
                 *c = w.at<uint32_t>(w.operand(i, 3)), *members = w.at<uint32_t>(w.operand(i, 4));
  uint32_t out[32];
  each_lane(lanes, [&](uint32_t l) {
    check_members(w, i, lanes, members[l]);
    const uint32_t by = b[l] & 31, clamp = c[l] & 31, segment = c[l] >> 8 & 31;
    const uint32_t last = (l & segment) | (clamp & ~segment), first = l & segment;
    uint32_t from = l;
    if constexpr (Mode == Shuffle::kUp)
      from = static_cast<int32_t>(l - by) >= static_cast<int32_t>(last) ? l - by : l;
    if constexpr (Mode == Shuffle::kDown) from = l + by <= last ? l + by : l;
    if constexpr (Mode == Shuffle::kButterfly) from = (l ^ by) <= last ? l ^ by : l;
    if constexpr (Mode == Shuffle::kIndex)
      from = (first | (by & ~segment)) <= last ? first | (by & ~segment) : l;
    if (!(lanes >> from & 1))
      w.machine().fault(
          &w, &i,
          "lane " + std::to_string(l) + " reads lane " + std::to_string(from) + ", which does not take part");
    out[l] = a[from];
  });
  write_lanes(w, w.operand(i, 0), lanes, out);
  return Flow::kNext;
}

enum class Vote { kAny, kAll, kBallot };

template <Vote Mode>
Flow vote(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint32_t votes = *w.at<uint32_t>(w.operand(i, 1)) & lanes;
  check_members(w, i, lanes, *w.at<uint32_t>(w.operand(i, 2)));
  if constexpr (Mode == Vote::kBallot) {
    uint32_t out[32];
    each_lane(lanes, [&](uint32_t l) { out[l] = votes; });
    write_lanes(w, w.operand(i, 0), lanes, out);
  } else {
    const bool holds = Mode == Vote::kAny ? votes != 0 : votes == lanes;
    write_predicate(w, w.operand(i, 0), lanes, holds ? ~0u : 0);
  }
  return Flow::kNext;
}

Flow sync_warp(Warp& w, const Instruction& i, uint32_t lanes) {
  check_members(w, i, lanes, *w.at<uint32_t>(w.operand(i, 0)));
  join_warp(w, lanes);
  return Flow::kNext;
}

Flow read_timer(Warp& w, const Instruction& i, uint32_t lanes) {
  uint64_t out[32];
  each_lane(lanes, [&](uint32_t l) { out[l] = w.machine().time_ns(); });
  write_lanes(w, w.operand(i, 0), lanes, out);
  return Flow::kNext;
}

// The clock of the multiprocessors stands still while no warp takes a turn, as the timer does.
Flow read_clock(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint64_t mhz = w.machine().settings.said("clock_mhz", 1000);
  uint64_t out[32];
  each_lane(lanes, [&](uint32_t l) { out[l] = w.machine().time_ns() * mhz / 1000; });
  write_lanes(w, w.operand(i, 0), lanes, out);
  return Flow::kNext;
}

}  // namespace

void add_compare_forms(Forms& f) {
  add_comparisons<uint16_t>(f, "u16");
  add_comparisons<int16_t>(f, "s16");
  add_comparisons<uint32_t>(f, "u32");
  add_comparisons<int32_t>(f, "s32");
  add_comparisons<uint64_t>(f, "u64");
  add_comparisons<int64_t>(f, "s64");
  add_comparisons<float>(f, "f32");
  add_unordered(f);
  for (const char* cmp : {"eq", "ne"})
    for (const char* bits : {"16", "32", "64"})
      f[std::string("setp.") + cmp + ".b" + bits] = f[std::string("setp.") + cmp + ".u" + bits];
}

void add_warp_forms(Forms& f) {
  f["shfl.sync.up.b32"] = {shuffle<Shuffle::kUp>, "w=wwww", true};
  f["shfl.sync.down.b32"] = {shuffle<Shuffle::kDown>, "w=wwww", true};
  f["shfl.sync.bfly.b32"] = {shuffle<Shuffle::kButterfly>, "w=wwww", true};
  f["shfl.sync.idx.b32"] = {shuffle<Shuffle::kIndex>, "w=wwww", true};
  f["vote.sync.any.pred"] = {vote<Vote::kAny>, "p=pw", true};
  f["vote.sync.all.pred"] = {vote<Vote::kAll>, "p=pw", true};
  f["vote.sync.ballot.b32"] = {vote<Vote::kBallot>, "w=pw", true};
  f["bar.warp.sync"] = {sync_warp, "=w", true};
  f["mov.u64 %globaltimer"] = {read_timer, "d="};
  f["mov.u64 %clock64"] = {read_clock, "d="};
}

}  // namespace softgpu
