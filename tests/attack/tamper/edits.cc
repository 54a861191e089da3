#include "tests/attack/tamper/edits.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/artefact/plan.h"

namespace mkc::attack {
namespace {

using nlohmann::json;

// Each byte is flipped twice: in one bit, which moves on from byte to byte, and in all bits.
constexpr size_t kFlips = 2;
uint8_t flip_of(size_t number) {
  return number % kFlips == 0 ? static_cast<uint8_t>(1 << (number / kFlips % 8)) : 0xff;
}

class Listed : public Edit {
 public:
  Listed(const char* name, bool sealed_anew, const Target& target)
      : name_(name), sealed_anew_(sealed_anew), whole_{target.manifest, target.host.artefact.plan} {}
  const char* name() const override { return name_; }
  bool sealed_anew() const override { return sealed_anew_; }

 protected:
  const char* name_;
  bool sealed_anew_;
  Parts whole_;
};

class PlanBytes final : public Listed {
 public:
  using Listed::Listed;
  size_t count() const override { return kFlips * whole_.plan.size(); }
  Parts make(size_t n) const override {
    Parts parts = whole_;
    parts.plan[n / kFlips] ^= std::byte{flip_of(n)};
    return parts;
  }
  std::string describe(size_t n) const override {
    return fmt::format("plan byte {} ^ {}", n / kFlips, flip_of(n));
  }
};

class ManifestBytes final : public Listed {
 public:
  using Listed::Listed;
  size_t count() const override { return kFlips * whole_.manifest.size(); }
  Parts make(size_t n) const override {
    Parts parts = whole_;
    char& c = parts.manifest[n / kFlips];
    c = static_cast<char>(c ^ flip_of(n));
    return parts;
  }
  std::string describe(size_t n) const override {
    return fmt::format("manifest byte {} ^ {}", n / kFlips, flip_of(n));
  }
};

class PlanWords final : public Listed {
 public:
  using Listed::Listed;
  size_t count() const override { return kWays * (whole_.plan.size() / sizeof(uint32_t)); }
  Parts make(size_t n) const override {
    Parts parts = whole_;
    const size_t words = parts.plan.size() / sizeof(uint32_t), at = n / kWays;
    const auto word_at = [&](size_t word) {
      uint32_t value;
      std::memcpy(&value, parts.plan.data() + word * sizeof(value), sizeof(value));
      return value;
    };
    const uint32_t now = word_at(at);
    const uint32_t ways[kWays] = {0,          1,          now - 1,    now + 1,
                                  0x7fffffff, 0x80000000, 0xffffffff, word_at((at * 7919 + 13) % words),
                                  now + 16};
    const uint32_t to = ways[n % kWays] == now ? now ^ (2u << n % kWays) : ways[n % kWays];
    std::memcpy(parts.plan.data() + at * sizeof(uint32_t), &to, sizeof(to));
    return parts;
  }
  std::string describe(size_t n) const override {
    return fmt::format("plan word {}, way {}", n / kWays, n % kWays);
  }

 private:
  static constexpr size_t kWays = 9;
};

// Exchanges segments with the next one, and lets streams begin one segment later.
class PlanStreams final : public Listed {
 public:
  PlanStreams(const char* name, bool sealed_anew, const Target& target) : Listed(name, sealed_anew, target) {
    std::memcpy(&header_, whole_.plan.data(), sizeof(header_));
  }
  size_t count() const override { return header_.segments - 1 + header_.workers - 1; }
  Parts make(size_t n) const override {
    Parts parts = whole_;
    const mkrt::PlanLayout layout = mkrt::plan_layout(header_);
    if (n < header_.segments - 1) {
      std::byte* at = parts.plan.data() + layout.segments + n * sizeof(mkrt::MkSegment);
      std::swap_ranges(at, at + sizeof(mkrt::MkSegment), at + sizeof(mkrt::MkSegment));
    } else {
      std::byte* at = parts.plan.data() + layout.stream_begin + (n - header_.segments + 2) * sizeof(uint32_t);
      uint32_t begin;
      std::memcpy(&begin, at, sizeof(begin));
      ++begin;
      std::memcpy(at, &begin, sizeof(begin));
    }
    return parts;
  }
  std::string describe(size_t n) const override { return fmt::format("stream change {}", n); }

