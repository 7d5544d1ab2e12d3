"""Fetches articles: pages over http and https, as the text that a reader sees."""

import urllib.error
import urllib.request
from html.parser import HTMLParser
from typing import List
from urllib.parse import urlsplit

from astraflow_sdk import TaskError

_BYTES_MAX = 4 * 1024 * 1024
_SECONDS_MAX = 30
_HIDDEN = frozenset(["script", "style", "head", "noscript", "template", "nav", "footer"])
_BLOCKS = frozenset(["p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "blockquote"])


def check_url(url: str) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise TaskError(f"urls must begin with http:// or https://, not {url}", "E.PARAMS.INVALID")


def fetch_article(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS_MAX) as response:
            body = response.read(_BYTES_MAX + 1)
            charset = response.headers.get_content_charset() or "utf-8"
            is_html = response.headers.get_content_type() in ("text/html", "application/xhtml+xml")
    except urllib.error.HTTPError as error:
        raise TaskError(f"{url} answered {error.code} {error.reason}") from error
    except OSError as error:
        raise TaskError(f"{url} cannot be reached: {getattr(error, 'reason', error)}") from error
    if len(body) > _BYTES_MAX:
        raise TaskError(f"{url} is larger than {_BYTES_MAX} bytes")
    text = body.decode(charset, errors="replace")
    return visible_text(text) if is_html else text


def visible_text(page: str) -> str:
    reader = _PageReader()
    reader.feed(page)
    reader.close()
    return "".join(reader.parts)


class _PageReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: List[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs) -> None:
        if tag in _HIDDEN:
            self._hidden += 1
        elif tag in _BLOCKS:
            self.parts.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        elif tag in _BLOCKS:
            self.parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if self._hidden == 0:
            # A line break in the source is no end of a paragraph.
            self.parts.append(data.replace("\n", " "))
