#include "tests/attack/models_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/device/processor.h"

namespace mkc::attack {
namespace {

using reference::Shape;
using reference::Type;

struct Dice {
  std::mt19937_64 random;

  int64_t between(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1));
  }
  bool one_in(int64_t n) { return between(1, n) == 1; }
  template <class T>
  T of(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(between(0, static_cast<int64_t>(choices.size()) - 1))];
  }
  // Returns a number that lies near an edge of tiles or pages as often as anywhere.
  int64_t near_edge(int64_t min, int64_t max) {
    std::vector<int64_t> edges;
    for (const int64_t edge : {8, 16, 32, 64, 96, 128, 256, 512})
      for (int64_t n = edge - 1; n <= edge + 1; ++n)
        if (n >= min && n <= max) edges.push_back(n);
    return edges.empty() || one_in(2) ? between(min, max) : of(edges);
  }
  int width(int max) { return static_cast<int>(near_edge(2, max)); }
};

// Sizes bound the work of a case. The emulator takes a hundred times as long as the processor.
struct Sizes {
  int queries;      // greatest number of columns of queries
  int width;        // greatest width of other matrices
  int narrow;       // the same where queries are wide
  int experts;      // greatest number of experts
  int64_t rows;     // greatest number of rows of all sequences
  int64_t context;  // greatest number of positions
};
constexpr Sizes kTiny{512, 66, 34, 6, 14, 130}, kSmall{512, 100, 70, 9, 24, 130},
    kMiddle{1024, 200, 100, 16, 70, 300}, kLarge{8192, 600, 96, 40, 320, 600},
    kLong{64, 40, 40, 4, 4400, 4500};

// Most cases are small, and some have each of the greater sizes. Long ones have KV chunks.
Sizes choose_sizes(Dice& dice, DeviceKind device) {
  const bool processor = device == DeviceKind::kProcessor;
  if (processor && dice.one_in(200)) return kLong;
  if (dice.one_in(processor ? 12 : 200)) return kLarge;
  if (dice.one_in(processor ? 2 : 20)) return kMiddle;
  return processor || dice.one_in(8) ? kSmall : kTiny;
}

int head_dim(Dice& dice) {
  switch (dice.between(0, 3)) {
    case 0:
      return dice.of<int>({16, 32, 64, 128, 256});
    case 1:
      return 8 * static_cast<int>(dice.between(2, 32));
    case 2:
      return 8 * (2 * static_cast<int>(dice.between(1, 15)) + 1);
    default:
      return 2 * static_cast<int>(dice.between(8, 128));
  }
}

int64_t choose_context(Dice& dice, const Sizes& sizes) {
  if (sizes.context == kLong.context) return sizes.context;
  std::vector<int64_t> contexts;
  for (const int64_t context : {40, 64, 130, 300, 600})
    if (context <= sizes.context) contexts.push_back(context);
  return dice.of(contexts);
}

void choose_attention(Dice& dice, uint64_t number, const Sizes& sizes, Shape& s) {
  int group = 1 + static_cast<int>(number % 32);  // takes every group size in turn
  while (group * 16 > sizes.queries) group /= 2;
  s.head_dim = head_dim(dice);
  while (group * s.head_dim > sizes.queries) s.head_dim = std::max(16, s.head_dim / 2 / 2 * 2);
  s.kv_heads = static_cast<int>(dice.between(1, 4));
  while (s.kv_heads > 1 && group * s.kv_heads * s.head_dim > sizes.queries / 2) --s.kv_heads;
  s.heads = group * s.kv_heads;
  s.context = static_cast<int>(choose_context(dice, sizes));
  const bool may_have_window = s.family == "mistral" || s.family == "qwen2" || s.family == "qwen3";
  if (may_have_window && dice.one_in(2)) s.window = static_cast<int>(dice.near_edge(1, s.context));
}

