#include "runtime/session/check_batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <vector>

namespace mkrt {
namespace {

constexpr BatchLimits kLimits = {
    .max_tokens = 8, .max_requests = 3, .context = 40, .vocab = 50, .page_size = 16, .pages = 10};

// Lists is a valid batch of three requests: a decode, a prompt chunk of four rows, and a decode. The last
// decode's page table has an unused entry.
struct Lists {
  std::vector<int32_t> tokens = {3, 10, 11, 49, 0, 7};
  std::vector<int32_t> row_begin = {0, 1, 5, 6};
  std::vector<int32_t> kv_len = {33, 4, 16};
  std::vector<int32_t> begin = {0, 3, 4, 6};
  std::vector<int32_t> index = {9, 0, 4, 5, 1, -1};
  std::vector<Samples> samples = {};
};

Status check(const Lists& lists, PagesSeen& seen) {
  return check_batch({lists.tokens, lists.row_begin, lists.kv_len, {lists.begin, lists.index}, lists.samples},
                     kLimits, seen);
}

std::string error_of(const std::function<void(Lists&)>& edit) {
  Lists lists;
  edit(lists);
  PagesSeen seen;
  const Status status = check(lists, seen);
  return status.ok() ? "" : status.error().message;
}

TEST_CASE("a step within its limits passes, again and again") {
  PagesSeen seen;
  for (int i = 0; i < 600; ++i) CHECK(check(Lists(), seen).ok());
}

TEST_CASE("marks of an earlier round of steps do not count") {
  PagesSeen seen;
  CHECK(check(Lists(), seen).ok());
  for (const uint8_t mark : {1, 2})
    for (const uint8_t now : {253, 255}) {
      std::ranges::fill(seen.step, mark);
      seen.now = now;
      CHECK(check(Lists(), seen).ok());
    }
}

TEST_CASE("a failed check leaves no mark on the next one") {
  PagesSeen seen;
  Lists bad;
  bad.index[4] = 5;
  CHECK(!check(bad, seen).ok());
  CHECK(check(Lists(), seen).ok());
}

TEST_CASE("entries of the table beyond kv_len are not looked at") {
  CHECK(error_of([](Lists& b) { b.index[5] = 77; }) == "");
  CHECK(error_of([](Lists& b) { b.index[5] = 9; }) == "");
  CHECK(error_of([](Lists& b) { b.kv_len[2] = 17; }) ==
        "step: error: request 2: pages.index: entry 1 is page -1, expected 0 to 9");
}

TEST_CASE("the pages of tokens that are sampled and fed are looked at, as far as the context goes") {
  const auto sampled = [](size_t request, uint32_t limit) {
    return error_of([&](Lists& b) {
      b.samples.resize(3);
      b.samples[request].limit = limit;
    });
  };
  CHECK(sampled(2, 1) == "");
  CHECK(sampled(2, 2) == "step: error: request 2: pages.index: entry 1 is page -1, expected 0 to 9");
  CHECK(sampled(1, kMaxSteps) == "");  // the request's one page ends the samples
  CHECK(sampled(0, kMaxSteps) == "");
  CHECK(sampled(0, 5000) == "step: error: request 0: limit: found 5000, expected at most 4096");
}

TEST_CASE("biases are in the order of their ids, in the vocabulary and in range") {
  const auto error = [](const std::vector<MkBias>& biases) {
    return error_of([&](Lists& b) {
      b.samples.resize(3);
      b.samples[2].biases = biases;
    });
  };
  const std::string at = "step: error: request 2: biases: ";
  CHECK(error({{0, 1e30f, -1e30f}, {49, -INFINITY, -INFINITY}}) == "");
  CHECK(error({{3, 1, 0}, {50, 1, 0}}) == at + "entry 1 has the id 50, expected 0 to 49");
  CHECK(error({{3, 1, 0}, {3, 1, 0}}) == at + "entry 1 has the id 3, expected more than 3, the id before");
  CHECK(error({{3, 1, 0}, {2, 1, 0}}) == at + "entry 1 has the id 2, expected more than 3, the id before");
  CHECK(error({{3, INFINITY, 0}}) ==
        at + "entry 0, id 3, has the value inf, expected -1e+30 to 1e+30, or -inf");
  CHECK(error({{3, 0, NAN}}) == at + "entry 0, id 3, has the value nan, expected -1e+30 to 1e+30, or -inf");
  CHECK(error({{3, 2e30f, 0}}) ==
        at + "entry 0, id 3, has the value 2e+30, expected -1e+30 to 1e+30, or -inf");
  std::vector<MkBias> all;
  for (uint32_t id = 0; id < 50; ++id) all.push_back({id, -INFINITY, 0});
  CHECK(error(all) == at + "found 50 forbidden ids, expected at most 49");
  all[7].before = 0;
  CHECK(error(all) == "");
}

TEST_CASE("samples that nothing can come of are refused") {
  static const std::vector<uint32_t> seen(2);
  const auto sampled = [](auto edit) {
    return error_of([&](Lists& b) {
      b.samples.resize(3);
      edit(b.samples[1]);
    });
  };
  CHECK(sampled([](Samples& d) { d.sampling.top_p = 0; }) ==
        "step: error: request 1: top_p: is 0, expected more than 0, at most 1");
  CHECK(sampled([](Samples& d) { d.sampling.repetition_penalty = 2; }) ==
        "step: error: request 1: seen: found 0 words, expected 2, a bit for each id");
  CHECK(sampled([](Samples& d) { d.seen = seen; }) ==
        "step: error: request 1: seen: found 2 words, expected 0 without a repetition_penalty");
  CHECK(sampled([](Samples& d) { d.sampling.repetition_penalty = 2, d.seen = seen; }) == "");
  CHECK(sampled([](Samples& d) { d.allowed = seen; }) ==
        "step: error: request 1: allowed: found no id, expected at least one of 50");
  static const std::vector<uint32_t> beyond{0, 1u << 18}, last{0, 1u << 17}, short_list(1);
  CHECK(sampled([](Samples& d) { d.allowed = beyond; }) ==
        "step: error: request 1: allowed: found no id, expected at least one of 50");
  CHECK(sampled([](Samples& d) { d.allowed = last; }) == "");
  CHECK(sampled([](Samples& d) { d.allowed = short_list; }) ==
        "step: error: request 1: allowed: found 1 words, expected none or 2, a bit for each id");
  CHECK(error_of([](Lists& b) { b.samples.resize(2); }) ==
        "step: error: samples: found 2 entries, expected none or 3, one for each request");
}

TEST_CASE("lists that do not agree are refused") {
  CHECK(error_of([](Lists& b) { b = {{}, {0}, {}, {0}, {}}; }) ==
        "step: error: kv_len: found 0 requests, expected 1 to 3");
  CHECK(error_of([](Lists& b) { b.kv_len.resize(4); }) ==
        "step: error: kv_len: found 4 requests, expected 1 to 3");
  CHECK(error_of([](Lists& b) { b.row_begin.pop_back(); }) ==
        "step: error: row_begin: found 3 entries, expected 4 for 3 requests");
  CHECK(error_of([](Lists& b) { b.begin.push_back(6); }) ==
        "step: error: pages.begin: found 5 entries, expected 4 for 3 requests");
  CHECK(error_of([](Lists& b) { b.tokens.resize(9); }) ==
        "step: error: tokens: found 9 rows, expected 1 to 8");
}

TEST_CASE("rows that do not rise from zero to the end are refused") {
  CHECK(error_of([](Lists& b) { b.row_begin[0] = 1; }) ==
        "step: error: request 0: row_begin: found 1, expected 0");
  CHECK(error_of([](Lists& b) { b.row_begin[2] = 1; }) ==
        "step: error: request 1: row_begin: ends at 1, expected at least 2");
  CHECK(error_of([](Lists& b) { b.row_begin[1] = -1; }) ==
        "step: error: request 0: row_begin: ends at -1, expected at least 1");
  CHECK(error_of([](Lists& b) { b.row_begin[2] = 7; }) ==
        "step: error: request 1: row_begin: ends at 7, expected at most 6, the rows of tokens");
  CHECK(error_of([](Lists& b) { b.tokens.push_back(1); }) ==
        "step: error: request 2: row_begin: ends at 6, expected 7, the rows of tokens");
  CHECK(error_of([](Lists& b) { b.tokens.clear(); }) ==
        "step: error: request 0: row_begin: ends at 1, expected at most 0, the rows of tokens");
}

TEST_CASE("ids outside the vocabulary are refused") {
  CHECK(error_of([](Lists& b) { b.tokens[3] = 50; }) ==
        "step: error: request 1: tokens: row 2 has the id 50, expected 0 to 49");
  CHECK(error_of([](Lists& b) { b.tokens[5] = -1; }) ==
        "step: error: request 2: tokens: row 0 has the id -1, expected 0 to 49");
}

TEST_CASE("kv_len is at least the rows and within pages and context") {
  CHECK(error_of([](Lists& b) { b.kv_len[1] = 3; }) ==
        "step: error: request 1: kv_len: found 3, expected at least 4, its rows");
  CHECK(error_of([](Lists& b) { b.kv_len[2] = -5; }) ==
        "step: error: request 2: kv_len: found -5, expected at least 1, its rows");
  CHECK(error_of([](Lists& b) { b.kv_len[0] = 41; }) ==
        "step: error: request 0: kv_len: found 41, expected at most 40, the context");
  CHECK(error_of([](Lists& b) { b.kv_len[1] = 17; }) ==
        "step: error: request 1: kv_len: found 17, expected at most 16, the positions of its 1 pages");
}

TEST_CASE("a page table outside its list or the cache, or with a page twice, is refused") {
  CHECK(error_of([](Lists& b) { b.begin[3] = 7; }) ==
        "step: error: request 2: pages.begin: found 4 to 7, expected to rise from 0 to at most 6");
  CHECK(error_of([](Lists& b) { b.begin[1] = 5; }) ==
        "step: error: request 1: pages.begin: found 5 to 4, expected to rise from 0 to at most 6");
  CHECK(error_of([](Lists& b) { b.begin[0] = -1; }) ==
        "step: error: request 0: pages.begin: found -1 to 3, expected to rise from 0 to at most 6");
  CHECK(error_of([](Lists& b) { b.index[2] = 10; }) ==
        "step: error: request 0: pages.index: entry 2 is page 10, expected 0 to 9");
  CHECK(error_of([](Lists& b) { b.index[3] = -1; }) ==
        "step: error: request 1: pages.index: entry 0 is page -1, expected 0 to 9");
  CHECK(error_of([](Lists& b) { b.index[4] = 0; }) ==
        "step: error: request 2: pages.index: entry 0 is page 0, which request 0 has already, expected "
        "another");
  CHECK(error_of([](Lists& b) { b.index[2] = 9; }) ==
        "step: error: request 0: pages.index: entry 2 is page 9, which request 0 has already, expected "
        "another");
}

TEST_CASE("several requests may read a page, but a page that is written has one user") {
  // Request 0 reads its pages 9 and 0, and writes page 4. Request 2 reads its first page with kv_len 17.
  const auto shared = [](int32_t of_2) {
    return error_of([&](Lists& b) {
      b.kv_len[2] = 17;
      b.index[4] = of_2;
      b.index[5] = 1;
    });
  };
  CHECK(shared(9) == "");
  CHECK(shared(0) == "");
  CHECK(shared(4) ==
        "step: error: request 2: pages.index: entry 0 is page 4, which request 0 has already, expected "
        "another");
  CHECK(error_of([](Lists& b) {
          b.kv_len[2] = 17;
          b.index[5] = 9;
        }) ==
        "step: error: request 2: pages.index: entry 1 is page 9, which request 0 has already, expected "
        "another");
  // Rows that begin within a page write it.
  CHECK(error_of([](Lists& b) {
          b.kv_len[1] = 20;
          b.begin = {0, 3, 5, 7};
          b.index = {9, 0, 4, 9, 5, 1, -1};
        }) == "");
  CHECK(error_of([](Lists& b) {
          b.kv_len[1] = 19;
          b.begin = {0, 3, 5, 7};
          b.index = {9, 0, 4, 9, 5, 1, -1};
        }) ==
        "step: error: request 1: pages.index: entry 0 is page 9, which request 0 has already, expected "
        "another");
}

TEST_CASE("the page table has an entry for each request and page of its context, or of the cache") {
  CHECK(page_entries(kLimits) == 3 * 3);
  BatchLimits few = kLimits;
  few.pages = 2;
  CHECK(page_entries(few) == 3 * 2);
}

TEST_CASE("a dense table is one whose rows are all as long as the longest") {
  Lists dense;
  dense.begin = {0, 3, 6, 9};
  dense.index = {9, 0, 4, 5, -1, -1, 1, -1, -1};
  PagesSeen seen;
  CHECK(check(dense, seen).ok());
}

// Returns whether a batch obeys every rule. The rules are checked one by one, with checked bounds.
bool valid(const Lists& b) {
  const size_t requests = b.kv_len.size();
  if (requests < 1 || requests > 3 || b.row_begin.size() != requests + 1 || b.begin.size() != requests + 1)
    return false;
  if (b.row_begin.front() != 0 || b.row_begin.back() != std::ssize(b.tokens) || b.tokens.size() > 8)
    return false;
  std::set<int32_t> read, written;
  for (const int32_t id : b.tokens)
    if (id < 0 || id > 49) return false;
  for (size_t r = 0; r < requests; ++r) {
    const int32_t rows = b.row_begin[r + 1] - b.row_begin[r], length = b.kv_len[r];
    if (rows < 1 || length < rows || length > 40) return false;
    if (b.begin[r] < 0 || b.begin[r + 1] < b.begin[r] || b.begin[r + 1] > std::ssize(b.index)) return false;
    for (int32_t position = 0; position < length; position += 16) {
      const int32_t entry = b.begin[r] + position / 16;
      if (entry >= b.begin[r + 1]) return false;
      const int32_t page = b.index.at(static_cast<size_t>(entry));
      if (page < 0 || page > 9 || written.contains(page)) return false;
      if (position + 16 <= length - rows)
        read.insert(page);
      else if (read.contains(page) || !written.insert(page).second)
        return false;
    }
  }
  return true;
}

TEST_CASE("scored rows lie within the batch, and their launch has one step") {
  const Lists lists;
  PagesSeen seen;
  std::vector<Samples> samples(3);
  const auto error = [&](const ScoredRow& of) {
    const std::vector<ScoredRow> scored = {{5, 49, 20}, of};
    const Status status = check_batch({.tokens = lists.tokens,
                                       .row_begin = lists.row_begin,
                                       .kv_len = lists.kv_len,
                                       .pages = {lists.begin, lists.index},
                                       .samples = samples,
                                       .scored = scored},
                                      kLimits, seen);
    return status.ok() ? "" : status.error().message;
  };
  CHECK(error({0, 0, 0}) == "");
  CHECK(error({6, 0, 0}) == "step: error: scored: entry 1 has the row 6, expected 0 to 5");
  CHECK(error({-1, 0, 0}) == "step: error: scored: entry 1 has the row -1, expected 0 to 5");
  CHECK(error({0, 50, 0}) == "step: error: scored: entry 1 has the id 50, expected 0 to 49");
  CHECK(error({0, 0, 21}) == "step: error: scored: entry 1 asks for 21 likeliest ids, expected at most 20");
  samples[0].limit = 2;
  CHECK(error({0, 0, 0}) == "step: error: scored: found 2 rows in a launch of 2 steps, expected none");
}

TEST_CASE("steps that are wrong anywhere are refused, and no others") {
  std::mt19937 random(1);
  PagesSeen seen;
  int refused = 0;
  constexpr int kSteps = 100'000;
  for (int step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    Lists b;
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      std::vector<int32_t>* lists[] = {&b.tokens, &b.row_begin, &b.kv_len, &b.begin, &b.index};
      std::vector<int32_t>& list = *lists[random() % 5];
      const auto value =
          random() % 8 ? static_cast<int32_t>(random() % 60) - 5 : static_cast<int32_t>(random());
      if (list.empty() || random() % 16 == 0)
        list.push_back(value);
      else if (random() % 16 == 0)
        list.pop_back();
      else
        list[random() % list.size()] = value;
    }
    const Status status = check(b, seen);
    REQUIRE(status.ok() == valid(b));
    refused += !status.ok();
  }
  CHECK(refused > kSteps / 10);
  CHECK(refused < kSteps * 9 / 10);
}

}  // namespace
}  // namespace mkrt
