#include "runtime/artefact/stored_matrix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/abi/packing.h"
#include "runtime/artefact/tensor_view.h"

namespace mkrt {

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Error unexpected_tensor(const TensorHeader& t, const std::string& expected) {
  return {fmt::format("{}: error: tensor \"{}\" is {} {}, expected {}", t.file, t.name, t.dtype,
                      shape_text(t.shape), expected)};
}

namespace {

using Shape = std::vector<int64_t>;
constexpr uint32_t kWordBits = 32;
constexpr uint64_t kCodesOfWord = 8;  // codes of 4 bits in a word
constexpr const char* kFloats[] = {"F32", "F16", "BF16"};

uint64_t ceil_of(uint64_t value, uint64_t by) {
  return (value + by - 1) / by;
}

int64_t dim(uint64_t size) {
  return static_cast<int64_t>(size);
}

bool is_one_of(const TensorHeader& t, std::span<const char* const> dtypes) {
  return std::ranges::any_of(dtypes, [&](const char* dtype) { return t.dtype == dtype; });
}

// Matrix is the search for the tensors of one matrix.
struct Matrix {
  const FindTensor& find;
  const std::string& name;
  uint64_t rows, cols;
  bool symmetric;
  std::string module = name.substr(0, name.rfind('.') + 1);
  StoredMatrix m{};

  // Takes a tensor that must be there beside `codes`, of one of the types and shapes. `expected` says which.
  Result<TensorHeader> take(const TensorHeader& codes, const std::string& tensor,
                            std::span<const char* const> dtypes, std::span<const Shape> shapes,
                            const std::string& expected) const {
    const std::optional<TensorHeader> t = find(tensor);
    if (!t)
      return Error{fmt::format("{}: error: missing tensor \"{}\" beside \"{}\", expected {}", codes.file,
                               tensor, codes.name, expected)};
    if (!is_one_of(*t, dtypes) || std::ranges::count(shapes, t->shape) == 0)
      return unexpected_tensor(*t, expected);
    return *t;
  }

  void take_beside(const std::string& tensor) {
    if (find(tensor)) m.beside.push_back(tensor);
  }

  // Codes of 8-bit floats have scales of the tensor, its rows, or its blocks.
  Status take_e4m3(const TensorHeader& codes) {
    m.codes = name, m.bits = 8;
    m.scales = name + (find(name + "_scale_inv") ? "_scale_inv" : "_scale");
    const uint64_t block_rows = ceil_of(rows, kScaleBlock), block_cols = ceil_of(cols, kScaleBlock);
    const Shape shapes[] = {{dim(rows), 1}, {dim(rows)}, {1}, {}, {1, 1}, {dim(block_rows), dim(block_cols)}};
    constexpr const char* kScales[] = {"F32", "F16", "BF16", "F8_E8M0"};
    const Result<TensorHeader> scales =
        take(codes, m.scales, kScales, shapes,
             fmt::format(
                 "BF16, F16, F32 or F8_E8M0 [{}, 1], [1] or [{}, {}], a scale for each row, for all, or for "
                 "each block of {} x {}",
                 rows, block_rows, block_cols, kScaleBlock, kScaleBlock));
    if (!scales.ok()) return scales.error();
    take_beside(module + "input_scale");  // of activations as 8-bit floats; mkc keeps bf16, which is closer
    const Shape& shape = scales.value().shape;
    const auto at = std::ranges::find(shapes, shape) - std::begin(shapes);
    m.type = at == 5 ? WeightType::kE4m3Block : WeightType::kE4m3;
    m.scale_rows = at == 5 ? kScaleBlock : at < 2 ? 1 : rows;
    m.scale_cols = at == 5 ? kScaleBlock : cols;
    return {};
  }

  // Codes of E2M1 have scales of groups: of E4M3 for 16 columns, or of E8M0 for 32.
  Status take_e2m1(const TensorHeader& codes, bool modelopt) {
    m.codes = codes.name, m.bits = 4;
    m.scales = name + "_scale";
    const std::optional<TensorHeader> scales = find(m.scales);
    const bool nvfp4 = modelopt || (scales && scales->dtype == "F8_E4M3");
    m.type = nvfp4 ? WeightType::kNvfp4 : WeightType::kMxfp4;
    m.scale_cols = weight_format(m.type).group_cols;
    if (Status status = check_group(codes); !status.ok()) return status;
    const Shape stored{dim(rows), dim(cols / 2)};
    if (codes.shape != stored)
      return unexpected_tensor(codes, fmt::format("U8 {}, two codes in a byte", shape_text(stored)));
    constexpr const char* kE4m3[] = {"F8_E4M3"};
    constexpr const char* kE8m0[] = {"U8", "F8_E8M0"};
    const Shape groups[] = {{dim(rows), dim(cols / m.scale_cols)}};
    const std::string expected = fmt::format("{} {}, a scale for each group of {} columns",
                                             nvfp4 ? "F8_E4M3" : "U8", shape_text(groups[0]), m.scale_cols);
    const auto taken = nvfp4 ? take(codes, m.scales, kE4m3, groups, expected)
                             : take(codes, m.scales, kE8m0, groups, expected);
    if (!taken.ok()) return taken.error();
    if (!nvfp4) return {};
    m.factor = name + (modelopt ? "_scale_2" : "_global_scale");
    m.divided = !modelopt;
    take_beside(module + (modelopt ? "input_scale" : "input_global_scale"));
    constexpr const char* kF32[] = {"F32"};
    const Shape one[] = {{1}, {}};
    const auto factor = take(codes, m.factor, kF32, one, "F32 [1], the factor of all scales");
    return factor.ok() ? Status() : factor.error();
  }

