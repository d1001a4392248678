"""A trace says what was written, and whatever was cut, edited or made up is refused."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitsect.probes.errors import EventKeyError, TraceError
from bitsect.probes.trace import (
    Event,
    EventKey,
    Header,
    Trace,
    TraceWriter,
    partial_path,
    read_trace,
)

PRINT = "float32[2,3]:0123456789abcdef0123456789abcdef"
OTHER = "bool[]:00000000000000000000000000000000"
CERTIFICATE = "ab" * 32
HEADER = Header(
    probe="sha256:" + "0" * 64,
    run="r1",
    arguments={"arms": ["data", "kernels"], "seed": 0},
    providers={"gemm": "torch"},
    versions={"torch": "2.13.0"},
    threads=2,
)

PRINTABLE = st.characters(exclude_categories=("C", "Z"))
WORDS = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="/#"), min_size=1)
NUMBERS = st.integers(0, 10**18 - 1)
KEYS = st.builds(EventKey, NUMBERS, NUMBERS, WORDS, WORDS, WORDS, NUMBERS)
PRINTS = st.lists(st.sampled_from([PRINT, OTHER, "<U5[0,7]:" + "f" * 32]), max_size=3).map(tuple)
NOTES = st.none() | st.just("raised AttributeError") | st.text(PRINTABLE, min_size=1)


@st.composite
def events(draw: st.DrawFn) -> Event:
    outputs = draw(PRINTS)
    certificates = (CERTIFICATE,) * len(outputs) if draw(st.booleans()) else ()
    return Event(draw(KEYS), draw(PRINTS), outputs, certificates, draw(NOTES))


def key(occurrence: int = 0, operation: str = "mm") -> EventKey:
    return EventKey(0, 0, "forward", "kernels.gemm.float32", operation, occurrence)


def write(path: Path, events: list[Event], header: Header = HEADER) -> Path:
    with TraceWriter(path, header) as writer:
        for event in events:
            writer.write(event)
    return path


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return write(
        tmp_path / "rank00000.jsonl",
        [
            Event(key(0), (PRINT,), (OTHER,)),
            Event(key(1), (PRINT,), (PRINT, OTHER), (CERTIFICATE, CERTIFICATE)),
            Event(key(2), (PRINT,), note="raised AttributeError"),
        ],
    )


# ---- keys -------------------------------------------------------------------------------------


@given(event_key=KEYS)
def test_a_key_comes_back_from_its_text(event_key: EventKey) -> None:
    assert EventKey.parse(event_key.text) == event_key


def test_the_text_of_a_key_is_what_it_says() -> None:
    assert key(3).text == "0/0/forward/kernels.gemm.float32/mm#3"


@pytest.mark.parametrize("word", ["", "a/b", "a#b", "a b", "a\tb", "a\nb", "a\u00a0b", "a\x00b"])
@pytest.mark.parametrize("field", ["phase", "scope", "operation"])
def test_words_that_would_break_the_text_are_refused(word: str, field: str) -> None:
    with pytest.raises(EventKeyError) as caught:
        EventKey(**{**key()._asdict(), field: word})
    assert repr(word) in caught.value.reason


@pytest.mark.parametrize("number", [-1, 10**18])
@pytest.mark.parametrize("field", ["iteration", "microbatch", "occurrence"])
def test_numbers_out_of_range_are_refused(number: int, field: str) -> None:
    with pytest.raises(EventKeyError) as caught:
        EventKey(**{**key()._asdict(), field: number})
    assert str(number) in caught.value.reason


@pytest.mark.parametrize(
    "text",
    ["", "0/0/f/s/o", "0/0/f/s/o#", "0/0/f/s#0", "0/0/f/s/o/p#0", "-1/0/f/s/o#0", "00/0/f/s/o#0",
     "0/0/f/s/o#01", "0/0/f /s/o#0", "0/0//s/o#0", "0/0/f/s/o#0\n", " 0/0/f/s/o#0", "x/0/f/s/o#0",
     "0/0/f/s/o#1000000000000000000", "\u0660/0/f/s/o#0", "0/0/f/s\x07/o#0", "0/0/f/s/o##0"],
)  # fmt: skip
def test_texts_that_spell_no_key_are_refused(text: str) -> None:
    with pytest.raises(EventKeyError) as caught:
        EventKey.parse(text)
    assert caught.value.text == text


# ---- events -----------------------------------------------------------------------------------


def test_one_word_stands_for_all_outputs() -> None:
    # given events that differ in outputs, in their order, or in the note
    different = [
        Event(key(), outputs=(PRINT,)),
        Event(key(), outputs=(OTHER,)),
        Event(key(), outputs=(PRINT, OTHER)),
        Event(key(), outputs=(OTHER, PRINT)),
        Event(key()),
        Event(key(), note="raised AttributeError"),
        Event(key(), outputs=(PRINT,), note="raised AttributeError"),
    ]

    assert len({event.digest for event in different}) == len(different)
    assert different[0].digest == PRINT
    assert Event(key(9), (OTHER,), (PRINT,), (CERTIFICATE,)).digest == PRINT


def test_one_word_stands_for_all_certificates() -> None:
    other = "cd" * 32
    both = [Event(key(), (), (PRINT, PRINT), pair).certificate
            for pair in ((CERTIFICATE, other), (other, CERTIFICATE))]  # fmt: skip

    assert Event(key(), (), (PRINT,)).certificate is None
    assert Event(key(), (), (PRINT,), (CERTIFICATE,)).certificate == CERTIFICATE
    assert len({*both, CERTIFICATE, other, None}) == 5


# ---- writing and reading ----------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(found=st.lists(events(), max_size=9, unique_by=lambda event: event.key),
       batch=st.integers(1, 5))  # fmt: skip
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, found: list[Event], batch: int
) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.jsonl"
    with TraceWriter(path, HEADER, batch=batch) as writer:
        for event in found:
            writer.write(event)

    trace = read_trace(path)

    assert trace == Trace(HEADER, tuple(found), complete=True)
    assert list(trace.by_key) == [event.key for event in found]
    assert all(trace.by_key[event.key] is event for event in trace.events)
    assert read_trace(path, allow_incomplete=True) == trace


def test_a_trace_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with TraceWriter(path, HEADER) as writer:
        writer.write(Event(key()))
        assert not path.exists()
        assert partial_path(path).exists()

    assert path.exists()
    assert not partial_path(path).exists()


def test_a_writer_that_fails_leaves_what_it_has_under_the_other_name(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"

    def fail_after_one_event() -> None:
        with TraceWriter(path, HEADER) as writer:
            writer.write(Event(key(0), (), (PRINT,)))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_after_one_event()

    assert not path.exists()
    trace = read_trace(partial_path(path), allow_incomplete=True)
    assert (trace.complete, [event.key for event in trace.events]) == (False, [key(0)])


def test_what_was_flushed_outlives_a_killed_process(tmp_path: Path) -> None:
    # given a process that kills itself in the middle of its second batch
    path = tmp_path / "t.jsonl"
    program = textwrap.dedent("""
        import os, signal, sys
        from bitsect.probes.trace import Event, EventKey, Header, TraceWriter
        with TraceWriter(sys.argv[1], Header(probe="p"), batch=4) as writer:
            for n in range(6):
                writer.write(Event(EventKey(0, 0, "f", "s", "o", n)))
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL

    trace = read_trace(partial_path(path), allow_incomplete=True)

    assert [event.key.occurrence for event in trace.events] == [0, 1, 2, 3]
    assert not trace.complete


