#include "runtime/artefact/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/abi/abi.h"
#include "runtime/base/json_text.h"

namespace mkrt {
namespace {

using nlohmann::json;

constexpr const char* kArenaNames[] = {"input", "weights", "workspace"};
constexpr const char* kLayoutNames[] = {"packed", "vector"};
constexpr const char* kPlacementNames[] = {"table", "range", "inline", "queue", "ready"};
constexpr const char* kFile = "manifest";  // file name in errors

// One members() for each struct serves writing and reading: it calls visit(key, member) for each member.
template <class V>
void members(V& v, ManifestSymbol& s) {
  v("name", s.name), v("lo", s.lo), v("hi", s.hi), v("list", s.list);
}
template <class V>
void members(V& v, ManifestWeight& w) {
  v("name", w.name), v("offset", w.offset), v("bytes", w.bytes), v("layout", w.layout),
      v("element", w.element);
  v("rows", w.rows), v("cols", w.cols), v("group", w.group), v("sources", w.sources), v("stack", w.stack);
}
template <class V>
void members(V& v, ManifestRope& r) {
  v("name", r.name), v("offset", r.offset), v("positions", r.positions), v("inv_freq", r.inv_freq),
      v("scale", r.scale);
}
template <class V>
void members(V& v, ManifestTensor& t) {
  v("name", t.name), v("arena", t.arena), v("element", t.element), v("offset", t.offset), v("bytes", t.bytes);
  v("shape", t.shape);
}
template <class V>
void members(V& v, ManifestCache& c) {
  v("name", c.name), v("element", c.element), v("heads", c.heads), v("head_dim", c.head_dim),
      v("scales", c.scales);
}
template <class V>
void members(V& v, ManifestCopy& c) {
  v("name", c.name), v("of", c.of), v("reason", c.reason);
}
template <class V>
void members(V& v, ManifestEvent& e) {
  v("name", e.name), v("first_cell", e.first_cell), v("cells", e.cells);
}
template <class V>
void members(V& v, ManifestGrid& g) {
  v("name", g.name), v("kind", g.kind), v("placement", g.placement), v("tasks", g.tasks);
  v("tickets", g.tickets), v("inline_grid", g.inline_grid), v("waits", g.waits), v("notifies", g.notifies);
  v("operands", g.operands), v("product", g.product);
}
template <class V>
void members(V& v, Certificate::Bounds& b) {
  v("symbol", b.symbol), v("lo", b.lo), v("hi", b.hi);
}
template <class V>
void members(V& v, Certificate& c) {
  v("version", c.version), v("verdict", c.verdict), v("symbols", c.symbols), v("symbolic", c.symbolic);
  v("enumeration", c.enumeration), v("lemmas", c.lemmas);
}
template <class V>
void members(V& v, Manifest& m) {
  v("version", m.version), v("abi", m.abi), v("mkc_version", m.mkc_version), v("model", m.model);
  v("config_hash", m.config_hash), v("schedule_hash", m.schedule_hash), v("target", m.target);
  v("without", m.without);
  v("workers", m.workers), v("threads", m.threads), v("shared_bytes", m.shared_bytes);
  v("ring_stages", m.ring_stages), v("event_cells", m.event_cells), v("weight_bytes", m.weight_bytes);
  v("workspace_bytes", m.workspace_bytes), v("caches", m.caches), v("vocab", m.vocab);
  v("eos_ids", m.eos_ids), v("bos_id", m.bos_id), v("symbols", m.symbols), v("inputs", m.inputs);
  v("outputs", m.outputs), v("weights", m.weights), v("ropes", m.ropes), v("copies", m.copies),
      v("tensors", m.tensors);
  v("grids", m.grids), v("launches", m.launches), v("traced", m.traced), v("events", m.events);
  v("certificate", m.certificate), v("seal", m.seal), v("code_seal", m.code_seal);
}

struct Writer {
  json object = json::object();

  template <class T>
  void operator()(const char* key, T& member) {
    object[key] = value(member);
  }

 private:
  static json value(Arena a) { return kArenaNames[static_cast<size_t>(a)]; }
  static json value(WeightLayout l) { return kLayoutNames[static_cast<size_t>(l)]; }
  static json value(GridPlacement p) { return kPlacementNames[static_cast<size_t>(p)]; }
  static json value(Element e) { return element_name(e); }
  template <class T>
  static json value(std::vector<T>& list) {
    json out = json::array();
    for (T& item : list) out.push_back(value(item));
    return out;
  }
  template <class T>
  static json value(T& member) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return member;
    } else {
      Writer writer;
      members(writer, member);
      return std::move(writer.object);
    }
  }
};

