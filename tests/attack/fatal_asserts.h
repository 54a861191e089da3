// doctest's assertions in a program without test cases: the reference checks its files by them.
#pragma once

#include <doctest/doctest.h>

namespace mkc::attack {

// While it lives, an assertion that fails ends the process with status 3.
class FatalAsserts {
 public:
  FatalAsserts();

 private:
  doctest::Context context_;
};

}  // namespace mkc::attack
