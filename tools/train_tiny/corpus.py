"""Generates short stories whose facts can be checked. One seed gives one story.

A story follows one child, who may have a friend, a pet and a treasured thing. A few events change who has
what and who is where. The story ends with a sentence that follows from them, such as "So Mia has three
apples."
"""

from story import Person, Story
from words import COLOURS, FOOD, NUMBERS, PET_NAMES, PETS, PLACES, THINGS

LIMIT = len(NUMBERS) - 1
HELD_OUT = 2000  # number of seeds, from 0 on, that training does not see
SPOTS = ("under a tree", "in the grass", "behind a rock", "near the path")
MOODS = ("The sun was warm.", "It was a fine day.", "The wind was soft.", "A bird sang a song.")
TRAITS = ("was kind and brave", "loved to sing", "was very curious", "liked to help", "loved to play")


def introduce(s: Story) -> None:
    start = s.pick("Once there was", "Once there was", "There once was", "Long ago there lived")
    s.say(f"{start} a {s.hero.kind} named {s.hero.name}.")
    if s.chance(0.4):
        s.say(f"{s.hero.he} {s.rng.choice(TRAITS)}.")
    if s.chance(0.3):
        s.pet = (s.rng.choice(PET_NAMES), s.rng.choice(PETS))
        s.say(f"{s.hero.he} had a {s.pet[1]} named {s.pet[0]}.")
    if s.chance(0.4):
        s.thing = (s.rng.choice(THINGS), s.rng.choice(COLOURS))
        s.say(f"{s.hero.he} had a {s.thing[1]} {s.thing[0]}.")
    if s.chance(0.6):
        start_count(s, s.hero)


def start_count(s: Story, person: Person) -> None:
    person.count = s.rng.randint(1, 5)
    s.say(f"{s.subject(person)} had {s.counted(person.count)}{s.pick('', ' in a basket')}.")


def change(s: Story, person: Person, by: int) -> None:
    """Changes a count and says the new one. A model can learn what is said, and must guess what is left
    out."""
    person.count += by
    s.say(f"{s.pick('now', 'then')} {s.subject(person)} had {s.counted(person.count)}.")


def someone_here(s: Story) -> Person:
    return s.friend if s.together() and s.chance(0.35) else s.hero


def go(s: Story) -> None:
    place = s.rng.choice([p for p in PLACES if p not in (s.hero.place, s.friend.place)])
    way = {"home": "home", "school": "to school"}.get(place, f"to the {place}")
    when = "one day, " if s.hero.place is None else s.pick("then ", "later, ", "")
    verb = s.pick("went", "walked", "ran")
    if s.together() and s.chance(0.5):
        s.say(f"{when}they {verb} {way}.")
        s.friend.place = place
    else:
        s.say(f"{when}{s.subject(s.hero)} {verb} {way}.")
    s.hero.place = place
    if s.chance(0.3):
        s.say(s.rng.choice(MOODS))
    if s.pet and s.chance(0.5):
        s.say(f"{s.pet[0]} the {s.pet[1]} came along.")


def meet(s: Story) -> None:
    if s.friend_known:
        return
    s.friend_known, s.friend.place = True, s.hero.place
    s.say(f"there {s.subject(s.hero)} met a {s.friend.kind} named {s.friend.name}.")
    if s.chance(0.5):
        start_count(s, s.friend)


def find(s: Story) -> None:
    person, number = someone_here(s), s.rng.randint(1, 5)
    if person.count + number > LIMIT:
        return
    more = " more" if person.count else ""
    words = s.counted(number).replace(" ", f"{more} ", 1)
    s.say(f"{s.subject(person)} {s.pick('found', 'found', 'saw and took')} {words} {s.rng.choice(SPOTS)}.")
    change(s, person, number)


def give(s: Story) -> None:
    giver = someone_here(s)
    taker = s.friend if giver is s.hero else s.hero
    limit = min(4, giver.count, LIMIT - taker.count)
    if not s.together() or limit == 0:
        return
    words = s.counted(number := s.rng.randint(1, limit))
    who = s.subject(giver)
    s.say(s.pick(f"{who} gave {words} to {taker.name}.", f"{who} gave {taker.him} {words}."))
    if s.chance(0.3):
        s.say(f'"Thank you, {giver.name}," said {taker.name}.')
    change(s, giver, -number)
    change(s, taker, number)


def use_up(s: Story) -> None:
    person = someone_here(s)
    if person.count == 0:
        return
    words = s.counted(number := s.rng.randint(1, min(4, person.count)))
    who = s.subject(person)
    if s.item in FOOD and s.chance(0.7):
        s.say(s.pick(f"{who} ate {words}.", f"{who} was hungry and ate {words}."))
    else:
        s.say(s.pick(f"{who} lost {words}.", f"{who} dropped {words} and lost {'it' if number == 1 else 'them'}."))
    change(s, person, -number)


def recount(s: Story) -> None:
    person = someone_here(s)
    if person.count:
        s.say(f"{s.subject(person)} still had {s.counted(person.count)}.")


def enjoy(s: Story) -> None:
    if s.thing and (s.owner is s.hero or s.together()):
        s.say(f"{s.subject(s.owner)} {s.pick('looked at', 'held up', 'played with')} the {s.thing[1]} {s.thing[0]}.")


def hand_over(s: Story) -> None:
    if not s.thing or not s.together():
        return
    giver, s.owner = s.owner, s.friend if s.owner is s.hero else s.hero
    s.say(f"{s.subject(giver)} gave the {s.thing[1]} {s.thing[0]} to {s.owner.name}.")


def play(s: Story) -> None:
    if s.together():
        s.say(s.pick("They played and laughed.", "They sat down and talked.", "They were happy."))


def conclude(s: Story) -> None:
    """Says one fact that follows, often a count."""
    people = [s.hero, s.friend] if s.friend_known else [s.hero]
    person = s.rng.choice(people)
    facts = [f"{person.name} is {PLACES[person.place]}"]
    if s.thing:
        facts += [f"the {s.thing[0]} is {s.thing[1]}", f"{s.owner.name} has the {s.thing[1]} {s.thing[0]}"]
    if s.pet:
        facts.append(f"{s.pet[0]} is a {s.pet[1]}")
    if any(p.count for p in people) and s.chance(0.6):
        facts = [" and ".join(f"{p.name} has {s.counted(p.count)}" for p in (people if s.chance(0.3) else [person]))]
    s.say(f"So {s.rng.choice(facts)}.")


EVENTS = (go, meet, meet, find, find, give, give, give, use_up, use_up, recount, enjoy, enjoy, hand_over, play)


def make_story(seed: int) -> str:
    s = Story(seed)
    introduce(s)
    go(s)
    for event in s.rng.choices(EVENTS, k=s.rng.randint(4, 8)):
        event(s)
    conclude(s)
    return " ".join(s.sentences)


def held_out_stories(count: int) -> list[str]:
    """Returns stories that training does not see."""
    return [make_story(seed) for seed in range(count)]


def training_stories(count: int) -> list[str]:
    held_out = set(held_out_stories(HELD_OUT))
    return [text for seed in range(HELD_OUT, HELD_OUT + count) if (text := make_story(seed)) not in held_out]


if __name__ == "__main__":
    for example in range(10):
        print(make_story(example))