struct Reader {
  const JsonNode& node;
  size_t keys = 0;

  template <class T>
  void operator()(const char* key, T& member) {
    ++keys;
    read(node.at(key), member);
  }

  // Refuses further keys of the object. All members must have been visited before.
  void check_keys() const {
    if (!node.failed() && node.raw().size() != keys) node.fail("has unknown keys");
  }

 private:
  template <class T, size_t N>
  static void read_name(const JsonNode& from, const char* const (&names)[N], T& member) {
    const std::string name = from.string();
    for (size_t i = 0; i < N; ++i)
      if (name == names[i]) return void(member = static_cast<T>(i));
    from.fail_expected(fmt::format("one of {}", fmt::join(names, ", ")));
  }
  static void read(const JsonNode& from, Arena& a) { read_name(from, kArenaNames, a); }
  static void read(const JsonNode& from, WeightLayout& l) { read_name(from, kLayoutNames, l); }
  static void read(const JsonNode& from, GridPlacement& p) { read_name(from, kPlacementNames, p); }
  static void read(const JsonNode& from, Element& e) {
    const char* names[static_cast<size_t>(Element::kI32) + 1];
    for (size_t i = 0; i < std::size(names); ++i) names[i] = element_name(static_cast<Element>(i));
    read_name(from, names, e);
  }
  static void read(const JsonNode& from, std::string& text) { text = from.string(); }
  static void read(const JsonNode& from, bool& flag) {
    if (!from.raw().is_boolean()) return from.fail_expected("true or false");
    flag = from.raw().get<bool>();
  }
  static void read(const JsonNode& from, double& number) {
    if (!from.raw().is_number()) return from.fail_expected("a number");
    number = from.raw().get<double>();
  }
  template <class T>
  static void read(const JsonNode& from, std::vector<T>& list) {
    for (const JsonNode& item : from.items()) read(item, list.emplace_back());
  }
  template <class T>
  static void read(const JsonNode& from, T& member) {
    if constexpr (std::is_integral_v<T>) {
      const json& value = from.raw();
      const bool fits = value.is_number_unsigned()  ? std::in_range<T>(value.get<uint64_t>())
                        : value.is_number_integer() ? std::in_range<T>(value.get<int64_t>())
                                                    : false;
      if (!fits)
        return from.fail_expected(fmt::format("an integer from {} to {}", std::numeric_limits<T>::min(),
                                              std::numeric_limits<T>::max()));
      member = value.get<T>();
    } else {
      Reader reader{from};
      members(reader, member);
      reader.check_keys();
    }
  }
};

}  // namespace

uint32_t element_bits(Element e) {
  const std::optional<WeightType> type = find_weight_type(e);
  return type ? weight_format(*type).bits : 32;
}

uint32_t element_bytes(Element e) {
  return element_bits(e) / 8;
}

std::optional<WeightType> find_weight_type(Element e) {
  if (e == Element::kI32) return {};
  return static_cast<WeightType>(e);
}

const char* element_name(Element e) {
  const std::optional<WeightType> type = find_weight_type(e);
  return type ? weight_format(*type).name : "i32";
}

std::string to_json(const Manifest& manifest) {
  Writer writer;
  Manifest copy = manifest;  // members() takes a mutable object
  members(writer, copy);
  return writer.object.dump();
}

Result<Manifest> parse_manifest(std::string_view text) {
  const Result<json> document = parse_json_text(text, kFile);
  if (!document.ok()) return document.error();
  Status status;
  const std::string file = kFile;
  const JsonNode root(document.value(), file, status);
  Manifest manifest;
  // The version is read first, because it decides what other keys mean.
  Reader{root}("version", manifest.version);
  if (status.ok() && manifest.version != kManifestVersion) return check_manifest(manifest).error();
  Reader reader{root};
  members(reader, manifest);
  reader.check_keys();
  if (!status.ok()) return status.error();
  if (Status checked = check_manifest(manifest); !checked.ok()) return checked.error();
  return manifest;
}

std::string hash_hex(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace mkrt
