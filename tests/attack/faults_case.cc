#include "tests/attack/faults_case.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

namespace mkc::attack {
namespace {

using Kind = mkrt::Disturbance::Kind;
using Place = mkrt::Disturbance::Place;
using Until = mkrt::Disturbance::Until;

constexpr uint32_t kTurnScales = 14;  // scales of a delay in turns, each twice the one before
constexpr uint32_t kHuge = 0xfffffff0u;

class Dice {
 public:
  Dice(uint64_t seed, uint64_t number) {
    std::seed_seq both{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                       static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32)};
    random_.seed(both);
  }
  uint64_t below(uint64_t n) { return random_() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 random_;
};

uint64_t counted(const mkrt::Disturbed& launch, Place place) {
  return launch.counted[static_cast<size_t>(place)];
}

// Changes one of the words: by a bit, by 1, to 0, or to a value that no wait can expect.
void change(Dice& dice, mkrt::Disturbance& d) {
  switch (dice.below(5)) {
    case 0:
      d.flip = 1u << dice.below(dice.one_in(2) ? 4 : 32);
      break;
    case 1:
      d.add = 1;
      break;
    case 2:
      d.add = ~0u;
      break;
    case 3:
      d.keep = 0;
      break;
    default:
      d.keep = 0;
      d.flip = kHuge;
  }
}

uint32_t pick(Dice& dice, const std::vector<uint32_t>& of) {
  return of[dice.below(of.size())];
}

uint32_t pick_ticket_or_log(Dice& dice, const Fixture& fixture) {
  const uint64_t at = dice.below(fixture.tickets.size() + fixture.logs.size());
  return at < fixture.tickets.size() ? fixture.tickets[at] : fixture.logs[at - fixture.tickets.size()];
}

bool has_place(const Fixture& fixture, const FaultKind& kind, uint32_t launch) {
  const std::vector<Feed>& feeds = fixture.of.feeds;
  if (counted(fixture.counts[launch], kind.place) == 0) return false;
  switch (kind.word) {
    case ChangedWord::kNone:
    case ChangedWord::kCell:
      return true;
    case ChangedWord::kTicketOrLog:
      return !fixture.tickets.empty() || !fixture.logs.empty();
    case ChangedWord::kArrivals:  // nobody looks at arrivals in a launch of one step
      return fixture.counts.size() == feeds.size() && feeds[launch].samples > 1;
  }
  return false;
}

}  // namespace

const std::vector<FaultKind>& fault_kinds() {
  static const std::vector<FaultKind> kinds = {
      {"notification late", Kind::kDelay, Place::kNotification, Until::kTurns, FaultEnd::kSameBits},
      {"ticket late", Kind::kDelay, Place::kTicket, Until::kTurns, FaultEnd::kSameBits},
      {"store late", Kind::kDelay, Place::kStore, Until::kTurns, FaultEnd::kSameBits},
      {"copy late", Kind::kDelay, Place::kCopy, Until::kTurns, FaultEnd::kSameBits},
      {"worker stalled", Kind::kStall, Place::kMoment, Until::kTurns, FaultEnd::kSameBits},
      {"notification dropped", Kind::kDrop, Place::kNotification, Until::kTurns, FaultEnd::kEither},
      {"notification doubled", Kind::kDouble, Place::kNotification, Until::kTurns, FaultEnd::kError},
      {"notification past the deadline", Kind::kDelay, Place::kNotification, Until::kDeadline,
       FaultEnd::kEither},
      {"notification past the step", Kind::kDelay, Place::kNotification, Until::kStep, FaultEnd::kEither},
      {"ticket dropped", Kind::kDrop, Place::kTicket, Until::kTurns, FaultEnd::kEither},
      {"ticket doubled", Kind::kDouble, Place::kTicket, Until::kTurns, FaultEnd::kError},
      {"store dropped", Kind::kDrop, Place::kStore, Until::kTurns, FaultEnd::kEither},
      {"copy past the deadline", Kind::kDelay, Place::kCopy, Until::kDeadline, FaultEnd::kEither},
      {"copy lost", Kind::kDelay, Place::kCopy, Until::kStep, FaultEnd::kError},
      {"copy announced early", Kind::kEarly, Place::kCopy, Until::kTurns, FaultEnd::kEither},
      {"worker stalled past the deadline", Kind::kStall, Place::kMoment, Until::kDeadline, FaultEnd::kEither},
      {"worker missing", Kind::kStop, Place::kMoment, Until::kTurns, FaultEnd::kError, ChangedWord::kNone,
       true},
      {"worker stops", Kind::kStop, Place::kMoment, Until::kTurns, FaultEnd::kEither},
      {"event counter changed", Kind::kChange, Place::kMoment, Until::kTurns, FaultEnd::kEither,
       ChangedWord::kCell},
      {"ticket or log changed", Kind::kChange, Place::kMoment, Until::kTurns, FaultEnd::kEither,
       ChangedWord::kTicketOrLog},
      {"count of workers at a step's end changed", Kind::kChange, Place::kMoment, Until::kTurns,
       FaultEnd::kEither, ChangedWord::kArrivals},
  };
  return kinds;
}

FaultCase make_fault(const Fixture& fixture, uint64_t seed, uint64_t number) {
  Dice dice(seed, number);
  FaultCase c;
  mkrt::Disturbance& d = c.disturbance;
  do {
    c.kind = dice.below(fault_kinds().size());
    d.launch = static_cast<uint32_t>(dice.below(fixture.counts.size()));
  } while (!has_place(fixture, fault_kinds()[c.kind], d.launch));
  const FaultKind& kind = fault_kinds()[c.kind];
  d.kind = kind.kind;
  d.place = kind.place;
  d.until = kind.until;
  d.at = 1 + dice.below(counted(fixture.counts[d.launch], kind.place));
  d.turns = dice.below(2ull << dice.below(kTurnScales));
  d.worker = static_cast<uint32_t>(dice.below(static_cast<uint64_t>(fixture.of.setting.workers)));
  if (kind.from_the_start || (kind.kind == Kind::kStall && dice.one_in(4))) d.at = 0;
  if (kind.word != ChangedWord::kNone) {
    const uint32_t bank = dice.below(2) != 0 ? fixture.counters : 0;
    if (kind.word == ChangedWord::kCell) d.word = bank + pick(dice, fixture.cells);
    if (kind.word == ChangedWord::kTicketOrLog) d.word = bank + pick_ticket_or_log(dice, fixture);
    if (kind.word == ChangedWord::kArrivals) d.word = 2 * fixture.counters;
    change(dice, d);
  }
  // The race detector alone knows that bytes were not there, or that a cell was not complete whose number a
  // log got early.
  const bool in_log = kind.word == ChangedWord::kTicketOrLog &&
                      std::ranges::find(fixture.logs, d.word % fixture.counters) != fixture.logs.end();
  c.race = kind.kind == Kind::kEarly || in_log || dice.one_in(3);
  c.device_seed = dice.one_in(8) ? 0 : 1 + dice.below(1'000'000);
  return c;
}

std::string to_json(const FaultCase& c) {
  const mkrt::Disturbance& d = c.disturbance;
  return nlohmann::json{{"kind", fault_kinds()[c.kind].name},
                        {"race", c.race},
                        {"device_seed", c.device_seed},
                        {"launch", d.launch},
                        {"at", d.at},
                        {"turns", d.turns},
                        {"worker", d.worker},
                        {"word", d.word},
                        {"keep", d.keep},
                        {"flip", d.flip},
                        {"add", d.add}}
      .dump();
}

}  // namespace mkc::attack
