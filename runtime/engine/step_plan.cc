#include "runtime/engine/step_plan.h"

#include <algorithm>

namespace mkrt {
namespace {

// Planner plans one step.
class Planner {
 public:
  Planner(Roster& roster, SharedPages& pages, const StepRules& rules)
      : running_(roster.running), waiting_(roster.waiting), pages_(pages), rules_(rules) {}

  // Preempts the last running requests until the pages that the others are sure to get are available.
  Status preempt() {
    for (const Sequence& request : running_) reserved_ += missing_pages(request);
    for (; reserved_ > pages_.available(); ++counts_.preempted) {
      Sequence& last = running_.back();
      reserved_ -= missing_pages(last);
      if (Status status = forget(last, pages_); !status.ok()) return status;
      waiting_.emplace(last.order, std::move(last));
      running_.pop_back();
    }
    return {};
  }

  // Gives a row to every request that decodes, and none to the others. There are enough rows, because each of
  // these requests had a row in the step before.
  Status plan_decodes() {
    for (Sequence& request : running_) {
      request.rows = 0;
      if (!request.decodes()) continue;
      if (Status status = extend(request, 1); !status.ok()) return status;
      --rows_;
    }
    if (rows_ < rules_.max_tokens && rules_.max_rows_beside_decodes > 0)
      rows_ = std::min(rows_, rules_.max_rows_beside_decodes);
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

  const PlanCounts& counts() const { return counts_; }

 private:
  // Returns how many pages are kept for a request that does not have them yet.
  uint64_t missing_pages(const Sequence& request) const {
    const uint64_t positions =
        rules_.preemption == Preemption::kNone ? request.longest : request.tokens.size();
    return pages_for(positions, pages_.page_size()) - request.pages.size();
  }

  // Makes the first waiting request a running one, and sets `at` to its index. Returns false if there is no
  // place or no pages for it.
  bool admit(size_t& at) {
    if (running_.size() == rules_.max_requests) return false;
    Sequence& first = waiting_.begin()->second;
    // Tokens of the prefix cache are not fed, and have no logits.
    if (!first.lacks_scores())
      pages_.find(std::span(first.tokens).first(first.tokens.size() - 1), first.pages);
    const uint64_t missing = missing_pages(first);
    if (reserved_ + missing + pages_.unused(first.pages) > pages_.available()) {
      first.pages.clear();
      return false;
    }
    reserved_ += missing;
    start(first);
    const auto to = std::ranges::upper_bound(running_, first.order, {}, &Sequence::order);
    at = static_cast<size_t>(to - running_.begin());
    running_.insert(to, std::move(first));
    waiting_.erase(waiting_.begin());
    return true;
  }

  // Starts a request behind the tokens that its pages hold already.
  void start(Sequence& request) {
    pages_.share(request.pages);
    request.kept_pages = static_cast<uint32_t>(request.pages.size());
    request.fed = request.kept_pages * pages_.page_size();
    if (request.admitted) return;
    request.admitted = true;
    request.cached_tokens = request.fed;
    if (pages_.caches() && !request.lacks_scores()) counts_.looked_up_tokens += request.prompt;
    counts_.cached_tokens += request.fed;
  }

  // Gives a request at most `rows` rows, and the pages for them.
  Status extend(Sequence& request, uint32_t rows) {
    request.rows = std::min(request.pending(), rows);
    const uint64_t needed = pages_for(uint64_t{request.fed} + request.rows, pages_.page_size());
    const uint64_t further = needed - request.pages.size();
    reserved_ -= further;
    return pages_.allocate(further, request.pages);
  }

  std::vector<Sequence>& running_;
  std::map<Order, Sequence>& waiting_;
  SharedPages& pages_;
  const StepRules& rules_;
  PlanCounts counts_;
  uint64_t reserved_ = 0;  // pages that running requests are sure to get
  uint32_t rows_ = rules_.max_tokens;
};

}  // namespace

Status run_ahead(Sequence& request, uint32_t positions, SharedPages& pages) {
  const uint64_t needed = pages_for(uint64_t{request.fed} + request.rows + positions, pages.page_size());
  return pages.allocate(std::min<uint64_t>(needed - request.pages.size(), pages.available()), request.pages);
}

Status keep_full_pages(Sequence& request, SharedPages& pages) {
  const uint32_t size = pages.page_size();
  if (!pages.caches()) return {};
  for (uint32_t& i = request.kept_pages; i < request.fed / size; ++i) {
    const int32_t parent = i == 0 ? kNoPage : request.pages[i - 1];
    const Result<int32_t> kept =
        pages.keep(request.pages[i], parent, std::span(request.tokens).subspan(size_t{i} * size, size));
    if (!kept.ok()) return kept.error();
    request.pages[i] = kept.value();
  }
  return {};
}

Status trim(Sequence& request, SharedPages& pages) {
  const auto used = static_cast<size_t>(pages_for(request.fed, pages.page_size()));
  const Status status = pages.release(std::span(request.pages).subspan(used));
  request.pages.resize(used);
  return status;
}

Status forget(Sequence& request, SharedPages& pages) {
  const Status status = pages.release(request.pages);
  request.pages.clear();
  request.fed = request.rows = request.kept_pages = 0;
  return status;
}

Result<PlanCounts> plan_step(Roster& roster, SharedPages& pages, const StepRules& rules) {
  Planner planner(roster, pages, rules);
  if (Status status = planner.preempt(); !status.ok()) return status.error();
  if (Status status = planner.plan_decodes(); !status.ok()) return status.error();
  if (Status status = planner.plan_prompts(); !status.ok()) return status.error();
  return planner.counts();
}

}  // namespace mkrt
