# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration files of horovodrun: of YAML the part that they need, so that no YAML module has to be there.

That is sections and, below and further in, names with one value each. Anything else is refused with its line.
"""

from typing import List, Optional, Tuple

from horovod.runner._flags import Refusal


def entries(name: str, text: str) -> List[Tuple[str, str, Optional[str]]]:
    """The entries of a file.

    Args:
        name: of the file, for messages.
        text: what is in it.

    Returns:
        Of each: where it is said, as "x.yaml:3"; "section.name", or "name" outside of sections; its value, None
        where that is empty or null.

    Raises:
        Refusal: a line is more than that.
    """
    found: List[Tuple[str, str, Optional[str]]] = []
    section, inside = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{name}:{number}"
        line = _without_comment(line).rstrip()
        if not line or line in ("---", "..."):
            continue
        indent = line[:len(line) - len(line.lstrip())]
        key, colon, value = line.strip().partition(":")
        if not colon or (value and value[0] != " ") or "\t" in indent or not key.replace("_", "a").isalnum():
            raise _not_read(place)
        value = value.strip()
        if not indent:
            said = _scalar(place, value)
            section, inside = (key, "") if said is None else ("", "")
            if said is not None:
                found.append((place, key, said))
        elif not section or indent != (inside or indent):
            raise _not_read(place)
        else:
            inside = indent
            found.append((place, f"{section}.{key}", _scalar(place, value)))
    return found


def _scalar(place: str, value: str) -> Optional[str]:
    if value[:1] in ("'", '"'):
        if len(value) < 2 or value[-1] != value[0] or value[0] in value[1:-1] or "\\" in value:
            raise _not_read(place)
        return value[1:-1]
    if value[:1] in tuple("[{&*!|>%@`-?") and value[1:2] not in tuple("0123456789."):
        raise _not_read(place)
    return None if value in ("", "~", "null", "Null", "NULL") else value


def _without_comment(line: str) -> str:
    quote = ""
    for at, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at]
    return line


def _not_read(place: str) -> Refusal:
    return Refusal(f'{place}: horovodrun does not read this; it reads "section:" and below it "  name: value"')
