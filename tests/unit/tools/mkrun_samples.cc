#include <nlohmann/json.hpp>

#include "tests/unit/runtime/fake_device.h"
#include "tools/mkrun/samples.h"

namespace mkrt {
namespace {

using namespace test;

TEST_CASE("a kernel's samples are held beside the host's, by parameters of every kind") {
  FakeDevice device;
  Session session = opened(device);
  const std::vector<int32_t> prompt{1, 2, 3, 4, 5};
  const auto compared = [&] { return compare_samples(session, prompt, 6).value(); };
  CHECK(compared() == nlohmann::json{{"samples", 60}, {"different", 0}});
  device.off_by = 1;
  const nlohmann::json wrong = compared();
  CHECK(wrong["different"] == 60);
  CHECK(wrong["sampling"] == 0);
  CHECK(wrong["number"] == 0);
  CHECK(wrong["found"] == (wrong["expected"].get<int>() + 1) % 10);
  device.off_by = 0;
  CHECK(error_of(compare_samples(session, prompt, 9)) ==
        "prompt: error: 5 tokens and 9 new ones need 13 positions, the context has 12");
}

}  // namespace
}  // namespace mkrt
