#include "tools/chat/message_input.h"

#include <unistd.h>

#include "tools/line_reader.h"

namespace mkc {
namespace {

class PipeInput final : public MessageInput {
 public:
  explicit PipeInput(const Interrupts& interrupts) : interrupts_(interrupts) {}

  mkrt::Result<std::optional<std::string>> next() override {
    return lines_.next(true, interrupts_.descriptor());
  }

 private:
  const Interrupts& interrupts_;
  LineReader lines_{STDIN_FILENO, "standard input"};
};

}  // namespace

std::unique_ptr<MessageInput> open_pipe_input(const Interrupts& interrupts) {
  return std::make_unique<PipeInput>(interrupts);
}

}  // namespace mkc
