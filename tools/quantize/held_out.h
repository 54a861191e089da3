// A model has a loss on documents that it has not seen, measured by mkc on the processor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/diag.h"

namespace mkc::quantize {

using Documents = std::vector<std::vector<int32_t>>;  // ids of tokens

// Reads a file with a document in each line: text, or a JSON list of ids. The checkpoint's tokenizer encodes
// text, with the ids that it puts around texts, and the first id that ends a text follows. Empty lines count
// nothing. A line that is a JSON array is a list.
//
// Errors: a file without documents. A line with a single token, with an id that is not below `vocab`, with
// another element, or that the tokenizer cannot encode. A tokenizer that is missing or wrong.
Result<Documents> read_documents(const std::string& path, const std::string& checkpoint, uint64_t vocab);

struct Loss {
  double nats = 0;      // a token
  uint64_t tokens = 0;  // that were predicted: all of a document but its first
};

// Runs a checkpoint on the processor. Documents are cut to the context, and to 1024 tokens. Errors: those of
// compiling and of steps.
Result<Loss> loss_of(const std::string& checkpoint, const Documents& documents);

}  // namespace mkc::quantize
