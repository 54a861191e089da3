// A parser of input that a user hands to mkc or libmkrt is a function of bytes here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mkc::attack {

// `run` reads the input and uses it as a valid input is used next: verification, proof, encoding, printing.
// Any input may be refused. The process ends by abort() where a stated promise of the parser is broken.
struct Parser {
  const char* name;
  void (*run)(std::string_view input);
  std::vector<std::string> (*seeds)();  // valid inputs
};

std::span<const Parser> parsers();

// These functions parse model descriptions.
void run_family(std::string_view input);
void run_model_file(std::string_view input);
void run_config(std::string_view input);
void run_generation(std::string_view input);
void run_machine(std::string_view input);
void run_mkir(std::string_view input);
// Parsers of what libmkrt reads:
void run_safetensors(std::string_view input);
void run_shard_index(std::string_view input);
void run_tokenizer(std::string_view input);
void run_manifest(std::string_view input);
void run_artefact(std::string_view input);
void run_trace(std::string_view input);
void run_batch_file(std::string_view input);
void run_chat_template(std::string_view input);
void run_tokenizer_config(std::string_view input);
// Parsers of what a client sends to a server:
void run_http(std::string_view input);
void run_chat_request(std::string_view input);
void run_completion_request(std::string_view input);
void run_tokenize_request(std::string_view input);

std::vector<std::string> family_seeds();
std::vector<std::string> model_file_seeds();
std::vector<std::string> config_seeds();
std::vector<std::string> generation_seeds();
std::vector<std::string> machine_seeds();
std::vector<std::string> mkir_seeds();
std::vector<std::string> safetensors_seeds();
std::vector<std::string> shard_index_seeds();
std::vector<std::string> tokenizer_seeds();
std::vector<std::string> manifest_seeds();
std::vector<std::string> artefact_seeds();
std::vector<std::string> trace_seeds();
std::vector<std::string> batch_file_seeds();
std::vector<std::string> chat_template_seeds();
std::vector<std::string> tokenizer_config_seeds();
std::vector<std::string> http_seeds();
std::vector<std::string> chat_request_seeds();
std::vector<std::string> completion_request_seeds();
std::vector<std::string> tokenize_request_seeds();

// Writes a file into a folder of this process and returns its path. `name` may have a folder before it. All
// is removed at the process's end. The folder holds nothing but what such calls have put there.
std::string put_file(const std::string& name, std::string_view bytes);
std::string folder();

// Returns the text of every file of a folder of the source tree whose name ends in `suffix`, in order of
// name.
std::vector<std::string> files_of(const std::string& folder, const std::string& suffix);

// Ends the process by abort() with a message, where a promise is broken.
void promise(bool kept, const char* which);

}  // namespace mkc::attack
