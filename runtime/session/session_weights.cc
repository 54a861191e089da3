// A session gets its weights from a kept file, or packs them from a checkpoint.
#include <fmt/format.h>

#include <chrono>

#include "runtime/session/kept_weights.h"
#include "runtime/session/session_state.h"
#include "runtime/session/weights.h"

namespace mkrt {
namespace {

constexpr const char* kNotKept = "the packed weights are not kept";

}  // namespace

Status Session::State::load_weights(const LoadWeight& load) {
  if (Status status = allocate(manifest.weight_bytes, session.weights); !status.ok()) return status;
  for (const ManifestWeight& w : manifest.weights) {
    if (options.on_packing) options.on_packing(w.offset, manifest.weight_bytes);
    if (Status status = load(w, session.weights + w.offset); !status.ok()) return status;
  }
  std::vector<float> table;
  for (const ManifestRope& r : manifest.ropes) {
    table.resize(r.positions * 2 * r.inv_freq.size());
    fill_rope(r, table);
    if (Status status = device->write(session.weights + r.offset, std::as_bytes(std::span(table)));
        !status.ok())
      return status;
  }
  return {};
}

// Keeps an error as a warning, with what follows from it.
void Session::State::warn(const Error& error, const char* consequence) {
  constexpr std::string_view kError = ": error: ";
  std::string text = error.message;
  if (const size_t at = text.find(kError); at != text.npos) text.replace(at, kError.size(), ": warning: ");
  weights.warnings.push_back(fmt::format("{}; {}", text, consequence));
}

// Takes the weights of a kept file where there is one. A file that cannot be used is a warning.
Status Session::State::find_weights(const KeptKey& key, const Checkpoint& checkpoint) {
  Result<std::optional<KeptWeights>> found = find_kept(options.kept_weights, key, manifest, checkpoint);
  if (!found.ok()) warn(found.error(), "the weights are packed again");
  if (!found.ok() || !found.value()) return {};
  KeptWeights& kept = *found.value();
  const Result<uint64_t> held = device->hold(kept.file, kept.arena_at);
  if (!held.ok()) return held.error();
  owned.push_back(session.weights = held.value());
  weights.mapped = true;
  weights.file = kept.file.path;
  weights.faulty = std::move(kept.faulty);
  return {};
}

// Keeps the weights that the session has packed. A failure is a warning.
void Session::State::keep(const KeptKey& key, const Checkpoint& checkpoint) {
  Status status = device->wait_for_stream(0);
  if (status.ok())
    status = keep_weights(options.kept_weights, key, *device, session.weights, manifest, checkpoint,
                          weights.faulty);
  if (status.ok())
    weights.file = kept_path(options.kept_weights, key);
  else
    warn(status.error(), kNotKept);
}

// Packs the weights, and keeps them where there is a key.
Status Session::State::pack_weights(const std::optional<KeptKey>& key, const Checkpoint& checkpoint) {
  const Status stamped = key ? await_stamps(checkpoint) : Status();
  WeightLoader loader(*device, checkpoint);
  const auto load = [&](const ManifestWeight& w, uint64_t to) { return loader.load(w, to); };
  if (Status status = load_weights(load); !status.ok()) return status;
  if (key || options.find_faulty) weights.faulty = find_faulty(manifest, checkpoint);
  if (!stamped.ok()) warn(stamped.error(), kNotKept);
  if (key && stamped.ok()) keep(*key, checkpoint);
  return {};
}

Status Session::State::load_checkpoint(const Checkpoint& checkpoint) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<KeptKey> key;
  if (!options.kept_weights.path.empty()) {
    const Result<KeptKey> found = kept_key(*device, manifest, checkpoint);
    if (found.ok())
      key = found.value();
    else
      warn(found.error(), kNotKept);
  }
  if (key)
    if (Status status = find_weights(*key, checkpoint); !status.ok()) return status;
  if (!weights.mapped)
    if (Status status = pack_weights(key, checkpoint); !status.ok()) return status;
  weights.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {};
}

}  // namespace mkrt
