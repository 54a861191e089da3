// This benchmark times steps on the processor. Another program drives it (tools/bench/cpu). Each line of
// standard input is a request, and each answer is a JSON object on one line:
//
//   begin BATCH CONTEXT   makes a cache of random keys and values for so many requests and positions
//   decode STEPS          runs decode steps at the last position: {"ms": [...]}, one for each step
//   prefill TOKENS        feeds a prompt from position 0, in steps of max_tokens: {"ms": [...]}, one in all
//   end                   gives the cache's memory back
//
// Usage: cpu_step SO CHECKPOINT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <random>
#include <sstream>

#include "runtime/base/file.h"
#include "runtime/session/pages.h"
#include "runtime/session/session.h"

namespace mkrt {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Program holds a session and the cache of the case that is measured.
class Program {
 public:
  Program(Session session, Device& device) : session_(std::move(session)), device_(device) {}

  // Answers one request with a line of JSON.
  Result<std::string> answer(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    uint32_t first = 0, second = 0;
    words >> verb >> first >> second;
    std::vector<double> ms;
    if (verb == "begin") return done(begin(first, second));
    if (verb == "end") return done(end());
    if (verb == "decode") {
      if (Status status = decode(first, ms); !status.ok()) return status.error();
    } else if (verb == "prefill") {
      if (Status status = prefill(first, ms); !status.ok()) return status.error();
    } else {
      return Error{fmt::format("error: unknown request \"{}\"", line)};
    }
    return fmt::format("{{\"ms\": [{:.6f}]}}", fmt::join(ms, ", "));
  }

 private:
  static Result<std::string> done(const Status& status) {
    if (!status.ok()) return status.error();
    return std::string("{}");
  }

  // Untouched memory would be the system's one page of zeros, which no step has to fetch.
  Status fill(uint64_t bytes) {
    std::vector<uint64_t> block(1 << 17);
    for (uint64_t at = 0; at < bytes; at += block.size() * sizeof(uint64_t)) {
      for (uint64_t& word : block)  // small numbers in all of the cache's types
        word = (random_() & 0x80ff80ff80ff80ff) | 0x3c003c003c003c00;
      const auto from = std::as_bytes(std::span(block));
      if (Status status =
              device_.write(memory_ + at, from.first(std::min<uint64_t>(from.size(), bytes - at)));
          !status.ok())
        return status;
    }
    return {};
  }

  Status begin(uint32_t batch, uint32_t context) {
    if (Status status = end(); !status.ok()) return status;
    const Manifest& m = session_.manifest();
    const uint32_t of_request = pages_for(context, kPageSize), pages = batch * of_request;
    const uint64_t bytes = cache_piece_bytes(m, best_form(m), kPageSize, pages) * m.caches.size();
    Result<uint64_t> memory = device_.allocate(bytes);
    if (!memory.ok()) return memory.error();
    memory_ = memory.value();
    if (Status status = fill(bytes); !status.ok()) return status;
    CacheOptions options;
    options.space = place_caches(m, best_form(m), kPageSize, pages, memory_);
    if (Status status = session_.use_cache(options); !status.ok()) return status;

    kv_len_.assign(batch, static_cast<int32_t>(context));
    page_index_.resize(pages);
    std::iota(page_index_.begin(), page_index_.end(), 0);
    std::shuffle(page_index_.begin(), page_index_.end(), random_);
    page_begin_.clear();
    for (uint32_t b = 0; b <= batch; ++b) page_begin_.push_back(static_cast<int32_t>(b * of_request));
    return {};
  }

  Status end() {
    if (memory_ == 0) return {};
    CacheOptions options;
    options.pages = 1;
    if (Status status = session_.use_cache(options); !status.ok()) return status;
    device_.release(memory_);
    memory_ = 0;
    return {};
  }

  std::vector<int32_t> random_tokens(size_t count) {
    std::vector<int32_t> tokens(count);
    for (int32_t& token : tokens)
      token = static_cast<int32_t>(random_() % static_cast<uint64_t>(session_.manifest().vocab));
    return tokens;
  }

  Status decode(uint32_t steps, std::vector<double>& ms) {
    std::vector<int32_t> row_begin(kv_len_.size() + 1);
    std::iota(row_begin.begin(), row_begin.end(), 0);
    for (uint32_t i = 0; i < steps; ++i) {
      const std::vector<int32_t> tokens = random_tokens(kv_len_.size());
      const auto begin = Clock::now();
      if (Status status = session_.step({tokens, row_begin, kv_len_, {page_begin_, page_index_}}, result_);
          !status.ok())
        return status;
      ms.push_back(ms_since(begin));
    }
    return {};
  }

  Status prefill(uint32_t count, std::vector<double>& ms) {
    const std::vector<int32_t> prompt = random_tokens(count);
    const std::span<const int32_t> page_begin = std::span(page_begin_).first(2);
    const auto begin = Clock::now();
    for (uint32_t at = 0; at < count;) {
      const uint32_t rows = std::min(session_.max_tokens(), count - at);
      const std::vector<int32_t> row_begin{0, static_cast<int32_t>(rows)},
          kv_len{static_cast<int32_t>(at + rows)};
      const std::vector<Samples> samples{Samples{.limit = at + rows == count ? 1u : 0u}};
      const Batch batch{
          std::span(prompt).subspan(at, rows), row_begin, kv_len, {page_begin, page_index_}, samples};
      if (Status status = session_.step(batch, result_); !status.ok()) return status;
      at += rows;
    }
    ms.push_back(ms_since(begin));
    return {};
  }

  static constexpr uint32_t kPageSize = 16;
  Session session_;
  Device& device_;
  std::mt19937_64 random_{1};
  uint64_t memory_ = 0;  // of the cache; 0: none
  std::vector<int32_t> kv_len_, page_begin_, page_index_;
  StepResult result_;
};

Status serve(const std::string& object, const std::string& directory) {
  Result<Artefact> artefact = load_artefact(object);
  if (!artefact.ok()) return artefact.error();
  Result<Checkpoint> checkpoint = open_checkpoint(directory);
  if (!checkpoint.ok()) return checkpoint.error();
  const Result<std::string> config = read_text(directory + "/config.json", 1 << 20);
  if (!config.ok()) return config.error();
  const std::unique_ptr<Device> device = open_processor();
  SessionOptions options;
  options.cache.pages = 1;
  options.timeout_ns = 60'000'000'000;
  const auto begin = Clock::now();
  Result<Session> session =
      Session::open(artefact.value(), checkpoint.value(), hash_hex(config.value()), *device, options);
  if (!session.ok()) return session.error();
  const Manifest& m = session.value().manifest();
  fmt::print("{{\"load_s\": {:.3f}, \"threads\": {}, \"max_tokens\": {}, \"target\": \"{}\"}}\n",
             1e-3 * ms_since(begin), m.workers, session.value().max_tokens(), m.target);
  std::fflush(stdout);
  checkpoint.value() = {};
  Program program(std::move(session.value()), *device);
  for (std::string line; std::getline(std::cin, line);) {
    const Result<std::string> answer = program.answer(line);
    if (!answer.ok()) return answer.error();
    fmt::print("{}\n", answer.value());
    std::fflush(stdout);
  }
  return {};
}

}  // namespace
}  // namespace mkrt

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: cpu_step SO CHECKPOINT\n", stderr), 1;
  const mkrt::Status status = mkrt::serve(argv[1], argv[2]);
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.error().message.c_str()), 1;
  return 0;
}
