// mkc chat has these arguments and flags.
#pragma once

#include <string>

#include "tools/run_arguments.h"

namespace mkc {

struct ChatArguments {
  RunArguments run;    // model, device, cache and sampling
  std::string system;  // "": no system message
};

void add_chat_options(CLI::App& command, ChatArguments& arguments);

}  // namespace mkc
