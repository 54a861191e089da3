// These tests check which origins a server takes, and which headers its answers have.
#include "tools/serve/origins.h"

#include <doctest/doctest.h>

#include "tools/serve/hosts.h"
#include "tools/serve/http_server.h"

using namespace mkc;

TEST_CASE("an IPv6 address has brackets in a URL") {
  CHECK(url_of("::1", 80) == "http://[::1]:80");
  CHECK(url_of("127.0.0.1", 8000) == "http://127.0.0.1:8000");
}

TEST_CASE("names of this machine are own hosts, and so is the name that the server listens on") {
  const AllowedOrigins none;
  for (const char* own :
       {"", "localhost", "localhost.:80", "a.localhost", "127.1.2.3:9", "127.0.0.1.", "[::1]:8000",
        "[::ffff:127.0.0.1]", "[::FFFF:7f00:1]:80", "this.example:8000", "THIS.example."})
    CHECK_MESSAGE(is_own_host(own, "This.Example", none), own);
  for (const char* other :
       {"localhost.evil.example", "xlocalhost", "that.example", "127.evil.example", "1.2.3.4",
        "[::ffff:1.2.3.4]", "[127.0.0.1", "::1", "::ffff:127.0.0.1", ".", "example"})
    CHECK_MESSAGE(!is_own_host(other, "This.Example", none), other);
  CHECK(is_loopback_address("::ffff:127.0.0.1"));
}

TEST_CASE("an origin is a scheme and a host with an optional port, as browsers send it") {
  for (const char* good : {"*", "null", "https://app.example", "http://localhost:3000", "http://127.0.0.1",
                           "http://[::1]:8000", "chrome-extension://abcdef", "https://xn--bcher-kva.example"})
    CHECK_MESSAGE(check_origin(good).ok(), good);
  for (const char* bad : {"", "app.example", "https://", "://app.example", "https://app.example/",
                          "https://App.example", "https://*.example", "https://:80", "HTTPS://app.example",
                          "https://user@app.example", "https://a.example, https://b.example", "**"}) {
    const mkrt::Status status = check_origin(bad);
    REQUIRE_MESSAGE(!status.ok(), bad);
    CHECK(status.error().message ==
          std::string("--allowed-origin: error: found ") + bad +
              ", expected *, null, or an origin as browsers send it, such as https://app.example:8443");
  }
}

TEST_CASE("answers name the origin that may read them") {
  const AllowedOrigins none, two({"https://a.example", "null"}), all({"https://a.example", "*"});
  CHECK(none.empty());
  CHECK(none.headers("https://a.example") == "");
  const std::string exposed = "Access-Control-Expose-Headers: Retry-After\r\n";
  CHECK(two.headers("https://a.example") ==
        "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n" + exposed);
  CHECK(two.headers("null") == "Vary: Origin\r\nAccess-Control-Allow-Origin: null\r\n" + exposed);
  for (const char* other : {"", "https://a.example.org", "https://a.exampl", "http://a.example", "*"})
    CHECK(two.headers(other) == "Vary: Origin\r\n");
  CHECK(all.headers("https://b.example") == "Access-Control-Allow-Origin: *\r\n" + exposed);
  CHECK(all.headers("") == "");
}
