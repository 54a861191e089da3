#include "frontend/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <sstream>

namespace mkc {
namespace {

// Stop carries an error out of the parser's callbacks, which cannot return one.
struct Stop {
  Error error;
};

Place place_of_mark(const YAML::Mark& mark) {
  return {static_cast<uint32_t>(mark.line + 1), static_cast<uint32_t>(mark.column + 1)};
}

template <class T>
std::optional<T> whole_number(const std::string& text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns the value of a plain scalar by the core schema of YAML 1.2 (section 10.3.2). Octal and hexadecimal
// numbers, infinities and NaN are left out: they stay strings.
Node plain_scalar(const std::string& text) {
  if (text == "true" || text == "false") return bool_node(text == "true");
  if (text.find_first_not_of("+-.0123456789eE") == std::string::npos) {
    if (const auto integer = whole_number<int64_t>(text)) return int_node(*integer);
    if (const auto real = whole_number<double>(text)) return float_node(*real);
  }
  return string_node(text);
}

class YamlTreeBuilder : public YAML::EventHandler {
 public:
  explicit YamlTreeBuilder(const Source& source) : source_(source) {
    for (size_t begin = 0; begin <= source.text.size();) {
      const size_t end = std::min(source.text.find('\n', begin), source.text.size());
      lines_.push_back(std::string_view(source.text).substr(begin, end - begin));
      begin = end + 1;
    }
  }

  Node root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark_of_null(mark), null_node(), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    const bool quoted = tag == "!";
    Node node = quoted || wants_key() ? string_node(value) : plain_scalar(value);
    node.quoted = quoted;
    add(mark, std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) stop(mark, "alias refers to a value that contains it");
    Node copy = found->second;
    count(mark, copy);
    add(mark, std::move(copy), YAML::NullAnchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::kMap);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    Node node;
    std::set<std::string> seen;
    YAML::anchor_t anchor = YAML::NullAnchor;
    YAML::Mark mark;
  };

  const Source& source_;
  std::vector<std::string_view> lines_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Node> anchors_;
  uint32_t nodes_ = 0;

  [[noreturn]] void stop(const YAML::Mark& mark, const std::string& message) {
    const Place place = place_of_mark(mark);
    throw Stop{error_in(source_, place.line, place.col, message)};
  }

  // Returns the mark of a null. That of an empty value is the dash or colon before it: the parser gives the
  // mark of what follows.
  YAML::Mark mark_of_null(YAML::Mark mark) const {
    for (size_t i = std::min(static_cast<size_t>(mark.line) + 1, lines_.size()); i-- > 0;) {
      std::string_view line = lines_[i];
      if (i == static_cast<size_t>(mark.line)) {
        const size_t column = std::min(static_cast<size_t>(mark.column), line.size());
        for (const char* word : {"~", "null", "Null", "NULL"})
          if (line.substr(column).starts_with(word)) return mark;
        line = line.substr(0, column);
      }
      const size_t comment = line.starts_with('#') ? 0 : std::min(line.find(" #"), line.find("\t#"));
      const size_t at = line.substr(0, comment).find_last_not_of(" \t\r");
      if (at == std::string_view::npos) continue;
      mark.line = static_cast<int>(i), mark.column = static_cast<int>(at);
      break;
    }
    return mark;
  }

  bool wants_key() const {
    if (frames_.empty() || !frames_.back().node.is(Node::Kind::kMap)) return false;
    return frames_.back().node.keys.size() == frames_.back().node.items.size();
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") stop(mark, fmt::format("tag {} is not supported", tag));
  }

  void count(const YAML::Mark& mark, const Node& node) {
    if (++nodes_ > kMaxNodes) stop(mark, fmt::format("more than {} values, aliases expanded", kMaxNodes));
    for (const Node& item : node.items) count(mark, item);
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    refuse_tag(mark, tag);
    if (wants_key()) stop(mark, fmt::format("key is a {}, expected a string", kind_name(kind)));
    if (frames_.size() == kMaxDepth) stop(mark, fmt::format("nested deeper than {} levels", kMaxDepth));
    Node node;
    node.kind = kind;
    frames_.push_back({std::move(node), {}, anchor, mark});
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    add(frame.mark, std::move(frame.node), frame.anchor);
  }

  void add(const YAML::Mark& mark, Node node, YAML::anchor_t anchor) {
    node.place = place_of_mark(mark);
    if (++nodes_ > kMaxNodes) stop(mark, fmt::format("more than {} values, aliases expanded", kMaxNodes));
    if (anchor != YAML::NullAnchor) {
      count(mark, node);
      anchors_[anchor] = node;
    }
    if (frames_.empty()) {
      root = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (!wants_key()) {
      frame.node.items.push_back(std::move(node));
      return;
    }
    if (!node.is(Node::Kind::kString)) {
      stop(mark, fmt::format("key is {}, expected a string", describe(node)));
    }
    if (node.string == "<<" && !node.quoted) stop(mark, "merge keys are not supported");
    if (!frame.seen.insert(node.string).second) {
      stop(mark, fmt::format("key \"{}\" is given twice", node.string));
    }
    frame.node.keys.push_back(std::move(node.string));
    frame.node.key_places.push_back(node.place);
  }
};

}  // namespace

Result<Document> parse_yaml(Source source) {
  YamlTreeBuilder builder(source);
  std::istringstream stream(source.text);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    YamlTreeBuilder rest(source);
    if (parser.HandleNextDocument(rest)) {
      return error_in(source, rest.root.place.line, rest.root.place.col, "a second document, expected one");
    }
  } catch (const Stop& stop) {
    return stop.error;
  } catch (const YAML::Exception& e) {
    const Place place = place_of_mark(e.mark);
    return error_in(source, place.line, place.col, e.msg);
  }
  return Document{std::move(source), std::move(builder.root)};
}

}  // namespace mkc