def test_headers_of_two_processes_differ_by_themselves() -> None:
    program = "from bitsect.probes.trace import Header; print(Header(probe='p').run)"
    command = [sys.executable, "-c", program]
    runs = {subprocess.run(command, check=True, capture_output=True).stdout for _ in range(2)}

    assert len(runs) == 2
    assert Header(probe="p").run == Header(probe="q").run


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (Event(key(0)), "once"),
        (Event(key(1), (), (PRINT, PRINT), (CERTIFICATE,)), "certificates"),
        (Event(key(1), note="two\nlines"), "note"),
        (Event(key(1), note=""), "note"),
        (Event(key(1)._replace(scope="a/b")), "a/b"),
    ],
)
def test_the_writer_refuses_what_could_not_be_read_back(
    tmp_path: Path, event: Event, word: str
) -> None:
    with TraceWriter(tmp_path / "t.jsonl", HEADER) as writer:
        writer.write(Event(key(0)))
        with pytest.raises(ValueError, match=word):
            writer.write(event)

    assert len(read_trace(tmp_path / "t.jsonl").events) == 1


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "t.jsonl"

    with pytest.raises(TraceError) as caught, TraceWriter(path, HEADER):
        pytest.fail("a writer without a file must not begin")
    assert caught.value.path == str(path)
    assert "No such file" in caught.value.reason
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert (caught.value.path, caught.value.line) == (str(path), None)
    with pytest.raises(TraceError):
        read_trace(tmp_path)


