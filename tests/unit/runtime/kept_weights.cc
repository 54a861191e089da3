// These tests check which kept weights a session takes, and what becomes of those that it must not take.
#include "runtime/session/kept_weights.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "runtime/abi/packing.h"
#include "tests/apart.h"
#include "tests/unit/runtime/fake_device.h"
#include "tests/unit/temp_dir.h"

namespace mkrt {
namespace {

namespace fs = std::filesystem;
using namespace test;

constexpr uint64_t kVectorAt = 256;

// Returns a model of one packed bf16 weight "w" [16, 128] and one vector "v" [4].
Manifest with_weights() {
  Manifest m = test::manifest();
  ManifestWeight w;
  w.name = "w.packed";
  w.rows = 16;
  w.cols = 128;
  w.bytes = packed_shape(16, 128, WeightType::kBf16).bytes;
  w.offset = kVectorAt;
  w.sources = {"w"};
  ManifestWeight v;
  v.name = "v.vector";
  v.layout = WeightLayout::kVector;
  v.element = Element::kF32;
  v.rows = 1;
  v.cols = 4;
  v.bytes = 16;
  v.sources = {"v"};
  m.weights = {v, w};
  m.weight_bytes = kVectorAt + w.bytes;
  return m;
}

constexpr uint64_t kMatrixBytes = 16 * 128 * 2;
// Elements of bf16 bits 0x7070, and floats of bits 0x3f3f3f3f.
std::string checkpoint_bytes() {
  const std::string header =
      fmt::format(R"({{"v":{{"dtype":"F32","shape":[4],"data_offsets":[{0},{1}]}},)"
                  R"("w":{{"dtype":"BF16","shape":[16,128],"data_offsets":[0,{0}]}}}})",
                  kMatrixBytes, kMatrixBytes + 16);
  uint64_t size = header.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  return bytes + header + std::string(kMatrixBytes, '\x70') + std::string(16, '\x3f');
}

// Folders holds a checkpoint and a folder for kept weights. A device that shares memory packs into the file.
struct Folders {
  bool shares = false;
  TempDir dir;
  std::string model = dir.path + "/model", file = model + "/model.safetensors";
  KeptFolder kept{dir.path + "/kept", uint64_t{1} << 30, 0};
  explicit Folders(bool device_shares = false) : shares(device_shares) {
    fs::create_directory(model);
    dir.write("model/model.safetensors", checkpoint_bytes());
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(kept.path, none)) names.push_back(entry.path());
    std::ranges::sort(names);
    return names;
  }
};

// Runs a test case on a device with memory of its own, and on one that shares the process's.
bool shares_memory() {
  bool shares = false;
  SUBCASE("memory of its own") {}
  SUBCASE("memory of the process") {
    shares = true;
  }
  return shares;
}

// Start is what one start of the model did.
struct Start {
  WeightsReport report;
  uint32_t packs = 0;              // without those that find out the layout
  std::vector<std::byte> arena{};  // the first byte of the matrix, and the vector
};

Start start(const Folders& f, const KeptFolder& kept, const Manifest& m = with_weights(),
            uint8_t layout = 0) {
  FakeDevice device;
  device.layout = layout;
  device.shares = f.shares;
  device.max_bytes = 8 << 20;
  const Result<Checkpoint> checkpoint = open_checkpoint(f.model);
  REQUIRE_MESSAGE(checkpoint.ok(), checkpoint.error().message);
  SessionOptions options;
  options.kept_weights = kept;
  Result<Session> session = Session::open(made_artefact(m), checkpoint.value(), "c0", device, options);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  REQUIRE(session.value().step(std::vector<int32_t>{1}).ok());  // shows the session's addresses
  Start start{session.value().weights(), device.packs};
  const uint64_t at = device.session.weights;
  start.arena.resize(17);
  REQUIRE(device.read(std::span(start.arena).first(1), at + m.weights[1].offset).ok());
  REQUIRE(device.read(std::span(start.arena).subspan(1), at).ok());
  return start;
}
Start start(const Folders& f) {
  return start(f, f.kept);
}

std::vector<std::byte> arena_of(uint8_t matrix, uint8_t vector = 0x3f) {
  std::vector<std::byte> arena(17, std::byte{vector});
  arena[0] = std::byte{matrix};
  return arena;
}

// Changes one byte of a file, and sets back the time of its last write.
void change_byte(const std::string& path, uint64_t from_end, char to) {
  const auto time = fs::last_write_time(path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-static_cast<std::streamoff>(from_end), std::ios::end);
  file.put(to);
  file.close();
  fs::last_write_time(path, time);
}

TEST_CASE("a second start maps what the first one packed, and packs nothing") {
  const Folders f(shares_memory());
  const Start first = start(f), second = start(f), none = start(f, {});
  CHECK(first.report.warnings.empty());
  CHECK(!first.report.mapped);
  CHECK(first.packs == second.packs + 1);  // both find out the layout
  CHECK(none.packs == 1);
  CHECK(none.report.file == "");
  CHECK(second.report.mapped);
  CHECK(second.report.warnings.empty());
  CHECK(f.files() == std::vector<std::string>{first.report.file});
  CHECK(second.report.file == first.report.file);
  for (const Start* s : {&first, &second, &none}) CHECK(s->arena == arena_of(0x70));
}

TEST_CASE("a changed checkpoint is packed again and replaces what was kept") {
  const Folders f(shares_memory());
  const Start first = start(f);
  change_byte(f.file, 16 + kMatrixBytes, '\x71');  // the first of the matrix
  const Start changed = start(f), again = start(f);
  CHECK(!changed.report.mapped);
  CHECK(changed.report.warnings.empty());
  CHECK(changed.arena == arena_of(0x71));
  CHECK(again.report.mapped);
  CHECK(again.arena == changed.arena);
  CHECK(f.files() == std::vector<std::string>{first.report.file});

  fs::copy(f.file, f.file + ".new");  // equal bytes in another file
  fs::rename(f.file + ".new", f.file);
  CHECK(!start(f).report.mapped);
  CHECK(start(f).report.mapped);
}

TEST_CASE("weights that were kept without a look at copies do not serve a model with copies") {
  const Folders f;
  CHECK(!start(f).report.mapped);
  Manifest m = with_weights();
  m.copies = {{"v", "w", "tied is true"}, {"u", "w", "tied is true"}};  // the checkpoint has no u
  FakeDevice device;
  device.max_bytes = 8 << 20;
  const Checkpoint checkpoint = open_checkpoint(f.model).value();
  const SessionOptions options{.kept_weights = f.kept};
  CHECK(error_of(Session::open(made_artefact(m), checkpoint, "c0", device, options)) ==
        f.model + "/config.json: error: tied is true, but tensor \"v\" differs from \"w\"");
}

TEST_CASE("another arrangement of the weights, another layout and another path are kept apart") {
  const Folders f, other;
  Manifest moved = with_weights();
  moved.weights[1].offset += 256;
  moved.weight_bytes += 256;
  CHECK(!start(f).report.mapped);
  CHECK(!start(f, f.kept, moved).report.mapped);
  const Start laid_out = start(f, f.kept, with_weights(), 1);
  CHECK(!laid_out.report.mapped);
  CHECK(laid_out.arena == arena_of(0x71));
  CHECK(!start(other, f.kept).report.mapped);
  CHECK(f.files().size() == 4);
  CHECK(start(f).arena == arena_of(0x70));
  CHECK(start(f, f.kept, moved).report.mapped);
  CHECK(start(f, f.kept, with_weights(), 1).arena == laid_out.arena);
  CHECK(start(other, f.kept).report.mapped);
  fs::create_symlink(f.model, f.dir.path + "/link");
  const Result<Checkpoint> linked = open_checkpoint(f.dir.path + "/link"), direct = open_checkpoint(f.model);
  FakeDevice device;
  CHECK(kept_key(device, with_weights(), linked.value()).value().contents ==
        kept_key(device, with_weights(), direct.value()).value().contents);
}

TEST_CASE("a file that is damaged, truncated or foreign gives a warning and is made anew") {
  const Folders f(shares_memory());
  const std::string path = start(f).report.file;
  const uint64_t size = fs::file_size(path);
  std::vector<char> head(4096);
  const auto with_head = [&](size_t at, const std::string& text) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at)).write(text.data(), static_cast<std::streamsize>(text.size()));
  };
  struct Case {
    std::function<void()> damage;
    std::string warning;
  };
  const Case cases[] = {
      {[&] { change_byte(path, 1, '\x55'); }, "differs from its hashes: damaged"},
      {[&] { change_byte(path, size - (2 << 20), '\x55'); }, "differs from its hashes: damaged"},
      {[&] { fs::resize_file(path, size - 1); },
       fmt::format("has {} bytes, expected {}: truncated", size - 1, size)},
      {[&] { fs::resize_file(path, size + 4096); },
       fmt::format("has {} bytes, expected {}: truncated", size + 4096, size)},
      {[&] { fs::resize_file(path, 60); }, "has 60 bytes, expected more: truncated"},
      {[&] { fs::resize_file(path, 0); }, "is no file of kept weights"},
      {[&] { with_head(0, "GGUF"); }, "is no file of kept weights"},
      {[&] { with_head(8, "\x07"); }, "is of version 7, expected 2"},
      {[&] { with_head(60, "x"); }, "has a damaged header"},
      {[&] { fs::remove(path), fs::create_directory(path); }, "not a regular file"}};
  for (const Case& c : cases) {
    CAPTURE(c.warning);
    c.damage();
    const Start damaged = start(f);
    REQUIRE(!damaged.report.warnings.empty());
    CHECK(damaged.report.warnings[0] ==
          fmt::format("{}: warning: {}; the weights are packed again", path, c.warning));
    CHECK(!damaged.report.mapped);
    CHECK(damaged.arena == arena_of(0x70));
    if (fs::is_directory(path)) continue;
    CHECK(damaged.report.warnings.size() == 1);
    CHECK(start(f).report.mapped);
  }
}

