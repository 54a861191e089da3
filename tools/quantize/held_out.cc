#include "tools/quantize/held_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "runtime/base/file.h"
#include "tools/progress.h"
#include "tools/quantize/id_list.h"
#include "tools/run_inputs.h"
#include "tools/run_load.h"

namespace mkc::quantize {
namespace {

constexpr size_t kMaxDocumentBytes = size_t{64} << 20;
constexpr size_t kMaxDocumentTokens = 1024;  // of a document, all of whose logits are in memory at once

Result<std::vector<int32_t>> encode_text(const std::string& line, const mkrt::Tokenizer& tokenizer,
                                         const GenerationDefaults& defaults) {
  Result<std::vector<int32_t>> ids = mkrt::encode(tokenizer, line, true);
  if (ids.ok() && !defaults.end_ids.empty()) ids.value().push_back(defaults.end_ids[0]);
  return ids;
}

// Returns -ln of the probability of a token under logits.
double nats_of(std::span<const float> logits, int32_t token) {
  const double max = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return std::log(sum) + max - logits[static_cast<size_t>(token)];
}

// Adds the loss of a document, all of whose tokens are known.
Status add_document(mkrt::Session& session, std::span<const int32_t> ids, size_t vocab, Loss& loss) {
  session.set_position(0);  // a document knows nothing of the one before
  std::vector<float> logits;
  mkrt::GenerateOptions options;
  options.max_new_tokens = 1;
  options.logits = &logits;
  const auto generated = mkrt::generate(session, ids.first(ids.size() - 1), options);
  if (!generated.ok()) return generated.error();
  for (size_t i = 1; i < ids.size(); ++i)
    loss.nats += nats_of(std::span(logits).subspan((i - 1) * vocab, vocab), ids[i]);
  loss.tokens += ids.size() - 1;
  return {};
}

// Reader turns lines into ids. The tokenizer is opened for the first line of text.
struct Reader {
  const std::string& checkpoint;
  uint64_t vocab;
  GenerationDefaults defaults;
  std::optional<mkrt::Tokenizer> tokenizer{};

  Result<std::vector<int32_t>> encode_line(const std::string& line, const Loc& at) {
    if (!tokenizer) {
      MKC_TRY(found, find_tokenizer(checkpoint, "the text of --held-out; lists of ids need none"));
      tokenizer = std::move(found);
    }
    Result<std::vector<int32_t>> ids = encode_text(line, *tokenizer, defaults);
    if (!ids.ok()) return error_at(at, ids.error().message);
    for (const int32_t id : ids.value())
      if (static_cast<uint64_t>(id) >= vocab)
        return error_at(at, fmt::format("has id {}, expected ids from 0 to {}", id, vocab - 1));
    return ids;
  }

  Result<std::vector<int32_t>> read(const std::string& line, const Loc& at) {
    MKC_TRY(listed, read_id_list(line, vocab, at));
    Result<std::vector<int32_t>> ids = listed ? std::move(*listed) : encode_line(line, at);
    if (ids.ok() && ids.value().size() < 2)
      return error_at(at, fmt::format("found {} token, expected at least 2", ids.value().size()));
    return ids;
  }
};

}  // namespace

Result<Documents> read_documents(const std::string& path, const std::string& checkpoint, uint64_t vocab) {
  MKC_TRY(text, mkrt::read_text(path, kMaxDocumentBytes));
  MKC_TRY(defaults, read_defaults(checkpoint));
  Reader reader{checkpoint, vocab, std::move(defaults)};
  Documents documents;
  std::istringstream lines(text);
  uint32_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    MKC_TRY(ids, reader.read(line, {path, number, 1}));
    documents.push_back(std::move(ids));
  }
  if (documents.empty()) return Error{fmt::format("{}: error: has no line of text or of ids", path)};
  return documents;
}

Result<Loss> loss_of(const std::string& checkpoint, const Documents& documents) {
  RunArguments arguments;
  arguments.request.model = checkpoint;
  arguments.device = "cpu";
  arguments.keep_weights = kDoNotKeep;
  MKC_TRY(loaded, load(arguments));
  MKC_TRY(session, open_session(arguments, loaded, 0));
  Loss loss;
  ProgressLine progress;
  for (size_t i = 0; i < documents.size(); ++i) {
    progress.count("held-out loss", i, documents.size(), "documents");
    const size_t tokens = std::min<size_t>({documents[i].size(), session.context(), kMaxDocumentTokens});
    const auto ids = std::span(documents[i]).first(tokens);
    MKC_TRY_STATUS(add_document(session, ids, loaded.artefact.manifest.vocab, loss));
  }
  loss.nats /= static_cast<double>(loss.tokens);
  return loss;
}

}  // namespace mkc::quantize
