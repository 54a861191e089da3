// These tests run checkpoints that quantizers wrote (tests/oracle/make_quantized_fixtures.py), and compare
// tokens and log-probabilities with those of transformers on the dequantized weights.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/e2e/pipeline.h"

namespace mkc {
namespace {

using Row = std::vector<double>;

struct Fixture {
  std::string directory;
  std::vector<int32_t> prompt, tokens;
  double bf16_distance = 0;  // how far transformers in bf16 is from float64, relative to a row's norm
  std::vector<Row> logits;   // in float64, for all tokens but the last
};

Fixture read_fixture(const std::filesystem::path& directory) {
  std::ifstream file(directory / "expected.json");
  const auto expected = nlohmann::json::parse(file);
  return {directory.string(), expected["prompt_ids"], expected["new_ids"], expected["bf16_distance"],
          expected["logits"]};
}

std::vector<std::filesystem::path> fixtures() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(MKC_SOURCE_DIR "/tests/fixtures/quantized"))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

// Returns a row of log-probabilities of logits.
template <class T>
Row log_probabilities(const T* logits, size_t vocab) {
  Row row(logits, logits + vocab);
  const double max = *std::ranges::max_element(row);
  double sum = 0;
  for (const double logit : row) sum += std::exp(logit - max);
  for (double& logit : row) logit -= max + std::log(sum);
  return row;
}

double max_difference(const Row& a, const Row& b) {
  double max = 0;
  for (size_t i = 0; i < a.size(); ++i)
    max = std::max(max, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : INFINITY);
  return max;
}

double norm_of(const Row& row) {
  double squares = 0;
  for (const double v : row) squares += v * v;
  return std::sqrt(squares);
}

// Returns how far the greatest element is from the next.
double margin_of(Row row) {
  std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
  return row[0] - row[1];
}

void check_fixture(const Fixture& f) {
  const test::Model model(f.directory);
  const test::Model::Output out = model.generate(f.prompt, static_cast<uint32_t>(f.tokens.size()));
  for (size_t row = 0; row < f.logits.size(); ++row) {
    CAPTURE(row);
    const Row exact = log_probabilities(f.logits[row].data(), model.vocab());
    const Row found = log_probabilities(out.logits.data() + row * model.vocab(), model.vocab());
    // A logit may err as far as its whole row does in bf16, and so may the logarithm of the sum.
    const double allowed = f.bf16_distance * norm_of(f.logits[row]);
    CHECK(max_difference(found, exact) <= 2 * allowed);
    if (row + 1 < f.prompt.size()) continue;
    const size_t token = row + 1 - f.prompt.size();
    if (out.tokens[token] != f.tokens[token]) {
      CHECK(margin_of(f.logits[row]) <= 2 * allowed);
      return;  // later tokens look back at another one
    }
  }
}

TEST_CASE("checkpoints of quantizers give the tokens and log-probabilities of their dequantized weights") {
  size_t checked = 0;
  for (const std::filesystem::path& path : fixtures()) {
    CAPTURE(path.filename().string());
    check_fixture(read_fixture(path));
    ++checked;
  }
  CHECK(checked >= 20);
}

}  // namespace
}  // namespace mkc