// Chooses what gpt_oss alone has. Large sinks leave nothing to the values, and small ones take no share.
void choose_gpt_oss(Dice& dice, Shape& s) {
  s.layers = dice.of<int>({1, 2, 2, 3});
  if (!dice.one_in(8)) s.window = static_cast<int>(dice.between(1, dice.one_in(2) ? 24 : s.context));
  s.window_from = static_cast<int>(dice.between(0, 1));
  s.attention_bias = !dice.one_in(4);
  s.sink_spread = dice.of<double>({0.1, 1.5, 1.5, 30, 3000});
  s.gate_bias_spread = dice.of<double>({0.1, 3, 3, 10});
  s.yarn_rope = dice.one_in(2);
  s.yarn_truncate = dice.one_in(2);
}

void choose_experts(Dice& dice, const Sizes& sizes, Shape& s) {
  if (s.family != "qwen3_moe" && s.family != "mixtral" && s.family != "gpt_oss") return;
  s.experts = static_cast<int>(dice.between(2, sizes.experts));
  s.top_k = static_cast<int>(dice.between(1, std::min(s.experts, 8)));
  s.expert_ffn = dice.width(90);
  s.ffn = std::min(s.ffn, 90);
  s.norm_top_k = dice.one_in(2);
}

std::string choose_family(Dice& dice, const Asked& asked) {
  if (asked.family) return *asked.family;
  std::vector<std::string> families;
  for (const char* family : kFamilies)
    if (!asked.coding || may_have(family, *asked.coding)) families.emplace_back(family);
  return dice.of(families);
}

Shape choose_shape(Dice& dice, uint64_t number, const Sizes& sizes, const Asked& asked) {
  Shape s;
  s.family = choose_family(dice, asked);
  s.type = dice.of<Type>({Type::kF32, Type::kBf16, Type::kBf16, Type::kF16});
  s.layers = dice.one_in(3) ? 2 : 1;
  choose_attention(dice, number, sizes, s);
  s.hidden = dice.width(s.heads * s.head_dim > sizes.queries / 4 ? sizes.narrow : sizes.width);
  s.ffn = dice.width(s.hidden > sizes.width / 2 ? sizes.narrow : sizes.width);
  const int64_t words = sizes.width > kSmall.width ? 500 : 150;
  s.vocab = static_cast<int>(dice.of<int64_t>({dice.between(2, 40), dice.between(41, words), 64, 65}));
  if (sizes.width > kSmall.width && dice.one_in(4)) s.vocab = dice.of<int>({256, 257});
  s.tied = dice.one_in(3);
  s.llama3_rope = s.family == "llama" && dice.one_in(4);
  choose_experts(dice, sizes, s);
  if (s.family == "gpt_oss") choose_gpt_oss(dice, s);
  return s;
}

std::vector<size_t> choose_lengths(Dice& dice, const Sizes& sizes, const Shape& s) {
  if (sizes.rows == kLong.rows) return {static_cast<size_t>(dice.between(2000, sizes.rows))};
  std::vector<size_t> lengths;
  int64_t left = sizes.rows;
  const int64_t count = dice.between(1, 5);
  for (int64_t i = 0; i < count && left > 0; ++i) {
    const int64_t max = std::min<int64_t>({left, s.context - 8, dice.one_in(2) ? left : 20});
    lengths.push_back(static_cast<size_t>(dice.near_edge(1, max)));
    left -= static_cast<int64_t>(lengths.back());
  }
  return lengths;
}

std::vector<PlacementRule> choose_placements(Dice& dice, bool experts) {
  std::vector<PlacementRule> rules;
  for (int64_t i = dice.between(0, 3); i > 0; --i) {
    auto grids =
        dice.of<std::string>({"l*.q", "l*.[kv]", "l*.o", "l*.gate_up", experts ? "l*.expert_down" : "l*.down",
                              "*attend", "*combine", "*append", "logits", "l0.*"});
    if (grids.starts_with("l*") && dice.one_in(3)) grids[1] = '0';  // layers that differ share less code
    const bool counted = grids.ends_with("combine") || grids.ends_with("append") || grids.ends_with("attend");
    std::vector<PlacementKind> kinds{PlacementKind::kRange, PlacementKind::kQueue};
    if (!counted || dice.one_in(8))
      kinds.push_back(PlacementKind::kTable);  // refused where steps say the count
    if (grids == "*combine" || grids == "*attend") kinds.push_back(PlacementKind::kReady);
    rules.push_back({grids, dice.of<PlacementKind>(kinds), {}});
  }
  return rules;
}

