"""The words of the small world that stories are told about. The generator and the checker share them."""

GIRLS = ("Mia", "Anna", "Lily", "Zoe", "Nora", "Ruby", "Ella", "Ivy")
BOYS = ("Tom", "Ben", "Sam", "Max", "Leo", "Finn", "Jack", "Noah")
PET_NAMES = ("Pip", "Dot", "Fig", "Moss")
PETS = ("cat", "dog", "duck", "rabbit")

# Everything that is counted has a singular and a plural.
FOOD = {"apple": "apples", "pear": "pears", "nut": "nuts", "cookie": "cookies", "berry": "berries", "plum": "plums"}
TREASURE = {"shell": "shells", "stone": "stones", "flower": "flowers", "button": "buttons", "feather": "feathers"}
ITEMS = FOOD | TREASURE

# These things are owned one at a time and have a colour.
THINGS = ("ball", "hat", "kite", "boat", "cup", "drum", "scarf", "book")
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown", "pink")

# Each place has the words that say that somebody is there.
PLACES = {
    "home": "at home",
    "park": "in the park",
    "garden": "in the garden",
    "forest": "in the forest",
    "river": "by the river",
    "lake": "by the lake",
    "market": "at the market",
    "school": "at school",
}

# The index of a word is its value.
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
