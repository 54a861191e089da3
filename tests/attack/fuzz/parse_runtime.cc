// libmkrt's inputs are parsed here.
#include <cstring>

#include "runtime/abi/abi.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/session/trace.h"
#include "runtime/text/tokenizer.h"
#include "tests/attack/fuzz/parsers.h"
#include "tools/batch_file.h"

namespace mkc::attack {
namespace {

constexpr const char* kSample =
    "Once upon a time, w\xc3\xb6rld! 12 345\n\n  <s>[INST] don't \xe4\xb8\x96\xe7\x95\x8c";

std::string safetensors_file(const std::string& header, size_t data) {
  const uint64_t size = header.size();
  std::string bytes(sizeof(size), '\0');
  std::memcpy(bytes.data(), &size, sizeof(size));
  return bytes + header + std::string(data, 'w');
}

void read_bytes(const std::vector<mkrt::StoredTensor>& tensors) {
  unsigned sum = 0;
  for (const mkrt::StoredTensor& t : tensors)
    for (const std::byte b : t.bytes) sum += static_cast<unsigned>(b);
  promise(sum != ~0u, "every byte of a tensor can be read");
}

bool put_shards() {
  put_file("shards/a.safetensors",
           safetensors_file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
  put_file("shards/b.safetensors",
           safetensors_file(R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4));
  return true;
}

}  // namespace

void run_safetensors(std::string_view input) {
  const mkrt::MappedFile file{"model.safetensors", std::as_bytes(std::span(input)), {}};
  const mkrt::Result<std::vector<mkrt::StoredTensor>> tensors = mkrt::read_tensors(file);
  if (tensors.ok()) read_bytes(tensors.value());
}

void run_shard_index(std::string_view input) {
  static const bool kShards = put_shards();
  promise(kShards, "files of a fixture can be written");
  put_file("shards/model.safetensors.index.json", input);
  const mkrt::Result<mkrt::Checkpoint> checkpoint = mkrt::open_checkpoint(folder() + "/shards");
  if (checkpoint.ok()) read_bytes(checkpoint.value().tensors);
}

void run_tokenizer(std::string_view input) {
  const mkrt::Result<mkrt::Tokenizer> tokenizer = mkrt::read_tokenizer(input, "tokenizer.json");
  if (!tokenizer.ok()) return;
  const mkrt::Result<std::vector<int32_t>> ids = mkrt::encode(tokenizer.value(), kSample, true);
  if (ids.ok()) (void)mkrt::decode(tokenizer.value(), ids.value(), false);
  const int32_t any[] = {0, 1, 2, 31, 1 << 20};
  (void)mkrt::decode(tokenizer.value(), any, true);
}

void run_trace(std::string_view input) {
  const mkrt::Result<mkrt::Trace> trace = mkrt::parse_trace(input, "trace.json");
  if (!trace.ok()) return;
  const mkrt::Result<mkrt::Trace> again = mkrt::parse_trace(to_json(trace.value()), "again.json");
  promise(again.ok() && again.value() == trace.value(), "a trace is read back as it was written");
}

void run_batch_file(std::string_view input) {
  (void)parse_batch_file(input, "batch.jsonl", {});
}

std::vector<std::string> safetensors_seeds() {
  return {
      safetensors_file(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24),
      safetensors_file(
          R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},)"
          R"("b":{"dtype":"I64","shape":[],"data_offsets":[8,16]},"c":{"dtype":"U8","shape":[0,7],)"
          R"("data_offsets":[16,16]}})",
          16)};
}

std::vector<std::string> shard_index_seeds() {
  return {R"({"metadata": {"total_size": 12}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})"};
}

std::vector<std::string> tokenizer_seeds() {
  std::vector<std::string> seeds = files_of("tests/oracle/tokenizer", ".json");
  std::erase_if(seeds, [](const std::string& text) { return text.find("\"added_tokens\"") == text.npos; });
  return seeds;
}

std::vector<std::string> trace_seeds() {
  mkrt::Trace trace{"emulator", "llama", "emulator", "ab", false, {"embed", "l0.q"}, {{1, 5}, {2, 2}}, {}};
  for (uint32_t track = 0; track < 2 * mkrt::kTracks; ++track)
    trace.tracks.push_back({track,
                            {{1, 0, 0, mkrt::kStepBegun, 0, 0},
                             {2, 0, 1, mkrt::kTaskBegun, 0, 0},
                             {9, 1, 1, mkrt::kTaskEnded, 3, 0}}});
  return {to_json(trace)};
}

std::vector<std::string> batch_file_seeds() {
  return {
      "{\"prompt\": \"Once\", \"max_new_tokens\": 3, \"temperature\": 0.5, \"top_k\": 4, \"seed\": 7}\n"
      "{\"prompt_ids\": [1, 2, 3], \"arrive_at_step\": 2, \"top_p\": 0.9, \"min_p\": 0.1, "
      "\"repetition_penalty\": 1.5, \"logprobs\": 2}\n\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"priority\": -1, "
      "\"stop_token_ids\": [2], \"allowed_token_ids\": [1, 2]}\n"};
}

}  // namespace mkc::attack
