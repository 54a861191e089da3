#include "tools/chat_arguments.h"

#include "tools/flags.h"

namespace mkc {

void add_chat_options(CLI::App& command, ChatArguments& a) {
  add_device_options(command, a.run);
  command.add_option("--system", a.system, "message that comes before all others")->type_name("TEXT");
  add_new_tokens_option(command, a.run, "of an answer; default: as many as the context leaves");
  add_page_options(command, a.run);
  add_steps_option(command, a.run);
  add_sampling_options(command, a.run.sampling);
  add_launch_options(command, a.run);
}

}  // namespace mkc
