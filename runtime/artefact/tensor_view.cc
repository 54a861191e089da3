#include "runtime/artefact/tensor_view.h"

#include <charconv>

namespace mkrt {
namespace {

constexpr uint64_t kMaxNumber = 1 << 16;

// Text is what is left of a view's name.
struct Text {
  std::string_view left;

  bool take(std::string_view text) {
    if (!left.starts_with(text)) return false;
    left.remove_prefix(text.size());
    return true;
  }
  bool take(uint64_t& number) {
    const auto [end, code] = std::from_chars(left.data(), left.data() + left.size(), number);
    if (code != std::errc() || number > kMaxNumber) return false;
    left.remove_prefix(static_cast<size_t>(end - left.data()));
    return true;
  }
};

}  // namespace

std::optional<TensorView> find_view(std::string_view name) {
  const size_t bracket = name.find('[');
  if (bracket == std::string_view::npos || bracket == 0) return {};
  TensorView view{.tensor = std::string(name.substr(0, bracket))};
  Text text{name.substr(bracket)};
  if (!text.take("[") || !text.take(view.index) || !text.take(", ")) return {};
  view.columns = text.take(":, ");
  if (view.columns && text.left == ":]") return view;
  if (!text.take(view.first) || !text.take("::") || !text.take(view.step) || text.left != "]") return {};
  if (view.step == 0 || view.first >= view.step) return {};
  return view;
}

std::vector<int64_t> TensorView::whole_shape(const std::vector<int64_t>& shape, int64_t stack) const {
  const int64_t strided = shape[0] * static_cast<int64_t>(step);
  if (columns) return {stack, shape[1], strided};
  return {stack, strided};
}

}  // namespace mkrt
