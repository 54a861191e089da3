#include <ctime>
#include <fstream>

#include "tools/artefact.h"
#include "tools/chat_prompt.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/run_inputs.h"
#include "tools/serve/device_main.h"
#include "tools/serve/device_process.h"
#include "tools/serve/run_service.h"
#include "tools/serve_arguments.h"
#include "tools/signals.h"

namespace mkc {
namespace {

// Sets how chats become prompts, where the checkpoint has a chat template. Errors: those of
// read_render_chat().
Status read_template(const std::string& directory, ServedModel& model) {
  MKC_TRY(render, read_render_chat(directory));
  if (!render) return {};
  model.render_chat = [render = std::move(render), folder = directory + "/"](
                          const nlohmann::ordered_json& messages,
                          const nlohmann::ordered_json& variables) -> Result<std::string> {
    Result<std::string> text = render(messages, variables);
    if (text.ok() || !text.error().message.starts_with(folder)) return text;
    return Error{text.error().message.substr(folder.size())};  // clients do not learn where the model lies
  };
  return {};
}

// Returns what is known of the model before it is compiled. Errors: files that cannot be read; no tokenizer.
Result<ServedModel> read_served_model(const ServeArguments& a) {
  MKC_TRY(directory, checkpoint_directory(a.run));
  MKC_TRY(defaults, read_defaults(directory));
  MKC_TRY(tokenizer, find_tokenizer(directory, "mkc serve"));
  ServedModel model;
  model.name = a.name;
  model.tokenizer = std::move(*tokenizer);
  model.sampling = sampling_of({}, defaults);
  model.created = std::time(nullptr);
  MKC_TRY_STATUS(read_template(directory, model));
  return model;
}

// Compiles and loads the model, and runs its steps for the server that started this process.
Status run_steps(const ServeArguments& a) {
  MKC_TRY(link, open_device_link(a.device_link));
  MKC_TRY(loaded, load(a.run));
  MKC_TRY(session, open_session(a.run, loaded, UINT32_MAX));
  return run_device(session, loaded.device->name(), link);
}

// Returns this program's command line.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

// Starts the process of the device, and runs the engine until the loop is stopped.
Status run_engine(const ServeArguments& a, const RunningService& running, ServedModel model,
                  DeviceProcess& device) {
  MKC_TRY_STATUS(device.start());
  mkrt::EngineOptions options;
  options.stop_ids = device.ready().end_ids;
  options.steps_per_launch = a.run.steps_per_launch;
  options.prefix_cache = a.run.prefix_cache;
  options.max_rows_beside_decodes = a.run.max_rows_beside_decodes;
  if (a.run.recompute) options.preemption = mkrt::Preemption::kRecompute;
  Result<mkrt::Engine> engine = mkrt::Engine::open(device, std::move(options));
  if (!engine.ok()) return engine.error();
  model.limits = device.limits();
  model.end_ids = device.ready().end_ids;
  model.device = device.ready().device;
  if (device.ready().traced) model.read_trace = [&device] { return device.read_trace(); };
  serve_engine(running, std::move(model), engine.value());
  return {};
}

ServiceOptions options_of(const ServeArguments& a, const DeviceProcess& device, bool on_loopback) {
  ServiceOptions options;
  options.api_key = a.api_key.value_or("");
  options.allowed_origins = AllowedOrigins(a.allowed_origins);
  options.listening_host = a.host;
  options.own_hosts_only = on_loopback && options.api_key.empty();
  options.max_waiting = a.max_waiting;
  options.request_timeout = std::chrono::seconds(a.request_timeout_s);
  options.step_limit = std::chrono::seconds(a.step_timeout_s);
  options.device_runs = [&device] { return device.is_running(); };
  options.version = version();
  if (a.log_requests) options.log = [](const std::string& line) { put_stderr(line); };
  return options;
}

Status serve(ServeArguments a) {
  if (Status status = check_serve(a); !status.ok()) return status;
  MKC_TRY_STATUS(find_models(a.run));
  if (!a.device_link.empty()) return run_steps(a);
  MKC_TRY(model, read_served_model(a));
  MKC_TRY(server, HttpServer::listen(a.host, a.port, a.limits, Service::refusal));
  server.allow(AllowedOrigins(a.allowed_origins));
  EngineLoop loop;
  DeviceProcess device({.command = command_line(),
                        .step_limit = std::chrono::seconds(a.step_timeout_s),
                        .load_limit = std::chrono::seconds(a.load_timeout_s)});
  Service service(server, loop, options_of(a, device, server.on_loopback()));
  const RunningService running{server, loop, service};
  print_err("mkc serve: listening on {}, loading {}\n", url_of(a.host, server.port()), a.run.request.model);
  return run_service(
      running, std::chrono::seconds(a.grace_s),
      [&] { return run_engine(a, running, std::move(model), device); }, [&] { device.stop(); },
      end_by_signal);
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("serve", "answer requests over HTTP, as OpenAI's API does");
  auto a = std::make_shared<ServeArguments>();
  add_serve_options(*command, *a);
  command->callback([a, &action] { action = [a] { return serve(*a); }; });
}

}  // namespace mkc
