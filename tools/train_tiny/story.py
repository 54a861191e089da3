"""The people of a story, what they have and where they are, while the story is told."""

import random

from words import BOYS, GIRLS, ITEMS, NUMBERS


class Person:
    def __init__(self, name: str, girl: bool):
        self.name = name
        self.kind, self.he, self.him = ("girl", "she", "her") if girl else ("boy", "he", "him")
        self.count = 0  # number of the story's items that the person has
        self.place: str | None = None


class Story:
    """The state of the world while a story is told, and the sentences told so far."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        girl = self.rng.random() < 0.5
        self.hero = Person(self.rng.choice(GIRLS if girl else BOYS), girl)
        # The friend is of the other kind, so that every pronoun has one meaning.
        self.friend = Person(self.rng.choice(BOYS if girl else GIRLS), not girl)
        self.friend_known = False
        self.item = self.rng.choice(sorted(ITEMS))
        self.pet: tuple[str, str] | None = None  # the pet's name and kind
        self.thing: tuple[str, str] | None = None  # the thing and its colour
        self.owner = self.hero
        self.sentences: list[str] = []

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence[0].upper() + sentence[1:])

    def subject(self, person: Person) -> str:
        return person.name if self.chance(0.4) else person.he

    def together(self) -> bool:
        return self.friend_known and self.hero.place == self.friend.place

    def counted(self, number: int) -> str:
        """Returns `number` of the story's items in words: "no apples", "one apple", "two apples"."""
        return f"{NUMBERS[number]} {self.item if number == 1 else ITEMS[self.item]}"
