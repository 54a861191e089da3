#include "tests/attack/models_case.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

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
  // Returns a width that lies near an edge of tiles as often as anywhere.
  int width(int max) {
    if (one_in(2)) return static_cast<int>(between(2, max));
    const int64_t edge = of<int64_t>({8, 16, 32, 64, 96, 128, 256, 512}) + between(-1, 1);
    return static_cast<int>(std::min<int64_t>(edge, max));
  }
};

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

void choose_attention(Dice& dice, uint64_t number, Shape& s) {
  constexpr int kMaxQuery = 6144;                       // greatest number of columns of queries
  const int group = 1 + static_cast<int>(number % 32);  // takes every group size in turn
  s.head_dim = head_dim(dice);
  while (group * s.head_dim > kMaxQuery) s.head_dim -= 16;
  s.kv_heads = static_cast<int>(dice.between(1, 4));
  while (s.kv_heads > 1 && group * s.kv_heads * s.head_dim > kMaxQuery / 2) --s.kv_heads;
  s.heads = group * s.kv_heads;
  s.context = static_cast<int>(dice.of<int64_t>({40, 64, 130, 300, 600}));
  const bool may_have_window = s.family == "mistral" || s.family == "qwen2" || s.family == "qwen3";
  if (may_have_window && dice.one_in(2)) s.window = static_cast<int>(dice.between(1, s.context));
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

void choose_experts(Dice& dice, Shape& s) {
  if (s.family != "qwen3_moe" && s.family != "mixtral" && s.family != "gpt_oss") return;
  s.experts = static_cast<int>(dice.between(2, dice.one_in(4) ? 40 : 9));
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

Shape choose_shape(Dice& dice, uint64_t number, const Asked& asked) {
  Shape s;
  s.family = choose_family(dice, asked);
  s.type = dice.of<Type>({Type::kF32, Type::kBf16, Type::kBf16, Type::kF16});
  s.layers = dice.one_in(3) ? 2 : 1;
  choose_attention(dice, number, s);
  s.hidden = dice.width(s.heads * s.head_dim > 1500 ? 96 : 600);
  s.ffn = dice.width(s.hidden > 300 ? 200 : 600);
  s.vocab = static_cast<int>(dice.of<int64_t>({dice.between(2, 40), dice.between(41, 500), 256, 257}));
  s.tied = dice.one_in(3);
  s.llama3_rope = s.family == "llama" && dice.one_in(4);
  choose_experts(dice, s);
  if (s.family == "gpt_oss") choose_gpt_oss(dice, s);
  return s;
}

std::vector<size_t> choose_lengths(Dice& dice, const Shape& s) {
  std::vector<size_t> lengths;
  int64_t left = s.context > 256 && dice.one_in(3) ? 320 : 70;  // rows of all sequences, which take the time
  const int64_t count = dice.between(1, 5);
  for (int64_t i = 0; i < count && left > 0; ++i) {
    const int64_t max = std::min<int64_t>({left, s.context - 8, dice.one_in(2) ? left : 20});
    lengths.push_back(static_cast<size_t>(dice.between(1, max)));
    left -= static_cast<int64_t>(lengths.back());
  }
  return lengths;
}

std::vector<PlacementRule> choose_placements(Dice& dice) {
  std::vector<PlacementRule> rules;
  for (int64_t i = dice.between(0, 3); i > 0; --i) {
    const auto grids = dice.of<std::string>({"l*.q", "l*.[kv]", "l*.o", "l*.gate_up", "l*.down", "*attend",
                                             "*combine", "*append", "logits", "l0.*"});
    std::vector<PlacementKind> kinds{PlacementKind::kTable, PlacementKind::kRange, PlacementKind::kQueue};
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

Setting choose_setting(Dice& dice) {
  Setting s;
  s.workers = dice.one_in(4) ? dice.between(5, 12) : dice.between(1, 4);
  s.max_tokens = dice.of<int64_t>({dice.between(1, 9), 15, 16, 17, 31, 32, 33, dice.between(34, 90), 130});
  s.max_requests = std::min(s.max_tokens, dice.between(1, 8));
  s.bulk_copy = !dice.one_in(3);
  s.race = dice.one_in(10);
  s.scheduler = dice.of<Scheduler>({Scheduler::kStatic, Scheduler::kDynamic, Scheduler::kAuto});
  if (dice.one_in(2)) s.placements = choose_placements(dice);
  if (dice.one_in(3)) s.splits = choose_splits(dice);
  if (dice.one_in(3)) s.ring = dice.between(4, 6);
  if (dice.one_in(5)) s.mode = Mode::kKernels;
  s.device_seed = dice.one_in(2) ? 0 : static_cast<uint64_t>(dice.between(1, 1000));
  if (!s.race && dice.one_in(4)) s.os_threads = 2;
  s.page_size = dice.of<uint32_t>({16, 32, 64});
  s.form = dice.of<mkrt::CacheForm>({mkrt::CacheForm::kNhd, mkrt::CacheForm::kHnd, mkrt::CacheForm::kPacked});
  s.feed_seed = static_cast<uint32_t>(dice.between(1, 1 << 30));
  s.max_rows = static_cast<size_t>(dice.between(1, s.max_tokens));
  s.steps_per_launch = static_cast<uint32_t>(dice.between(1, 4));
  return s;
}

nlohmann::json json_of(const Setting& s) {
  nlohmann::json j{{"workers", s.workers},
                   {"max_tokens", s.max_tokens},
                   {"max_requests", s.max_requests},
                   {"bulk_copy", s.bulk_copy},
                   {"race", s.race},
                   {"scheduler", scheduler_name(s.scheduler)},
                   {"mode", mode_name(s.mode)},
                   {"device_seed", s.device_seed},
                   {"os_threads", s.os_threads},
                   {"page_size", s.page_size},
                   {"max_rows", s.max_rows},
                   {"steps_per_launch", s.steps_per_launch}};
  for (const PlacementRule& rule : s.placements)
    j["placement"].push_back({rule.grids, placement_name(rule.kind)});
  for (const SplitRule& rule : s.splits) j["split"].push_back({rule.grids, rule.split_k});
  if (s.ring) j["ring"] = *s.ring;
  return j;
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
  while (!stacked && s.heads * s.head_dim % multiple != 0) s.heads += s.kv_heads;
  fit(s.hidden), fit(s.ffn), fit(s.expert_ffn);
}

}  // namespace

bool may_have(const std::string& family, reference::Coding coding) {
  return family != "gpt_oss" || coding == reference::Coding::kMxfp4;
}

ModelCase make_case(uint64_t seed, uint64_t number, const Asked& asked) {
  Dice dice{std::mt19937_64(seed * 1'000'003 + number)};
  ModelCase c;
  c.number = number;
  c.shape = choose_shape(dice, number, asked);
  c.weights_seed = static_cast<uint32_t>(dice.between(1, 1 << 30));
  if (dice.one_in(2)) c.cache = dice.of<DType>({DType::f32, DType::bf16, DType::f16, DType::e4m3});
  c.shape.e4m3_cache = c.cache == DType::e4m3;
  c.batch_invariant = dice.one_in(4);
  if (dice.one_in(4)) c.wgmma_from = dice.between(33, 65);
  c.lengths = choose_lengths(dice, c.shape);
  c.new_tokens = static_cast<uint32_t>(dice.between(1, 6));
  for (int i = 0; i < 2; ++i) c.settings.push_back(choose_setting(dice));
  if (dice.one_in(c.shape.family == "gpt_oss" ? 2 : 4) || asked.coding)
    choose_coding(dice, asked.coding, c.shape);
  return c;
}

std::string to_json(const ModelCase& c) {
  const Shape& s = c.shape;
  nlohmann::json j{{"family", s.family},
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
                   {"new_tokens", c.new_tokens}};
  for (const Setting& setting : c.settings) j["settings"].push_back(json_of(setting));
  return j.dump();
}

}  // namespace mkc::attack
