// libedit edits the lines of a terminal.
#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cwchar>
#include <string_view>

#include "tools/chat/message_input.h"
#include "tools/output.h"

namespace mkc {
namespace {

constexpr int kRemembered = 1000;  // lines of the history
constexpr char kInterrupt[] = "mkc-interrupt", kSuspend[] = "mkc-suspend";

// CtrlC says how the key ended a line.
enum class CtrlC { kNone, kEmptyLine, kBegunLine };

// EditState is the client data of an EditLine.
struct EditState {
  Interrupts& interrupts;
  CtrlC pressed = CtrlC::kNone;
};

EditState& state_of(EditLine* edit) {
  EditState* state = nullptr;
  el_get(edit, EL_CLIENTDATA, &state);
  return *state;
}

unsigned char end_line(EditLine* edit, int) {
  const LineInfo* line = el_line(edit);
  state_of(edit).pressed = line->lastchar > line->buffer ? CtrlC::kBegunLine : CtrlC::kEmptyLine;
  return CC_EOF;
}

// Reads a key for libedit: 1 for a character, 0 at the end, -1 for an error. A signal does what the key does.
// The terminal sends it between the prompt and the first call, where libedit has not taken the terminal yet.
int read_key(EditLine* edit, wchar_t* key) {
  Interrupts& interrupts = state_of(edit).interrupts;
  for (std::mbstate_t decoder{};;) {
    std::array<pollfd, 2> ready{{{STDIN_FILENO, POLLIN, 0}, {interrupts.descriptor(), POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return -1;
    if (ready[1].revents != 0) {
      interrupts.clear();
      end_line(edit, 0);
      return 0;
    }
    if (ready[0].revents == 0) continue;
    char byte = 0;
    const ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return static_cast<int>(got);
    const size_t used = std::mbrtowc(key, &byte, 1, &decoder);
    if (used == static_cast<size_t>(-1)) decoder = {};  // bytes that are no UTF-8 are no key
    if (used <= 1) return 1;
  }
}

unsigned char suspend(EditLine*, int) {
  std::raise(SIGTSTP);
  return CC_REDISPLAY;  // the shell has written below the line
}

char* prompt(EditLine*) {
  static char text[] = "> ";
  return text;
}

class TerminalInput final : public MessageInput {
 public:
  TerminalInput(EditLine* edit, History* history, Interrupts& interrupts)
      : edit_(edit), history_(history), state_{interrupts} {
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, kRemembered);
    ::history(history_, &event, H_SETUNIQUE, 1);
    el_set(edit_, EL_PROMPT, prompt);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_HIST, ::history, history_);
    el_set(edit_, EL_CLIENTDATA, &state_);
    el_wset(edit_, EL_GETCFN, read_key);
    el_set(edit_, EL_ADDFN, kInterrupt, "Drop the line", end_line);
    el_set(edit_, EL_BIND, "^C", kInterrupt, nullptr);
    el_set(edit_, EL_ADDFN, kSuspend, "Stop the program", suspend);
    el_set(edit_, EL_BIND, "^Z", kSuspend, nullptr);
    // The terminal sends no signals while a line is edited: the keys reach their bindings.
    el_set(edit_, EL_SETTY, "-d", "-isig", nullptr);
    el_set(edit_, EL_SIGNAL, 1);  // libedit restores the terminal while the program is stopped
  }
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;
  ~TerminalInput() override {
    el_end(edit_);
    history_end(history_);
  }

  mkrt::Result<std::optional<std::string>> next() override {
    for (;;) {
      state_.pressed = CtrlC::kNone;
      int count = 0;
      const char* line = el_gets(edit_, &count);
      if (state_.pressed == CtrlC::kBegunLine) {
        put_stderr("^C\n");
        continue;
      }
      if (!line || count <= 0) {
        put_stderr("\n");
        return std::optional<std::string>();
      }
      std::string_view text(line, static_cast<size_t>(count));
      if (text.ends_with('\n')) text.remove_suffix(1);
      remember(std::string(text));
      return std::optional(std::string(text));
    }
  }

 private:
  void remember(const std::string& text) {
    HistEvent event;
    if (!text.empty()) ::history(history_, &event, H_ENTER, text.c_str());
  }

  EditLine* edit_;
  History* history_;
  EditState state_;
};

}  // namespace

mkrt::Result<std::unique_ptr<MessageInput>> open_terminal_input(Interrupts& interrupts) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // libedit reads characters of more than one byte by the locale
  EditLine* edit = el_init("mkc", stdin, stderr, stderr);
  History* lines = edit ? history_init() : nullptr;
  if (!lines) {
    if (edit) el_end(edit);
    return mkrt::Error{"mkc: error: libedit cannot use the terminal"};
  }
  return std::unique_ptr<MessageInput>(std::make_unique<TerminalInput>(edit, lines, interrupts));
}

}  // namespace mkc
