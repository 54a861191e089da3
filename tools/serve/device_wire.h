// Batches and results of steps are sent as bytes to a process that runs them. Numbers have the machine's byte
// order.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/session/batch.h"
#include "runtime/session/check_batch.h"

namespace mkc {

using Bytes = std::vector<std::byte>;

// ReceivedBatch owns what its batch refers to.
struct ReceivedBatch {
  mkrt::Batch batch;
  std::vector<int32_t> tokens, row_begin, kv_len, page_begin, page_index;
  std::vector<mkrt::Samples> samples;
  std::vector<mkrt::ScoredRow> scored;
  std::vector<std::vector<uint32_t>> seen, allowed;
  std::vector<std::vector<mkrt::MkBias>> biases;
  std::vector<std::vector<int32_t>> stop_ids;
};

// DeviceFacts is what the process says once its model is loaded.
struct DeviceReady {
  mkrt::BatchLimits limits;
  std::string device;
  std::vector<int32_t> end_ids;
  bool traced = false;  // the kernel stamps what its workers do
};

// The functions replace what `to` has.
void write_batch(const mkrt::Batch& batch, Bytes& to);
void write_result(const mkrt::StepResult& result, Bytes& to);
void write_ready(const DeviceReady& ready, Bytes& to);

// The functions return false if the bytes are no such object.
bool read_batch(std::span<const std::byte> from, ReceivedBatch& batch);
bool read_result(std::span<const std::byte> from, mkrt::StepResult& result);
bool read_ready(std::span<const std::byte> from, DeviceReady& ready);

}  // namespace mkc
