#include "runtime/artefact/seal.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "runtime/artefact/cubin.h"

namespace mkrt {
namespace {

// Hash is the XXH3-128 of a list of parts. The length of each part is hashed before its bytes.
class Hash {
 public:
  Hash() { XXH3_128bits_reset(&state_); }
  void add(std::span<const std::byte> part) {
    const uint64_t bytes = part.size();
    XXH3_128bits_update(&state_, &bytes, sizeof(bytes));
    XXH3_128bits_update(&state_, part.data(), part.size());
  }
  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  XXH3_state_t state_;
};

// Returns the hash of the image without its manifest. An image that holds no manifest is hashed as a whole.
std::string code_hash(std::span<const std::byte> image) {
  Hash hash;
  const Result<CubinObjects> objects = find_objects(image, "image");
  const auto manifest = objects.ok() ? objects.value().manifest : image.last(0);
  const auto begin = static_cast<size_t>(manifest.data() - image.data());
  hash.add(image.first(begin));
  hash.add(image.subspan(begin + manifest.size()));
  return hash.hex();
}

std::string data_hash(Manifest manifest, std::span<const std::byte> plan) {
  manifest.seal.clear();
  const std::string text = to_json(manifest);
  Hash hash;
  hash.add(std::as_bytes(std::span(text)));
  hash.add(plan);
  return hash.hex();
}

Error refuse_certificate(const std::string& message) {
  return {"seal: error: " + message};
}

// Checks that the certificate covers all symbol values that the manifest allows.
Status check_certificate(const Manifest& m) {
  const Certificate& c = m.certificate;
  if (c.verdict != kProved)
    return refuse_certificate(
        fmt::format("the certificate says \"{}\", expected \"{}\"", c.verdict, kProved));
  if (c.version != m.mkc_version)
    return refuse_certificate(
        fmt::format("the certificate is by mkc {}, the artefact by mkc {}", c.version, m.mkc_version));
  for (const ManifestSymbol& s : m.symbols) {
    const auto proved = std::ranges::find(c.symbols, s.name, &Certificate::Bounds::symbol);
    if (proved == c.symbols.end())
      return refuse_certificate(fmt::format("the certificate says nothing of symbol {}", s.name));
    if (proved->lo > s.lo || proved->hi < s.hi)
      return refuse_certificate(fmt::format("symbol {} is from {} to {}, proved is {} to {}", s.name, s.lo,
                                            s.hi, proved->lo, proved->hi));
  }
  return {};
}

}  // namespace

void seal(Artefact& artefact) {
  Manifest& m = artefact.manifest;
  m.code_seal = code_hash(artefact.image);
  m.seal = data_hash(m, artefact.plan);
}

std::string to_json_with_room(const Manifest& manifest) {
  constexpr size_t kRoom = 4096, kWord = 8;  // bytes
  std::string json = to_json(manifest);
  json.resize((json.size() + kRoom + kWord - 1) / kWord * kWord, ' ');
  return json;
}

Result<std::vector<std::byte>> seal_cubin(std::vector<std::byte> cubin, Manifest manifest) {
  const Result<CubinObjects> objects = find_objects(cubin, "the compiled cubin");
  if (!objects.ok()) return objects.error();
  const auto [room, plan] = objects.value();
  Artefact artefact{std::move(manifest), {plan.begin(), plan.end()}, std::move(cubin)};
  seal(artefact);
  const std::string text = to_json(artefact.manifest);
  if (text.size() > room.size())
    return refuse_certificate(
        fmt::format("a manifest of {} bytes, the cubin has room for {}", text.size(), room.size()));
  std::byte* to = artefact.image.data() + (room.data() - artefact.image.data());
  std::memcpy(to, text.data(), text.size());
  std::fill(to + text.size(), to + room.size(), std::byte{' '});
  return std::move(artefact.image);
}

Status check_seal(const Artefact& artefact) {
  const Manifest& m = artefact.manifest;
  if (m.seal.empty()) return refuse_certificate("the artefact is not sealed");
  if (const std::string found = data_hash(m, artefact.plan); found != m.seal)
    return refuse_certificate(fmt::format("manifest and plan have the hash {}, expected {}", found, m.seal));
  if (const std::string found = code_hash(artefact.image); found != m.code_seal)
    return refuse_certificate(fmt::format("the code has the hash {}, expected {}", found, m.code_seal));
  return check_certificate(m);
}

}  // namespace mkrt
