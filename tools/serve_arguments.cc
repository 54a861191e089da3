#include "tools/serve_arguments.h"

#include <cstdlib>

#include "tools/flags.h"

namespace mkc {
namespace {

constexpr uint32_t kMaxSeconds = 86400;
constexpr char kKeyVariable[] = "MKC_API_KEY";

// Adds a flag that takes a whole number of seconds.
void add_seconds(CLI::App& command, const std::string& flag, uint32_t& to, uint32_t min,
                 const std::string& help) {
  add_integer<uint32_t>(command, flag, to, min, kMaxSeconds, help);
}

}  // namespace

void add_serve_options(CLI::App& command, ServeArguments& a) {
  CLI::Option* mode = add_device_options(command, a.run);
  command.add_option("--host", a.host, "address to listen on; default 127.0.0.1: this machine alone")
      ->type_name("HOST");
  add_integer<uint16_t>(command, "--port", a.port, 0, UINT16_MAX,
                        "default 8000; 0: a free one, which is printed");
  command.add_option("--api-key", a.api_key, "key that clients must give; default: $MKC_API_KEY, or none")
      ->type_name("KEY");
  command
      .add_option("--allowed-origin", a.allowed_origins,
                  "origin of web pages that may use the server, such as https://app.example; * allows all")
      ->type_name("ORIGIN")
      ->allow_extra_args(false);
  command.add_option("--served-model-name", a.name, "name of the model for clients; default: MODEL")
      ->type_name("NAME");
  add_integer<uint32_t>(command, "--max-connections", a.limits.max_connections, 1, 65536, "default 512");
  add_integer<uint32_t>(command, "--max-waiting", a.max_waiting, 0, 1u << 20,
                        "choices beyond those of one step (--max-requests) that may wait; default 256");
  add_integer<uint64_t>(command, "--max-body-bytes", a.limits.max_body_bytes, 1, 1u << 30,
                        "of a request; default 16777216");
  add_seconds(command, "--request-timeout", a.request_timeout_s, 0,
              "seconds from a request to the end of its answer; default 0: no limit");
  command
      .add_option_function<std::string>(
          "--client-timeout",
          [&a](const std::string& text) {
            a.limits.client_timeout =
                std::chrono::seconds(parse_flag<uint32_t>("--client-timeout", text, 1, kMaxSeconds));
          },
          "seconds that a client may take to send a request, or to take 64 KiB of an answer; default 60")
      ->type_name("INT");
  add_seconds(command, "--grace", a.grace_s, 0,
              "seconds that answers have to end after SIGTERM or SIGINT; default 30");
  add_seconds(command, "--step-timeout", a.step_timeout_s, 0,
              "seconds after which a step ends the process that runs it, and another takes over; default 60, "
              "0: no limit");
  add_seconds(command, "--load-timeout", a.load_timeout_s, 1,
              "seconds after which a process that still compiles or loads the model is ended; default 1800");
  command.add_option("--device-link", a.device_link)
      ->group("");  // not for users: a server starts itself with it
  command
      .add_flag_callback(
          "--trace-steps", [&a] { a.run.request.mode = Mode::kTraced; },
          "let the kernel stamp what its workers do; the page and /debug/step show the last launch")
      ->excludes(mode);
  command.add_flag("--log-requests", a.log_requests, "print a line for each generating request");
  add_cache_options(command, a.run);
  add_steps_option(command, a.run);
  add_launch_options(command, a.run);
}

Status check_serve(ServeArguments& a) {
  if (Status status = check_device(a.run); !status.ok()) return status;
  if (const char* key = std::getenv(kKeyVariable); !a.api_key && key) {
    if (!*key) return Error{fmt::format("{}: error: found an empty value, expected a key", kKeyVariable)};
    a.api_key = key;
  }
  for (const std::string& origin : a.allowed_origins)
    if (Status status = check_origin(origin); !status.ok()) return status;
  if (a.name.empty()) a.name = a.run.request.model;
  return {};
}

}  // namespace mkc
