#include "runtime/artefact/safetensors.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "tests/unit/temp_dir.h"

namespace mkrt {
namespace {

using test::TempDir;

std::string file_of(std::string_view header, std::string_view data) {
  uint64_t size = header.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  return bytes.append(header).append(data);
}

// Returns the error of opening a directory with this one file.
std::string refused(std::string_view bytes) {
  const TempDir dir;
  dir.write("model.safetensors", bytes);
  const Result<Checkpoint> checkpoint = open_checkpoint(dir.path);
  return checkpoint.ok() ? "" : dir.without_path(checkpoint.error().message);
}

constexpr std::string_view kTwo =
    R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},"a":{"dtype":"F32","shape":[],"data_offsets":[12,16]}})";
constexpr std::string_view kSixteen = "0123456789abcdef";

TEST_CASE("a checkpoint gives its tensors by name, with their bytes") {
  const TempDir dir;
  dir.write("model.safetensors", file_of(kTwo, kSixteen));
  const Result<Checkpoint> checkpoint = open_checkpoint(dir.path);
  REQUIRE_MESSAGE(checkpoint.ok(), checkpoint.error().message);
  REQUIRE(checkpoint.value().tensors.size() == 2);
  const StoredTensor* a = checkpoint.value().find("a");
  const StoredTensor* b = checkpoint.value().find("b");
  REQUIRE(a);
  REQUIRE(b);
  CHECK(checkpoint.value().find("c") == nullptr);
  CHECK(a->shape.empty());
  CHECK(b->dtype == "BF16");
  CHECK(b->shape == std::vector<int64_t>{2, 3});
  CHECK(std::memcmp(b->bytes.data(), "0123456789ab", 12) == 0);
  CHECK(std::memcmp(a->bytes.data(), "cdef", 4) == 0);
}

TEST_CASE("a header whose length has the first two bytes of a pickle is none") {
  const TempDir dir;
  std::string header(kTwo);
  header.resize(0x0280, ' ');
  dir.write("model.safetensors", file_of(header, kSixteen));
  const Result<Checkpoint> checkpoint = open_checkpoint(dir.path);
  REQUIRE_MESSAGE(checkpoint.ok(), checkpoint.error().message);
  CHECK(checkpoint.value().tensors.size() == 2);
  CHECK(refused("\x80\x02\x8a\x0al\xfc\x9c"
                "F\xf9 j\xa8P\x19.")
            .starts_with("model.safetensors: error: is a PyTorch pickle"));
}

TEST_CASE("shards are opened by their index") {
  const TempDir dir;
  const auto shard = [&](const char* name, const char* tensor) {
    dir.write(name,
              file_of(fmt::format(R"({{"{}":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}}})", tensor),
                      "abcd"));
  };
  shard("one.safetensors", "x");
  shard("two.safetensors", "y");
  const auto open_with = [&](std::string_view index) {
    dir.write("model.safetensors.index.json", index);
    const Result<Checkpoint> checkpoint = open_checkpoint(dir.path);
    return checkpoint.ok() ? "" : dir.without_path(checkpoint.error().message);
  };
  CHECK(open_with(R"({"metadata":{},"weight_map":{"x":"one.safetensors","y":"two.safetensors"}})") == "");
  CHECK(open_with(R"({"weight_map":{"x":"one.safetensors","y":"one.safetensors"}})") ==
        "model.safetensors.index.json: error: tensor \"y\" is not in one.safetensors");
  CHECK(
      open_with(R"({"weight_map":{"y":"one.safetensors","x":"two.safetensors"}})") ==
      "model.safetensors.index.json: error: tensor \"x\" is in one.safetensors, expected in two.safetensors");
  CHECK(open_with(R"({"weight_map":{"y":"two.safetensors","z":"one.safetensors"}})") ==
        "one.safetensors: error: tensor \"x\" is not in the index model.safetensors.index.json");
  CHECK(open_with(R"({"weight_map":{"x":"../one.safetensors"}})") ==
        "model.safetensors.index.json: error: weight_map.x: found \"../one.safetensors\", expected the plain "
        "name "
        "of a file in the checkpoint's directory");
  CHECK(open_with(R"({"weight_map":{"x":"none.safetensors"}})") ==
        "none.safetensors: error: cannot open: No such file or directory");
  CHECK(open_with(R"({"weight_map":{}})") ==
        "model.safetensors.index.json: error: weight_map names no tensor");
  shard("two.safetensors", "x");
  CHECK(open_with(R"({"weight_map":{"x":"one.safetensors","y":"two.safetensors"}})") ==
        "two.safetensors: error: tensor \"x\" is also in one.safetensors");
}