@pytest.mark.parametrize("device", ["/dev/full"])
def test_a_full_disk_is_told_and_gives_no_trace(tmp_path: Path, device: str) -> None:
    path = tmp_path / "t.jsonl"
    partial_path(path).symlink_to(device)

    with pytest.raises(TraceError) as caught:
        write(path, [Event(key())])

    assert "No space" in caught.value.reason
    assert not path.exists()


# ---- damage -----------------------------------------------------------------------------------


def test_every_changed_byte_is_refused(written: Path) -> None:
    content = written.read_bytes()
    for place in range(len(content)):
        for flip in (0x01, 0x20, 0x80):
            changed = bytearray(content)
            changed[place] ^= flip
            written.write_bytes(bytes(changed))
            with pytest.raises(TraceError):
                read_trace(written)


def test_every_shortened_file_is_refused_and_read_as_far_as_it_goes(written: Path) -> None:
    content = written.read_bytes()
    whole = read_trace(written)
    header_end = content.index(b"\n") + 1
    for length in range(len(content)):
        written.write_bytes(content[:length])
        with pytest.raises(TraceError):
            read_trace(written)
        if length < header_end:
            with pytest.raises(TraceError):
                read_trace(written, allow_incomplete=True)
        else:
            trace = read_trace(written, allow_incomplete=True)
            count = content[header_end:length].count(b"\n")
            assert (trace.header, trace.complete) == (whole.header, False)
            assert trace.events == whole.events[:count]


def test_an_edited_line_is_refused_with_what_to_do(written: Path) -> None:
    # given an edit that leaves a well-formed line, as someone would make it by hand
    lines = written.read_text().splitlines(keepends=True)
    lines[1] = lines[1].replace("0" * 32, "1" * 32)
    written.write_text("".join(lines))

    with pytest.raises(TraceError) as caught:
        read_trace(written)

    assert (caught.value.path, caught.value.line) == (str(written), 5)
    assert "edited" in caught.value.reason
    assert "run the probe again" in caught.value.reason
    with pytest.raises(TraceError):
        read_trace(written, allow_incomplete=True)


Lines = list[bytes]


def sealed(lines: Lines, count: int | None = None) -> bytes:
    """End the lines as a forger would: with a root that fits."""
    body = b"".join(lines)
    root = hashlib.sha256(body).hexdigest()
    events = len(lines) - 1 if count is None else count
    return body + json.dumps({"end": {"events": events, "root": root}}).encode() + b"\n"


def set_in(number: int, **values: Any) -> Callable[[Lines], Lines]:
    def change(lines: Lines) -> Lines:
        record = json.loads(lines[number])
        target = record["header"] if number == 0 else record
        for name, value in values.items():
            if value is ...:
                del target[name]
            else:
                target[name] = value
        lines[number] = json.dumps(record).encode() + b"\n"
        return lines

    return change


