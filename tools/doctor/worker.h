// A process that runs doctor's checks tells what it finds line by line. It is ended where it takes too long.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ir/diag.h"

namespace mkc {

class CheckWorker {
 public:
  CheckWorker() = default;
  CheckWorker(const CheckWorker&) = delete;
  CheckWorker& operator=(const CheckWorker&) = delete;
  ~CheckWorker();  // kills the process if it still runs

  // Starts the running program once more, with these arguments.
  Status start(std::vector<std::string> command);

  enum class Heard { kLine, kEnd, kNothing };
  // Waits for the process's next JSON line, its end, or the deadline.
  Heard hear(nlohmann::ordered_json& line, double seconds);

  // Tells how the process ended. Requires that it has closed its output.
  std::string how_it_ended();

 private:
  int wait();

  pid_t child_ = 0;
  int from_ = -1;
  std::string text_;
};

}  // namespace mkc
