#include <doctest/doctest.h>
#include <fmt/format.h>

#include "codegen/kinds.h"
#include "tests/stress/mutants.h"

namespace mkc::test {
namespace {

// Returns a mutant for each kind. The edit applies to the scaffold's calls of `callee` while a worker runs
// the kind's first grid.
std::vector<Mutant> at_each_kind(const Schedule& s, const std::string& name, const std::string& callee,
                                 const CallEdit& edit, const std::vector<const char*>& caught,
                                 bool in_some_orders = false) {
  std::vector<Mutant> mutants;
  for (const GridId id : find_kinds(s).first) {
    const TaskGrid& grid = s.program.grids[id];
    if (s.placements[id.index].kind == PlacementKind::kInline) continue;
    if ((callee == "mkd_wait" ? grid.waits.empty() : grid.notifies.empty())) continue;
    mutants.push_back({fmt::format("{}, {}", name, grid.name),
                       {{"mk_kernel", callee, kEvery, edit, id.index}},
                       caught,
                       in_some_orders});
  }
  REQUIRE(mutants.size() >= 8);  // the kinds of a layer and of the model's ends
  return mutants;
}

// Returns mutants that notify a cell behind the event's cells. A cell of the event itself may be one that the
// step does not use.
std::vector<Mutant> wrong_cells(const Schedule& s) {
  std::vector<Mutant> mutants =
      at_each_kind(s, "notification of the wrong cell", "mkd_notify", drop, {kRace, kFault});
  for (Mutant& mutant : mutants) {
    SiteEdit& site = mutant.edits[0];
    const EventId event = s.program.grids[GridId{site.grid}].notifies[0].event;
    site.edit = add_to(1, static_cast<int>(max_cells(s.program, event)));
  }
  return mutants;
}

}  // namespace

std::vector<Mutant> ring_mutants() {
  const std::string begin = "mkd_begin", release = "release_stage", acquire = "acquire_stage";
  return {
      {"release without warp sync", {{release, "mk_warp_sync", 0, drop}}, {kWriteTooEarly}},
      {"release before the reads",
       {{"10drain_mma8I", acquire, kEvery, followed_by(release)}, {"10drain_mma8I", release, kEvery, drop}},
       {kWriteTooEarly}},
      {"no release", {{release, "mk_mbar_arrive", 0, drop}}, {kStuck, kDeadlock, kFault}},
      {"release twice",
       {{release, "mk_mbar_arrive", 0, twice}},
       {kRace, kStuck, kDeadlock, kExtraArrival, kFault}},
      {"no wait for a full stage",
       {{acquire, "wait_phase", 0, drop}},
       {kRace, kExtraArrival, kNotAwaited, kCrash}},
      {"wait for the wrong phase",
       {{acquire, "wait_phase", 0, flip(2)}},
       {kStuck, kDeadlock, kRace, kExtraArrival, kNotAwaited, kCrash}},
      {"no barrier after initialisation", {{begin, "mk_barrier", 0, drop}}, {kRace, "no mbarrier"}},
      {"full barriers miss an arrival", {{begin, "mk_mbar_init", 0, add_to(1, 1)}}, {kStuck, kDeadlock}},
      {"empty barriers miss an arrival",
       {{begin, "mk_mbar_init", 1, add_to(1, 1)}},
       {kStuck, kDeadlock, kFault}},
      {"empty barriers complete early", {{begin, "mk_mbar_init", 1, add_to(1, -1)}}, {kWriteTooEarly}},
      {"one stage too many", {{"mk_kernel", begin, 0, add_to(3, 1)}}, {kOutside}},
  };
}

std::vector<Mutant> segment_mutants() {
  const std::string begin = "mkd_segment_begin", bring = "5bringI";
  return {
      {"a segment is not awaited",
       {{begin, "await_brought", 0, drop}},
       {kRace, kDiverged, kCrash, kNotAwaited}},
      {"no barrier between segments", {{begin, "consumer_barrier", 0, drop}}, {kRace, kDeadlock, kCrash}},
      {"the segment ahead is not brought", {{begin, bring, 0, drop}}, {kStuck, kDeadlock}},
      {"the segment ahead arrives before its bytes",
       {{bring, "mk_async_arrive", kEvery, drop}},
       {kRace, kDiverged, kCrash, kDeadlock}},
      {"the launch ends while a segment is under way",
       {{"mkd_segments_end", "await_brought", 0, drop}},
       {kStuck, kNotAwaited, kRace}},
  };
}

std::vector<Mutant> bulk_copy_mutants() {
  const std::string begin = "4Bulk5begin", copy = "4Bulk4copy";
  return {
      {"no wait for a free stage",
       {{"10fill_stageINS_4Bulk", "wait_free_stage", kEvery, always_true}},
       {kExtraArrival, kWriteTooEarly, kStuck}},
      {"no fence after initialisation",
       {{"mkd_begin", "mk_fence_mbar_init", 0, drop}},
       {"before mk_fence_mbar_init"}},
      {"expect too many bytes", {{begin, "mk_mbar_expect", 0, add_to(1, 16)}}, {kStuck, kDeadlock}},
      {"expect too few bytes", {{begin, "mk_mbar_expect", 0, add_to(1, -16)}}, {kStuck, kDeadlock}},
      {"load too many bytes", {{copy, "mk_bulk_load", 0, add_to(2, 16)}}, {kStuck, kDeadlock}},
      {"load too few bytes", {{copy, "mk_bulk_load", 0, add_to(2, -16)}}, {kStuck, kDeadlock}},
  };
}

std::vector<Mutant> warpgroup_mutants() {
  const std::string drain = "11drain_wgmmaI", lend = "10lend_stage", release = "release_stage";
  return {
      {"no proxy fence", {{drain, "mk_fence_proxy_async", 0, drop}}, {kRace}},
      {"no barrier before the product", {{drain, "consumer_barrier", 0, drop}}, {kRace}},
      {"no wait for the product", {{drain, "mk_wgmma_wait", kEvery, drop}}, {kRace, kWrong}},
      {"a stage is lent before it is free",
       {{lend, "wait_free_stage", 0, always_true}},
       {kRace, kExtraArrival, kStuck},
       true},
      {"a stage is not lent", {{lend, "mk_mbar_arrive", 0, drop}}, {kStuck, kDeadlock}},
      {"stages released before they are used",
       {{drain, "acquire_stage", kEvery, followed_by(release)}, {drain, release, kEvery, drop}},
       {kRace}},
  };
}

std::vector<Mutant> pass_mutants() {
  return {
      {"activations in the place of the sums before",
       {{"14multiply_mma64I", "consumer_barrier", kEvery, drop}},
       {kWriteTooEarly, kReadTooEarly}},
  };
}

std::vector<Mutant> async_copy_mutants() {
  const std::string end = "5Async3end";
  return {
      {"no wait for a free stage",
       {{"10fill_stageINS_5Async", "wait_free_stage", kEvery, always_true}},
       {kRace, kStuck, kDeadlock}},
      {"no arrival", {{end, "mk_async_arrive", 0, drop}}, {kRace, kNotAwaited}},
      {"arrival before the bytes",
       {{end, "mk_async_arrive", 0, call_instead("mk_mbar_arrive")}},
       {kReadTooEarly, kNotAwaited}},
      {"the leading lane does not arrive", {{end, "mk_mbar_arrive", 0, drop}}, {kStuck, kDeadlock}},
  };
}

std::vector<Mutant> event_mutants() {
  const std::string last = "mkd_notify_last", barrier = "consumer_barrier";
  return {
      {"relaxed notification", {{"mkd_release", "mk_fence_release", 0, drop}}, {kReadTooEarly}},
      {"relaxed poll", {{"poll", "mk_load_acquire", 0, call_instead("mk_load_relaxed")}}, {kReadTooEarly}},
      {"relaxed last arrival", {{last, "mk_add_acq_rel", 0, relax_add}}, {kReadTooEarly}},
      {"last arrival does not acquire", {{last, "mk_add_acq_rel", 0, release_only}}, {kReadTooEarly}},
      {"last arrival does not release", {{last, "mk_add_acq_rel", 0, acquire_only}}, {kReadTooEarly}},
      {"combine starts too early", {{"mk_kernel", last, 0, add_to(2, -1)}}, {kReadTooEarly, kFault}},
      {"combine never starts", {{"mk_kernel", last, 0, add_to(2, 1)}}, {kFault, kMiscounted}},
      {"last arrival at the wrong cell", {{"mk_kernel", last, 0, halve(1)}}, {kRace, kFault}},
      {"counters are not cleared",
       {{"mkd_step_begin", "mk_worker", 0, add_to_result(1 << 20)}},
       {kReadTooEarly, kFault}},
      {"no barrier after a wait", {{"mkd_wait", barrier, 0, drop}}, {kReadTooEarly}},
      {"no barrier after the last arrival", {{last, barrier, 0, drop}}, {kReadTooEarly, kWriteTooEarly}},
  };
}

// Returns mutants of the way from one step of a launch to the next. Two are left out, as no access here would
// show them. The barrier before a step's end is not needed here, as each last task ends with a barrier. The
// wait for the loader is not needed either, as the loader has what it needs of a step before consumers can
// end the step.
std::vector<Mutant> step_mutants() {
  const std::string next = "mkd_next_step", make = "9make_step", load = "mkd_loader_next_step",
                    barrier = "consumer_barrier", arrive = "mk_add_acq_rel";
  const std::vector<const char*> early = {kReadTooEarly, kWriteTooEarly};
  std::vector<Mutant> mutants = {
      {"the last arrival is not told", {{next, barrier, 1, drop}}, {kRace, kDeadlock, kCrash}},
      {"no wait for the next step", {{next, "4poll", 0, drop}}, {kReadTooEarly, kRace, kCrash}},
      {"no barrier after that wait",
       {{next, barrier, 2, drop}},
       {kReadTooEarly, kWriteTooEarly, kDeadlock, kCrash}},
      {"a worker is not waited for", {{next, arrive, 0, add_to_result(1)}}, {kRace, kFault, kCrash}, true},
      {"the step is made under its readers", {{make, barrier, 0, drop}}, early},
      {"the step begins before it is made", {{make, barrier, 1, drop}}, {kReadTooEarly}},
      {"relaxed arrival", {{next, arrive, 0, relax_add}}, early},
      {"arrival does not acquire", {{next, arrive, 0, release_only}}, early},
      {"arrival does not release", {{next, arrive, 0, acquire_only}}, early},
      {"no arrival", {{next, arrive, 0, drop}}, {kNoStep}},
      {"the step never begins", {{make, "mk_store_release", 0, drop}}, {kNoStep}},
      {"the bank stays the same", {{"mkd_step_begin", "8use_bank", 0, drop}}, {kRace, kFault, kCrash}},
      {"the loader's symbols are those of more tokens",
       {{load, "4join", 1, always_true}},
       {kStuck, kDeadlock, kRace, kCrash}},
      {"the loader ends no step", {{load, "mk_mbar_arrive", 0, drop}}, {kStuck}},
  };
  return mutants;
}

std::vector<Mutant> ticket_mutants() {
  const std::string logged = "mkd_notify_logged", queued = "mkd_next_queued", handed = "mkd_next_handed";
  return {
      {"every task is claimed twice", {{queued, "take_ticket", 0, halve_result}}, {kRace, kFault}, true},
      {"every other task is claimed", {{"take_ticket", "mk_add_relaxed", 0, twice}}, {kFault}},
      {"no barrier before the claimed task is known",
       {{"tell_all", "consumer_barrier", 0, drop}},
       {kReadTooEarly, kWriteTooEarly, kDeadlock, kDiverged}},
      {"a cell is entered before it is complete",
       {{"mk_kernel", logged, kEvery, add_to(3, -1)}},
       {kReadTooEarly, kRace},
       true},
      {"a cell is never entered", {{"mk_kernel", logged, kEvery, add_to(3, 1)}}, {kFault}},
      {"the completing notification acquires nothing",
       {{logged, "mk_add_acq_rel", 0, release_only}},
       {kReadTooEarly},
       true},
      {"notifications release nothing", {{logged, "mk_add_acq_rel", 0, acquire_only}}, {kReadTooEarly}, true},
      {"an entry releases nothing", {{logged, "mk_store_release", 0, relax_store}}, {kReadTooEarly}, true},
      {"all entries are one", {{logged, "mk_add_relaxed", 0, drop}}, {kFault}},
      {"a log has one entry too few", {{"mk_kernel", logged, kEvery, add_to(4, -1)}}, {kRace, kFault}},
      {"the other cell is entered", {{"mk_kernel", logged, kEvery, flip(5)}}, {kReadTooEarly}, true},
      {"tickets and logs of an older launch count",
       {{"mkd_step_begin", "mk_worker", 0, add_to_result(1 << 20)}},
       {kMiscounted}},
      {"no wait for the task handed over", {{handed, "wait_phase", 0, drop}}, {kRace, kDeadlock}},
      {"a word for tasks is never free",
       {{handed, "mk_mbar_arrive", 0, drop}},
       {kNotHanded, kStuck, kDeadlock}},
      {"no task is handed back",
       {{"mkd_hand_back", "mk_mbar_arrive", 0, drop}},
       {kNotHanded, kStuck, kDeadlock}},
      {"a word for tasks that are handed back is never free",
       {{"mkd_next_handed_back", "mk_mbar_arrive", 0, drop}},
       {kNotHanded, kStuck, kDeadlock}},
      {"no task is handed over", {{"mkd_hand_over", "mk_mbar_arrive", 0, drop}}, {kNotHanded}},
  };
}

std::vector<Mutant> body_mutants() {
  const std::string barrier = "consumer_barrier", sync = "mk_warp_sync",
                    attend = "attend_query_tileINS_4Bf16", put = "8put_rowsINS_4Bf16",
                    places = "11find_places";
  return {
      {"embed: sums of squares", {{"store_sum_squares", barrier, 0, drop}}, {kReadTooEarly, kWriteTooEarly}},
      {"product: partial sums", {{"epilogue_of_sumsILj4ELj512E", barrier, 0, drop}}, {kReadTooEarly}},
      {"product: values of the strip", {{"epilogue_of_sumsILj4ELj512E", barrier, 1, drop}}, {kReadTooEarly}},
      {"product of 16 tokens: stages",
       {{"11drain_mma32I", "acquire_stage", kEvery, drop}},
       {kRace, kNotAwaited}},
      {"product of 16 tokens: partial sums",
       {{"epilogue_of_sumsILj1ELj256E", barrier, 0, drop}},
       {kReadTooEarly}},
      {"product of 16 tokens: values of the strip",
       {{"epilogue_of_sumsILj1ELj256E", barrier, 1, drop}},
       {kReadTooEarly}},
      {"product of 16 tokens: sums of the strip before",
       {{"14multiply_mma32I", barrier, kEvery, drop}},
       {kWriteTooEarly}},
      {"product of 64 tokens: activations", {{"14drain_k_slicesI", barrier, kEvery, drop}}, {kReadTooEarly}},
      {"product of 64 tokens: stages",
       {{"14drain_k_slicesI", "acquire_stage", kEvery, drop}},
       {kRace, kCrash}},
      {"product of 64 tokens: activations in the place of sums",
       {{"11drain_mma64I", barrier, kEvery, drop}},
       {kWriteTooEarly}},
      {"product of 64 tokens: sums of the warp", {{"13warp_epilogueILj16E", sync, 0, drop}}, {kReadTooEarly}},
      {"product of 64 tokens: a warp's place", {{"13warp_epilogueILj16E", sync, 1, drop}}, {kWriteTooEarly}},
      {"draw: the warps' greatest", {{"8greatest", barrier, 1, drop}}, {kReadTooEarly}},
      {"attend: keys and queries", {{attend, barrier, 0, drop}}, {kReadTooEarly}},
      {"attend: greatest scores of the warps", {{attend, barrier, 1, drop}}, {kReadTooEarly}},
      {"attend: sums of the warps", {{attend, barrier, 2, drop}}, {kReadTooEarly}},
      {"attend: addresses of rows", {{put, sync, 0, drop}}, {kReadTooEarly, kWriteTooEarly, kCrash}},
      {"attend: rows of the step", {{"9take_rowsINS_4Bf16", sync, 0, drop}}, {kReadTooEarly}},
      {"attend: no fence behind rows", {{"release_written_stage", "mk_fence_proxy_async", 0, drop}}, {kRace}},
      {"attend: places not found yet", {{places, sync, 0, drop}}, {kReadTooEarly}},
      {"lists before they are made",
       {{"mkd_await_lists", "wait_free", 0, always_true}},
       {kReadTooEarly, kCrash}},
      {"lists that nobody makes",
       {{"mkd_lists_made", "mk_mbar_arrive", 0, drop}},
       {kStuck, kDeadlock, kFault}},
  };
}

// Returns no mutant after which workers disagree on what a route found. Loaders would then wait for consumers
// that are gone.
std::vector<Mutant> lookup_mutants() {
  const std::string look_up = "mkd_look_up", barrier = "consumer_barrier", route = "mkb_route";
  const std::vector<const char*> early = {kReadTooEarly, kWriteTooEarly};
  return {
      {"no barrier after a lookup",
       {{look_up, barrier, 0, drop}},
       {kReadTooEarly, kOutside, kDeadlock, kCrash}},
      {"route: choices", {{route, barrier, 1, drop}}, early},
      {"route: where rows begin", {{route, barrier, 3, drop}}, early},
      {"experts: rows of an active expert",
       {{"mkb_expert_rows", barrier, 0, drop}},
       {kReadTooEarly, kWriteTooEarly, kDeadlock}},
  };
}

// Returns mutants that show only after a fault.
std::vector<Mutant> fault_mutants() {
  using mkrt::Disturbance;
  const SiteEdit fault{"mkd_wait", "4poll", 0, fault_at_once};
  Disturbance late, dropped;
  late.kind = Disturbance::Kind::kDelay, late.place = Disturbance::Place::kBulkCopy, late.at = 1;
  late.until = Disturbance::Until::kStep;
  dropped.kind = Disturbance::Kind::kDrop, dropped.at = 1;
  return {
      {"workers exit under copies",
       {fault, {"mk_kernel", "mkd_loader_end", 0, drop}},
       {kNotAwaited},
       true,
       late},
      {"no deadline", {{"gives_up", "mk_time_ns", 0, drop}}, {kDeadlock}, false, dropped},
  };
}

// Waits expect half as many notifications here, not one less. The last notifications of a block come
// together, so that one less would be no bug.
std::vector<Mutant> site_mutants(const Schedule& s) {
  const std::vector<const char*> early = {kReadTooEarly, kWriteTooEarly}, wrong = {kRace, kFault};
  std::vector<Mutant> all;
  for (std::vector<Mutant>& mutants :
       std::vector{at_each_kind(s, "no wait", "mkd_wait", drop, early),
                   at_each_kind(s, "wait for half as many", "mkd_wait", halve(2), {kRace}, true),
                   at_each_kind(s, "wait for one more", "mkd_wait", add_to(2, 1), {kFault}),
                   at_each_kind(s, "wait at the wrong cell", "mkd_wait", add_to(1, 1), wrong),
                   at_each_kind(s, "no notification", "mkd_notify", drop, {kFault}),
                   at_each_kind(s, "notification twice", "mkd_notify", twice, wrong, true), wrong_cells(s),
                   at_each_kind(s, "no barrier before notifications", "mkd_barrier", drop, early)})
    std::move(mutants.begin(), mutants.end(), std::back_inserter(all));
  return all;
}

}  // namespace mkc::test
