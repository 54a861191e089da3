#include "runtime/session/kept_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "runtime/abi/packing.h"
#include "runtime/base/file.h"
#include "runtime/session/weights.h"

namespace mkrt {
namespace {

constexpr int kFormat = 2;  // counts up when the meaning of kept bytes changes, apart from packed layouts

// Probe is a small weight of two sources, of more than two tiles, whose elements all differ as far as their
// type allows.
struct Probe {
  static constexpr uint64_t kRows = 24, kCols = 1536;  // of each source
  ManifestWeight weight;
  Checkpoint checkpoint;
  std::vector<std::vector<std::byte>> storage;

  explicit Probe(Element element) {
    const WeightType type = *find_weight_type(element);
    const WeightFormat format = weight_format(type);
    weight.element = element;
    weight.rows = 2 * kRows;
    weight.cols = kCols;
    weight.group = 8;
    weight.sources = {"a", "b"};
    weight.bytes = packed_shape(weight.rows, kCols, type).bytes;
    for (const std::string& name : weight.sources) add_source(name, format);
    std::ranges::sort(checkpoint.tensors, {}, &StoredTensor::name);
  }

  // Tensors have the names and shapes of compressed-tensors.
  void add_source(const std::string& name, const WeightFormat& format) {
    const bool e2m1 = format.code == CodeType::kE2m1, integers = format.code == CodeType::kInteger;
    const uint64_t group = format.grouped() && format.group_rows == 1 ? format.group_cols : kScaleBlock;
    if (!format.coded()) return add(name, format.stored, kRows, kCols, format.bits / 8);
    if (e2m1) add(name + "_packed", "U8", kRows, kCols / 2, 1);
    if (integers) add(name + "_packed", "I32", kRows, kCols * format.bits / 32, 4);
    if (!e2m1 && !integers) add(name, "F8_E4M3", kRows, kCols, 1);
    if (format.zeros) add(name + "_zero_point", "I32", kRows * format.bits / 32, kCols / group, 4);
    if (format.group_scale == ScaleType::kE4m3) add(name + "_global_scale", "F32", 1, 0, 4);
    if (e2m1)
      return add(name + "_scale", format.group_scale == ScaleType::kE4m3 ? "F8_E4M3" : "U8", kRows,
                 kCols / group, 1);
    add(name + "_scale", "BF16", format.group_rows > 1 ? 1 : kRows, format.grouped() ? kCols / group : 1, 2);
  }

  // Adds a tensor [rows, cols], or [rows] where `cols` is 0. Its bytes are random, but for exponents: every
  // format can hold the floats, and none is NaN.
  void add(const std::string& name, const char* dtype, uint64_t rows, uint64_t cols, uint64_t bytes) {
    std::vector<std::byte>& data = storage.emplace_back(rows * std::max<uint64_t>(cols, 1) * bytes);
    auto word = static_cast<uint32_t>(storage.size());
    const bool scales = name.ends_with("scale");
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<std::byte>((word = word * 1664525 + 1013904223) >> 24);
      if (scales) data[i] &= std::byte{0x3f};
      if (scales && bytes > 1 && i % bytes == bytes - 1) data[i] = std::byte{0x3c} | (data[i] & std::byte{3});
    }
    std::vector<int64_t> shape{static_cast<int64_t>(rows)};
    if (cols != 0) shape.push_back(static_cast<int64_t>(cols));
    checkpoint.tensors.push_back({name, dtype, std::move(shape), "", data});
  }
};

// Returns a hash of the packed bytes of a probe.
Result<std::string> probe_layout(Device& device, Element element) {
  const Probe probe(element);
  const Result<uint64_t> memory = device.allocate(probe.weight.bytes);
  if (!memory.ok()) return memory.error();
  std::vector<std::byte> packed(probe.weight.bytes);
  Status status = WeightLoader(device, probe.checkpoint).load(probe.weight, memory.value());
  if (status.ok()) status = device.wait_for_stream(0);
  if (status.ok()) status = device.read(packed, memory.value());
  device.release(memory.value());
  if (!status.ok()) return status.error();
  return hash_hex(as_text(packed));
}

// Returns hashes of the layouts of all types that the manifest's weights have. A packed probe tells more than
// a version number, which somebody would have to change with the layout.
Result<std::string> layouts_of(Device& device, const Manifest& manifest) {
  std::set<Element> elements;
  for (const ManifestWeight& w : manifest.weights)
    if (w.layout == WeightLayout::kPacked) elements.insert(w.element);
  std::string text;
  for (const Element element : elements) {
    const Result<std::string> layout = probe_layout(device, element);
    if (!layout.ok()) return layout;
    text += fmt::format("layout {} {}\n", element_name(element), layout.value());
  }
  return text;
}

// Returns the part of the manifest that says what lies where in the weights arena.
std::string arena_of(const Manifest& manifest) {
  Manifest arena;
  arena.weight_bytes = manifest.weight_bytes;
  arena.weights = manifest.weights;
  arena.ropes = manifest.ropes;
  return to_json(arena);
}

// Returns a safetensors file's header with its length. Requires a file that open_checkpoint() has checked.
std::string_view header_of(const MappedFile& file) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, file.bytes.data(), sizeof(bytes));
  return as_text(file.bytes.first(sizeof(bytes) + bytes));
}

}  // namespace

Result<KeptKey> kept_key(Device& device, const Manifest& manifest, const Checkpoint& checkpoint) {
  if (checkpoint.files.empty())
    return Error{fmt::format("{}: error: has no files to tell their versions by", checkpoint.directory)};
  const Result<std::string> layouts = layouts_of(device, manifest);
  if (!layouts.ok()) return layouts.error();
  std::string place = fmt::format("format {}\n{}{}\n", kFormat, layouts.value(), arena_of(manifest)),
              versions;
  for (const MappedFile& file : checkpoint.files) {
    std::error_code failed;
    const std::string path = std::filesystem::canonical(file.path, failed).string();
    if (failed) return Error{fmt::format("{}: error: cannot read: {}", file.path, failed.message())};
    const FileStamp& s = file.stamp;
    place += fmt::format("file {}\n", path);
    versions += fmt::format("{} {} {} {} {}\n", s.inode, s.bytes, s.modified_ns, s.changed_ns,
                            hash_hex(header_of(file)));
  }
  versions += hash_hex(as_text(checkpoint.config.bytes));  // tells how zero points are stored
  for (const ManifestCopy& c : manifest.copies) versions += fmt::format("\ncopy {} of {}", c.name, c.of);
  return KeptKey{hash_hex(place), hash_hex(place + versions)};
}

Status check_stamps(const Checkpoint& checkpoint) {
  for (const MappedFile& file : checkpoint.files) {
    const Result<FileStamp> now = stamp_of(file.path);
    if (!now.ok()) return now.error();
    if (now.value() != file.stamp) return Error{fmt::format("{}: error: changed meanwhile", file.path)};
  }
  return {};
}

Status await_stamps(const Checkpoint& checkpoint) {
  using namespace std::chrono;
  constexpr milliseconds kTick(20), kSkew(1000);  // a tick has up to 10 ms
  for (const MappedFile& file : checkpoint.files) {
    const system_clock::time_point changed(
        duration_cast<system_clock::duration>(nanoseconds(file.stamp.changed_ns)));
    const auto now = system_clock::now();
    if (changed > now + kSkew) return Error{fmt::format("{}: error: changed in the future", file.path)};
    if (changed + kTick > now) std::this_thread::sleep_for(changed + kTick - now);
  }
  return check_stamps(checkpoint);
}

}  // namespace mkrt