TEST_CASE("weights that are not finite are known without a look at them") {
  const Folders f(shares_memory());
  change_byte(f.file, 16 + kMatrixBytes, '\x81');
  change_byte(f.file, 15 + kMatrixBytes, '\x7f');  // the matrix's first element is 0x7f81
  change_byte(f.file, 14 + kMatrixBytes, '\x80');
  change_byte(f.file, 13 + kMatrixBytes, '\x7f');  // its second element is infinity
  for (const bool mapped : {false, true}) {
    const WeightsReport report = start(f).report;
    CHECK(report.mapped == mapped);
    REQUIRE(report.faulty.size() == 1);
    CHECK(report.faulty[0].name == "w");
    CHECK(report.faulty[0].file == f.file);
    CHECK(report.faulty[0].nans == 1);
    CHECK(report.faulty[0].infinities == 1);
    CHECK(report.faulty[0].first == 0);
  }
  CHECK(start(f, {}).report.faulty.empty());  // nobody asked
}

// FileLock is the lock of a process that writes a file.
struct FileLock {
  int descriptor;
  explicit FileLock(const std::string& path) : descriptor(open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    REQUIRE(flock(descriptor, LOCK_EX) == 0);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() { close(descriptor); }
};

TEST_CASE("weights used least recently give way, and no others") {
  const Folders a, b, c;
  const std::string of_a = start(a).report.file;
  const uint64_t bytes = fs::file_size(of_a);
  KeptFolder two{a.kept.path, 2 * bytes + 1, 0};
  const auto age = [](const std::string& path, int hours) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  const std::string of_b = start(b, two).report.file;
  age(of_a, 3);
  age(of_b, 2);
  CHECK(start(a, two).report.mapped);  // which is a use
  const std::string hash(32, 'a'), left_behind = a.dir.write("kept/" + hash + ".weights.AbCdEf", "x"),
                                   being_written = a.dir.write("kept/" + hash + ".weights.GhIjKl", "y"),
                                   of_others = a.dir.write("kept/model.weights", std::string(bytes, 'z'));
  const FileLock writing(being_written);
  age(of_others, 4);
  const std::string of_c = start(c, two).report.file;
  std::vector<std::string> expected{of_a, of_c, being_written, of_others};
  std::ranges::sort(expected);
  CHECK(a.files() == expected);
}

TEST_CASE("files that another process is writing stay and count") {
  const Folders a, b;
  const std::string of_a = start(a).report.file;
  const uint64_t bytes = fs::file_size(of_a);
  const std::string name = std::string(32, 'a') + ".weights.GhIjKl",
                    being_written = a.dir.write("kept/" + name, std::string(bytes, 'y'));
  std::optional<FileLock> writing(being_written);
  fs::last_write_time(being_written, fs::file_time_type::clock::now() - std::chrono::hours(2));
  const std::string of_b = start(b, {a.kept.path, 2 * bytes, 0}).report.file;
  std::vector<std::string> expected{of_b, being_written};
  std::ranges::sort(expected);
  CHECK(a.files() == expected);
  const Start none = start(a, {a.kept.path, 2 * bytes - 1, 0});
  REQUIRE(none.report.warnings.size() == 1);
  CHECK(none.report.warnings[0].find("that others are packing, are more than the limit of") !=
        std::string::npos);
  CHECK(a.files() == expected);
  writing.reset();  // its process was killed
  const std::string again = start(a, {a.kept.path, bytes, 0}).report.file;
  CHECK(a.files() == std::vector<std::string>{again});
}

// Returns the warning of a start, which must pack and give the right weights.
std::string refused(const Folders& f, const KeptFolder& kept) {
  const Start s = start(f, kept);
  if (s.report.mapped || s.report.file != "" || s.arena != arena_of(0x70)) return "used";
  return s.report.warnings.size() == 1 ? f.dir.without_path(s.report.warnings[0]) : "no single warning";
}

TEST_CASE("weights that cannot be kept give one warning") {
  const Folders f(shares_memory());
  const std::string then = "; the packed weights are not kept", file = f.dir.write("file", "");
  CHECK(refused(f, {file + "/in", {}, 0}) == "file/in: warning: cannot create: Not a directory" + then);
  CHECK(refused(f, {f.kept.path, 1000, 0}) ==
        "kept: warning: weights of 2.1 MB are more than the limit of 1000 bytes for kept weights" + then);
  CHECK(refused(f, {f.kept.path, {}, UINT64_MAX / 2})
            .starts_with("kept: warning: weights of 2.1 MB leave less than 9223372036.9 GB of the disk's "));
  CHECK(f.files().empty());
}

TEST_CASE("a folder that may not be written, and a limit of file sizes, give one warning and leave no file") {
  const Folders f(shares_memory());
  fs::create_directory(f.kept.path);
  const mkc::test::ApartResult limited = mkc::test::run_apart(
      [&] {
        const rlimit little{100'000, 100'000};
        setrlimit(RLIMIT_FSIZE, &little);
        return refused(f, f.kept);
      },
      60);
  CHECK(
      limited.text.ends_with("are more than the 100000 that this process may write to a file; the packed "
                             "weights are not kept"));
  fs::permissions(f.dir.path, fs::perms(0755));
  fs::permissions(f.kept.path, fs::perms(0555));
  const mkc::test::ApartResult readonly = mkc::test::run_apart(
      [&] { return geteuid() == 0 && seteuid(65534) != 0 ? std::string("SKIP") : refused(f, f.kept); }, 60);
  fs::permissions(f.kept.path, fs::perms(0755));
  CHECK(f.files().empty());
  if (readonly.text == "SKIP")
    MESSAGE("SKIP: root may not become another user here");
  else
    CHECK(readonly.text.ends_with(
        ".weights: warning: cannot create: Permission denied; the packed weights are not kept"));
}

TEST_CASE("two processes that start at once leave one whole file") {
  const Folders f(shares_memory());
  const auto process = [&] {
    return mkc::test::run_apart(
               [&] {
                 const Start s = start(f);
                 return std::string(s.arena == arena_of(0x70) && s.report.warnings.empty() ? "right"
                                                                                           : "wrong");
               },
               60)
        .text;
  };
  std::vector<std::future<std::string>> several;
  for (int i = 0; i < 4; ++i) several.push_back(std::async(std::launch::async, process));
  for (auto& text : several) CHECK(text.get() == "right");
  CHECK(f.files().size() == 1);
  CHECK(start(f).report.mapped);
}

TEST_CASE("who may not read the checkpoint may not read the kept weights") {
  const Folders f(shares_memory());
  fs::permissions(f.file, fs::perms(0600));
  struct stat info{};
  REQUIRE(stat(start(f).report.file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

}  // namespace
}  // namespace mkrt
