#include "tools/quantize/shard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/session/matrix_reader.h"
#include "tools/quantize/rows.h"

namespace mkc::quantize {
namespace {

using mkrt::Error;
using mkrt::Result;
using mkrt::Status;
using mkrt::StoredTensor;

constexpr uint64_t kAlignment = 8;  // of the data behind the header

// Returns how to leave a matrix as it is, and those of its name in other layers.
std::string keep_text(const std::string& matrix) {
  const std::string module = matrix.substr(0, matrix.rfind('.'));
  const bool stacked = module.ends_with(".experts"), expert = module.find(".experts.") != module.npos;
  const std::string last = stacked ? "mlp.experts" : module.substr(module.rfind('.') + 1);
  if (expert) return fmt::format("--keep {} leaves those of all layers as they are", last);
  return fmt::format("--keep {} leaves it as it is, --keep {} those of all layers", module, last);
}

Status check_matrix(const StoredTensor& t, const std::string& name, const Format& format) {
  const bool stacked = t.shape.size() == 3;
  if (!mkrt::is_float(t) || (t.shape.size() != 2 && !stacked))
    return Error{fmt::format("{}: error: tensor \"{}\" is {} [{}], expected a matrix of F32, F16 or BF16",
                             t.file, t.name, t.dtype, fmt::join(t.shape, ", "))};
  const std::string keep = name == kHeadWeight ? "without --head it stays as it is" : keep_text(name);
  if (stacked && !format.stacked)
    return Error{
        fmt::format("{}: error: tensor \"{}\" has all experts, for which {} has no form, expected mxfp4; {}",
                    t.file, t.name, format.name, keep)};
  const uint64_t cols = rows_of(t).cols;
  if (cols % format.col_quantum == 0) return {};
  return Error{fmt::format("{}: error: tensor \"{}\" has {} {}, expected a multiple of {} for {}; {}", t.file,
                           t.name, cols, stacked ? "inputs" : "columns", format.col_quantum, format.name,
                           keep)};
}

// Returns the shapes of the tensors of codes and scales. `words` are the elements of codes of one row.
std::pair<std::vector<int64_t>, std::vector<int64_t>> shapes_of(const StoredTensor& t, const Format& format,
                                                                uint64_t words) {
  const RowsOf r = rows_of(t);
  const auto rows = static_cast<int64_t>((r.rows + format.block_rows - 1) / format.block_rows),
             blocks = static_cast<int64_t>(format.blocks(r.cols)), of_row = static_cast<int64_t>(words);
  if (!format.stacked) return {{t.shape[0], of_row}, {rows, blocks}};
  return {{t.shape[0], t.shape[2], blocks, of_row / blocks}, {t.shape[0], t.shape[2], blocks}};
}

void add(Shard& shard, Role role, ShardTensor tensor) {
  shard.sources.back().made.emplace_back(role, shard.tensors.size());
  shard.tensors.push_back(std::move(tensor));
}

Status add_quantized(Shard& shard, const StoredTensor& t, const std::string& name, const Format& format) {
  if (Status status = check_matrix(t, name, format); !status.ok()) return status;
  shard.sources.push_back({&t, name, true});
  const RowsOf r = rows_of(t);
  const uint64_t code_bytes = r.rows * r.cols * format.bits() / 8;
  const bool words = std::string_view(format.code_dtype()) == "I32";
  auto [codes, scales] = shapes_of(t, format, r.cols * format.bits() / 8 / (words ? 4 : 1));
  add(shard, Role::kCodes, {name + format.code_suffix, format.code_dtype(), std::move(codes), code_bytes});
  const uint64_t block_rows = (r.rows + format.block_rows - 1) / format.block_rows;
  add(shard, Role::kScales,
      {name + format.scale_suffix, format.scale_dtype(), std::move(scales),
       block_rows * format.blocks(r.cols) * format.scale_bytes()});
  if (words) add(shard, Role::kShape, {name + "_shape", "I64", {2}, 16});
  return {};
}

// Tensors of greater elements come first, so that each lies at a multiple of its element's size.
uint64_t element_bytes(const ShardTensor& t) {
  uint64_t elements = 1;
  for (const int64_t size : t.shape) elements *= static_cast<uint64_t>(size);
  return elements == 0 ? 1 : t.bytes / elements;
}

// Gives each tensor its place, and writes the header.
void place(Shard& shard) {
  std::vector<size_t> order(shard.tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(~element_bytes(shard.tensors[i]), i); });
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  for (const size_t i : order) {
    ShardTensor& t = shard.tensors[i];
    t.offset = shard.bytes;
    shard.bytes += t.bytes;
    header[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {t.offset, shard.bytes}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = text.size();
  shard.header.assign(reinterpret_cast<const char*>(&length), sizeof(length));
  shard.header += text;
  for (ShardTensor& t : shard.tensors) t.offset += shard.header.size();
}

}  // namespace

Result<std::vector<Shard>> plan_shards(const mkrt::Checkpoint& checkpoint, const Matrices& matrices) {
  const Format& format = *matrices.format;
  std::vector<Shard> shards;
  for (const mkrt::MappedFile& file : checkpoint.files) {
    Shard shard;
    shard.name = std::filesystem::path(file.path).filename().string();
    shard.mode = file.stamp.mode & 0777;
    for (const StoredTensor& t : checkpoint.tensors) {
      if (t.file != file.path) continue;
      if (matrices.quantized.contains(t.name)) {
        if (Status status = add_quantized(shard, t, t.name, format); !status.ok()) return status.error();
      } else if (matrices.tied_head.empty() || t.name != kHeadWeight) {
        shard.sources.push_back({&t, t.name, false});
        add(shard, Role::kCopy, {t.name, t.dtype, t.shape, t.bytes.size()});
      }
      if (t.name != matrices.tied_head) continue;
      if (Status status = add_quantized(shard, t, kHeadWeight, format); !status.ok()) return status.error();
    }
    place(shard);
    shards.push_back(std::move(shard));
  }
  return shards;
}

}  // namespace mkc::quantize
