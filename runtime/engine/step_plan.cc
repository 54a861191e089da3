#include "runtime/engine/step_plan.h"

#include <algorithm>

namespace mkrt {
namespace {

// Planner plans one step.
class Planner {
 public:
  Planner(Roster& roster, PagePool& pool, const StepRules& rules)
      : running_(roster.running), waiting_(roster.waiting), pool_(pool), rules_(rules) {}

  // Preempts the last running requests until the pages that the others are sure to get are available.
  // Returns how many.
  Result<uint32_t> preempt() {
    for (const Sequence& request : running_) reserved_ += missing_pages(request);
    uint32_t preempted = 0;
    for (; reserved_ > pool_.available(); ++preempted) {
      Sequence& last = running_.back();
      reserved_ -= missing_pages(last);
      if (Status status = forget(last, pool_); !status.ok()) return status.error();
      waiting_.emplace(last.order, std::move(last));
      running_.pop_back();
    }
    return preempted;
  }

  // Gives a row to every request that decodes, and none to the others.
  Status plan_decodes() {
    for (Sequence& request : running_) {
      request.rows = 0;
      if (!request.decodes()) continue;
      if (Status status = extend(request, 1); !status.ok()) return status;
      --rows_;
    }
    return {};
  }

  // Shares out the rows left over, in the order of the requests.
  Status plan_prompts() {
    size_t at = 0;  // those before it have rows
    for (bool admits = true; rows_ > 0;) {
      while (at < running_.size() && running_[at].rows > 0) ++at;
      const bool admits_next = admits && !waiting_.empty() &&
                               (at == running_.size() || waiting_.begin()->first < running_[at].order);
      if (admits_next) {
        admits = admit(at);
        continue;
      }
      if (at == running_.size()) return {};
      if (Status status = extend(running_[at], rows_); !status.ok()) return status;
      rows_ -= running_[at].rows;
    }
    return {};
  }

 private:
  // Returns how many pages the pool keeps for a request that does not have them yet.
  uint64_t missing_pages(const Sequence& request) const {
    const uint64_t positions =
        rules_.preemption == Preemption::kNone ? request.longest : request.tokens.size();
    return pages_for(positions, pool_.page_size()) - request.pages.size();
  }

  // Makes the first waiting request a running one, and sets `at` to its index. Returns false if there is no
  // place or no pages for it.
  bool admit(size_t& at) {
    // Every request that decodes must get a row, so no more run than there are rows.
    if (running_.size() == std::min(rules_.max_requests, rules_.max_tokens)) return false;
    const uint64_t missing = missing_pages(waiting_.begin()->second);
    if (reserved_ + missing > pool_.available()) return false;
    reserved_ += missing;
    Sequence first = std::move(waiting_.extract(waiting_.begin()).mapped());
    const auto to = std::ranges::upper_bound(running_, first.order, {}, &Sequence::order);
    at = static_cast<size_t>(to - running_.begin());
    running_.insert(to, std::move(first));
    return true;
  }

  // Gives a request at most `rows` rows, and the pages for them.
  Status extend(Sequence& request, uint32_t rows) {
    request.rows = std::min(request.pending(), rows);
    const uint64_t pages = pages_for(uint64_t{request.fed} + request.rows, pool_.page_size());
    const uint64_t further = pages - request.pages.size();
    reserved_ -= further;
    return pool_.allocate(further, request.pages);
  }

  std::vector<Sequence>& running_;
  std::map<Order, Sequence>& waiting_;
  PagePool& pool_;
  const StepRules& rules_;
  uint64_t reserved_ = 0;  // pages that running requests are sure to get
  uint32_t rows_ = rules_.max_tokens;
};

}  // namespace

Status run_ahead(Sequence& request, uint32_t positions, PagePool& pool) {
  const uint64_t pages = pages_for(uint64_t{request.fed} + request.rows + positions, pool.page_size());
  return pool.allocate(std::min<uint64_t>(pages - request.pages.size(), pool.available()), request.pages);
}

Status trim(Sequence& request, PagePool& pool) {
  const auto used = static_cast<size_t>(pages_for(request.fed, pool.page_size()));
  const Status status = pool.release(std::span(request.pages).subspan(used));
  request.pages.resize(used);
  return status;
}

Status forget(Sequence& request, PagePool& pool) {
  const Status status = pool.release(request.pages);
  request.pages.clear();
  request.fed = request.rows = 0;
  return status;
}

Result<uint32_t> plan_step(Roster& roster, PagePool& pool, const StepRules& rules) {
  Planner planner(roster, pool, rules);
  const Result<uint32_t> preempted = planner.preempt();
  if (!preempted.ok()) return preempted;
  if (Status status = planner.plan_decodes(); !status.ok()) return status.error();
  if (Status status = planner.plan_prompts(); !status.ok()) return status.error();
  return preempted;
}

}  // namespace mkrt
