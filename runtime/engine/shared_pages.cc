#include "runtime/engine/shared_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

namespace mkrt {

SharedPages::SharedPages(PagePool pool, std::optional<PrefixCache> cache)
    : pool_(std::move(pool)),
      cache_(std::move(cache)),
      users_(pool_.pages()),
      links_(pool_.pages() + size_t{1}) {
  const auto ring = static_cast<int32_t>(pool_.pages());
  link(ring) = {ring, ring};
}

Status SharedPages::allocate(uint64_t count, std::vector<int32_t>& to) {
  if (count > available())
    return Error{
        fmt::format("pages: error: {} are needed, {} of {} are available", count, available(), pages())};
  for (; pool_.available() < count;) {
    const int32_t oldest = links_.back().after;
    unlink(oldest);
    cache_->erase(oldest);
    if (Status status = pool_.release({&oldest, 1}); !status.ok()) return status;
  }
  const size_t first = to.size();
  Status status = pool_.allocate(count, to);
  for (size_t i = first; i < to.size(); ++i) users_[static_cast<size_t>(to[i])] = 1;
  return status;
}

void SharedPages::find(std::span<const int32_t> tokens, std::vector<int32_t>& to) const {
  if (!cache_) return;
  int32_t page = kNoPage;
  for (; tokens.size() >= page_size(); tokens = tokens.subspan(page_size())) {
    page = cache_->find(page, tokens.first(page_size()));
    if (page == kNoPage) return;
    to.push_back(page);
  }
}

uint32_t SharedPages::unused(std::span<const int32_t> pages) const {
  return static_cast<uint32_t>(
      std::ranges::count_if(pages, [&](int32_t page) { return users_[static_cast<size_t>(page)] == 0; }));
}

void SharedPages::share(std::span<const int32_t> pages) {
  for (const int32_t page : pages)
    if (users_[static_cast<size_t>(page)]++ == 0) unlink(page);
}

Result<int32_t> SharedPages::keep(int32_t page, int32_t parent, std::span<const int32_t> tokens) {
  const int32_t other = cache_->find(parent, tokens);
  if (other == kNoPage) {
    cache_->insert(page, parent, tokens);
    return page;
  }
  share({&other, 1});
  if (Status status = release({&page, 1}); !status.ok()) return status.error();
  return other;
}

Status SharedPages::release(std::span<const int32_t> pages) {
  for (const int32_t page : std::views::reverse(pages)) {
    if (page < 0 || static_cast<uint32_t>(page) >= this->pages() || users_[static_cast<size_t>(page)] == 0)
      return Error{fmt::format("pages: error: page {} is released, but has no user", page)};
    if (--users_[static_cast<size_t>(page)] > 0) continue;
    if (cache_ && cache_->holds(page)) {
      append(page);
      continue;
    }
    if (Status status = pool_.release({&page, 1}); !status.ok()) return status;
  }
  return {};
}

void SharedPages::append(int32_t page) {
  const auto ring = static_cast<int32_t>(pages());
  const int32_t last = link(ring).before;
  link(page) = {last, ring};
  link(last).after = link(ring).before = page;
  ++unused_;
}

void SharedPages::unlink(int32_t page) {
  const Link at = link(page);
  link(at.before).after = at.after;
  link(at.after).before = at.before;
  --unused_;
}

}  // namespace mkrt
