#include "runtime/text/pre_tokenizer.h"

#include <optional>

#include "runtime/base/json_node.h"
#include "runtime/text/byte_alphabet.h"
#include "runtime/text/punctuation.h"

namespace mkrt {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void end_piece(Pieces& pieces) {
  const size_t begin = pieces.ends.empty() ? 0 : pieces.ends.back();
  if (pieces.text.size() > begin) pieces.ends.push_back(pieces.text.size());
}

void append_piece(std::string_view piece, Pieces& pieces) {
  pieces.text += piece;
  end_piece(pieces);
}

void find_literal(std::string_view text, std::string_view literal, std::vector<Span>& spans) {
  spans.clear();
  if (literal.empty()) return;
  for (size_t at = text.find(literal); at != std::string_view::npos;
       at = text.find(literal, at + literal.size()))
    spans.push_back({at, at + literal.size()});
}

// A Part of a piece is a delimiter or the text between two delimiters.
struct Part {
  Span span;
  bool is_delimiter;
};

std::vector<Part> parts_of(size_t size, const std::vector<Span>& matches, bool invert) {
  std::vector<Part> parts;
  size_t done = 0;
  for (const Span& match : matches) {
    if (match.begin > done) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done < size) parts.push_back({{done, size}, invert});
  return parts;
}

// Tells whether a part joins the part before it. `before` is null for the first part.
bool joins_previous(const Part* before, const Part& part, SplitBehavior behavior) {
  if (before == nullptr) return false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
    case SplitBehavior::kRemoved:
      return false;
    case SplitBehavior::kMergedWithPrevious:
      return part.is_delimiter && !before->is_delimiter;
    case SplitBehavior::kMergedWithNext:
      return before->is_delimiter && !part.is_delimiter;
    case SplitBehavior::kContiguous:
      return part.is_delimiter == before->is_delimiter;
  }
}

void append_parts(std::string_view piece, const std::vector<Part>& parts, SplitBehavior behavior,
                  Pieces& out) {
  const Part* before = nullptr;
  for (const Part& part : parts) {
    if (!joins_previous(before, part, behavior)) end_piece(out);
    before = &part;
    if (behavior == SplitBehavior::kRemoved && part.is_delimiter) continue;
    out.text += piece.substr(part.span.begin, part.span.end - part.span.begin);
  }
  end_piece(out);
}

// ApplyStep applies a step to all pieces.
struct ApplyStep {
  const Pieces& in;
  bool at_start_of_text;
  MatchTime& time;
  Pieces out{};

  template <class F>
  Status for_each_piece(F apply) {
    size_t begin = 0;
    for (const size_t end : in.ends) {
      const Status status = apply(std::string_view(in.text).substr(begin, end - begin), begin == 0);
      if (!status.ok()) return status;
      begin = end;
    }
    return {};
  }

  Status operator()(const PrefixPieces& step) {
    return for_each_piece([&](std::string_view piece, bool is_first) -> Status {
      const bool applies = !step.only_at_start_of_text || (at_start_of_text && is_first);
      if (applies && !piece.starts_with(step.prefix)) out.text += step.prefix;
      append_piece(piece, out);
      return {};
    });
  }

  Status operator()(const ReplaceText& step) {
    return for_each_piece([&](std::string_view piece, bool) -> Status {
      append_piece(replace_all(step, piece), out);
      return {};
    });
  }

  Status operator()(const MapBytes&) {
    return for_each_piece([&](std::string_view piece, bool) -> Status {
      append_byte_alphabet(piece, out.text);
      end_piece(out);
      return {};
    });
  }

  Status operator()(const SplitPieces& step) {
    std::vector<Span> matches;
    const auto* regex = std::get_if<Regex>(&step.pattern);
    std::optional<RegexMatcher> matcher;
    if (regex != nullptr) matcher.emplace(*regex);
    return for_each_piece([&](std::string_view piece, bool) -> Status {
      if (matcher) {
        const Status status = matcher->find_all(piece, matches, time);
        if (!status.ok()) return status;
      } else {
        find_literal(piece, std::get<std::string>(step.pattern), matches);
      }
      append_parts(piece, parts_of(piece.size(), matches, step.invert), step.behavior, out);
      return {};
    });
  }
};

SplitPieces split_by_regex(const JsonNode& node, std::string_view pattern, SplitBehavior behavior,
                           bool invert) {
  Result<Regex> regex = Regex::compile(pattern);
  if (regex.ok()) return {std::move(regex).value(), behavior, invert};
  node.fail(regex.error().message);
  return {std::string(), behavior, invert};
}

SplitBehavior read_behavior(const JsonNode& node) {
  const std::string name =
      node.one_of({"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"});
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return SplitBehavior::kIsolated;
}

void read_split(const JsonNode& node, std::vector<PreTokenizerStep>& steps) {
  node.allow_keys({"type", "pattern", "behavior", "invert"});
  const SplitBehavior behavior = read_behavior(node.at("behavior"));
  const bool invert = node.at("invert").boolean();
  const JsonNode pattern = node.at("pattern");
  pattern.allow_keys({"Regex", "String"});
  const JsonNode literal = pattern.optional("String");
  if (!literal.is_null()) {
    steps.emplace_back(SplitPieces{literal.string(), behavior, invert});
  } else {
    const JsonNode regex = pattern.at("Regex");
    steps.emplace_back(split_by_regex(regex, regex.string(), behavior, invert));
  }
}

