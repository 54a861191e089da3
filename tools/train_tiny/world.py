"""The world of a story. Each effect below reads one sentence, and changes or tests the world.

An effect takes the match of the sentence with its pattern in checker.py. The named groups of the match
hold the words.
"""

import re

from words import BOYS, GIRLS, ITEMS, NUMBERS, PLACES

SINGULAR = {plural: item for item, plural in ITEMS.items()}


class Contradiction(Exception):
    """A sentence disagrees with the story so far."""


class Unparsable(Exception):
    """A sentence is not of the small language."""


class World:
    def __init__(self):
        self.kinds: dict[str, str] = {}
        self.counts: dict[tuple[str, str], int] = {}
        self.places: dict[str, str] = {}
        self.pets: dict[str, str] = {}
        self.colours: dict[str, str] = {}
        self.owners: dict[str, str] = {}

    def person(self, word: str) -> str:
        """Returns the name that a name or pronoun stands for."""
        if word in GIRLS + BOYS:
            require(word in self.kinds, f"{word} is not known")
            return word
        kind = "girl" if word.lower() in ("she", "her") else "boy"
        known = [name for name, its_kind in self.kinds.items() if its_kind == kind]
        require(len(known) == 1, f"{word} stands for {len(known)} people")
        return known[0]

    def add(self, name: str, item: str, by: int) -> None:
        self.counts[name, item] = self.counts.get((name, item), 0) + by
        require(self.counts[name, item] >= 0, f"{name} has too few {item}")

    def same_place(self, one: str, other: str) -> None:
        require(one != other and self.places.get(one) == self.places.get(other), f"{one} and {other} are apart")


def require(condition: bool, message: str) -> None:
    if not condition:
        raise Contradiction(message)


def read_count(m: re.Match) -> tuple[int, str]:
    """Returns the number and the singular of the item."""
    number, word = NUMBERS.index(m["number"]), m["item"]
    if (number == 1) != (word in ITEMS):
        raise Unparsable(f"{m['number']} {word}")
    return number, SINGULAR.get(word, word)


def introduce(w: World, m: re.Match) -> None:
    require(m["name"] not in w.kinds, f"{m['name']} is already known")
    require((m["name"] in GIRLS) == (m["kind"] == "girl"), f"{m['name']} is no {m['kind']}")
    if "who" in m.groupdict():
        w.places[m["name"]] = w.places.get(w.person(m["who"]))
    w.kinds[m["name"]] = m["kind"]


def own_pet(w: World, m: re.Match) -> None:
    w.person(m["who"])
    require(w.pets.setdefault(m["pet_name"], m["pet"]) == m["pet"], f"{m['pet_name']} is another animal")


def own_thing(w: World, m: re.Match) -> None:
    require(m["thing"] not in w.owners, f"the {m['thing']} is already known")
    w.owners[m["thing"]], w.colours[m["thing"]] = w.person(m["who"]), m["colour"]


def move(w: World, m: re.Match) -> None:
    place = m["way"].split()[-1]
    if m["who"].lower() == "they":
        movers = list(w.kinds)
        require(len(movers) == 2, "they are not two")
        w.same_place(*movers)
    else:
        movers = [w.person(m["who"])]
    for name in movers:
        require(w.places.get(name) != place, f"{name} is already there")
        w.places[name] = place


def start(w: World, m: re.Match) -> None:
    """Sets a first count ("had"). A sentence that repeats a known count must agree with it."""
    number, item = read_count(m)
    name = w.person(m["who"])
    require(w.counts.setdefault((name, item), number) == number, f"{name} has another number of {item}")


def state(w: World, m: re.Match) -> None:
    number, item = read_count(m)
    name = w.person(m["who"])
    require(w.counts.get((name, item), 0) == number, f"{name} has another number of {item}")


def find(w: World, m: re.Match) -> None:
    number, item = read_count(m)
    name = w.person(m["who"])
    require(not m["more"] or w.counts.get((name, item), 0) > 0, f"{name} had no {item}")
    w.add(name, item, number)


def use_up(w: World, m: re.Match) -> None:
    number, item = read_count(m)
    w.add(w.person(m["who"]), item, -number)


def give(w: World, m: re.Match) -> None:
    number, item = read_count(m)
    giver, taker = w.person(m["who"]), w.person(m["to"])
    w.same_place(giver, taker)
    w.add(giver, item, -number)
    w.add(taker, item, number)


def hand_over(w: World, m: re.Match) -> None:
    giver, taker = w.person(m["who"]), w.person(m["to"])
    w.same_place(giver, taker)
    state_owner(w, m)
    w.owners[m["thing"]] = taker


def state_place(w: World, m: re.Match) -> None:
    name = w.person(m["who"])
    require(PLACES.get(w.places.get(name)) == m["where"], f"{name} is elsewhere")


def state_colour(w: World, m: re.Match) -> None:
    require(w.colours.get(m["thing"]) == m["colour"], f"the {m['thing']} has another colour")


def state_owner(w: World, m: re.Match) -> None:
    require(w.owners.get(m["thing"]) == w.person(m["who"]), f"another has the {m['thing']}")
    state_colour(w, m)


def state_pet(w: World, m: re.Match) -> None:
    require(w.pets.get(m["pet_name"]) == m["pet"], f"{m['pet_name']} is another animal")


def thank(w: World, m: re.Match) -> None:
    w.same_place(w.person(m["to"]), w.person(m["who"]))


def do_together(w: World, m: re.Match) -> None:
    require(len(w.kinds) == 2, "they are not two")
    w.same_place(*w.kinds)


def nothing(w: World, m: re.Match) -> None:
    """Accepts a sentence about a known person, or about the weather."""
    if "who" in m.groupdict():
        w.person(m["who"])
