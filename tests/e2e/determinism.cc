// These tests check that bits do not depend on how a step is run.
#include <doctest/doctest.h>

#include "tests/e2e/pipeline.h"
#include "tests/reference/model.h"
#include "tests/unit/temp_dir.h"

namespace mkc {
namespace {

using test::Build;
using test::Model;

const std::vector<int32_t> kPrompt{5, 1, 88, 42, 7, 9, 64, 3, 27, 90, 11, 2, 70, 33, 18, 54, 21, 6, 49};

reference::Model weights(reference::Type type) {
  reference::Shape shape;
  shape.type = type;
  shape.hidden = 72;
  return reference::random_model(shape, 23);
}

TEST_CASE("workers, threads, seeds, the kind of copies and quick code change no bit") {
  for (const auto type : {reference::Type::kF32, reference::Type::kBf16}) {
    CAPTURE(reference::type_name(type));
    const reference::Model model = weights(type);
    const Model four(model, {.quick = false});
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
      CHECK(same_bits(Model(model, Build{workers, true, false, 16}).generate(kPrompt, 4), expected));
    }
    CHECK(same_bits(Model(model, Build{2, false, false, 16}).generate(kPrompt, 4), expected));
  }
}

TEST_CASE("who claims which task changes no bit") {
  const PlacementRule combines{"*combine", PlacementKind::kQueue, {}},
      attends{"*attend", PlacementKind::kReady, {}};
  const std::vector<PlacementRule> found{{"*combine", PlacementKind::kRange, {}},  // rules as -O3 finds them
                                         {"l*.down", PlacementKind::kRange, {}},
                                         {"l*.v", PlacementKind::kQueue, {}},
                                         {"*attend", PlacementKind::kQueue, {}}};
  struct Case {
    Scheduler scheduler;
    std::vector<PlacementRule> rules;
    uint32_t workers;
    bool bulk_copy, race;
  };
  const reference::Model model = weights(reference::Type::kBf16);
  Build build;
  build.scheduler = Scheduler::kStatic;
  const Model::Output expected = Model(model, build).generate(kPrompt, 3);
  for (const Case& c :
       {Case{Scheduler::kAuto, {}, 3, true, false}, Case{Scheduler::kDynamic, {}, 1, true, false},
        Case{Scheduler::kDynamic, {}, 8, false, false}, Case{Scheduler::kDynamic, {combines}, 3, true, true},
        Case{Scheduler::kStatic, {attends}, 3, true, true}, Case{Scheduler::kAuto, found, 3, true, true}}) {
    CAPTURE(scheduler_name(c.scheduler));
    CAPTURE(c.workers);
    build.scheduler = c.scheduler;
    build.placements = c.rules;
    build.workers = c.workers;
    build.bulk_copy = c.bulk_copy;
    build.race = c.race;
    CHECK(same_bits(Model(model, build).generate(kPrompt, 3), expected));
  }
}

TEST_CASE("products in parts change no bit, whoever finishes them") {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 50; ++i) prompt.push_back((i * 37 + 11) % 100);
  const std::vector<SplitRule> some{{"l*.o", 2, {}}, {"l*.down", 4, {}}};
  const std::vector<SplitRule> all{
      {"l*.[qkv]", 2, {}}, {"l*.o", 8, {}}, {"l*.gate_up", 2, {}}, {"l*.down", 2, {}}};
  struct Case {
    std::vector<SplitRule> splits;
    int64_t max_tokens;
    uint32_t workers;
    bool bulk_copy, race;
    Scheduler scheduler;
    Mode mode;
    std::vector<PlacementRule> placements;
  };
  const reference::Model model = weights(reference::Type::kBf16);
  const Model::Output expected = Model(model).generate(prompt, 3);
  for (const Case& c : {Case{some, 16, 3, true, true, Scheduler::kStatic, Mode::kMegakernel, {}},
                        Case{all, 33, 3, true, true, Scheduler::kStatic, Mode::kMegakernel, {}},
                        Case{all, 8, 8, false, false, Scheduler::kDynamic, Mode::kMegakernel, {}},
                        Case{all, 16, 2, true, false, Scheduler::kStatic, Mode::kKernels, {}},
                        Case{some,
                             16,
                             3,
                             true,
                             true,
                             Scheduler::kStatic,
                             Mode::kMegakernel,
                             {{"*_reduce", PlacementKind::kTable, {}}}}}) {
    Build build{c.workers, c.bulk_copy, c.race, c.max_tokens};
    build.splits = c.splits;
    build.scheduler = c.scheduler;
    build.placements = c.placements;
    build.mode = c.mode;
    CAPTURE(c.max_tokens);
    CAPTURE(c.workers);
    CHECK(same_bits(Model(model, build).generate(prompt, 3), expected));
  }
}

TEST_CASE("shards change no bit") {
  const reference::Model model = weights(reference::Type::kBf16);
  const mkrt::test::TempDir three;
  write_checkpoint(model, three.path, 3);
  CHECK(same_bits(Model(model).generate(kPrompt, 3), Model(three.path).generate(kPrompt, 3)));
}

TEST_CASE("how a prompt is cut into steps of up to 64 tokens changes no bit") {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 71; ++i) prompt.push_back((i * 37 + 11) % 100);
  for (const auto type : {reference::Type::kF32, reference::Type::kBf16}) {
    CAPTURE(reference::type_name(type));
    const reference::Model model = weights(type);
    const Model::Output by16 = Model(model).generate(prompt, 2);
    for (const int64_t max_tokens : {1, 7, 33, 64}) {
      CAPTURE(max_tokens);
      CHECK(same_bits(Model(model, {4, true, false, max_tokens}).generate(prompt, 2), by16));
    }
  }
}

TEST_CASE("the emulator's race mode finds nothing and changes no bit") {
  const reference::Model model = weights(reference::Type::kBf16);
  const Model::Output expected = Model(model).generate(kPrompt, 2);
  CHECK(same_bits(Model(model, Build{3, true, true, 16}).generate(kPrompt, 2), expected));
}

}  // namespace
}  // namespace mkc
