#include <fmt/format.h>

#include <exception>

#include "tools/commands.h"

int main(int argc, char** argv) {
  try {
    return mkc::run_command(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "mkc: compiler bug: {}\n", e.what());
    return 70;
  }
}
