#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>

#include "codegen/host_bodies.h"
#include "codegen/shared_object.h"
#include "codegen/targets.h"
#include "tests/unit/codegen/fixtures.h"

namespace mkc {
namespace {

bool names(const std::vector<std::byte>& object, std::string_view function) {
  return std::string_view(reinterpret_cast<const char*>(object.data()), object.size()).find(function) !=
         std::string_view::npos;
}

TEST_CASE("a quick kernel of a processor calls the bodies that an ordinary one inlines") {
  const Schedule schedule = test::scheduled(test::llama_config(), "x86-64-v3");
  for (const char* level : {"x86-64-v3", "x86-64-avx512", "x86-64-v4", "x86-64-amx"}) {
    CAPTURE(level);
    const Target target = find_target(level).value();
    const auto object = [&](bool quick) {
      return make_processor_object(schedule, Mode::kMegakernel, target, quick);
    };
    const std::vector<std::byte> ordinary = object(false), quick = object(true);
    CHECK(quick.size() < ordinary.size());
    CHECK(names(quick, "mkb_attend_bf16"));
    CHECK_FALSE(names(ordinary, "mkb_attend_bf16"));
  }
}

TEST_CASE("the emulator has bodies in machine code, and others that report their accesses by source line") {
  const HostBodies *plain = host_bodies(false), *reporting = host_bodies(true);
  if (!target_of_processor().ok()) {
    CHECK(plain == nullptr);
    return;
  }
  const auto has = [](const HostBodies* bodies, const char* name) {
    return std::ranges::any_of(bodies->functions, [&](const auto& f) { return f.first == name && f.second; });
  };
  for (const char* name : {"mkb_attend_bf16", "mkb_product_rows", "mkb_sample", "mkd_segment_begin"}) {
    CAPTURE(name);
    CHECK(has(plain, name));
    CHECK(has(reporting, name));
  }
  CHECK(plain->sites.empty());
  CHECK(reporting->sites.size() > 100);
  CHECK(
      std::ranges::any_of(reporting->sites, [](const auto& site) { return site.starts_with("attend.cc:"); }));
}

}  // namespace
}  // namespace mkc
