#include <exception>
#include <new>

#include "tools/commands.h"
#include "tools/output.h"

int main(int argc, char** argv) {
  try {
    return mkc::run_command(argc, argv);
  } catch (const std::bad_alloc&) {
    mkc::put_stderr("mkc: error: out of memory\n");
    return 1;
  } catch (const std::exception& e) {
    mkc::print_err("mkc: compiler bug: {}\n", e.what());
    return 70;
  }
}
