// The lines of a terminal, edited by libedit.
#include <histedit.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <string_view>

#include "tools/chat/message_input.h"
#include "tools/output.h"

namespace mkc {
namespace {

constexpr int kRemembered = 1000;  // lines of the history
constexpr char kInterrupt[] = "mkc-interrupt", kSuspend[] = "mkc-suspend";

// CtrlC says how the key ended a line. It is the client data of an EditLine.
enum class CtrlC { kNone, kEmptyLine, kBegunLine };

unsigned char end_line(EditLine* edit, int) {
  CtrlC* pressed = nullptr;
  el_get(edit, EL_CLIENTDATA, &pressed);
  const LineInfo* line = el_line(edit);
  *pressed = line->lastchar > line->buffer ? CtrlC::kBegunLine : CtrlC::kEmptyLine;
  return CC_EOF;
}

unsigned char suspend(EditLine*, int) {
  std::raise(SIGTSTP);
  return CC_REFRESH;
}

char* prompt(EditLine*) {
  static char text[] = "> ";
  return text;
}

class TerminalInput final : public MessageInput {
 public:
  TerminalInput(EditLine* edit, History* history) : edit_(edit), history_(history) {
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, kRemembered);
    ::history(history_, &event, H_SETUNIQUE, 1);
    el_set(edit_, EL_PROMPT, prompt);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_HIST, ::history, history_);
    el_set(edit_, EL_CLIENTDATA, &pressed_);
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
      pressed_ = CtrlC::kNone;
      int count = 0;
      const char* line = el_gets(edit_, &count);
      if (pressed_ == CtrlC::kBegunLine) {
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
  CtrlC pressed_ = CtrlC::kNone;
};

}  // namespace

mkrt::Result<std::unique_ptr<MessageInput>> open_terminal_input() {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // libedit reads characters of more than one byte by the locale
  EditLine* edit = el_init("mkc", stdin, stderr, stderr);
  History* lines = edit ? history_init() : nullptr;
  if (!lines) {
    if (edit) el_end(edit);
    return mkrt::Error{"mkc: error: libedit cannot use the terminal"};
  }
  return std::unique_ptr<MessageInput>(std::make_unique<TerminalInput>(edit, lines));
}

}  // namespace mkc
