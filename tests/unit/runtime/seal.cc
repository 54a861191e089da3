#include "runtime/artefact/seal.h"

#include <doctest/doctest.h>

#include "tests/unit/runtime/fake_device.h"

namespace mkrt {
namespace {

using namespace test;

std::string refused(const Artefact& a) {
  const Status status = check_artefact(a);
  return status.ok() ? "" : status.error().message;
}

template <class Edit>
std::string refused_certificate(Edit edit) {
  Artefact a = artefact();
  edit(a.manifest);
  seal(a);
  return refused(a);
}

TEST_CASE("what was sealed is accepted until a bit of manifest, plan or code changes") {
  Artefact a = made_artefact(manifest(), std::vector<std::byte>(40));
  CHECK(refused(a) == "");
  for (size_t at = 0; at < a.plan.size(); ++at)
    for (const int bit : {0, 7}) {
      Artefact changed = a;
      changed.plan[at] ^= std::byte(1 << bit);
      CHECK(refused(changed).starts_with("seal: error: manifest and plan have the hash "));
    }
  for (size_t at = 0; at < a.image.size(); ++at) {
    Artefact changed = a;
    changed.image[at] ^= std::byte{16};
    CHECK(refused(changed).starts_with("seal: error: the code has the hash "));
  }
  a.manifest.code_seal[3] ^= 1;
  CHECK(refused(a).starts_with("seal: error: manifest and plan have the hash "));
}

TEST_CASE("bytes cannot move from one part to the next") {
  Artefact a = made_artefact(manifest(), std::vector<std::byte>(8));
  a.plan.push_back(a.image.back());
  a.image.pop_back();
  CHECK(refused(a).starts_with("seal: error: manifest and plan have the hash "));
}

TEST_CASE("an artefact without a seal is refused, but for who asks for no seal") {
  Artefact a = artefact();
  a.manifest.seal.clear();
  CHECK(refused(a) == "seal: error: the artefact is not sealed");
  CHECK(check_artefact(a, SealCheck::kSkipped).ok());
}

TEST_CASE("a certificate that does not cover the bounds of the artefact is refused") {
  CHECK(refused_certificate([](Manifest&) {}) == "");
  CHECK(refused_certificate([](Manifest& m) { m.certificate.verdict = "unproved"; }) ==
        "seal: error: the certificate says \"unproved\", expected \"proved\"");
  CHECK(refused_certificate([](Manifest& m) { m.mkc_version = "9.9"; }) ==
        "seal: error: the certificate is by mkc , the artefact by mkc 9.9");
  CHECK(refused_certificate([](Manifest& m) {
          m.certificate.symbols.erase(m.certificate.symbols.begin());
        }) == "seal: error: the certificate says nothing of symbol B");
  CHECK(refused_certificate([](Manifest& m) { m.certificate.symbols[1].hi = 3; }) ==
        "seal: error: symbol T is from 1 to 4, proved is 1 to 3");
  CHECK(refused_certificate([](Manifest& m) { m.certificate.symbols[1].lo = 2; }) ==
        "seal: error: symbol T is from 1 to 4, proved is 2 to 4");
}

}  // namespace
}  // namespace mkrt
