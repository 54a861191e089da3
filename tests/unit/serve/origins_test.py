"""These tests send requests as browsers do for pages of other origins.
Usage: origins_test.py FAKE_SERVER
"""
import json
import sys
import unittest

from client import COMPLETIONS, FakeCase, events_of

BODY = {"prompt": [1, 2, 3], "max_tokens": 4}
APP, LOCAL, OTHER = "https://app.example", "http://localhost:3000", "https://other.example"


class OriginsTest(FakeCase):
    def access(self, response):
        """Returns the headers by which a server lets pages read its answer."""
        return {name: value for name, value in response.headers.items() if name.startswith("Access-Control-") or name == "Vary"}

    def preflight(self, server, origin, path=COMPLETIONS, method="POST", wanted="authorization,content-type,x-stainless-os"):
        headers = {"Origin": origin, "Access-Control-Request-Method": method}
        if wanted:
            headers["Access-Control-Request-Headers"] = wanted
        status, response, text = server.send("OPTIONS", path, headers=headers)
        return status, self.access(response), text

    def of(self, origin):
        return {"Vary": "Origin", "Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": "Retry-After"}

    def test_without_the_option_no_origin_is_allowed(self):
        server = self.fake()
        status, found, text = self.preflight(server, APP)
        self.assertEqual((status, found), (405, {}))
        self.assertIn("found the method OPTIONS, expected POST", text.decode())
        status, response, _ = server.send("POST", COMPLETIONS, BODY, {"Origin": APP})
        self.assertEqual((status, self.access(response)), (200, {}))

    def test_preflights(self):
        server = self.fake(origins=1, api_key=1)
        for origin in (APP, LOCAL):
            allowed = {**self.of(origin), "Access-Control-Allow-Methods": "POST", "Access-Control-Max-Age": "600"}
            self.assertEqual(self.preflight(server, origin, wanted=""), (200, allowed, b""))
            allowed["Access-Control-Allow-Headers"] = "authorization,content-type,x-stainless-os"
            self.assertEqual(self.preflight(server, origin), (200, allowed, b""))
        self.assertEqual(self.preflight(server, APP, "/v1/models", "GET")[1]["Access-Control-Allow-Methods"], "GET")
        status, found, text = self.preflight(server, OTHER)
        self.assertEqual(found, {"Vary": "Origin"})
        self.is_error((status, json.loads(text)), 403, "permission_error", f'found the origin "{OTHER}", expected one of --allowed-origin')
        status, found, text = self.preflight(server, APP, "/nothing")
        self.assertEqual((status, found), (404, self.of(APP)))
        # An OPTIONS that asks for nothing is no preflight.
        status, response, _ = server.send("OPTIONS", COMPLETIONS, headers={"Origin": APP})
        self.assertEqual((status, self.access(response)), (405, self.of(APP)))

    def test_answers_streams_and_errors(self):
        server = self.fake(origins=1, api_key=1, max_body_bytes=2000)
        key = {"Authorization": "Bearer key"}
        connection = server.connection()  # one connection has requests of several origins
        for origin, expected in ((APP, self.of(APP)), (OTHER, {"Vary": "Origin"}), (LOCAL, self.of(LOCAL)), (None, {"Vary": "Origin"})):
            headers = {"Content-Type": "application/json", **key, **({"Origin": origin} if origin else {})}
            for body, status in ((BODY, 200), ({**BODY, "stream": True}, 200), ({**BODY, "n": 0}, 400)):
                connection.request("POST", COMPLETIONS, json.dumps(body), headers)
                response = connection.getresponse()
                text = response.read().decode()
                self.assertEqual((response.status, self.access(response)), (status, expected), text)
                if body.get("stream"):
                    self.assertEqual(events_of(text)[-1], "[DONE]")
        connection.close()
        for headers, body, status in (({}, BODY, 401), (key, {**BODY, "user": "x" * 3000}, 413), (key, b"GET", 400)):
            found, response, _ = server.send("POST", COMPLETIONS, body, {"Origin": APP, **headers})
            self.assertEqual((found, self.access(response)), (status, self.of(APP)))

    def test_all_origins(self):
        server = self.fake(origins=2)
        allowed = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After"}
        for origin in (APP, OTHER, "null"):
            self.assertEqual(self.preflight(server, origin)[0], 200)
            self.assertEqual(self.access(server.send("GET", "/health", headers={"Origin": origin})[1]), allowed)
        self.assertEqual(self.access(server.send("GET", "/health")[1]), {})

    def test_other_hosts_are_refused_where_asked_for(self):
        status = lambda server, host: server.send("GET", "/debug/state", headers={"Host": host})[0]
        server = self.fake(own_hosts=1, origins=1)
        for host in ("localhost", "LOCALHOST:80", "127.0.0.1:9", "127.0.0.2", "[::1]", "[::1]:8000", "app.example", "App.Example:8443", ""):
            self.assertEqual(status(server, host), 200, host)
        for host in ("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "xapp.example", "[::2]", "[::1]x", "::1",
                     "localhost:80:80", "null", "*"):
            self.assertEqual(status(server, host), 403, host)
        _, _, text = server.send("POST", COMPLETIONS, BODY, {"Host": "evil.example"})
        self.is_error((403, json.loads(text)), 403, "permission_error", 'found the host "evil.example", expected localhost, 127.0.0.1, [::1]')
        self.assertEqual(status(self.fake(own_hosts=1, origins=2), "evil.example"), 200)
        self.assertEqual(status(self.fake(), "evil.example"), 200)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
