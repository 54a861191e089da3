"""These tests check how choices end: by stop strings, by errors, and by either at once. The model's logits are hashes.
Usage: ends_test.py FAKE_SERVER
"""
import sys
import unittest

from client import BODY, COMPLETIONS, LONG, FakeCase


def end_of(text, stops, begin):
    """Returns where the stop string begins that ends first behind `begin`, and the string. The longest counts of equal ends."""
    for end in range(begin + 1, len(text) + 1):
        ended = [stop for stop in stops if text[:end].endswith(stop)]
        if ended:
            stop = max(ended, key=len)
            return end - len(stop), stop
    return len(text), None


class EndsTest(FakeCase):
    def letters(self, server):
        """Returns the ids of three tokens that are one letter each, with their letters."""
        ids = {}
        for i in range(640):
            text = server.post("/detokenize", {"tokens": [i]})[1]["prompt"]
            if len(text) == 1 and text in "abc":
                ids[text] = i
        self.assertEqual(len(ids), 3)
        return ids

    def ends_of(self, body, **settings):
        """Returns the answers of two servers, one of which is asked for a stream."""
        answer = self.fake(**settings).post(COMPLETIONS, body)
        return answer, self.fake(**settings).stream(COMPLETIONS, body)

    def test_a_text_that_a_stop_string_has_ended_has_no_later_error(self):
        ids = self.letters(self.fake())
        body = {**BODY, "max_tokens": 5, "allowed_token_ids": [ids["a"]]}
        # The fault comes in the launch of the stop string, behind it.
        lost = {"lost_at": 0, "lost_after": 3, "steps": 8}
        answer, events = self.ends_of({**body, "stop": ["aa"]}, **lost)
        self.assertEqual(answer[0], 200, answer)
        choice = answer[1]["choices"][0]
        self.assertEqual((choice["text"], choice["finish_reason"], choice["stop_reason"]), ("", "stop", "aa"))
        self.assertEqual(answer[1]["usage"]["completion_tokens"], 2)
        self.assertEqual([event["choices"][0]["stop_reason"] for event in events[:-1]], ["aa"])
        self.is_error(self.fake(**lost).post(COMPLETIONS, {**body, "stop": ["aaaa"]}), 500, "device_error", "no finite greatest logit")
        # The device fails in the launch that runs while the stop string is found.
        answer, events = self.ends_of({**body, "stop": ["aa"]}, fail_at=2, step_ms=100)
        self.assertEqual(answer[0], 200, answer)
        self.assertEqual(answer[1]["choices"][0]["stop_reason"], "aa")
        self.assertEqual(events[-2]["choices"][0]["stop_reason"], "aa")

    def test_a_choice_that_a_stop_string_has_ended_leaves_its_room_at_once(self):
        server = self.fake(max_requests=1, max_waiting=0, step_ms=50, steps=8)
        ids = self.letters(server)
        body = {**LONG, "max_tokens": 100, "allowed_token_ids": [ids["a"]], "stop": ["aa"]}
        self.assertEqual([server.post(COMPLETIONS, body)[0] for _ in range(5)], [200] * 5)
        server.until(lambda: server.metric("mkc_num_requests_running") == 0)

    def test_a_choice_that_has_ended_waits_for_the_others(self):
        server = self.fake(steps=4)
        ids = self.letters(server)
        body = {**LONG, "max_tokens": 30, "temperature": 1, "n": 3, "seed": 5, "allowed_token_ids": list(ids.values())}
        whole = [choice["text"] for choice in server.post(COMPLETIONS, body)[1]["choices"]]
        stop = whole[0][2:7]
        answer = server.post(COMPLETIONS, {**body, "stop": [stop]})[1]
        self.assertEqual([choice["text"] for choice in answer["choices"]], [text[:end_of(text, [stop], 0)[0]] for text in whole])
        self.assertEqual(answer["usage"]["prompt_tokens_details"], {"cached_tokens": 0})
        server.until(lambda: server.metric("mkc_num_requests_running") == 0)
        self.assertEqual(server.get("/health")[1]["status"], "ok")

    def test_stop_strings_end_behind_the_first_min_tokens(self):
        server = self.fake(steps=4)
        ids = self.letters(server)
        ended = 0
        for seed in range(12):
            body = {**BODY, "max_tokens": 24, "temperature": 1, "seed": seed, "allowed_token_ids": list(ids.values())}
            text = server.post(COMPLETIONS, body)[1]["choices"][0]["text"]
            stops = [text[at:at + size] for at, size in ((2, 1), (4, 2), (5, 4))]
            for least in (0, 1, 7, 9, 24):
                for include in (False, True):
                    asked = {**body, "stop": stops[seed % 3:], "min_tokens": least, "include_stop_str_in_output": include}
                    choice = server.post(COMPLETIONS, asked)[1]["choices"][0]
                    begin, stop = end_of(text, asked["stop"], least)
                    expected = text[:begin] + (stop if include and stop else "")
                    self.assertEqual((choice["text"], choice["stop_reason"]), (expected, stop), (text, asked))
                    ended += least > 5 and stop is not None
        self.assertGreater(ended, 20)

    def test_end_tokens_are_forbidden_before_min_tokens_though_they_are_ignored(self):
        ids = self.letters(self.fake())
        server = self.fake(steps=4, end_id=ids["a"])
        body = {**BODY, "max_tokens": 12, "ignore_eos": True, "min_tokens": 7, "allowed_token_ids": [ids["a"], ids["b"]],
                "logit_bias": {ids["a"]: 50}}
        self.assertEqual(server.post(COMPLETIONS, body)[1]["choices"][0]["text"], "bbbbbbbaaaaa")
        self.is_error(server.post(COMPLETIONS, {**body, "allowed_token_ids": [ids["a"]]}), 400, "invalid_request_error",
                      "found only stop ids left", "min_tokens")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
