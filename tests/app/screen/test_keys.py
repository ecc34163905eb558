"""The keys of the live view, the pages that they show, and a real terminal."""

import os
import pty
import signal
import subprocess
import sys
import termios

import pytest
from rich.console import Console

from spade.app.rundir import RunDir
from spade.app.screen.controls import KEYS, WINDOWS, Controls, press_key
from spade.app.screen.pages import draw_keys, read_newest
from spade.app.screen.view import show_last
from spade.config import load
from tests.app.report.test_page import make_run
from tests.app.screen.test_view import full_status

READER = """
import fcntl, os, termios, trio
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal is this process's own
from spade.app.screen.controls import Keyboard

async def main():
    keyboard = Keyboard()
    async with trio.open_nursery() as nursery:
        pressed = keyboard.pressed
        nursery.start_soon(keyboard.read)
        print("reads", flush=True)
        await pressed.wait()
        print(keyboard.controls.page, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def press(*keys):
    controls = Controls()
    for key in keys:
        controls = press_key(controls, key)
    return controls


def draw(page, width=100, height=30):
    console = Console(width=width, height=height, color_system=None, force_terminal=True)
    with console.capture() as capture:
        console.print(page, height=height)
    return capture.get()


def test_keys_choose_a_page_a_window_and_a_pause():
    assert press("e").page == press("?", "e").page == "newest"
    assert press("?").page == "keys"
    assert press("e", "e") == press("?", "?") == press("e", "\x1b") == press("x", "[", "A") == Controls()
    assert press("p").paused
    assert not press("p", "p").paused
    assert [press(*"w" * times).window for times in range(4)] == [*WINDOWS, WINDOWS[0]]


@pytest.mark.parametrize(("window", "steps"), [(0, 30), (25, 25), (100, 30)])
def test_a_window_keeps_the_last_learner_steps(window, steps):
    status = full_status()
    shown = show_last(status, window).histories
    assert shown.regret_history == status.histories.regret_history[-steps:]
    assert shown.win_rate_history == status.histories.win_rate_history[-steps:]


def test_the_page_of_keys_names_each():
    page = draw(draw_keys())
    assert all(key in page and effect in page for key, effect in KEYS)


@pytest.mark.parametrize(("width", "height"), [(100, 30), (40, 9), (20, 4)])
def test_the_newest_page_has_an_environment_and_its_last_play(tmp_path, width, height):
    run = make_run(tmp_path / "run")
    page = draw(read_newest(run, width, height), width, height)
    assert "newest env" in page
    if width > 40:
        assert "pull the second lever" in page
        assert "turns" in page


def test_a_run_without_a_store_or_a_directory_says_so(tmp_path):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    assert str(tmp_path.name)[:10] in draw(read_newest(run, 200, 30), 200)
    assert "an address does not reach the store" in draw(read_newest(None, 100, 30))


def test_a_terminal_gives_keys_at_once_and_gets_its_mode_back():
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with subprocess.Popen(
        [sys.executable, "-c", READER],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout.readline() == "reads\n"
            os.write(ours, b"?")
            assert process.stdout.readline() == "keys\n"
            assert not termios.tcgetattr(theirs)[3] & termios.ICANON
            process.send_signal(signal.SIGINT)
            process.wait(60)
        finally:
            process.kill()
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


PLACES = {
    "not the terminal of its session": "os.setsid()",
    "no input": "os.close(0); sys.stdin = None",
    "a hangup": """
import fcntl, signal
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
""",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_view_goes_on_without_a_terminal_of_its_own(place):
    ours, theirs = pty.openpty()
    program = f"""
import os, sys, termios, trio
from spade.app.screen.controls import Keyboard
{PLACES[place]}
async def main():
    print("reads", flush=True)
    await Keyboard().read()
    print("goes on", flush=True)

trio.run(main)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            assert process.stdout.readline() == "reads\n", process.stderr.read()
            os.close(ours)
            assert (process.stdout.read(), process.stderr.read()) == ("goes on\n", "")
        finally:
            process.kill()


IN_THE_BACKGROUND = """
import fcntl, os, signal, sys, termios, trio
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
job = os.fork()
if job == 0:
    from spade.app.screen.controls import Keyboard
    os.setpgid(0, 0)
    async def main():
        while os.tcgetpgrp(0) != os.getpgrp():
            await trio.sleep(0.01)
        with trio.move_on_after(1.5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(Keyboard().read)
                await trio.sleep(0.3)
                print("reads", flush=True)
    trio.run(main)
    os._exit(0)
os.setpgid(job, job)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
os.tcsetpgrp(0, job)
assert os.read(int(sys.argv[1]), 1)
os.tcsetpgrp(0, os.getpgrp())
print("behind", flush=True)
print(os.WIFEXITED(os.waitpid(job, os.WUNTRACED)[1]), flush=True)
os.kill(job, signal.SIGKILL)
"""


def test_a_view_that_goes_to_the_background_leaves_keys_and_mode_to_the_shell():
    ours, theirs = pty.openpty()
    told, tell = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", IN_THE_BACKGROUND, str(told)], stdin=theirs, stdout=subprocess.PIPE, pass_fds=[told],
        text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout.readline() == "reads\n"
            os.write(tell, b"!")
            assert process.stdout.readline() == "behind\n"
            os.write(ours, b"ls\n")
            assert process.stdout.readline() == "True\n", "it was stopped"
        finally:
            process.kill()
            for each in (ours, theirs, told, tell):
                os.close(each)
