// Copies from global to shared memory are asynchronous (PTX ISA, "cp.async", "cp.async.bulk").
//
// A copy reads its source when it completes: some turns after its issue, and in any order. The parts of a
// bulk copy complete one by one. The destination holds NaN until then.
#include <algorithm>

#include "tests/softgpu/address.h"
#include "tests/softgpu/forms.h"
#include "tests/softgpu/mbarrier.h"
#include "tests/softgpu/race.h"
#include "tests/softgpu/views.h"

namespace softgpu {
namespace {

void check_destination(Warp& w, const Instruction& i, uint64_t offset, uint32_t bytes) {
  const Cta& cta = *w.cta;
  if (offset >= cta.shared.size() || bytes > cta.shared.size() - offset)
    w.machine().fault(&w, &i, "the destination is outside of shared memory");
  for (uint64_t at = offset / 8; at < (offset + bytes + 7) / 8; ++at)
    if (cta.holds_mbarrier[at]) w.machine().fault(&w, &i, "the destination holds an mbarrier");
}

void issue_bulk(Warp& w, const Instruction& i, uint32_t l, uint64_t to, uint64_t from, uint32_t bytes,
                uint64_t barrier) {
  Machine& m = w.machine();
  Cta& cta = *w.cta;
  const auto [b, mbarrier] = find_mbarrier(w, i, barrier);
  if (!b->fenced) m.fault(&w, &i, "no fence.mbarrier_init behind the initialisation of its mbarrier");
  if ((to | from | bytes) % 16 != 0 || bytes == 0)
    m.fault(
        &w, &i,
        std::to_string(bytes) + " bytes from " + hex(from) + " to " + hex(to) + ": expected multiples of 16");
  const uint64_t offset = to - kSharedBase;
  check_destination(w, i, offset, bytes);
  if (!m.memory.find(from, bytes))
    m.fault(&w, &i, "illegal address " + hex(from) + " of " + std::to_string(bytes) + " bytes");
  if (Race* race = cta.grid->race.get()) race->issue_bulk(w, i, l, offset, from, bytes, mbarrier);
  std::fill_n(cta.shared.begin() + static_cast<int64_t>(offset), bytes, uint8_t{0xff});
  ++m.statistics.bulk_copies;
  for (uint32_t done = 0; done < bytes;) {
    const uint32_t piece = std::min(bytes - done, 16 * (1 + m.draw(512)));
    m.begin_copy({Copy::What::kBulk, &cta, &w, l, static_cast<uint32_t>(offset) + done, piece, mbarrier,
                  from + done, 0});
    done += piece;
  }
}

// kPolicy is what createpolicy returns. PTX leaves the value opaque, so it is one that nobody makes by other
// means.
constexpr uint64_t kPolicy = 0x12f0c0de00000000;

template <bool HasPolicy>
Flow bulk(Warp& w, const Instruction& i, uint32_t lanes) {
  if constexpr (HasPolicy) {
    const uint64_t* policy = w.at<uint64_t>(w.operand(i, 4));
    each_lane(lanes, [&](uint32_t l) {
      if (policy[l] != kPolicy) w.machine().fault(&w, &i, "a cache policy that createpolicy did not make");
    });
  }
  const Addresses to = addresses_of(w, i, 0, 0, lanes), from = addresses_of(w, i, 1, 1, lanes),
                  barrier = addresses_of(w, i, 3, 2, lanes);
  const uint32_t* bytes = w.at<uint32_t>(w.operand(i, 2));
  each_lane(lanes, [&](uint32_t l) { issue_bulk(w, i, l, to.at[l], from.at[l], bytes[l], barrier.at[l]); });
  return Flow::kNext;
}

Flow copy16(Warp& w, const Instruction& i, uint32_t lanes) {
  Machine& m = w.machine();
  Cta& cta = *w.cta;
  Addresses to = addresses_of(w, i, 0, 0, lanes), from = addresses_of(w, i, 1, 1, lanes);
  if (*w.at<uint32_t>(w.operand(i, 2)) != 16) m.fault(&w, &i, "cp.async.cg copies 16 bytes");
  check_shared(w, i, to, lanes, 16);
  check_global(w, i, from, lanes, 16);
  each_lane(lanes, [&](uint32_t l) {
    check_destination(w, i, to.at[l], 16);
    if (Race* race = cta.grid->race.get()) race->issue_async(w, i, l, to.at[l], from.at[l]);
    std::fill_n(cta.shared.begin() + static_cast<int64_t>(to.at[l]), 16, uint8_t{0xff});
    ++w.async_copies[l];
    ++m.statistics.async_copies;
    m.begin_copy({Copy::What::kAsync, &cta, &w, l, static_cast<uint32_t>(to.at[l]), 16, 0, from.at[l],
                  w.seen[l].memory});
  });
  return Flow::kNext;
}

// The pending count grows by one now. An arrival follows once none of the lane's copies is under way.
Flow arrive_after_copies(Warp& w, const Instruction& i, uint32_t lanes) {
  Machine& m = w.machine();
  const Addresses a = addresses_of(w, i, 0, 0, lanes);
  each_lane(lanes, [&](uint32_t l) {
    const auto [b, offset] = find_mbarrier(w, i, a.at[l]);
    if (++b->pending >= 1u << 20) m.fault(&w, &i, "more pending arrivals than an mbarrier counts");
    if (Race* race = w.cta->grid->race.get()) race->arrive_async(w, i, l, offset);
    m.begin_copy({Copy::What::kArrive, w.cta, &w, l, 0, 0, offset, 0, 0});
  });
  return Flow::kNext;
}

}  // namespace

void Machine::finish(const Copy& c) {
  Cta& cta = *c.cta;
  if (c.what == Copy::What::kArrive) {
    if (c.warp->async_copies[c.lane] != 0) {
      copies_.emplace(turns_ + 1 + draw(settings.copy_turns), c);
      return;
    }
    --cta.copies;
    change_mbarrier(cta, c.mbarrier, c.warp, nullptr, 0, 1);
    return;
  }
  --cta.copies;
  if (!memory.find(c.from, c.bytes)) fault(c.warp, nullptr, "the source of a copy was freed under it");
  uint8_t* to = cta.shared.data() + c.to;
  if (c.what == Copy::What::kBulk) {
    // The async proxy does not see stores that still wait in the CTA's buffer.
    std::memcpy(to, reinterpret_cast<const void*>(c.from), c.bytes);
    if (Race* race = cta.grid->race.get()) race->end_bulk(cta, c.mbarrier);
    change_mbarrier(cta, c.mbarrier, c.warp, nullptr, -static_cast<int32_t>(c.bytes), 0);
  } else {
    read_memory(cta, c.view, c.from, c.bytes, to);
    --c.warp->async_copies[c.lane];
  }
}

void add_copy_forms(Forms& f) {
  for (const char* destination : {"shared::cta", "shared::cluster"}) {
    const std::string name =
        std::string("cp.async.bulk.") + destination + ".global.mbarrier::complete_tx::bytes";
    f[name] = {bulk<false>, "=aawa"};
    f[name + ".L2::cache_hint"] = {bulk<true>, "=aawad"};
  }
  const Execute make_policy = [](Warp& w, const Instruction& i, uint32_t lanes) {
    uint64_t* to = w.at<uint64_t>(w.operand(i, 0));
    each_lane(lanes, [&](uint32_t l) { to[l] = kPolicy; });
    return Flow::kNext;
  };
  for (const char* priority : {"evict_first", "evict_last", "evict_normal", "evict_unchanged"})
    f[std::string("createpolicy.fractional.L2::") + priority + ".b64"] = {make_policy, "d="};
  f["cp.async.cg.shared.global"] = f["cp.async.cg.shared::cta.global"] = {copy16, "=aan"};
  f["cp.async.mbarrier.arrive.shared.b64"] = {arrive_after_copies, "=a"};
}

}  // namespace softgpu