std::vector<SplitRule> choose_splits(Dice& dice) {
  std::vector<SplitRule> rules;
  for (int64_t i = dice.between(0, 2); i > 0; --i)
    rules.push_back({dice.of<std::string>({"l*.q", "l*.[qkv]", "l*.o", "l*.gate_up", "l*.down"}),
                     dice.of<int64_t>({2, 4, 8}),
                     {}});
  return rules;
}

Run choose_run(Dice& dice, const Setting& s) {
  Run run;
  run.device_seed = dice.one_in(2) ? 0 : static_cast<uint64_t>(dice.between(1, 1000));
  if (!s.race && dice.one_in(4)) run.os_threads = 2;
  run.page_size = dice.of<uint32_t>({16, 32, 64});
  run.form =
      dice.of<mkrt::CacheForm>({mkrt::CacheForm::kNhd, mkrt::CacheForm::kHnd, mkrt::CacheForm::kPacked});
  run.feed_seed = static_cast<uint32_t>(dice.between(1, 1 << 30));
  run.max_rows = static_cast<size_t>(dice.between(1, s.max_tokens));
  run.steps_per_launch = static_cast<uint32_t>(dice.between(1, 4));
  return run;
}

Mode choose_mode(Dice& dice) {
  if (dice.one_in(5)) return Mode::kKernels;
  return dice.one_in(15) ? Mode::kTraced : Mode::kMegakernel;
}

// Returns a setting with up to so many runs, of which the only setting of a case has two or more.
Setting choose_setting(Dice& dice, DeviceKind device, bool experts, int64_t runs) {
  const bool processor = device == DeviceKind::kProcessor;
  Setting s;
  s.workers = dice.one_in(processor ? 8 : 12) ? dice.between(5, 12) : dice.between(1, 4);
  s.max_tokens = dice.of<int64_t>({dice.between(1, 9), 15, 16, 17, 31, 32, 33, dice.between(34, 90), 130});
  s.max_requests = std::min(s.max_tokens, dice.between(1, 8));
  s.bulk_copy = !dice.one_in(3);
  s.race = !processor && dice.one_in(10);
  s.quick = !dice.one_in(40);
  s.scheduler = dice.of<Scheduler>({Scheduler::kStatic, Scheduler::kDynamic, Scheduler::kAuto});
  if (dice.one_in(2)) s.placements = choose_placements(dice, experts);
  if (dice.one_in(3)) s.splits = choose_splits(dice);
  if (dice.one_in(3)) s.ring = dice.between(4, 6);
  s.mode = choose_mode(dice);
  for (int64_t i = dice.between(runs - 1, runs); i > 0; --i) s.runs.push_back(choose_run(dice, s));
  return s;
}

const char* form_name(mkrt::CacheForm form) {
  return form == mkrt::CacheForm::kNhd ? "nhd" : form == mkrt::CacheForm::kHnd ? "hnd" : "packed";
}

nlohmann::json json_of(const Run& run) {
  return {{"device_seed", run.device_seed},
          {"os_threads", run.os_threads},
          {"page_size", run.page_size},
          {"form", form_name(run.form)},
          {"feed_seed", run.feed_seed},
          {"max_rows", run.max_rows},
          {"steps_per_launch", run.steps_per_launch}};
}

nlohmann::json json_of(const Setting& s) {
  nlohmann::json j{{"workers", s.workers},
                   {"max_tokens", s.max_tokens},
                   {"max_requests", s.max_requests},
                   {"bulk_copy", s.bulk_copy},
                   {"race", s.race},
                   {"quick", s.quick},
                   {"scheduler", scheduler_name(s.scheduler)},
                   {"mode", mode_name(s.mode)}};
  for (const PlacementRule& rule : s.placements)
    j["placement"].push_back({rule.grids, placement_name(rule.kind)});
  for (const SplitRule& rule : s.splits) j["split"].push_back({rule.grids, rule.split_k});
  if (s.ring) j["ring"] = *s.ring;
  for (const Run& run : s.runs) j["runs"].push_back(json_of(run));
  return j;
}

