// A person or a pipe sends messages line by line.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/base/status.h"
#include "tools/chat/interrupts.h"

namespace mkc {

class MessageInput {
 public:
  virtual ~MessageInput() = default;
  // Waits for a line. Returns nothing at the end: the end of the file, Ctrl-D, or Ctrl-C where no line has
  // been begun. Errors: those of reading.
  virtual mkrt::Result<std::optional<std::string>> next() = 0;
};

// Returns the lines of a terminal, with line editing and a history of this conversation. Ctrl-C drops a line
// that has been begun. The prompt goes to standard error. The interrupts must outlive the result. Error:
// libedit cannot use the terminal.
mkrt::Result<std::unique_ptr<MessageInput>> open_terminal_input(Interrupts& interrupts);

// Returns the lines of standard input as they are. The interrupts must outlive the result.
std::unique_ptr<MessageInput> open_pipe_input(const Interrupts& interrupts);

}  // namespace mkc