def put(number: int, content: bytes) -> Callable[[Lines], Lines]:
    return lambda lines: [*lines[:number], content + b"\n", *lines[number + 1 :]]


FORGERIES: dict[str, tuple[int, str, Callable[[Lines], Lines]]] = {
    "not JSON": (2, "not JSON", put(1, b"{")),
    "two values": (2, "not JSON", put(1, b"{} {}")),
    "not UTF-8": (2, "not JSON", put(1, b'{"key":"\xff"}')),
    "empty line": (2, "not JSON", put(1, b"")),
    "too deep": (2, "not JSON", put(1, b"[" * 200_000)),
    "too long": (2, "longer", put(1, b'{"key":"' + b"x" * (1 << 20) + b'"}')),
    "too many digits": (2, "not JSON", put(1, b'{"key":' + b"9" * 9000 + b"}")),
    "a list": (2, "JSON object", put(1, b"[1]")),
    "a fraction": (2, "whole number", put(1, b'{"key":1.5}')),
    "NaN": (2, "whole number", put(1, b'{"key":NaN}')),
    "a name twice": (2, "twice", put(1, b'{"key":"a","key":"b","in":[],"out":[]}')),
    "a key twice": (3, "there twice", set_in(2, key=key(0).text)),
    "a foreign name": (2, "nothing else", set_in(1, extra=1)),
    "no outputs": (2, "nothing else", set_in(1, out=...)),
    "a key that is no text": (2, "a key", set_in(1, key=7)),
    "a key that is none": (2, "not iteration", set_in(1, key="0/0/f/s#1")),
    "outputs as text": (2, "not a list", set_in(1, out=PRINT)),
    "an output that is a number": (2, "not a fingerprint", set_in(1, out=[1])),
    "an output of another form": (2, "not a fingerprint", set_in(1, out=["float32[2]:00"])),
    "an input of another form": (2, "not a fingerprint", set_in(1, **{"in": ["x" * 40]})),
    "a huge shape": (
        2, "not a fingerprint", set_in(1, out=["uint8[1234567890123456789]:" + "0" * 32])
    ),
    "a certificate too few": (3, "for each output", set_in(2, cert=[CERTIFICATE])),
    "no certificates": (2, "for each output", set_in(1, cert=[])),
    "a certificate of another form": (2, "not a SHA-256", set_in(1, cert=["AB" * 32])),
    "a note of two lines": (2, "a note", set_in(1, note="a\nb")),
    "an empty note": (2, "a note", set_in(1, note="")),
    "a null note": (2, "a note", set_in(1, note=None)),
    "a long note": (2, "a note", set_in(1, note="x" * 1001)),
    "a second header": (3, "nothing else", lambda lines: [*lines[:2], lines[0], *lines[2:]]),
    "no header": (1, "begins with a header", lambda lines: lines[1:]),
    "a later schema": (1, "schema is 2", set_in(0, schema=2)),
    "a schema in words": (1, "schema is '1'", set_in(0, schema="1")),
    "a schema that is true": (1, "schema is True", set_in(0, schema=True)),
    "no schema": (1, "schema is None", set_in(0, schema=...)),
    "a header name too few": (1, "'threads'", set_in(0, threads=...)),
    "a header name too many": (1, "'colour'", set_in(0, colour=1)),
    "a probe that is no text": (1, "probe", set_in(0, probe=1)),
    "an empty run": (1, "run", set_in(0, run="")),
    "a manifest that is a number": (1, "manifest", set_in(0, manifest=1)),
    "a rank below zero": (1, "rank", set_in(0, rank=-1)),
    "a rank that is true": (1, "rank", set_in(0, rank=True)),
    "a rank outside of the world": (1, "rank", set_in(0, rank=1)),
    "no world": (1, "world", set_in(0, world=0)),
    "too many threads": (1, "threads", set_in(0, threads=1 << 63)),
    "providers as a list": (1, "providers", set_in(0, providers=[])),
    "versions of numbers": (1, "versions", set_in(0, versions={"torch": 2})),
    "arguments as text": (1, "arguments", set_in(0, arguments="--seed 0")),
    "header beside an event": (
        1, "begins with a header",
        lambda lines: [lines[0].rstrip()[:-1] + b',"key":"x"}\n', *lines[1:]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_malformed_lines_are_refused_by_number_even_under_a_root_that_fits(
    written: Path, name: str
) -> None:
    line, word, forge = FORGERIES[name]
    lines = forge(written.read_bytes().splitlines(keepends=True)[:-1])
    written.write_bytes(sealed(lines))

    for allow_incomplete in (False, True):
        with pytest.raises(TraceError) as caught:
            read_trace(written, allow_incomplete)
        assert (caught.value.path, caught.value.line) == (str(written), line)
        assert word in caught.value.reason


def test_control_an_unchanged_trace_sealed_in_the_same_way_is_read(written: Path) -> None:
    whole = read_trace(written)
    written.write_bytes(sealed(written.read_bytes().splitlines(keepends=True)[:-1]))

    assert read_trace(written) == whole


@pytest.mark.parametrize(
    ("end", "word"),
    [
        ({"end": {"events": 3}}, "nothing else"),
        ({"end": {"events": 3, "root": "R", "more": 1}}, "nothing else"),
        ({"end": [3, "R"]}, "nothing else"),
        ({"end": {"events": "3", "root": "R"}}, "whole number"),
        ({"end": {"events": True, "root": "R"}}, "whole number"),
        ({"end": {"events": 3, "root": "00"}}, "SHA-256"),
        ({"end": {"events": 2, "root": "R"}}, "3 events, not 2"),
        ({"end": {"events": 3, "root": "R"}, "key": "x"}, "nothing else"),
    ],
)
def test_malformed_end_lines_are_refused(written: Path, end: dict[str, Any], word: str) -> None:
    body = b"".join(written.read_bytes().splitlines(keepends=True)[:-1])
    text = json.dumps(end).replace('"R"', json.dumps(hashlib.sha256(body).hexdigest()))
    written.write_bytes(body + text.encode() + b"\n")

    with pytest.raises(TraceError) as caught:
        read_trace(written, allow_incomplete=True)

    assert caught.value.line == 5
    assert word in caught.value.reason


@pytest.mark.parametrize("more", [b"\n", b"{}\n", b"x", b'{"end":{}}\n'])
def test_whatever_follows_the_end_is_refused(written: Path, more: bytes) -> None:
    with written.open("ab") as file:
        file.write(more)

    for allow_incomplete in (False, True):
        with pytest.raises(TraceError) as caught:
            read_trace(written, allow_incomplete)
        assert caught.value.line == 6


def test_an_empty_file_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()

    for allow_incomplete in (False, True):
        with pytest.raises(TraceError) as caught:
            read_trace(path, allow_incomplete)
        assert "no header" in caught.value.reason


def test_only_the_last_line_may_be_torn(written: Path) -> None:
    lines = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(b"".join([lines[0], lines[1][:20] + b"\n", lines[2]]))

    with pytest.raises(TraceError) as caught:
        read_trace(written, allow_incomplete=True)
    assert caught.value.line == 2


def test_the_end_is_on_the_disk_before_the_trace_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a record of what the operating system is asked for
    asked: list[str] = []
    sync, replace = os.fsync, Path.replace

    def recorded_sync(number: int) -> None:
        asked.append("sync")
        sync(number)

    def recorded_replace(self: Path, target: Path) -> Path:
        asked.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", recorded_sync)
    monkeypatch.setattr(Path, "replace", recorded_replace)

    write(tmp_path / "t.jsonl", [Event(key())])

    assert asked == ["sync", "rename", "sync"]
