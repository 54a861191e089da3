#include "runtime/device/device_facts.h"

#include <fmt/format.h>

#include "runtime/device/cuda_driver.h"

namespace mkrt {

Result<DeviceFacts> ask_cuda(int ordinal) {
  const Result<const Driver*> loaded = load_driver();
  if (!loaded.ok()) return loaded.error();
  const Driver& driver = *loaded.value();
  int count = 0;
  CUdevice device = 0;
  if (driver.device_count(&count) != 0 || ordinal < 0 || ordinal >= count ||
      driver.device_get(&device, ordinal) != 0)
    return Error{fmt::format("cuda: error: no device {}, the driver has {}", ordinal, count)};
  DeviceFacts facts;
  char name[256] = "";
  driver.device_name(name, sizeof(name), device);
  facts.name = name;
  // ask() returns 0 for an attribute that the driver does not know.
  const auto ask = [&](int attribute) {
    int value = 0;
    return driver.device_attribute(&value, attribute, device) == 0 && value > 0 ? static_cast<uint32_t>(value)
                                                                                : 0;
  };
  facts.major = ask(kAttributeMajor), facts.minor = ask(kAttributeMinor), facts.sms = ask(kAttributeSms);
  facts.shared_bytes = ask(kAttributeSharedOptIn);
  facts.l2_bytes = ask(kAttributeL2Bytes);
  facts.clock_mhz = ask(kAttributeClockKhz) / 1000.0;
  facts.memory_mhz = ask(kAttributeMemoryKhz) / 1000.0;
  facts.bus_bits = ask(kAttributeBusBits);
  facts.cooperative = ask(kAttributeCooperative) != 0;
  facts.time_limit = ask(kAttributeTimeLimit) == 1;
  facts.compute_mode = ask(kAttributeComputeMode);
  if (facts.major == 0 || facts.sms == 0 || facts.shared_bytes == 0)
    return Error{
        fmt::format("{}: error: the driver gives neither capability nor multiprocessors", facts.name)};
  size_t bytes = 0;
  if (driver.device_memory(&bytes, device) == 0) facts.memory_bytes = bytes;
  unsigned char uuid[16];
  if (driver.device_uuid && driver.device_uuid(uuid, device) == 0)
    for (const unsigned char byte : uuid) facts.uuid += fmt::format("{:02x}", byte);
  int version = 0;
  if (driver.driver_version && driver.driver_version(&version) == 0)
    facts.driver = static_cast<uint32_t>(version);
  return facts;
}

}  // namespace mkrt
