#include "tools/commands.h"

int main(int argc, char** argv) {
  return mkc::run_main(argc, argv);
}
