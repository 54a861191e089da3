#include "tools/serve/stop_matcher.h"

#include <doctest/doctest.h>

#include <random>

using mkc::StopMatcher;

namespace {

// Returns a text up to the stop string that ends first behind `unsearched` bytes, found by trying every end
// and every stop string.
std::string cut(const std::string& text, const std::vector<std::string>& stops, bool include,
                size_t unsearched) {
  for (size_t end = unsearched + 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops)
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0)
        longest = std::max(longest, stop.size());
    if (longest > 0) return text.substr(0, include ? end : end - longest);
  }
  return text;
}

std::string random_text(std::mt19937& random, size_t min, size_t max) {
  std::string text(min + random() % (max - min + 1), 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % 3);
  return text;
}

}  // namespace

TEST_CASE("a text is cut at the first stop string, however it is split") {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    const std::string text = random_text(random, 0, 24);
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = random_text(random, 1, 5);
    const bool include = random() % 2 == 0;
    CAPTURE(text);
    CAPTURE(stops.size());
    StopMatcher matcher(stops, include);
    const size_t unsearched = random() % 2 ? 0 : std::min<size_t>(random() % 9, text.size());
    CAPTURE(unsearched);
    const std::string expected = cut(text, stops, include, unsearched);
    std::string found;
    for (size_t at = 0; at < text.size();) {
      const bool searched = at >= unsearched;
      const size_t size = std::min<size_t>(1 + random() % 4, (searched ? text.size() : unsearched) - at);
      const std::string_view piece = std::string_view(text).substr(at, size);
      found += searched ? matcher.push(piece) : matcher.push_unsearched(piece);
      at += size;
      CHECK(expected.starts_with(found));
    }
    CHECK(found + matcher.finish() == expected);
  }
}

TEST_CASE("text is held back only as long as it may begin a stop string") {
  StopMatcher matcher({"\nUser:"}, false);
  CHECK(matcher.push("Hello\n") == "Hello");
  CHECK(matcher.push("Us") == "");
  CHECK(matcher.push("ing it") == "\nUsing it");
  CHECK(matcher.matched() == nullptr);
  CHECK(matcher.push("\nUse") == "");
  CHECK(matcher.push("r: hi") == "");
  REQUIRE(matcher.matched() != nullptr);
  CHECK(*matcher.matched() == "\nUser:");
  CHECK(matcher.push("more") == "");
  CHECK(matcher.finish() == "");
}

TEST_CASE("the end of a text releases what was held back") {
  StopMatcher matcher({"abc"}, false);
  CHECK(matcher.push("xab") == "x");
  CHECK(matcher.finish() == "ab");
}
