#include "tests/softgpu/forms.h"

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

}  // namespace

std::optional<Form> find_form(std::string_view mnemonic) {
  static const Forms forms = make();
  const auto at = forms.find(std::string(mnemonic));
  return at == forms.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace softgpu