 private:
  mkrt::MkPlanHeader header_;
};

// Replaces values of the manifest's JSON by others.
class ManifestFields final : public Listed {
 public:
  ManifestFields(const char* name, bool sealed_anew, const Target& target)
      : Listed(name, sealed_anew, target) {
    document_ = json::parse(whole_.manifest);
    collect(document_, json::json_pointer());
  }
  size_t count() const override { return changes_.size(); }
  Parts make(size_t n) const override {
    json document = document_;
    document[changes_[n].at] = changes_[n].to;
    return {document.dump(), whole_.plan};
  }
  std::string describe(size_t n) const override {
    return fmt::format("{} = {}", changes_[n].at.to_string(), changes_[n].to.dump().substr(0, 60));
  }

 private:
  struct Change {
    json::json_pointer at;
    json to;
  };

  void collect(const json& value, const json::json_pointer& at) {
    const auto add = [&](json to) {
      if (to != value) changes_.push_back({at, std::move(to)});
    };
    if (value.is_object()) {
      for (const auto& [key, item] : value.items()) collect(item, at / key);
    } else if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) collect(value[i], at / i);
      collect_lists(value, add);
    } else if (value.is_number_integer()) {
      const auto now = value.get<int64_t>();
      for (const int64_t to :
           {now - 1, now + 1, now / 2, now * 2, int64_t{0}, int64_t{1}, int64_t{-1}, now + 256,
            int64_t{INT32_MAX}, int64_t{UINT32_MAX}, int64_t{1} << 40, INT64_MAX})
        add(to);
    } else if (value.is_number_float()) {
      for (const double to : {0.0, -1.0, 1e300, value.get<double>() * 2}) add(to);
    } else if (value.is_boolean()) {
      add(!value.get<bool>());
    } else if (value.is_string()) {
      add("");
      add(value.get<std::string>() + "x");
      if (!last_.empty()) add(last_);  // the string before this one
      last_ = value.get<std::string>();
      for (const char* name :
           {"table", "range", "inline", "queue", "ready", "f32", "bf16", "i32", "e4m3", "vector"})
        if (is_choice(value)) add(name);
    }
  }

  static bool is_choice(const json& value) {
    for (const char* name :
         {"table", "range", "inline", "queue", "ready", "f32", "f16", "bf16", "i32", "packed"})
      if (value == name) return true;
    return false;
  }

  template <class Add>
  static void collect_lists(const json& list, const Add& add) {
    add(json::array());
    for (size_t i = 0; i < list.size(); ++i) {
      json less = list, more = list;
      less.erase(i);
      more.insert(more.begin() + static_cast<ptrdiff_t>(i), list[i]);
      add(std::move(less));
      add(std::move(more));
      if (i + 1 == list.size()) continue;
      json swapped = list;
      std::swap(swapped[i], swapped[i + 1]);
      add(std::move(swapped));
    }
  }

  json document_;
  std::vector<Change> changes_;
  std::string last_;
};

}  // namespace

std::vector<std::unique_ptr<Edit>> edits_of(const Target& target) {
  std::vector<std::unique_ptr<Edit>> edits;
  edits.push_back(std::make_unique<PlanBytes>("plan bytes", false, target));
  edits.push_back(std::make_unique<ManifestBytes>("manifest bytes", false, target));
  edits.push_back(std::make_unique<PlanBytes>("plan bytes, sealed anew", true, target));
  edits.push_back(std::make_unique<ManifestBytes>("manifest bytes, sealed anew", true, target));
  edits.push_back(std::make_unique<PlanWords>("plan words, sealed anew", true, target));
  edits.push_back(std::make_unique<PlanStreams>("plan streams, sealed anew", true, target));
  edits.push_back(std::make_unique<ManifestFields>("manifest fields, sealed anew", true, target));
  return edits;
}

}  // namespace mkc::attack
