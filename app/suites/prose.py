"""Fixed English prose of any length, the same on every machine and in every version.

A small hash assembles sentences from short parts, so that no sentence pattern repeats often enough to help a
speculative decoder. All words are common ones, so that tokenizers agree about the length within a few per cent. A test
pins the SHA-256 of the built-in prompts: changing a word here requires a new version of the suites.
"""

import hashlib
from itertools import count

WHO = (
    "the keeper of the lighthouse",
    "a young carpenter",
    "the woman from the mill",
    "an old captain",
    "the teacher",
    "a travelling musician",
    "the baker and his daughter",
    "a quiet engineer",
    "the gardener",
    "two fishermen",
    "the clockmaker",
    "a student of the stars",
    "the doctor of the valley",
    "a shepherd",
    "the librarian",
    "three children",
)
DID = (
    "walked along the river",
    "counted the boats in the harbour",
    "repaired the wooden bridge",
    "wrote a long letter to the city",
    "waited for the evening train",
    "carried water up the hill",
    "drew a careful map of the coast",
    "listened to the rain on the roof",
    "planted apple trees behind the barn",
    "measured the depth of the lake",
    "told the story of the great flood",
    "opened the heavy iron gate",
    "looked for the lost key",
    "watched the clouds over the mountains",
    "lit a small fire near the road",
    "read the old book once more",
)
WHEN = (
    "before the market opened",
    "on the first cold morning of autumn",
    "while the wind turned to the north",
    "after the bells had rung twice",
    "in the middle of a dry summer",
    "when nobody else was awake",
    "during the longest night of the year",
    "as soon as the snow had melted",
    "without saying a word to anyone",
    "because the harvest had been good",
    "although the road was closed",
    "until the lamps went out",
    "just as the letter had promised",
    "with more patience than skill",
    "for the second time that week",
    "as their parents had done before",
)
THEN = (
    "Nothing seemed to change, yet the work went on.",
    "By noon the square was full of people again.",
    "The answer, as so often, was simpler than the question.",
    "Only the river kept the same slow pace.",
    "Nobody could say later who had spoken first.",
    "It cost them an hour and saved them a year.",
    "The dog slept through all of it.",
    "What remained was a list of names and a silver coin.",
    "From the window one could see the whole valley.",
    "There was bread, salt and a little honey on the table.",
    "The numbers did not agree, so they counted once more.",
    "In the distance a door closed.",
    "Such days are short, but they are remembered for long.",
    "The map was right; the mountain had moved.",
    "They laughed, and then they were silent for a while.",
    "Every stone of the wall had its own history.",
)


def prose(length_chars: int, start: int = 0) -> str:
    """Returns whole sentences with at least `length_chars` characters; another `start` gives another text."""
    sentences: list[str] = []
    total = 0
    for index in count(start):
        pick = hashlib.sha256(f"roofmark {index}".encode()).digest()
        first = f"{WHO[pick[0] % 16]} {DID[pick[1] % 16]} {WHEN[pick[2] % 16]}."
        sentence = first[0].upper() + first[1:]
        if pick[3] % 3 == 0:
            sentence += " " + THEN[pick[4] % 16]
        sentences.append(sentence)
        total += len(sentence) + 1
        if total > length_chars:
            return " ".join(sentences)
    raise AssertionError("count() does not end")
