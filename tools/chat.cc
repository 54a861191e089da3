#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "runtime/engine/session_stepper.h"
#include "runtime/text/utf8.h"
#include "tools/chat/answer.h"
#include "tools/chat/conversation.h"
#include "tools/chat/interrupts.h"
#include "tools/chat/message_input.h"
#include "tools/chat_arguments.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/run_inputs.h"
#include "tools/run_load.h"
#include "tools/serve/served_model.h"

namespace mkc {
namespace {

constexpr char kHelp[] =
    "/exit    ends the chat, as Ctrl-D does\n"
    "/help    shows this list\n"
    "/reset   forgets the history\n"
    "//TEXT   sends a message that begins with one slash\n"
    "Ctrl-C stops an answer, drops a line that was begun, and ends the chat at an empty line\n";

// A history leaves a quarter of the context for the next answer.
constexpr uint32_t kHistoryShare = 4;

// Chat is a chat that has its model.
struct Chat {
  const ChatArguments& arguments;
  const mkrt::Tokenizer& tokenizer;
  mkrt::MkSampling sampling;
  mkrt::BatchLimits limits;
  std::vector<int32_t> end_ids;
  bool is_terminal;  // a person reads and types
  mkrt::Engine& engine;
  Conversation& conversation;
  Interrupts& interrupts;
};

// Returns the text in a dim colour, where the terminal has one.
std::string dim(const std::string& text) {
  const char* terminal = std::getenv("TERM");
  if (!terminal || !*terminal || std::string_view(terminal) == "dumb") return text;
  return "\x1b[2m" + text + "\x1b[0m";
}

void print_answer_facts(const Answer& answer, size_t prompt) {
  print_err("{}\n",
            dim(fmt::format("[{} tokens, {:.1f} tokens/s, {} of {} prompt tokens cached, ended by {}]",
                            answer.rate.tokens(), answer.rate.per_second(), answer.cached_tokens, prompt,
                            answer_end_name(answer.end))));
}

// Answers a message, and keeps both. An answer that was stopped before its first text is not kept. Errors: a
// message that cannot be answered, which leaves the chat as it was. `fault` receives errors that end the
// chat.
Status answer_message(Chat& chat, const std::string& message, Status& fault) {
  const uint32_t positions = positions_of_request(chat.limits);
  const uint32_t wanted = chat.arguments.run.max_new_tokens.value_or(positions);
  const PromptLimits limits{positions, std::min(wanted, std::max(1u, positions / kHistoryShare))};
  Result<Conversation::Prompt> prompt = chat.conversation.ask(message, limits);
  if (!prompt.ok()) return prompt.error();
  if (prompt.value().forgotten > 0)
    print_err(
        "mkc chat: the context of {} positions is full: forgot the oldest {}\n", positions,
        prompt.value().forgotten == 1 ? "exchange" : fmt::format("{} exchanges", prompt.value().forgotten));
  const size_t prompt_tokens = prompt.value().ids.size();
  const NewTokenLimit limit = limit_new_tokens(wanted, prompt_tokens, positions);
  mkrt::Request request;
  request.name = "message";
  request.prompt = std::move(prompt.value().ids);
  request.max_new_tokens = limit.tokens;
  request.sampling = chat.sampling;
  request.stop_ids = chat.end_ids;
  bool readable = true;
  ProgressLine progress;
  AnswerWatch watch;
  watch.interrupted = [&] { return chat.interrupts.seen(); };
  watch.feeding = [&](uint64_t fed, uint64_t all) {
    if (all > chat.limits.max_tokens) progress.count("prompt", fed, all, "tokens");
  };
  watch.put = [&](const std::string& text) {
    progress.clear();
    put_stdout(text);
    return readable = std::fflush(stdout) == 0;
  };
  const Result<Answer> answer = run_answer(chat.engine, std::move(request), limit.end, chat.tokenizer, watch);
  progress.clear();
  chat.interrupts.clear();  // the signal that stopped the answer is not for the next line
  if (!answer.ok()) return fault = answer.error();
  put_stdout("\n");
  if (!readable || std::fflush(stdout) != 0)
    return fault = Error{"mkc: error: cannot write to standard output"};
  if (chat.is_terminal) print_answer_facts(answer.value(), prompt_tokens);
  const bool stopped_at_once = answer.value().end == AnswerEnd::kInterrupted && answer.value().text.empty();
  if (!stopped_at_once) chat.conversation.keep(message, answer.value().text);
  return {};
}

// Does what a line asks for. Errors: as answer_message; an unknown command.
Status take_line(Chat& chat, std::string line, bool& ended, Status& fault) {
  line.erase(line.find_last_not_of(" \t\r") + 1);
  if (line.empty()) return {};
  if (!line.starts_with('/')) return answer_message(chat, line, fault);
  if (line.starts_with("//")) return answer_message(chat, line.substr(1), fault);
  if (line == "/exit") return ended = true, Status();
  if (line == "/help") return put_stderr(kHelp), Status();
  if (line == "/reset") return chat.conversation.reset(), Status();
  return Error{fmt::format("{}: error: unknown command, expected /exit, /help or /reset",
                           line.substr(0, line.find(' ')))};
}

// Answers lines until they end. A person is told of a line that is wrong, and may go on. In a pipe, such a
// line ends the chat.
Status talk(Chat& chat, MessageInput& input) {
  for (bool ended = false; !ended;) {
    MKC_TRY(line, input.next());
    if (!line) break;
    Status fault;
    Status status = take_line(chat, *line, ended, fault);
    if (!fault.ok()) return fault;
    if (!status.ok() && !chat.is_terminal) return status;
    if (!status.ok()) print_error(status.error().message);
  }
  return {};
}

struct ChatModel {
  GenerationDefaults defaults;
  std::optional<mkrt::Tokenizer> tokenizer;
  RenderChat render;
};

// Reads what a chat needs beside the compiled model. Errors: files that cannot be read; no tokenizer; no chat
// template.
Result<ChatModel> read_chat_model(const RunArguments& a) {
  MKC_TRY(directory, checkpoint_directory(a));
  ChatModel model;
  MKC_TRY(defaults, read_defaults(directory));
  model.defaults = defaults;
  MKC_TRY(render, read_render_chat(directory));
  if (!render)
    return Error{
        fmt::format("{}: error: has no chat template (chat_template.jinja, or the key chat_template of "
                    "tokenizer_config.json), expected one for mkc chat; mkc run --prompt continues a text",
                    directory)};
  model.render = std::move(render);
  MKC_TRY(tokenizer, find_tokenizer(directory, "mkc chat"));
  model.tokenizer = std::move(tokenizer);
  return model;
}

Status chat(ChatArguments a) {
  if (const std::optional<std::string> fault = mkrt::utf8_fault(a.system))
    return Error{"--system: error: " + *fault};
  MKC_TRY_STATUS(check_chat(a.run));
  const std::string name = a.run.request.model;
  MKC_TRY_STATUS(find_models(a.run));
  MKC_TRY(model, read_chat_model(a.run));
  MKC_TRY(loaded, load(a.run));
  MKC_TRY(session, open_session(a.run, loaded, 1));
  mkrt::SessionStepper stepper(session);
  mkrt::EngineOptions options;
  options.prefix_cache = a.run.prefix_cache;
  options.steps_per_launch = a.run.steps_per_launch;
  MKC_TRY(engine, mkrt::Engine::open(stepper, options));
  MKC_TRY(interrupts, Interrupts::open());
  const bool is_terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
  Conversation conversation(*model.tokenizer, std::move(model.render), a.system);
  Chat state{a,
             *model.tokenizer,
             sampling_of(a.run.sampling, model.defaults),
             session.limits(),
             loaded.artefact.manifest.eos_ids,
             is_terminal,
             engine,
             conversation,
             interrupts};
  std::unique_ptr<MessageInput> input;
  if (is_terminal) {
    MKC_TRY(terminal, open_terminal_input(interrupts));
    input = std::move(terminal);
    print_err("{}\n", dim(fmt::format("{} on {}, {} positions; /help lists the commands", name,
                                      loaded.device->name(), positions_of_request(state.limits))));
  } else {
    input = open_pipe_input(interrupts);
  }
  return talk(state, *input);
}

}  // namespace

void add_chat(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("chat", "talk with a model, by its checkpoint's chat template");
  auto a = std::make_shared<ChatArguments>();
  add_chat_options(*command, *a);
  command->callback([a, &action] { action = [a] { return chat(*a); }; });
}

}  // namespace mkc