void read_byte_level(const JsonNode& node, std::vector<PreTokenizerStep>& steps) {
  // trim_offsets concerns positions in the text, which are not reported.
  node.allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (node.at("add_prefix_space").boolean()) steps.emplace_back(PrefixPieces{" ", false});
  if (node.optional("use_regex").boolean_or(true))
    steps.emplace_back(split_by_regex(node, kGpt2Pattern, SplitBehavior::kIsolated, false));
  steps.emplace_back(MapBytes{});
}

// Returns the prepend scheme. Older files have add_prefix_space instead, which must agree with the scheme.
std::string read_scheme(const JsonNode& node) {
  const JsonNode scheme = node.optional("prepend_scheme");
  const std::string name = scheme.is_null() ? "always" : scheme.one_of({"always", "first", "never"});
  const JsonNode prefix = node.optional("add_prefix_space");
  if (!prefix.boolean_or(true) && name != "never")
    prefix.fail("false does not go with the prepend_scheme \"" + name + "\"");
  return name;
}

void read_metaspace(const JsonNode& node, std::vector<PreTokenizerStep>& steps) {
  // str_rep is the replacement, repeated.
  node.allow_keys({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  const std::string replacement = node.at("replacement").string();
  const std::string scheme = read_scheme(node);
  // Steps before this one may cut or drop text. The first piece is then not always the start of the text.
  if (scheme == "first" && !steps.empty())
    node.at("prepend_scheme").fail("\"first\" is supported in the first pre-tokenizer only");
  steps.emplace_back(ReplaceText{" ", replacement});
  if (scheme != "never") steps.emplace_back(PrefixPieces{replacement, scheme == "first"});
  if (node.optional("split").boolean_or(true))
    steps.emplace_back(SplitPieces{replacement, SplitBehavior::kMergedWithNext, false});
}

// Isolates characters of Unicode's number categories, one by one or in runs.
void read_digits(const JsonNode& node, std::vector<PreTokenizerStep>& steps) {
  node.allow_keys({"type", "individual_digits"});
  const bool each = node.optional("individual_digits").boolean_or(false);
  steps.emplace_back(split_by_regex(node, each ? R"(\p{N})" : R"(\p{N}+)", SplitBehavior::kIsolated, false));
}

void read_punctuation(const JsonNode& node, std::vector<PreTokenizerStep>& steps) {
  node.allow_keys({"type", "behavior"});
  const JsonNode behavior = node.optional("behavior");
  steps.emplace_back(split_by_regex(node, punctuation_class(),
                                    behavior.is_null() ? SplitBehavior::kIsolated : read_behavior(behavior),
                                    false));
}

void read_whitespace_split(const JsonNode& node, std::vector<PreTokenizerStep>& steps) {
  node.allow_keys({"type"});
  steps.emplace_back(split_by_regex(node, R"(\s)", SplitBehavior::kRemoved, false));
}

// Keeps words, and runs of characters that are neither word nor space. Joiners belong to words.
void read_whitespace(const JsonNode& node, std::vector<PreTokenizerStep>& steps) {
  const std::string word = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\u200C\u200D";
  const std::string pattern = "[" + word + "]+|[^" + word + "\\s]+";
  node.allow_keys({"type"});
  steps.emplace_back(split_by_regex(node, pattern, SplitBehavior::kRemoved, true));
}

void read_bert(const JsonNode& node, std::vector<PreTokenizerStep>& steps) {
  read_whitespace_split(node, steps);
  steps.emplace_back(split_by_regex(node, punctuation_class(), SplitBehavior::kIsolated, false));
}

void read_delimiter(const JsonNode& node, std::vector<PreTokenizerStep>& steps) {
  node.allow_keys({"type", "delimiter"});
  steps.emplace_back(SplitPieces{node.at("delimiter").string(), SplitBehavior::kRemoved, false});
}

struct Reader {
  const char* type;
  void (*read)(const JsonNode&, std::vector<PreTokenizerStep>&);
};

constexpr Reader kReaders[] = {
    {"BertPreTokenizer", read_bert},
    {"ByteLevel", read_byte_level},
    {"CharDelimiterSplit", read_delimiter},
    {"Digits", read_digits},
    {"Metaspace", read_metaspace},
    {"Punctuation", read_punctuation},
    {"Split", read_split},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
};

}  // namespace

std::vector<PreTokenizerStep> read_pre_tokenizer(const JsonNode& node) {
  std::vector<PreTokenizerStep> steps;
  std::vector<std::string_view> kinds;
  for (const Reader& reader : kReaders) kinds.emplace_back(reader.type);
  for (const JsonNode& step : node.sequence("pretokenizers")) {
    const std::string type = step.at("type").one_of(kinds);
    for (const Reader& reader : kReaders)
      if (type == reader.type) reader.read(step, steps);
  }
  return steps;
}

Result<Pieces> pre_tokenize(const std::vector<PreTokenizerStep>& steps, std::string_view text,
                            bool at_start_of_text, MatchTime& time) {
  Pieces pieces;
  append_piece(text, pieces);
  for (const PreTokenizerStep& step : steps) {
    ApplyStep apply{pieces, at_start_of_text, time};
    const Status status = std::visit(apply, step);
    if (!status.ok()) return status.error();
    pieces = std::move(apply.out);
  }
  return pieces;
}

}  // namespace mkrt
