// Bits do not depend on how a step is run.
#include <doctest/doctest.h>

#include <cstring>

#include "tests/e2e/pipeline.h"
#include "tests/reference/model.h"
#include "tests/unit/temp_dir.h"

namespace mkc {
namespace {

using test::Build;
using test::Model;

const std::vector<int32_t> kPrompt{5, 1, 88, 42, 7, 9, 64, 3, 27, 90, 11, 2, 70, 33, 18, 54, 21, 6, 49};

// A small model of each type, written to a directory.
struct OnDisk {
  mkrt::test::TempDir dir;
  explicit OnDisk(reference::Type type, int shards = 1) {
    reference::Shape shape;
    shape.type = type;
    shape.hidden = 72;
    write_checkpoint(reference::random_model(shape, 23), dir.path, shards);
  }
};

bool same_bits(const Model::Output& a, const Model::Output& b) {
  return a.tokens == b.tokens && a.logits.size() == b.logits.size() &&
         std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)) == 0;
}

TEST_CASE("workers, threads, seeds and the kind of copies change no bit") {
  for (const auto type : {reference::Type::kF32, reference::Type::kBf16}) {
    CAPTURE(reference::type_name(type));
    const OnDisk disk(type);
    const Model four(disk.dir.path);
    const Model::Output expected = four.generate(kPrompt, 4);
    for (const uint64_t seed : {1, 2, 3}) {
      mkrt::EmulatorDeviceOptions options;
      options.seed = seed;
      CHECK(same_bits(four.generate(kPrompt, 4, options), expected));
      options.os_threads = 2;
      CHECK(same_bits(four.generate(kPrompt, 4, options), expected));
    }
    for (const uint32_t workers : {1u, 3u, 8u}) {
      CAPTURE(workers);
      CHECK(same_bits(Model(disk.dir.path, Build{workers, true, false}).generate(kPrompt, 4), expected));
    }
    CHECK(same_bits(Model(disk.dir.path, Build{2, false, false}).generate(kPrompt, 4), expected));
  }
}

TEST_CASE("shards change no bit") {
  const OnDisk one(reference::Type::kBf16), three(reference::Type::kBf16, 3);
  CHECK(same_bits(Model(one.dir.path).generate(kPrompt, 3), Model(three.dir.path).generate(kPrompt, 3)));
}

TEST_CASE("chunks of the same product variant change no bit") {
  // 2-byte weights: 1 token by multiply-adds, 2 to 8 and 9 to 16 by matrix instructions whose sums have one
  // order; f32 weights always add in one order. The rest of a step does not look at the number of tokens.
  for (const auto type : {reference::Type::kF32, reference::Type::kBf16}) {
    const OnDisk disk(type);
    const Model model(disk.dir.path);
    const std::vector<int32_t> prompt(kPrompt.begin(), kPrompt.begin() + 16);
    const Model::Output whole = model.generate(prompt, 1);
    // A prompt of 19 goes in as 16 and 3: its first rows are those of the prompt of 16.
    const Model::Output longer = model.generate(kPrompt, 1);
    CHECK(std::memcmp(whole.logits.data(), longer.logits.data(), whole.logits.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("the emulator's race mode finds nothing and changes no bit") {
  const OnDisk disk(reference::Type::kBf16);
  const Model::Output expected = Model(disk.dir.path).generate(kPrompt, 2);
  CHECK(same_bits(Model(disk.dir.path, Build{3, true, true}).generate(kPrompt, 2), expected));
}

}  // namespace
}  // namespace mkc
