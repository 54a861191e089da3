"""Checks a story by simulating what its sentences say. The checker knows nothing of how the story was
made.

`check_story` says "consistent" when every statement follows from the earlier ones. The verdict is
"inconsistent" when one does not, such as a wrong count or a pronoun that means nobody. The verdict is
"unparsable" when a sentence is not of the small language, or the story does not end with a "So …" sentence.
"""

import re
from collections.abc import Callable, Iterable

import world
from words import BOYS, COLOURS, GIRLS, ITEMS, NUMBERS, PET_NAMES, PETS, PLACES, THINGS
from world import Contradiction, Unparsable, World

Effect = Callable[[World, re.Match], None]


def one_of(words: Iterable[str]) -> str:
    """Returns a pattern for any one of `words`. Longer words come first, so that "apples" is not read as
    "apple"."""
    return "(?:" + "|".join(sorted(words, key=len, reverse=True)) + ")"


NAME = one_of(GIRLS + BOYS)
WHO = f"(?P<who>{NAME}|[Ss]he|[Hh]e)"
TO = f"(?P<to>{NAME}|her|him)"
COUNT = f"(?P<number>{one_of(NUMBERS)})(?P<more> more)? (?P<item>{one_of(list(ITEMS) + list(ITEMS.values()))})"
WHEN = "(?:(?:One day|Later), |Then )?"
WAY = f"(?P<way>home|to school|to the {one_of(PLACES)})"
COLOUR = f"(?P<colour>{one_of(COLOURS)})"
THING = f"(?P<thing>{one_of(THINGS)})"
PET = f"(?P<pet>{one_of(PETS)})"
PET_NAME = f"(?P<pet_name>{one_of(PET_NAMES)})"
KIND = f"a (?P<kind>girl|boy) named (?P<name>{NAME})"
# Each sentence of the language has a pattern and an effect. The conclusion joins facts by "and".
RULES = [(re.compile(pattern), effect) for pattern, effect in (
    (f"(?:Once there was|There once was|Long ago there lived) {KIND}", world.introduce),
    (f"There {WHO} met {KIND}", world.introduce),
    (f"{WHO} (?:was kind and brave|loved to sing|was very curious|liked to help|loved to play)", world.nothing),
    (f"{WHO} had a {PET} named {PET_NAME}", world.own_pet),
    (f"{WHO} had a {COLOUR} {THING}", world.own_thing),
    (f"{WHO} had {COUNT}(?: in a basket)?", world.start),
    (f"(?:Now|Then) {WHO} had {COUNT}", world.state),
    (f"{WHO} still had {COUNT}", world.state),
    (f"{WHEN}(?P<who>{NAME}|[Ss]he|[Hh]e|[Tt]hey) (?:went|walked|ran) {WAY}", world.move),
    (f"{WHO} (?:found|saw and took) {COUNT} (?:under a tree|in the grass|behind a rock|near the path)", world.find),
    (f"{WHO} gave {COUNT} to {TO}", world.give),
    (f"{WHO} gave {TO} {COUNT}", world.give),
    (f'"Thank you, (?P<to>{NAME})," said (?P<who>{NAME})', world.thank),
    (f"{WHO} (?:was hungry and )?(?:ate|lost) {COUNT}", world.use_up),
    (f"{WHO} dropped (?=one ){COUNT} and lost it", world.use_up),
    (f"{WHO} dropped (?!one ){COUNT} and lost them", world.use_up),
    (f"{WHO} gave the {COLOUR} {THING} to {TO}", world.hand_over),
    (f"{WHO} (?:looked at|held up|played with) the {COLOUR} {THING}", world.state_owner),
    ("They (?:played and laughed|sat down and talked|were happy)", world.do_together),
    ("The sun was warm|It was a fine day|The wind was soft|A bird sang a song", world.nothing),
    (f"{PET_NAME} the {PET} came along", world.state_pet),
)]
FACTS = [(re.compile(pattern), effect) for pattern, effect in (
    (f"(?P<who>{NAME}) has {COUNT}", world.state),
    (f"(?P<who>{NAME}) is (?P<where>{one_of(PLACES.values())})", world.state_place),
    (f"the {THING} is {COLOUR}", world.state_colour),
    (f"(?P<who>{NAME}) has the {COLOUR} {THING}", world.state_owner),
    (f"{PET_NAME} is a {PET}", world.state_pet),
)]


def apply(rules: list[tuple[re.Pattern, Effect]], w: World, sentence: str) -> None:
    """Applies the first rule whose pattern is the whole sentence."""
    for pattern, effect in rules:
        if m := pattern.fullmatch(sentence):
            return effect(w, m)
    raise Unparsable(sentence)


def explain_story(text: str) -> tuple[str, str]:
    """Returns the verdict on a story, and what speaks against it (empty for a consistent one)."""
    w = World()
    *sentences, last = text.strip().removesuffix(".").split(". ")
    try:
        if not text.strip().endswith(".") or not last.startswith("So "):
            raise Unparsable("no conclusion")
        for sentence in sentences:
            if sentence[:1].islower():
                raise Unparsable(f"no capital: {sentence}")
            apply(RULES, w, sentence)
        for fact in last.removeprefix("So ").split(" and "):
            apply(FACTS, w, fact)
    except Contradiction as problem:
        return "inconsistent", str(problem)
    except Unparsable as problem:
        return "unparsable", str(problem)
    return "consistent", ""


def check_story(text: str) -> str:
    return explain_story(text)[0]
