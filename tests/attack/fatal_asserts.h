// Makes doctest's assertions work in a program without test cases. The reference model checks its files by
// them.
#pragma once

#include <doctest/doctest.h>

namespace mkc::attack {

// An assertion that fails while a FatalAsserts lives ends the process with status 3.
class FatalAsserts {
 public:
  FatalAsserts();

 private:
  doctest::Context context_;
};

}  // namespace mkc::attack
