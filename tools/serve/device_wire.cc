#include "tools/serve/device_wire.h"

#include <cstring>
#include <type_traits>

namespace mkc {
namespace {

class Writer {
 public:
  explicit Writer(Bytes& to) : to_(to) { to_.clear(); }

  template <class T>
  void value(const T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    list(std::span(&v, 1));
  }
  // sized() writes the length before the elements.
  template <class List>
  void sized(const List& values) {
    value(uint64_t{values.size()});
    list(std::span(values.data(), values.size()));
  }

 private:
  template <class T, size_t n>
  void list(std::span<const T, n> values) {
    const std::span<const std::byte> bytes = std::as_bytes(values);
    to_.insert(to_.end(), bytes.begin(), bytes.end());
  }
  Bytes& to_;
};

// A Reader reads nothing more once it has failed.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}

  template <class T>
  void value(T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    take(&v, sizeof v);
  }
  template <class List>
  void sized(List& values) {
    constexpr size_t kElement = sizeof(typename List::value_type);
    uint64_t size = 0;
    value(size);
    ok_ &= size <= from_.size() / kElement;
    values.resize(ok_ ? size : 0);
    take(values.data(), values.size() * kElement);
  }
  // Tells whether all bytes were read, and none was missing.
  bool done() const { return ok_ && from_.empty(); }

 private:
  void take(void* to, size_t bytes) {
    ok_ &= bytes <= from_.size();
    if (!ok_ || bytes == 0) return;
    std::memcpy(to, from_.data(), bytes);
    from_ = from_.subspan(bytes);
  }
  std::span<const std::byte> from_;
  bool ok_ = true;
};

}  // namespace

void write_batch(const mkrt::Batch& batch, Bytes& to) {
  Writer out(to);
  out.sized(batch.tokens);
  out.sized(batch.row_begin);
  out.sized(batch.kv_len);
  out.sized(batch.pages.begin);
  out.sized(batch.pages.index);
  out.value(batch.all_logits);
  out.sized(batch.scored);
  out.value(uint64_t{batch.samples.size()});
  for (const mkrt::Samples& samples : batch.samples) {
    out.value(samples.sampling);
    out.value(samples.limit);
    out.sized(samples.seen);
    out.sized(samples.biases);
    out.sized(samples.allowed);
    out.sized(samples.stop_ids);
  }
}

bool read_batch(std::span<const std::byte> from, ReceivedBatch& b) {
  Reader in(from);
  in.sized(b.tokens);
  in.sized(b.row_begin);
  in.sized(b.kv_len);
  in.sized(b.page_begin);
  in.sized(b.page_index);
  in.value(b.batch.all_logits);
  in.sized(b.scored);
  uint64_t requests = 0;
  in.value(requests);
  if (requests > from.size()) return false;
  b.samples.resize(requests);
  b.seen.resize(requests);
  b.biases.resize(requests);
  b.allowed.resize(requests);
  b.stop_ids.resize(requests);
  for (size_t i = 0; i < requests; ++i) {
    in.value(b.samples[i].sampling);
    in.value(b.samples[i].limit);
    in.sized(b.seen[i]);
    in.sized(b.biases[i]);
    in.sized(b.allowed[i]);
    in.sized(b.stop_ids[i]);
    b.samples[i].seen = b.seen[i];
    b.samples[i].biases = b.biases[i];
    b.samples[i].allowed = b.allowed[i];
    b.samples[i].stop_ids = b.stop_ids[i];
  }
  b.batch.tokens = b.tokens;
  b.batch.row_begin = b.row_begin;
  b.batch.kv_len = b.kv_len;
  b.batch.pages = {b.page_begin, b.page_index};
  b.batch.samples = b.samples;
  b.batch.scored = b.scored;
  return in.done();
}

void write_result(const mkrt::StepResult& result, Bytes& to) {
  Writer out(to);
  out.sized(result.begin);
  out.sized(result.ids);
  out.sized(result.logprobs);
  out.value(result.steps);
  out.sized(result.scored);
  out.sized(result.finite);
}

bool read_result(std::span<const std::byte> from, mkrt::StepResult& result) {
  Reader in(from);
  in.sized(result.begin);
  in.sized(result.ids);
  in.sized(result.logprobs);
  in.value(result.steps);
  in.sized(result.scored);
  in.sized(result.finite);
  return in.done();
}

void write_ready(const DeviceReady& ready, Bytes& to) {
  Writer out(to);
  out.value(ready.limits);
  out.sized(ready.device);
  out.sized(ready.end_ids);
  out.value(ready.traced);
}

bool read_ready(std::span<const std::byte> from, DeviceReady& ready) {
  Reader in(from);
  in.value(ready.limits);
  in.sized(ready.device);
  in.sized(ready.end_ids);
  in.value(ready.traced);
  return in.done();
}

}  // namespace mkc
