#include "tools/quantize/write.h"

#include <array>

#include "runtime/base/file.h"
#include "tools/quantize/rows.h"

namespace mkc::quantize {
namespace {

using mkrt::Result;
using mkrt::Status;

constexpr size_t kCopied = 16 << 20;  // bytes of a tensor that are copied at once

Status copy_tensor(const mkrt::StoredTensor& tensor, uint64_t offset, const mkrt::FileWriter& file,
                   const OnRead& on_read) {
  for (size_t at = 0; at < tensor.bytes.size(); at += kCopied) {
    const auto some = tensor.bytes.subspan(at, std::min(kCopied, tensor.bytes.size() - at));
    if (Status status = file.write(some, offset + at); !status.ok()) return status;
    on_read(some.size());
  }
  return {};
}

Result<SquareSums> write_quantized(const Shard& shard, const ShardSource& source, const Format& format,
                                   const mkrt::FileWriter& file, const WriteOptions& options) {
  std::array<uint64_t, 4> offsets{};
  for (const auto& [role, number] : source.made)
    offsets[static_cast<size_t>(role)] = shard.tensors[number].offset;
  const uint64_t cols = rows_of(*source.tensor).cols;
  const auto at = [&](Role role) { return offsets[static_cast<size_t>(role)]; };
  const RowsSink sink = [&](uint64_t first, const QuantizedRows& rows) {
    Status codes =
        file.write(std::as_bytes(std::span(rows.codes)), at(Role::kCodes) + first * cols * format.bits() / 8);
    if (!codes.ok()) return codes;
    const uint64_t scale = first / format.block_rows * format.blocks(cols);
    return file.write(std::as_bytes(std::span(rows.scales)),
                      at(Role::kScales) + scale * format.scale_bytes());
  };
  if (at(Role::kShape) != 0)
    if (Status status = file.write(std::as_bytes(std::span(source.tensor->shape)), at(Role::kShape));
        !status.ok())
      return status.error();
  return quantize_matrix(format, *source.tensor, options.threads, sink, options.on_read);
}

}  // namespace

Status write_shard(const Shard& shard, const Format& format, const std::string& folder,
                   const WriteOptions& options) {
  mkrt::FileWriter file(folder + "/" + shard.name);
  if (Status status = file.write(std::as_bytes(std::span(shard.header)), 0); !status.ok()) return status;
  for (const ShardSource& source : shard.sources) {
    SquareSums sums;
    if (source.quantized) {
      const Result<SquareSums> written = write_quantized(shard, source, format, file, options);
      if (!written.ok()) return written.error();
      sums = written.value();
    } else {
      const uint64_t offset = shard.tensors[source.made[0].second].offset;
      if (Status status = copy_tensor(*source.tensor, offset, file, options.on_read); !status.ok())
        return status;
    }
    options.on_tensor(source, sums);
  }
  if (Status status = file.sync(); !status.ok()) return status;
  return file.commit_exactly(shard.mode);
}

}  // namespace mkc::quantize
