"""These tests check the story generator and the story checker of tools/train_tiny against each other. They
are plain Python without PyTorch.
"""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "train_tiny"))

from checker import check_story, explain_story
from corpus import held_out_stories, make_story
from words import NUMBERS, PLACES

STORIES = 500
COUNT_FACT = re.compile(rf"(?<= has )({'|'.join(NUMBERS)}) (\w+)(?=\.$)")
PLACE_FACT = re.compile(rf"(?<= is )({'|'.join(PLACES.values())})(?=\.$)")
OPENING = "Once there was a girl named Mia. She had two nuts. One day, Mia went to the park. "
MEETING = "There she met a boy named Tom. "


class Generator(unittest.TestCase):
    def test_same_seed_gives_the_same_story(self):
        self.assertEqual([make_story(seed) for seed in range(20)], held_out_stories(20))

    def test_stories_differ(self):
        self.assertGreater(len(set(held_out_stories(STORIES))), STORIES * 0.99)

    def test_every_story_is_consistent(self):
        for seed in range(STORIES):
            self.assertEqual(explain_story(make_story(seed)), ("consistent", ""), make_story(seed))


class Checker(unittest.TestCase):
    def assert_verdict(self, expected, text):
        self.assertEqual(check_story(text), expected, text)

    def test_rejects_every_changed_final_count(self):
        tried = 0
        for text in held_out_stories(STORIES):
            for number in NUMBERS:
                changed = COUNT_FACT.sub(lambda m: f"{number} {m[2]}", text)
                if changed != text:
                    self.assertNotEqual(check_story(changed), "consistent", changed)
                    tried += 1
        self.assertGreater(tried, STORIES)

    def test_rejects_every_changed_final_place(self):
        tried = 0
        for text in held_out_stories(STORIES):
            for place in PLACES.values():
                changed = PLACE_FACT.sub(place, text)
                if changed != text:
                    self.assert_verdict("inconsistent", changed)
                    tried += 1
        self.assertGreater(tried, 100)

    def test_follows_counts_through_events(self):
        events = OPENING + MEETING + "She found five more nuts in the grass. She gave him three nuts. Tom ate one nut. "
        self.assert_verdict("consistent", events + "So Mia has four nuts and Tom has two nuts.")
        self.assert_verdict("inconsistent", events + "So Mia has four nuts and Tom has three nuts.")
        self.assert_verdict("inconsistent", events.replace("three", "four") + "So Mia has four nuts.")

    def test_rejects_what_cannot_happen(self):
        end = "So Mia is in the park."
        self.assert_verdict("consistent", OPENING + MEETING + end)
        for event in (
            "Mia ate three nuts. ",
            "Mia gave one nut to Tom. ",
            MEETING + "He gave one nut to Mia. ",
            MEETING + "Tom went to the lake. Mia gave him one nut. ",
            MEETING + "Tom went to the lake. They were happy. ",
            "He found one nut in the grass. ",
            "Then Mia had three nuts. ",
            "Mia still had one nut. ",
            "Mia ran to the park. ",
        ):
            self.assert_verdict("inconsistent", OPENING + event + end)

    def test_rejects_a_wrong_colour_owner_or_animal(self):
        events = "Once there was a girl named Mia. She had a cat named Pip. She had a red hat. One day, she went home. "
        for fact in ("the hat is red", "Mia has the red hat", "Pip is a cat", "Mia is at home"):
            self.assert_verdict("consistent", f"{events}So {fact}.")
        self.assert_verdict("consistent", f"{events}She held up the red hat. So Pip is a cat.")
        for event in ("She held up the blue hat", "She looked at the red cup", "Pip the dog came along"):
            self.assert_verdict("inconsistent", f"{events}{event}. So Pip is a cat.")
        for fact in ("the hat is blue", "Mia has the blue hat", "Mia has the red cup", "Pip is a dog"):
            self.assert_verdict("inconsistent", f"{events}So {fact}.")

    def test_tells_other_language_apart(self):
        for text in (
            "",
            OPENING,
            OPENING + "So Mia has two",
            OPENING + "So Mia has two nut.",
            OPENING + "Mia flew away. So Mia has two nuts.",
            OPENING + "mia ate one nut. So Mia has one nut.",
            OPENING + "So Mia is hungry.",
        ):
            self.assert_verdict("unparsable", text)


if __name__ == "__main__":
    unittest.main()
