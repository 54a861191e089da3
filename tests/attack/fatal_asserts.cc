#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/attack/fatal_asserts.h"

#include <unistd.h>

namespace mkc::attack {

FatalAsserts::FatalAsserts() {
  context_.setAsDefaultForAssertsOutOfTestCases();
  context_.setAssertHandler([](const doctest::AssertData&) { _exit(3); });
}

}  // namespace mkc::attack
