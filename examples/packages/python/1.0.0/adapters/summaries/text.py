"""Scores the sentences and words of a text by how often their words occur in it."""

import re
from collections import Counter
from typing import List, Sequence, Set

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)]*\s+(?=[\"'“‘(]*[^\W_a-zß-öø-ÿ])|\n{2,}")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SHORT_WORD = 2
_STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being between both but by can could did do does
    for from further had has have he her here him his how i if in into is it its just like made make many may me more most much must my
    no nor not now of on once only or other our out over own said same she should so some such than that the their them then there these
    they this those through to too under until up very was we were what when where which while who will with would you your""".split()
)
# Less than this is a heading or an item of a menu.
_SENTENCE_WORDS = 4
# Sentences that share more of their words than this say the same.
_SAME_SHARE = 0.6


def split_sentences(text: str) -> List[str]:
    parts = (" ".join(part.split()) for part in _SENTENCE_END.split(text))
    return [part for part in parts if _WORD.search(part)]


def content_words(text: str) -> List[str]:
    """The words that say what a text is about, in small letters."""
    words = (word.lower() for word in _WORD.findall(text))
    return [word for word in words if len(word) > _SHORT_WORD and word not in _STOP_WORDS]


def summarise(articles: Sequence[str], count: int) -> List[str]:
    """The sentences that say most, in the order of the articles."""
    weights = Counter(word for article in articles for word in content_words(article))
    scored = []
    for article in articles:
        sentences = [one for one in split_sentences(article) if len(one.split()) >= _SENTENCE_WORDS]
        for place, sentence in enumerate(sentences):
            words = content_words(sentence)
            # Long sentences would win by their length alone; the first ones of an article say what it is about.
            score = sum(weights[word] for word in words) / (len(words) + 4) * (1.25 if place == 0 else 1.0)
            scored.append((score, len(scored), sentence, set(words)))
    chosen: List[tuple] = []
    for one in sorted(scored, key=lambda item: (-item[0], item[1])):
        if len(chosen) == count:
            break
        if not any(_is_same(one[3], other[3]) for other in chosen):
            chosen.append(one)
    return [sentence for _, _, sentence, _ in sorted(chosen, key=lambda item: item[1])]


def _is_same(words: Set[str], others: Set[str]) -> bool:
    every = words | others
    return bool(every) and len(words & others) / len(every) > _SAME_SHARE


def keywords(text: str, count: int) -> List[dict]:
    """The most frequent words; of equally frequent ones those that come first."""
    return [{"word": word, "count": times} for word, times in Counter(content_words(text)).most_common(count)]
