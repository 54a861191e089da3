// Small configs, checkpoints on disk and listings for the frontend's tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/op_graph.h"

namespace mkc::test {

// A directory that is removed at the end of the test.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string write(const std::string& name, std::string_view text) const;  // returns the path
  const std::string path;
};

// config.json of a one-layer model of a family: 4 heads, 2 key/value heads, head_dim 8, hidden 32, vocab 100.
std::string llama_config();
std::string qwen2_config();
std::string qwen3_config();
std::string mistral_config();
std::string qwen3_moe_config();  // 4 experts of width 24, of which 2 are chosen
std::string mixtral_config();    // 3 experts of width 48, of which 2 are chosen

// `text` with the one place where `from` stands replaced; a test bug where it does not stand once.
std::string edited(std::string text, const std::string& from, const std::string& to);

// The graph of a config alone, or of a checkpoint directory that holds it.
Result<OpGraph> graph_of(const std::string& config, const ModelOptions& options = {},
                         const std::vector<CheckpointTensor>& tensors = {});

// The tensors that the weights of `graph` name, as a checkpoint would hold them: one for each expert.
std::vector<CheckpointTensor> checkpoint_of(const OpGraph& graph);

// One op a line: "layer op inputs -> outputs attrs".
std::string listing(const OpGraph& graph);

// First line of an error, the temporary directory's name taken out; "" for a success.
template <class T>
std::string headline(const Result<T>& result);
std::string headline_of(const std::string& message);

template <class T>
std::string headline(const Result<T>& result) {
  return result.ok() ? "" : headline_of(result.error().message);
}

}  // namespace mkc::test
