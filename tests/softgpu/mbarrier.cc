#include "tests/softgpu/mbarrier.h"

#include "tests/softgpu/address.h"
#include "tests/softgpu/forms.h"
#include "tests/softgpu/race.h"
#include "tests/softgpu/views.h"

namespace softgpu {
namespace {

constexpr uint32_t kMax = (1u << 20) - 1;  // greatest count of arrivals, and of bytes

Flow init(Warp& w, const Instruction& i, uint32_t lanes) {
  Machine& m = w.machine();
  Cta& cta = *w.cta;
  Addresses a = addresses_of(w, i, 0, 0, lanes);
  check_shared(w, i, a, lanes, 8);
  const uint32_t* count = w.at<uint32_t>(w.operand(i, 1));
  each_lane(lanes, [&](uint32_t l) {
    if (cta.holds_mbarrier[a.at[l] / 8]) m.fault(&w, &i, "the mbarrier is initialised already");
    if (count[l] == 0 || count[l] > kMax)
      m.fault(&w, &i, "an mbarrier of " + std::to_string(count[l]) + " arrivals");
    cta.holds_mbarrier[a.at[l] / 8] = 1;
    MBarrier b;
    b.pending = b.expected = count[l];
    cta.mbarriers[static_cast<uint32_t>(a.at[l])] = b;
    if (Race* race = cta.grid->race.get()) race->store(w, i, l, a.at[l], 8, true);
  });
  return Flow::kNext;
}

Flow invalidate(Warp& w, const Instruction& i, uint32_t lanes) {
  const Addresses a = addresses_of(w, i, 0, 0, lanes);
  each_lane(lanes, [&](uint32_t l) {
    const uint32_t offset = find_mbarrier(w, i, a.at[l]).second;
    w.cta->holds_mbarrier[offset / 8] = 0;
    w.cta->mbarriers.erase(offset);
  });
  return Flow::kNext;
}

// Executes mbarrier.arrive. `Counted`: the last operand is the number of arrivals. `Expects`: the last
// operand is the bytes that copies will bring.
template <bool Counted, bool Expects>
Flow arrive(Warp& w, const Instruction& i, uint32_t lanes) {
  Machine& m = w.machine();
  const Addresses a = addresses_of(w, i, 1, 0, lanes);
  const uint32_t* n = Counted || Expects ? w.at<uint32_t>(w.operand(i, 2)) : nullptr;
  uint64_t* state = w.at<uint64_t>(w.operand(i, 0));
  each_lane(lanes, [&](uint32_t l) {
    const auto [b, offset] = find_mbarrier(w, i, a.at[l]);
    if (n && n[l] > kMax) m.fault(&w, &i, std::to_string(n[l]) + " is more than an mbarrier counts");
    if (Race* race = w.cta->grid->race.get()) race->arrive(w, i, l, offset);
    state[l] = uint64_t{b->phase} << 63 | b->pending;
    b->gathered.join(known_to(w, l));
    change_mbarrier(*w.cta, offset, &w, &i, Expects ? static_cast<int32_t>(n[l]) : 0, Counted ? n[l] : 1);
  });
  return Flow::kYield;
}

// Sets a predicate to whether the phase of the given parity is over. `Suspends`: the lanes may wait for that
// a while.
template <bool Suspends>
Flow wait_parity(Warp& w, const Instruction& i, uint32_t lanes) {
  Machine& m = w.machine();
  const Addresses a = addresses_of(w, i, 1, 0, lanes);
  const uint32_t* parity = w.at<uint32_t>(w.operand(i, 2));
  uint32_t over = 0;
  std::map<uint32_t, uint32_t> seen;  // lanes whose phase is over, by mbarrier
  each_lane(lanes, [&](uint32_t l) {
    const auto [b, offset] = find_mbarrier(w, i, a.at[l]);
    if (parity[l] > 1) m.fault(&w, &i, "a parity of " + std::to_string(parity[l]));
    if (b->phase == parity[l]) return;
    over |= 1u << l;
    w.seen[l].join(b->done);
    if (w.cta->grid->race) seen[offset] |= 1u << l;
  });
  for (const auto& [offset, who] : seen) w.cta->grid->race->wait(w, i, who, offset);
  if (Suspends && over == 0 && m.draw(8) != 0) {
    m.sleep(w, 60);
    return Flow::kRetry;
  }
  write_predicate(w, w.operand(i, 0), lanes, over);
  return over == lanes ? Flow::kNext : Flow::kYield;
}

}  // namespace

std::pair<MBarrier*, uint32_t> find_mbarrier(const Warp& w, const Instruction& i, uint64_t address) {
  const uint64_t offset = address - kSharedBase;
  if (address % 8 == 0 && offset < w.cta->shared.size())
    if (const auto at = w.cta->mbarriers.find(static_cast<uint32_t>(offset)); at != w.cta->mbarriers.end())
      return {&at->second, at->first};
  w.machine().fault(&w, &i, "no mbarrier at shared address " + hex(address));
}

void show_mbarriers(Cta& cta) {
  for (auto& [offset, b] : cta.mbarriers) b.fenced = true;
}

void change_mbarrier(Cta& cta, uint32_t offset, const Warp* w, const Instruction* i, int32_t bytes,
                     uint32_t arrivals) {
  Machine& m = *cta.grid->machine;
  MBarrier& b = cta.mbarriers.at(offset);
  b.bytes += bytes;
  if (b.bytes > static_cast<int32_t>(kMax) || b.bytes < -static_cast<int32_t>(kMax))
    m.fault(w, i, "an mbarrier that expects " + std::to_string(b.bytes) + " bytes");
  if (arrivals > b.pending)
    m.fault(w, i,
            std::to_string(arrivals) + " arrivals at an mbarrier that expects " + std::to_string(b.pending));
  b.pending -= arrivals;
  if (b.pending != 0 || b.bytes != 0) return;
  b.phase ^= 1;
  b.pending = b.expected;
  b.done = b.gathered;
  if (Race* race = cta.grid->race.get()) race->end_phase(cta, offset);
}

void add_mbarrier_forms(Forms& f) {
  for (const std::string space : {"shared", "shared::cta"}) {
    f["mbarrier.init." + space + ".b64"] = {init, "=aw"};
    f["mbarrier.inval." + space + ".b64"] = {invalidate, "=a"};
    f["mbarrier.arrive." + space + ".b64"] = {arrive<false, false>, "d=a"};
    f["mbarrier.arrive." + space + ".b64 counted"] = {arrive<true, false>, "d=aw"};
    f["mbarrier.arrive.expect_tx." + space + ".b64"] = {arrive<false, true>, "d=aw"};
    f["mbarrier.test_wait.parity." + space + ".b64"] = {wait_parity<false>, "p=aw"};
    f["mbarrier.try_wait.parity." + space + ".b64"] = {wait_parity<true>, "p=aw"};
  }
  const Execute fence_init = [](Warp& w, const Instruction&, uint32_t) {
    show_mbarriers(*w.cta);
    return Flow::kNext;
  };
  f["fence.mbarrier_init.release.cluster"] = {fence_init, "="};
}

}  // namespace softgpu
