// These fixtures provide small configs, checkpoints on disk and listings for the frontend's tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/op_graph.h"

namespace mkc::test {

// TempDir is a directory that is removed at the end of the test.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string write(const std::string& name, std::string_view text) const;  // returns the path
  const std::string path;
};

// Each function returns the config.json of a one-layer model of a family. The model has 4 heads, 2 key/value
// heads, head_dim 8, hidden size 32 and vocabulary 100.
std::string llama_config();
std::string qwen2_config();
std::string qwen3_config();
std::string mistral_config();
std::string qwen3_moe_config();  // 4 experts of width 24, of which 2 are chosen
std::string mixtral_config();    // 3 experts of width 48, of which 2 are chosen

// Returns `text` with its one occurrence of `from` replaced. The test fails if `from` occurs never or twice.
std::string edited(std::string text, const std::string& from, const std::string& to);

// Returns the graph of a config alone, or of a checkpoint directory with this config and these tensors.
Result<OpGraph> graph_of(const std::string& config, const ModelOptions& options = {},
                         const std::vector<CheckpointTensor>& tensors = {});

// Returns the graph of a config alone. The test fails if there is none.
OpGraph valid_graph_of(const std::string& config);
// Returns the tensor of a name. The test fails if there is none.
const Tensor& tensor_of(const OpGraph& graph, const std::string& name);

// Returns the checkpoint tensors that the weights of `graph` name. An expert weight has one tensor for each
// expert.
std::vector<CheckpointTensor> checkpoint_of(const OpGraph& graph);

// Returns the fenced block of docs/families.md that follows the line `<!-- NAME -->`. The test fails if there
// is none.
std::string example(const std::string& name);

// Returns one op a line, as "layer op inputs -> outputs attrs".
std::string listing(const OpGraph& graph);

// Returns the first line of an error, with the temporary directory's path replaced by DIR. A success gives
// "".
template <class T>
std::string headline(const Result<T>& result);
std::string headline_of(const std::string& message);

template <class T>
std::string headline(const Result<T>& result) {
  return result.ok() ? "" : headline_of(result.error().message);
}

}  // namespace mkc::test