TEST_CASE("a header that does not describe its file is refused") {
  const auto entry = [](std::string_view text) {
    return file_of(fmt::format(R"({{"t":{}}})", text), kSixteen);
  };
  CHECK(refused("") == "model.safetensors: error: has 0 bytes, expected at least 8: not a safetensors file");
  CHECK(refused(file_of(kTwo, kSixteen).substr(0, 60)) ==
        "model.safetensors: error: header of 112 bytes in a file of 60: truncated");
  CHECK(refused(std::string(8, '\xff')) ==
        "model.safetensors: error: header of 18446744073709551615 bytes, expected at most 100000000");
  CHECK(refused(file_of(kTwo, "0123456789abcde")) ==
        "model.safetensors: error: a.data_offsets: found [12, 16], expected a range of the file's 15 bytes "
        "of data");
  CHECK(refused(file_of(kTwo, "0123456789abcdefg")) ==
        "model.safetensors: error: tensors end at byte 16 of the data, expected 17: the file is too long");
  CHECK(refused(entry(R"({"dtype":"BF16","shape":[2],"data_offsets":[0,16]})")) ==
        "model.safetensors: error: t.data_offsets: found 16 bytes, expected 4 by dtype and shape");
  CHECK(refused(entry(R"({"dtype":"BF16","shape":[2],"data_offsets":[12,16]})")) ==
        "model.safetensors: error: tensor \"t\" begins at byte 12 of the data, expected 0");
  CHECK(refused(entry(R"({"dtype":"BF17","shape":[8],"data_offsets":[0,16]})")) ==
        "model.safetensors: error: t.dtype: found \"BF17\", expected a dtype that mkc reads");
  CHECK(refused(entry(R"({"dtype":"BF16","shape":[-8],"data_offsets":[0,16]})")) ==
        "model.safetensors: error: t.shape[0]: found -8, expected an integer from 0 to 2^63 - 1");
  CHECK(refused(entry(R"({"dtype":"BF16","shape":[4611686018427387904,2],"data_offsets":[0,16]})")) ==
        "model.safetensors: error: t.shape: has more than 2^63 bytes");
  CHECK(refused(entry(R"({"dtype":"BF16","shape":[8],"data_offsets":[16,0]})")) ==
        "model.safetensors: error: t.data_offsets: found [16, 0], expected a range of the file's 16 bytes of "
        "data");
  CHECK(refused(entry(R"({"dtype":"BF16","shape":[8],"data_offsets":[0,16],"more":1})")) ==
        "model.safetensors: error: t: unknown key \"more\", known: dtype, shape, data_offsets");
  CHECK(refused(entry(R"({"dtype":"BF16","shape":[8]})")) ==
        "model.safetensors: error: t: key \"data_offsets\" is missing");
  CHECK(refused(file_of("[1]", "")) == "model.safetensors: error: found an array, expected an object");
  CHECK(refused(file_of(R"({"t":1,"t":2})", "")) == "model.safetensors: error: key \"t\" is given twice");
  CHECK(refused(file_of(std::string(200000, '['), "")) ==
        "model.safetensors: error: nested more than 64 levels deep");
  CHECK(refused(file_of(R"({"__metadata__":{"format":1}})", "")) ==
        "model.safetensors: error: __metadata__.format: found 1, expected a string");
  CHECK(refused(file_of(R"({"t":)", ""))
            .starts_with("model.safetensors: error: not JSON: parse error at line 1"));
}

TEST_CASE("tensors that overlap are refused") {
  CHECK(
      refused(file_of(
          R"({"a":{"dtype":"U8","shape":[10],"data_offsets":[0,10]},"b":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})",
          kSixteen)) == "model.safetensors: error: tensor \"b\" begins at byte 8 of the data, expected 10");
}

TEST_CASE("no change of a header's bytes crashes the reader") {
  const TempDir dir;
  std::mt19937 random(7);
  const std::string good = file_of(kTwo, kSixteen);
  size_t opened = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (uint32_t edits = random() % 3 + 1; edits > 0; --edits)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    dir.write("model.safetensors", bytes);
    const Result<Checkpoint> checkpoint = open_checkpoint(dir.path);
    if (!checkpoint.ok()) continue;
    ++opened;
    uint32_t sum = 0;
    for (const StoredTensor& t : checkpoint.value().tensors)
      for (const std::byte b : t.bytes) sum += static_cast<uint32_t>(b);
    CHECK(sum > 0);
  }
  CHECK(opened < 1500);  // a changed name and changed data are no faults
}

TEST_CASE("a pipe is no checkpoint, and nobody waits for its writer") {
  const TempDir dir;
  REQUIRE(mkfifo((dir.path + "/model.safetensors").c_str(), 0600) == 0);
  const Result<Checkpoint> checkpoint = open_checkpoint(dir.path);
  REQUIRE(!checkpoint.ok());
  CHECK(dir.without_path(checkpoint.error().message) == "model.safetensors: error: not a regular file");
}

TEST_CASE("an index that cannot be read is refused") {
  const TempDir dir;
  std::filesystem::create_directory(dir.path + "/model.safetensors.index.json");
  const Result<Checkpoint> checkpoint = open_checkpoint(dir.path);
  REQUIRE(!checkpoint.ok());
  CHECK(dir.without_path(checkpoint.error().message) ==
        "model.safetensors.index.json: error: not a regular file");
}

TEST_CASE("an adapter beside the weights is refused") {
  const TempDir dir;
  dir.write("model.safetensors", file_of(kTwo, kSixteen));
  CHECK(open_checkpoint(dir.path).ok());
  dir.write("adapter_config.json", "{}");
  const Result<Checkpoint> checkpoint = open_checkpoint(dir.path);
  REQUIRE(!checkpoint.ok());
  CHECK(
      checkpoint.error().message ==
      dir.path +
          ": error: has adapter_config.json, an adapter, which is not read: merge it into its base model, or "
          "move it to another directory");
}

TEST_CASE("a directory without weights is refused") {
  const TempDir dir;
  const Result<Checkpoint> checkpoint = open_checkpoint(dir.path);
  REQUIRE(!checkpoint.ok());
  CHECK(dir.without_path(checkpoint.error().message) ==
        "model.safetensors: error: cannot open: No such file or directory");
}

}  // namespace
}  // namespace mkrt
