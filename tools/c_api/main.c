/* The command mkc beside libmkc.so, which has all of it. */
#include "tools/c_api/mkc.h"

int main(int argc, char** argv) {
  return mkc_command(argc, argv);
}
