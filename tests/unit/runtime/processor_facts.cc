#include "runtime/device/processor_facts.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/device/processor.h"

namespace mkrt {
namespace {

TEST_CASE("ascending numbers are told as ranges") {
  CHECK(ranges_text({}) == "");
  CHECK(ranges_text({4}) == "4");
  CHECK(ranges_text({0, 1}) == "0-1");
  CHECK(ranges_text({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
}

TEST_CASE("this processor has a name, a target and as many cores as processors at most") {
  const ProcessorFacts facts = ask_processor();
  CHECK_FALSE(facts.name.empty());
  CHECK(facts.target == processor_target());
  CHECK(facts.processors.size() == usable_processors().size());
  CHECK(facts.cores >= 1);
  CHECK(facts.cores <= facts.processors.size());
  CHECK(facts.memory_bytes > 0);
  CHECK(std::count(facts.model.begin(), facts.model.end(), '-') >= 3);
}

}  // namespace
}  // namespace mkrt
