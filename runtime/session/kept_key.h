// The key of kept weights covers everything that their bytes depend on.
#pragma once

#include <string>

#include "runtime/artefact/manifest.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/device/device.h"

namespace mkrt {

// Each part is 32 hexadecimal digits.
struct KeptKey {
  std::string place;     // of the checkpoint's paths, the manifest's weights, and the device's layout
  std::string contents;  // of `place`, of copies, and of stamps and headers of the checkpoint's files
};

// Returns the key of a checkpoint's packed weights on a device that has loaded the kernel. Errors: the
// checkpoint was not read from files; a path that no longer exists; those of the device.
Result<KeptKey> kept_key(Device& device, const Manifest& manifest, const Checkpoint& checkpoint);

// Waits until a later change of the checkpoint's files gives them another stamp. Errors: the files are not
// those that the checkpoint was opened from; their times lie in the future.
Status await_stamps(const Checkpoint& checkpoint);

// Checks that the checkpoint's files are those that it was opened from. Errors: a file changed or is gone.
Status check_stamps(const Checkpoint& checkpoint);

}  // namespace mkrt
