#include "codegen/tensor_addresses.h"

#include <algorithm>

#include "ir/values.h"
#include "runtime/abi/packing.h"

namespace mkc {
namespace {

// Plain weights of rank 1 are kept in f32.
uint64_t element_bytes(const Tensor& tensor) {
  const bool is_vector = tensor.kind == TensorKind::kWeight && tensor.shape.size() < 2;
  return is_vector ? 4 : static_cast<uint64_t>(dtype_bytes(tensor.dtype));
}

uint64_t bytes_of(const Tensor& tensor, std::span<const int64_t> shape) {
  uint64_t bytes = element_bytes(tensor);
  for (const int64_t extent : shape) bytes *= static_cast<uint64_t>(std::max<int64_t>(0, extent));
  return bytes;
}

// Returns the packed shape of a weight, or of one expert where the weight stacks several.
mkrt::PackedShape packed_shape_of(const Tensor& tensor, std::span<const int64_t> shape) {
  const size_t rank = shape.size();
  return mkrt::packed_shape(static_cast<uint64_t>(shape[rank - 2]), static_cast<uint64_t>(shape[rank - 1]),
                            weight_type(tensor));
}

// A lane reads so many bytes of a packed weight at once, of two rows and some columns.
struct LaneShare {
  uint64_t bytes;
  uint32_t cols;
  explicit LaneShare(const mkrt::WeightFormat& format)
      : bytes(format.bytes_of(mkrt::kLaneOperandBytes)),
        cols(static_cast<uint32_t>(bytes * 8 / format.bits / 2)) {}
};

}  // namespace

TensorAddresses::TensorAddresses(const Schedule& schedule) : schedule_(schedule) {}

void TensorAddresses::begin_step(const mkrt::MkSession& session, const mkrt::MkStep& step,
                                 std::span<const int64_t> values) {
  session_ = &session;
  step_ = &step;
  shapes_.clear();
  for (const Tensor& tensor : schedule_.program.tensors) {
    std::vector<int64_t>& shape = shapes_.emplace_back();
    for (const Expr& dim : tensor.shape) shape.push_back(evaluate(dim, values));
  }
  pages_.clear();
  const auto* begin = reinterpret_cast<const uint32_t*>(step.page_begin);
  const auto* page = reinterpret_cast<const uint32_t*>(step.page_index);
  const auto* lengths =
      reinterpret_cast<const uint32_t*>(step.lists) + mkrt::kLengthsList * mkrt::kMaxRequests;
  const int64_t requests = values[step_symbols(schedule_.program.symbols).requests.index];
  for (int64_t b = 0; b < requests; ++b)
    for (uint32_t i = 0; uint64_t{i} << session.page_shift < lengths[b]; ++i)
      pages_[page[begin[b] + i]].push_back({b, i});
  pages_end_ = 0;
  for (const auto& [number, users] : pages_) pages_end_ = std::max(pages_end_, number + 1);
  extents_.clear();
  for (const TensorId id : schedule_.program.tensors.ids()) extents_.push_back(extent_of(id));
}

TensorAddresses::Extent TensorAddresses::extent_of(TensorId id) const {
  const auto& tensors = schedule_.program.tensors;
  const Slot& slot = schedule_.slots[id.index];
  switch (tensors[id].kind) {
    case TensorKind::kInput:
      return {step_->input[number_in_kind(tensors, id)], bytes_of(tensors[id], shapes_[id.index])};
    case TensorKind::kCache: {
      const auto* caches = reinterpret_cast<const mkrt::MkCache*>(session_->caches);
      return {caches[number_in_kind(tensors, id)].base, pages_end_ * session_->page_stride};
    }
    case TensorKind::kWeight:
    case TensorKind::kTable:
      return {session_->weights + slot.offset, slot.bytes};
    default:
      return {session_->workspace + slot.offset, slot.bytes};
  }
}

bool TensorAddresses::find(TensorId id, uint64_t address, Elements& found, size_t user) {
  if (address - extents_[id.index].begin >= extents_[id.index].bytes) return false;
  const Tensor& tensor = schedule_.program.tensors[id];
  if (tensor.kind == TensorKind::kCache) return find_in_cache(id, address, found, user);
  if (user > 0) return false;
  return tensor.packing.sources.empty() ? find_plain(id, address, found) : find_packed(id, address, found);
}

bool TensorAddresses::find_plain(TensorId id, uint64_t address, Elements& found) const {
  const std::vector<int64_t>& shape = shapes_[id.index];
  const uint64_t size = element_bytes(schedule_.program.tensors[id]);
  const uint64_t offset = address - begin_of(id);
  auto element = static_cast<int64_t>(offset / size);
  found.bytes = static_cast<uint32_t>(size - offset % size);
  found.element_bytes = static_cast<uint32_t>(size);
  found.first.assign(shape.size(), 0);
  for (size_t d = shape.size(); d-- > 0;) {
    const int64_t extent = std::max<int64_t>(1, shape[d]);
    found.first[d] = d == 0 ? element : element % extent;
    element /= extent;
  }
  found.last = found.first;
  found.to_row_end = shape.empty() ? 1 : std::max<int64_t>(1, shape.back() - found.first.back());
  return true;
}

const std::vector<TensorAddresses::Place>& TensorAddresses::strip_places(TensorId id) {
  const auto [entry, added] = strips_.try_emplace(id.index);
  std::vector<Place>& places = entry->second;
  if (!added) return places;
  const mkrt::PackedShape shape = packed_shape_of(schedule_.program.tensors[id], shapes_[id.index]);
  const LaneShare lane(shape.format);
  places.resize(shape.strip_bytes / lane.bytes);
  for (uint32_t row = 0; row < mkrt::kStripRows / 2; ++row)
    for (uint32_t col = 0; col < shape.padded_cols; col += lane.cols)
      places[mkrt::packed_offset(shape, row, col) / lane.bytes] = {row, col, true};
  // The scales of a group belong to its columns and to all rows of the strip.
  for (uint32_t col = 0; col < shape.padded_cols && shape.format.grouped(); col += shape.format.group_cols)
    for (uint64_t at = 0; at < shape.format.group_bytes(); at += lane.bytes)
      places[(mkrt::group_offset(shape, 0, col) + at) / lane.bytes] = {0, col, true};
  // The scales behind a K slice belong to all its columns and to all rows of the strip.
  for (uint32_t k_slice = 0; k_slice < mkrt::kKSlices && shape.format.scale_bytes != 0; ++k_slice)
    for (uint64_t at = 0; at < shape.format.scale_bytes; at += lane.bytes)
      places[(mkrt::scale_offset(shape, 0, k_slice) + at) / lane.bytes] = {
          0, static_cast<uint32_t>(k_slice * shape.padded_cols / mkrt::kKSlices), true};
  return places;
}

bool TensorAddresses::find_packed(TensorId id, uint64_t address, Elements& found) {
  const Tensor& tensor = schedule_.program.tensors[id];
  const std::vector<int64_t>& extents = shapes_[id.index];
  const mkrt::PackedShape shape = packed_shape_of(tensor, extents);
  const uint64_t offset = address - begin_of(id), in_matrix = offset % shape.bytes;
  const uint64_t strip = in_matrix / shape.strip_bytes;
  const LaneShare lane(shape.format);
  const Place place = strip_places(id)[in_matrix % shape.strip_bytes / lane.bytes];
  const auto row = static_cast<int64_t>(strip * mkrt::kStripRows + place.row);
  found.bytes = static_cast<uint32_t>(lane.bytes - offset % lane.bytes);
  found.to_row_end = 1;
  found.first = {row, place.col};
  found.last = {std::min<int64_t>(row + mkrt::kStripRows / 2, static_cast<int64_t>(shape.rows) - 1),
                std::min<int64_t>(place.col + lane.cols, static_cast<int64_t>(shape.cols)) - 1};
  if (extents.size() > 2) {
    const auto expert = static_cast<int64_t>(offset / shape.bytes);
    found.first.insert(found.first.begin(), expert);
    found.last.insert(found.last.begin(), expert);
  }
  return place.used;
}

bool TensorAddresses::find_in_cache(TensorId id, uint64_t address, Elements& found, size_t user) const {
  const uint64_t offset = address - begin_of(id);
  const auto users = pages_.find(offset / session_->page_stride);
  if (users == pages_.end() || user >= users->second.size()) return false;
  const Page& page = users->second[user];
  const uint64_t in_page = offset % session_->page_stride;
  const uint64_t outer = std::max(session_->head_stride, session_->position_stride);
  const uint64_t inner = std::min(session_->head_stride, session_->position_stride);
  const uint64_t at_outer = in_page / outer, at_inner = in_page % outer / inner;
  const uint64_t in_head = in_page % outer % inner;
  const bool heads_inside = session_->head_stride <= session_->position_stride;
  const uint64_t head = heads_inside ? at_inner : at_outer, position = heads_inside ? at_outer : at_inner;
  const auto size = static_cast<uint64_t>(dtype_bytes(schedule_.program.tensors[id].dtype));
  const std::vector<int64_t>& shape = shapes_[id.index];
  if (head >= static_cast<uint64_t>(shape[1]) || in_head / size >= static_cast<uint64_t>(shape[3]))
    return false;
  found.bytes = static_cast<uint32_t>(size - in_head % size);
  found.element_bytes = static_cast<uint32_t>(size);
  found.first = {page.request, static_cast<int64_t>(head),
                 (page.number << session_->page_shift) + static_cast<int64_t>(position),
                 static_cast<int64_t>(in_head / size)};
  found.last = found.first;
  found.to_row_end = shape[3] - found.first[3];
  return true;
}

}  // namespace mkc
