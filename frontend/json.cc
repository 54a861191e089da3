#include "frontend/json.h"

#include <fmt/format.h>

#include <filesystem>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace mkc {
namespace {

// TrackedIterator walks the text and records how far the lexer has read. The parser reports values, not
// places.
struct TrackedIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  const char** consumed = nullptr;

  reference operator*() const { return *at; }
  TrackedIterator& operator++() {
    *consumed = ++at;
    return *this;
  }
  TrackedIterator operator++(int) {
    TrackedIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackedIterator& other) const { return at == other.at; }
};

class JsonTreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonTreeBuilder(const Source& source, const char* const& consumed) : source_(source), consumed_(consumed) {}

  Node root;
  Place wide_integer{};
  std::optional<Error> error;

  bool null() override { return add(null_node()); }
  bool boolean(bool value) override { return add(bool_node(value)); }
  bool number_integer(int64_t value) override { return add(int_node(value)); }
  bool number_unsigned(uint64_t value) override {
    const bool fits = value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return add(fits ? int_node(static_cast<int64_t>(value)) : float_node(static_cast<double>(value)));
  }
  bool number_float(double value, const std::string& digits) override {
    const bool is_integer = digits.find_first_of(".eE") == std::string::npos;
    // Nothing stands behind a number at the text's end.
    if (is_integer && wide_integer.line == 0)
      wide_integer = place_at(source_.text.rfind(digits, last_read()));
    return add(float_node(value));
  }
  bool string(std::string& value) override { return add(string_node(value)); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Node::Kind::kMap); }
  bool start_array(size_t) override { return open(Node::Kind::kList); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    Frame& frame = frames_.back();
    const Place place = place_before_key();
    if (!frame.seen.insert(name).second) return fail(place, fmt::format("key \"{}\" is given twice", name));
    frame.node.keys.push_back(name);
    frame.node.key_places.push_back(place);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& e) override {
    // Messages read "[json.exception.…] parse error at line L, column C: what", or "[json.exception.…] what".
    // Only the last part is kept: the place is computed here.
    std::string what = e.what();
    for (const std::string_view end : {"] ", ": "})
      if (const size_t at = what.find(end); at != std::string::npos) what.erase(0, at + end.size());
    return fail(place_of(source_.text, position == 0 ? 0 : position - 1), what);
  }

 private:
  struct Frame {
    Node node;
    std::set<std::string> seen;
  };

  const Source& source_;
  const char* const& consumed_;  // just behind the last character that the lexer read
  std::vector<Frame> frames_;
  uint32_t nodes_ = 0;
  size_t placed_ = 0;  // place_ is the place of this offset
  Place place_{1, 1};

  bool fail(Place place, const std::string& message) {
    error = error_in(source_, place.line, place.col, message);
    return false;
  }

  size_t last_read() const { return static_cast<size_t>(consumed_ - source_.text.data()) - 1; }
  Place here() { return place_at(last_read()); }

  // Offsets only grow, so the text is walked once for all places.
  Place place_at(size_t offset) {
    for (; placed_ < offset; ++placed_) {
      place_ = source_.text[placed_] == '\n' ? Place{place_.line + 1, 1} : Place{place_.line, place_.col + 1};
    }
    return place_;
  }

  // The lexer stands behind the key's closing quote. The opening quote is the nearest one before it that no
  // backslash escapes.
  Place place_before_key() {
    size_t at = last_read();
    do {
      --at;
    } while (source_.text[at] != '"' || is_escaped(at));
    return place_at(at);
  }

  bool is_escaped(size_t at) const {
    size_t backslashes = 0;
    while (backslashes < at && source_.text[at - 1 - backslashes] == '\\') ++backslashes;
    return backslashes % 2 == 1;
  }

  bool open(Node::Kind kind) {
    if (frames_.size() == kMaxDepth) {
      return fail(here(), fmt::format("nested deeper than {} levels", kMaxDepth));
    }
    Node node;
    node.kind = kind;
    node.place = here();
    frames_.push_back({std::move(node), {}});
    return true;
  }

  bool close() {
    Node node = std::move(frames_.back().node);
    frames_.pop_back();
    return add(std::move(node));
  }

  bool add(Node node) {
    if (++nodes_ > kMaxNodes) return fail(here(), fmt::format("more than {} values", kMaxNodes));
    if (frames_.empty()) {
      root = std::move(node);
      return true;
    }
    Node& parent = frames_.back().node;
    node.place = parent.is(Node::Kind::kMap) ? parent.key_places.back() : parent.place;
    parent.items.push_back(std::move(node));
    return true;
  }
};

}  // namespace

Result<Document> parse_json(Source source) {
  const char* consumed = source.text.data();
  const TrackedIterator first{source.text.data(), &consumed};
  const TrackedIterator last{source.text.data() + source.text.size(), &consumed};
  JsonTreeBuilder builder(source, consumed);
  const bool parsed = nlohmann::json::sax_parse(first, last, &builder);
  if (!parsed) return builder.error.value_or(error_at({source.path}, "is not JSON"));
  return Document{std::move(source), std::move(builder.root), builder.wide_integer};
}

Result<std::optional<Document>> read_optional_json(const std::string& path) {
  std::error_code failed;
  // The reader of a path that cannot be followed reports the error.
  if (!std::filesystem::exists(path, failed) && !failed) return std::optional<Document>();
  MKC_TRY(source, read_source(path));
  MKC_TRY(document, parse_json(std::move(source)));
  return std::optional(std::move(document));
}

}  // namespace mkc
