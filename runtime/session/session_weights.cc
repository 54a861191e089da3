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

// Loads the weights to session.weights.
Status Session::State::load_weights(const LoadWeight& load) {
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

// The system ends a process that fills more memory than its container has. It takes back pages of a kept file
// where others need room. The warnings say why no file keeps the weights.
Status Session::State::check_room() const {
  const ContainerLimits container = device->limits();
  const uint64_t bytes = manifest.weight_bytes + manifest.workspace_bytes;
  if (container.memory_bytes == 0 || bytes <= container.memory_bytes) return {};
  std::string text = fmt::format(
      "{}: error: {} bytes of packed weights and {} of workspace do not fit in the {} of {}", device->name(),
      manifest.weight_bytes, manifest.workspace_bytes, container.memory_bytes, container.memory_file);
  for (const std::string& warning : weights.warnings) text += "\n" + warning;
  return Error{text, ErrorKind::kNoMemory};
}

Status Session::State::fill_weights(const LoadWeight& load) {
  if (Status status = check_room(); !status.ok()) return status;
  Status status = allocate(manifest.weight_bytes, session.weights);
  return status.ok() ? load_weights(load) : status;
}

// Keeps an error as a warning, with what follows from it.
void Session::State::warn(const Error& error, const char* consequence) {
  constexpr std::string_view kError = ": error: ";
  std::string text = error.message;
  if (const size_t at = text.find(kError); at != text.npos) text.replace(at, kError.size(), ": warning: ");
  weights.warnings.push_back(fmt::format("{}; {}", text, consequence));
}

// Takes the weights of a mapped file.
Status Session::State::hold(const MappedFile& file, uint64_t arena_at) {
  const Result<uint64_t> held = device->hold(file, arena_at);
  if (!held.ok()) return held.error();
  owned.push_back(session.weights = held.value());
  return {};
}

// Takes the weights of a kept file where there is one. A file that cannot be used is a warning.
Status Session::State::find_weights(const KeptKey& key, const Checkpoint& checkpoint) {
  Result<std::optional<KeptWeights>> found = find_kept(options.kept_weights, key, manifest, checkpoint);
  if (!found.ok()) warn(found.error(), "the weights are packed again");
  if (!found.ok() || !found.value()) return {};
  KeptWeights& kept = *found.value();
  if (Status status = hold(kept.file, kept.arena_at); !status.ok()) return status;
  weights.mapped = true;
  weights.file = kept.file.path;
  weights.faulty = std::move(kept.faulty);
  return {};
}

// Makes the file that the weights will be kept in. A failure is a warning.
std::optional<KeptFile> Session::State::make_kept_file(const KeptKey& key) {
  Result<KeptFile> file = KeptFile::create(options.kept_weights, key, manifest, weights.faulty);
  if (file.ok()) return std::move(file.value());
  warn(file.error(), kNotKept);
  return std::nullopt;
}

// Notes which file keeps the weights, or warns of a failure.
void Session::State::note_kept(const KeptKey& key, const Status& status) {
  if (status.ok())
    weights.file = kept_path(options.kept_weights, key);
  else
    warn(status.error(), kNotKept);
}

// Packs the weights, and keeps them where there is a key. A device that shares memory packs them straight
// into the file, so that they are written once and take memory once.
Status Session::State::pack_weights(const std::optional<KeptKey>& key, const Checkpoint& checkpoint) {
  const Status stamped = key ? await_stamps(checkpoint) : Status();  // before any tensor is read
  if (!stamped.ok()) warn(stamped.error(), kNotKept);
  if (key || options.find_faulty) weights.faulty = find_faulty(manifest, checkpoint);
  std::optional<KeptFile> file = key && stamped.ok() ? make_kept_file(*key) : std::nullopt;
  WeightLoader loader(*device, checkpoint);
  const auto load = [&](const ManifestWeight& w, uint64_t to) { return loader.load(w, to); };
  if (file && device->shares_memory())
    if (const Result<std::span<std::byte>> arena = file->map(); arena.ok()) {
      session.weights = reinterpret_cast<uint64_t>(arena.value().data());
      if (Status status = load_weights(load); !status.ok()) return status;
      note_kept(*key, file->commit(checkpoint));
      return hold(file->mapped(), file->arena_at());
    }
  if (Status status = fill_weights(load); !status.ok() || !file) return status;
  Status kept = device->wait_for_stream(0);
  if (kept.ok()) kept = file->write(*device, session.weights);
  if (kept.ok()) kept = file->commit(checkpoint);
  note_kept(*key, kept);
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
  if (!weights.mapped) {
    // The key covers copies and files, so that weights were kept only where the copies were right.
    if (Status status = check_copies(manifest, checkpoint); !status.ok()) return status;
    if (Status status = pack_weights(key, checkpoint); !status.ok()) return status;
  }
  weights.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {};
}

}  // namespace mkrt