void add_features(DeviceKind device, const Setting& s, std::set<std::string>& f) {
  f.insert(fmt::format("scheduler {}", scheduler_name(s.scheduler)));
  f.insert(fmt::format("mode {}", mode_name(s.mode)));
  for (const PlacementRule& rule : s.placements)
    f.insert(fmt::format("placement {}", placement_name(rule.kind)));
  if (!s.splits.empty()) f.insert("split products");
  if (s.ring) f.insert("a ring of 4 to 6 stages");
  if (s.workers > 4) f.insert("5 to 12 workers");
  if (s.max_tokens == 1) f.insert("steps of one token");
  if (!s.quick) f.insert("ordinary code");
  if (device == DeviceKind::kEmulator) f.insert(s.bulk_copy ? "bulk copies" : "copies of 16 bytes");
  if (s.race) f.insert("race detection");
  for (const Run& run : s.runs) {
    f.insert(fmt::format("pages of {}", run.page_size));
    f.insert(fmt::format("cache form {}", form_name(run.form)));
    if (run.steps_per_launch > 1) f.insert("several steps a launch");
    if (device == DeviceKind::kEmulator && run.os_threads > 1) f.insert("2 threads of the emulator");
  }
}

mkrt::MkSampling choose_sampling(Dice& dice) {
  mkrt::MkSampling sampling;
  sampling.temperature = dice.of<float>({0.5F, 1, 2});
  sampling.top_k = dice.of<uint32_t>({0, 1, 3, 40});
  sampling.top_p = dice.of<float>({0.3F, 0.9F, 1});
  sampling.min_p = dice.of<float>({0, 0, 0.1F});
  sampling.repetition_penalty = dice.of<float>({1, 1, 1.3F});
  sampling.seed = static_cast<uint64_t>(dice.between(1, 1 << 30));
  return sampling;
}

// Chooses a coding that the shape's sizes allow: codes of 4 bits come in words of 8, and in whole groups.
void choose_coding(Dice& dice, std::optional<reference::Coding> asked, Shape& s) {
  using enum reference::Coding;
  s.coding = dice.of(std::vector(std::begin(reference::kCodings), std::end(reference::kCodings)));
  if (asked) s.coding = *asked;
  const bool stacked = s.family == "gpt_oss";
  if (stacked) s.coding = kMxfp4;
  s.code_group = dice.of<int>({0, 32, 64});
  s.code_bits = s.coding == kAwq ? 4 : dice.of<int>({4, 8});
  s.code_zeros = dice.one_in(2);
  const reference::Coder coder{s.coding, s.type, s.code_group, s.code_bits, s.code_zeros};
  const int multiple = coder.multiple();
  const auto fit = [&](int& size) { size = (size + multiple - 1) / multiple * multiple; };
  const int words = 8;  // codes of 4 bits in a word, along the rows of keys and values
  if (!stacked) s.head_dim = (s.head_dim + words - 1) / words * words;
  while (!stacked && s.heads * s.head_dim % multiple != 0) s.heads += s.kv_heads;
  fit(s.hidden), fit(s.ffn), fit(s.expert_ffn);
}

}  // namespace

bool may_have(const std::string& family, reference::Coding coding) {
  return family != "gpt_oss" || coding == reference::Coding::kMxfp4;
}

const char* device_name(DeviceKind device) {
  return device == DeviceKind::kProcessor ? "cpu" : "emulator";
}

