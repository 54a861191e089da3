// mkc serve has these arguments and flags.
#pragma once

#include "tools/run_arguments.h"
#include "tools/serve/http_server.h"

namespace mkc {

struct ServeArguments {
  RunArguments run;  // model, device and cache
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: a free one
  std::optional<std::string> api_key;
  std::vector<std::string> allowed_origins;  // of pages that may use the server
  std::string name;                          // of the model; empty: its path
  HttpLimits limits;
  uint32_t max_waiting = 256;
  uint32_t request_timeout_s = 0;  // 0: none
  uint32_t grace_s = 30;
  uint32_t step_timeout_s = 60;  // 0: none
  uint32_t load_timeout_s = 1800;
  bool log_requests = false;
  std::string device_link;  // of a process that runs the device for a server: see open_device_link()
};

void add_serve_options(CLI::App& command, ServeArguments& arguments);

// Checks the arguments, and takes the API key of the environment where no flag gives one. Errors: those of
// check_device(); an empty key; those of check_origin().
Status check_serve(ServeArguments& arguments);

}  // namespace mkc