  // Codes of E2M1 of all experts are in one tensor, in blocks of 32 columns that share a scale of E8M0.
  Status take_blocks(const TensorHeader& codes, const TensorView& view) {
    m.type = WeightType::kMxfp4, m.bits = 4;
    m.codes = codes.name, m.scales = view.tensor + "_scales";
    m.scale_cols = weight_format(m.type).group_cols;
    if (Status status = check_group(codes); !status.ok()) return status;
    const uint64_t all = rows * view.step, groups = cols / m.scale_cols;
    const auto experts = codes.shape.empty() ? 0 : static_cast<uint64_t>(codes.shape[0]);
    const Shape stored{dim(std::max(experts, view.index + 1)), dim(all), dim(groups), dim(m.scale_cols / 2)};
    if (codes.dtype != "U8" || codes.shape != stored)
      return unexpected_tensor(codes, fmt::format("U8 {}, two codes in a byte", shape_text(stored)));
    constexpr const char* kE8m0[] = {"U8", "F8_E8M0"};
    const Shape shapes[] = {{stored[0], stored[1], stored[2]}};
    const auto scales =
        take(codes, m.scales, kE8m0, shapes,
             fmt::format("U8 {}, a scale for each group of {} columns", shape_text(shapes[0]), m.scale_cols));
    if (!scales.ok()) return scales.error();
    m.first_row = view.index * all + view.first, m.row_step = view.step;
    return {};
  }

  Status check_group(const TensorHeader& codes) const {
    if (cols % m.scale_cols == 0) return {};
    return Error{
        fmt::format("{}: error: tensor \"{}\" has {} columns, expected a multiple of {}, which share a scale",
                    codes.file, codes.name, cols, m.scale_cols)};
  }

  // Sets the type of integers, whose groups on disk have `scale_cols` columns.
  Status set_integer_type(const TensorHeader& scales) {
    const bool zeros = !m.zeros.empty() && !symmetric;
    const std::optional<WeightType> type = integer_type(m.bits, zeros, m.scale_cols, cols);
    if (!type)
      return unexpected_tensor(scales, "a scale for each row or each group of a multiple of 32 columns");
    m.type = *type;
    return {};
  }

  // Takes the scales of integers: one for each row, or for each group of columns of a row.
  Result<TensorHeader> take_scales(const TensorHeader& codes, const std::string& tensor) {
    const bool by_row = m.order == CodeOrder::kRows;
    const std::optional<TensorHeader> found = find(tensor);
    const std::string expected =
        fmt::format("BF16, F16 or F32 {}, a scale for each group of columns",
                    by_row ? fmt::format("[{}, n]", rows) : fmt::format("[n, {}]", rows));
    if (!found)
      return Error{fmt::format("{}: error: missing tensor \"{}\", the scales of \"{}\"", codes.file, tensor,
                               codes.name)};
    const Shape& shape = found->shape;
    const size_t group = by_row ? 1 : 0;
    const bool good = is_one_of(*found, kFloats) && shape.size() == 2 && shape[1 - group] == dim(rows) &&
                      shape[group] > 0 && cols % static_cast<uint64_t>(shape[group]) == 0;
    if (!good) return unexpected_tensor(*found, expected);
    m.scales = tensor;
    m.scale_cols = cols / static_cast<uint64_t>(shape[group]);
    return *found;
  }

  // Takes codes of integers, whose shape is one of those of the orders.
  Status take_integers(const TensorHeader& codes, std::span<const CodeOrder> orders) {
    m.codes = codes.name;
    std::vector<std::string> expected;
    for (const CodeOrder order : orders)
      for (const uint32_t bits : {4u, 8u}) {
        const uint64_t n = kWordBits / bits;
        if (order == CodeOrder::kAwq && bits != 4) continue;
        const Shape shape = order == CodeOrder::kRows      ? Shape{dim(rows), dim(cols / n)}
                            : order == CodeOrder::kColumns ? Shape{dim(cols / n), dim(rows)}
                                                           : Shape{dim(cols), dim(rows / n)};
        if (cols % n != 0 || (order != CodeOrder::kRows && rows % n != 0)) continue;
        expected.push_back(fmt::format("{} of {} codes in a word", shape_text(shape), n));
        if (codes.dtype == "I32" && codes.shape == shape) m.order = order, m.bits = bits;
      }
    if (m.bits != 0) return {};
    if (!expected.empty())
      return unexpected_tensor(codes, fmt::format("I32 {}", fmt::join(expected, " or ")));
    const bool by_columns = cols % kCodesOfWord != 0;
    return unexpected_tensor(codes, fmt::format("I32 with a multiple of {} for the {} {}", kCodesOfWord,
                                                by_columns ? cols : rows, by_columns ? "columns" : "rows"));
  }