ModelCase make_case(uint64_t seed, uint64_t number, DeviceKind device, const Asked& asked) {
  Dice dice{std::mt19937_64(seed * 1'000'003 + number)};
  const Sizes sizes = choose_sizes(dice, device);
  ModelCase c;
  c.number = number;
  c.device = device;
  if (device == DeviceKind::kProcessor) c.target = dice.one_in(3) ? "x86-64-v3" : "x86-64";
  c.shape = choose_shape(dice, number, sizes, asked);
  c.weights_seed = static_cast<uint32_t>(dice.between(1, 1 << 30));
  if (dice.one_in(2)) c.cache = dice.of<DType>({DType::f32, DType::bf16, DType::f16, DType::e4m3});
  c.shape.e4m3_cache = c.cache == DType::e4m3;
  c.batch_invariant = dice.one_in(4);
  if (dice.one_in(4)) c.wgmma_from = dice.between(33, 65);
  c.lengths = choose_lengths(dice, sizes, c.shape);
  c.new_tokens = static_cast<uint32_t>(dice.between(1, 6));
  if (dice.one_in(2)) c.sampling = choose_sampling(dice);
  for (int64_t i = dice.between(1, 2), runs = 4 - i; i > 0; --i)
    c.settings.push_back(choose_setting(dice, device, c.shape.experts != 0, runs));
  if (sizes.rows == kLong.rows)  // steps of few rows would take long
    for (Setting& s : c.settings)
      s.max_tokens = 130, s.workers = 2, s.runs.resize(1), s.runs[0].max_rows = 90;
  if (dice.one_in(c.shape.family == "gpt_oss" ? 2 : 4) || asked.coding)
    choose_coding(dice, asked.coding, c.shape);
  c.prompt = static_cast<size_t>(dice.between(1, static_cast<int64_t>(c.lengths[0])));
  return c;
}

std::string to_json(const ModelCase& c) {
  const Shape& s = c.shape;
  nlohmann::json j{{"device", device_name(c.device)},
                   {"target", c.target},
                   {"family", s.family},
                   {"type", reference::type_name(s.type)},
                   {"hidden", s.hidden},
                   {"heads", s.heads},
                   {"kv_heads", s.kv_heads},
                   {"head_dim", s.head_dim},
                   {"layers", s.layers},
                   {"ffn", s.ffn},
                   {"vocab", s.vocab},
                   {"context", s.context},
                   {"window", s.window},
                   {"window_from", s.window_from},
                   {"attention_bias", s.attention_bias},
                   {"sink_spread", s.sink_spread},
                   {"gate_bias_spread", s.gate_bias_spread},
                   {"yarn", s.yarn_rope},
                   {"yarn_truncate", s.yarn_truncate},
                   {"tied", s.tied},
                   {"experts", s.experts},
                   {"top_k", s.top_k},
                   {"expert_ffn", s.expert_ffn},
                   {"coding", reference::coding_name(s.coding)},
                   {"code_group", s.code_group},
                   {"code_bits", s.code_bits},
                   {"code_zeros", s.code_zeros},
                   {"cache", c.cache ? dtype_name(*c.cache) : "as weights"},
                   {"batch_invariant", c.batch_invariant},
                   {"wgmma_from", c.wgmma_from.value_or(0)},
                   {"lengths", c.lengths},
                   {"prompt", c.prompt},
                   {"new_tokens", c.new_tokens},
                   {"temperature", c.sampling.temperature},
                   {"top_k_tokens", c.sampling.top_k},
                   {"top_p", c.sampling.top_p},
                   {"min_p", c.sampling.min_p},
                   {"penalty", c.sampling.repetition_penalty}};
  for (const Setting& setting : c.settings) j["settings"].push_back(json_of(setting));
  return j.dump();
}

std::set<std::string> features_of(const ModelCase& c) {
  const Shape& s = c.shape;
  std::set<std::string> f{fmt::format("group {}", s.heads / s.kv_heads),
                          fmt::format("head {}", s.head_dim <= 64    ? "16 to 64"
                                                 : s.head_dim <= 128 ? "66 to 128"
                                                                     : "130 to 256"),
                          fmt::format("weights {}", reference::type_name(s.type)),
                          fmt::format("coding {}", reference::coding_name(s.coding)),
                          fmt::format("cache {}", c.cache ? dtype_name(*c.cache) : "as weights")};
  if (c.sampling.temperature != 0) f.insert("random sampling");
  if (s.window != 0) f.insert("window");
  if (s.experts != 0) f.insert("experts");
  if (c.lengths[0] > 256) f.insert("more than a KV tile");
  if (c.target == "x86-64") f.insert("code " + mkrt::processor_target());
  if (c.target == "x86-64-v3") f.insert("code x86-64-v3");
  for (const Setting& setting : c.settings) add_features(c.device, setting, f);
  return f;
}

}  // namespace mkc::attack
