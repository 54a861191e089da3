// These tests check the names that a race report gives to memory of a session: tensors, weights, and caches
// in each form.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "runtime/emulator/primitives.h"
#include "tests/unit/runtime/fake_device.h"

namespace mkrt {
namespace {

uint64_t touched = 0;  // address of four bytes that two threads of the kernel write

void write_twice(const MkSession*, const MkStep*) {
  if (mk_thread() < 2) mk_race_write(reinterpret_cast<const void*>(touched), 4, 1);
}

struct Names {
  std::unique_ptr<Device> device;
  MkSession session{};
  MkStep step{};
  std::vector<MkCache> caches;

  Names() {
    StepKernels kernels;
    kernels.step = write_twice;
    EmulatorDeviceOptions options;
    options.race = true;
    device = open_emulator(std::move(kernels), options);
    Manifest m = test::manifest();
    m.workers = 1;
    m.threads = 32;
    ManifestWeight weight;
    weight.name = "w";
    weight.offset = 64;
    weight.bytes = 32;
    m.weights = {weight};
    m.tensors = {{"x", Arena::kWorkspace, Element::kBf16, 256, 60, {3, 10}}};
    REQUIRE(device->load(test::made_artefact(m)).ok());
    session.workspace = allocate(1024);
    session.weights = allocate(128);
  }
  uint64_t allocate(uint64_t bytes) { return device->allocate(bytes).value(); }

  // Returns the name of an address in a race report.
  std::string at(uint64_t address) {
    touched = address;
    session.caches = reinterpret_cast<uint64_t>(caches.data());
    const std::string error =
        device->launch(0, reinterpret_cast<uint64_t>(&session), reinterpret_cast<uint64_t>(&step), 1)
            .error()
            .message;
    const std::string before = "unordered write after write of ";
    const size_t begin = error.find(before) + before.size();
    return error.substr(begin, error.find(": ", begin) - begin);
  }
};

TEST_CASE("tensors and weights are named with the element, or the byte") {
  Names names;
  names.caches.resize(2);
  CHECK(names.at(names.session.workspace + 256) == "%x[0, 0]");
  CHECK(names.at(names.session.workspace + 256 + 2 * 28) == "%x[2, 8]");
  CHECK(names.at(names.session.workspace + 64) == "%logits[0, 0]");
  CHECK(names.at(names.session.workspace + 64 + 4 * 13) == "%logits[1, 3]");
  CHECK(names.at(names.session.weights + 64) == "%w + 0 bytes");
  CHECK(names.at(names.session.weights + 64 + 28) == "%w + 28 bytes");
  for (const uint64_t nowhere :
       {names.session.weights + 60, names.session.weights + 96, names.session.workspace + 256 + 60})
    CHECK(names.at(nowhere).starts_with("0x"));
}

TEST_CASE("elements of a cache are named by page, position and head, in each form of its pages") {
  // The caches have two heads of 16 bytes and three pages of 16 positions.
  struct Form {
    uint64_t page_stride, position_stride, head_stride,
        between;  // bytes, `between` from the keys to the values
  };
  for (const Form& form : {Form{512, 32, 16, 3 * 512},   // NHD
                           Form{512, 16, 256, 3 * 512},  // HND
                           Form{1024, 64, 32, 16},       // keys and values of a head are adjacent
                           Form{1024, 32, 512, 16}}) {   // keys and values of a position are adjacent
    Names names;
    const uint64_t block = names.allocate(3 * 1024);
    names.caches = {{block, 0}, {block + form.between, 0}};
    names.session.page_stride = form.page_stride;
    names.session.position_stride = form.position_stride;
    names.session.head_stride = form.head_stride;
    const uint64_t last_page = 2;
    for (const uint64_t cache : {0, 1})
      for (const uint64_t page : {uint64_t{0}, last_page})
        for (const uint64_t position : {0, 5, 15})
          for (const uint64_t head : {0, 1}) {
            const uint64_t address = names.caches[cache].base + page * form.page_stride +
                                     position * form.position_stride + head * form.head_stride;
            // An address in the second of two adjacent caches gets the first one's name, because no cache's
            // end is known.
            if (cache == 1 && form.between > 16) continue;
            const std::string expected = fmt::format("%{}[page {}, position {}, head {}]",
                                                     cache == 0 ? "k" : "v", page, position, head);
            CHECK(names.at(address) == expected);
            CHECK(names.at(address + 12) == expected);
          }
    CHECK(names.at(block + 3 * 1024) != "%k[page 3, position 0, head 0]");
  }
  // These caches lie in memory of their own.
  Names names;
  for (int i = 0; i < 2; ++i) names.caches.push_back({names.allocate(1536), 0});
  names.session.page_stride = 512, names.session.position_stride = 32, names.session.head_stride = 16;
  CHECK(names.at(names.caches[0].base + 512 + 32) == "%k[page 1, position 1, head 0]");
  CHECK(names.at(names.caches[1].base + 1536 - 16) == "%v[page 2, position 15, head 1]");
}

}  // namespace
}  // namespace mkrt