  Status take_zeros(const TensorHeader& codes, const std::string& tensor) {
    if (!find(tensor)) return {};
    const uint64_t n = kWordBits / m.bits, groups = cols / m.scale_cols;
    const Shape shapes[] = {m.order == CodeOrder::kRows ? Shape{dim(ceil_of(rows, n)), dim(groups)}
                                                        : Shape{dim(groups), dim(rows / n)}};
    constexpr const char* kI32[] = {"I32"};
    const auto zeros = take(codes, tensor, kI32, shapes,
                            fmt::format("I32 {}, zero points of {} bits", shape_text(shapes[0]), m.bits));
    if (!zeros.ok()) return zeros.error();
    m.zeros = tensor;
    return {};
  }

  Status take_column_group(const TensorHeader& codes, const std::string& tensor) {
    if (!find(tensor)) return {};
    const Shape shapes[] = {{dim(cols)}};
    constexpr const char* kI32[] = {"I32"};
    const auto groups = take(codes, tensor, kI32, shapes,
                             fmt::format("I32 {}, the group of each column", shape_text(shapes[0])));
    if (!groups.ok()) return groups.error();
    m.column_group = tensor;
    return {};
  }

  Status take_packed(const TensorHeader& codes) {
    constexpr CodeOrder kOrders[] = {CodeOrder::kRows};
    if (Status status = take_integers(codes, kOrders); !status.ok()) return status;
    take_beside(name + "_shape");
    return take_beside_integers(codes, name + "_scale", name + "_zero_point", name + "_g_idx");
  }

  Status take_qweight(const TensorHeader& codes) {
    constexpr CodeOrder kOrders[] = {CodeOrder::kColumns, CodeOrder::kAwq};
    if (Status status = take_integers(codes, kOrders); !status.ok()) return status;
    return take_beside_integers(codes, module + "scales", module + "qzeros", module + "g_idx");
  }

  Status take_beside_integers(const TensorHeader& codes, const std::string& scales, const std::string& zeros,
                              const std::string& column_group) {
    const Result<TensorHeader> taken = take_scales(codes, scales);
    if (!taken.ok()) return taken.error();
    if (Status status = take_zeros(codes, zeros); !status.ok()) return status;
    if (Status status = take_column_group(codes, column_group); !status.ok()) return status;
    return set_integer_type(taken.value());
  }
};

}  // namespace

std::optional<WeightType> integer_type(uint32_t bits, bool zeros, uint64_t scale_cols, uint64_t cols) {
  const WeightType types[] = {WeightType::kInt4,     WeightType::kInt4Group32,
                              WeightType::kInt4Zero, WeightType::kInt4ZeroGroup32,
                              WeightType::kInt8,     WeightType::kInt8Group32};
  const size_t first = bits == 8 ? 4 : zeros ? 2 : 0;
  const WeightType wide = types[first], narrow = types[first + 1];
  const auto fits = [&](WeightType type) {
    return scale_cols == cols || scale_cols % weight_format(type).group_cols == 0;
  };
  if (!fits(narrow)) return {};
  const bool smaller = packed_shape(1, cols, wide).bytes <= packed_shape(1, cols, narrow).bytes;
  return fits(wide) && smaller ? wide : narrow;
}

Result<std::optional<StoredMatrix>> find_stored_matrix(const FindTensor& find, const std::string& name,
                                                       uint64_t rows, uint64_t cols, bool symmetric) {
  Matrix matrix{find, name, rows, cols, symmetric};
  const std::optional<TensorHeader> plain = find(name), packed = find(name + "_packed"),
                                    qweight = find(matrix.module + "qweight");
  const std::optional<TensorView> view = find_view(name);
  const auto blocks = view && view->columns ? find(view->tensor + "_blocks") : std::nullopt;
  Status status;
  if (blocks)
    status = matrix.take_blocks(*blocks, *view);
  else if (plain && plain->dtype == "F8_E4M3")
    status = matrix.take_e4m3(*plain);
  else if (plain && plain->dtype == "U8")
    status = matrix.take_e2m1(*plain, true);
  else if (packed && packed->dtype == "U8")
    status = matrix.take_e2m1(*packed, false);
  else if (packed)
    status = matrix.take_packed(*packed);
  else if (qweight && !plain)
    status = matrix.take_qweight(*qweight);
  else
    return std::optional<StoredMatrix>();
  if (!status.ok()) return status.error();
  return std::optional(std::move(matrix.m));
}

}  // namespace mkrt
