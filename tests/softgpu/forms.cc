#include "tests/softgpu/forms.h"

#include <algorithm>

namespace softgpu {
namespace {

Forms make() {
  Forms forms;
  add_integer_forms(forms);
  add_float_forms(forms);
  add_bf16x2_forms(forms);
  add_convert_forms(forms);
  add_compare_forms(forms);
  add_warp_forms(forms);
  add_access_forms(forms);
  add_atomic_forms(forms);
  add_fence_forms(forms);
  add_barrier_forms(forms);
  add_mbarrier_forms(forms);
  add_copy_forms(forms);
  add_mma_forms(forms);
  add_wgmma_forms(forms);
  return forms;
}

const Forms& all_forms() {
  static const Forms forms = make();
  return forms;
}

}  // namespace

std::optional<Form> find_form(std::string_view mnemonic) {
  const auto at = all_forms().find(std::string(mnemonic));
  return at == all_forms().end() ? std::nullopt : std::optional(at->second);
}

bool begins_form(std::string_view text) {
  return std::ranges::any_of(all_forms(), [&](const auto& form) { return form.first.starts_with(text); });
}

}  // namespace softgpu
