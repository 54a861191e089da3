// Hugging Face's hub has a local cache of models.
#pragma once

#include <string>
#include <string_view>

namespace mkc {

// Returns the folder of the cache, as huggingface_hub finds it: $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE,
// $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, the first whose variable is set.
std::string hub_cache();

// Returns the folder of a model within the cache: models--ORG--NAME for "ORG/NAME". Returns "" for text that
// is no name of a model.
std::string hub_folder(std::string_view name);

}  // namespace mkc
