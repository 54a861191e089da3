// This process runs the device of a server, as seen from within.
#pragma once

#include "runtime/session/session.h"
#include "tools/serve/device_link.h"

namespace mkc {

// Takes the descriptors of `--device-link`, "SOCKET,MEMORY". Errors: no such numbers; those of
// DeviceLink::open.
Result<DeviceLink> open_device_link(const std::string& text);

// Says that the session is ready, runs the batches of the link, and answers its questions, until the server
// closes it. Errors: those
// of the session, which the server is told, too.
Status run_device(mkrt::Session& session, const std::string& device, DeviceLink& link);

}  // namespace mkc
