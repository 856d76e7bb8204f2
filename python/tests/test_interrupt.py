"""Long calls give way: to other threads, and to an interrupt."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from plans import RECORDS

import dapple

#: Thousands of plans, which take minutes.
LONG = "dapple.sweep(over={'steps': range(1000, 100000, 10)}, batch=1, records=1000, noise_multiplier=0.5, delta=1e-5)"


def test_other_threads_go_on():
    counted, done = 0, threading.Event()

    def work():
        dapple.sweep(over={"steps": range(100, 130)}, **{**RECORDS, "epochs": None})
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        counted += 1
        time.sleep(0)
    thread.join()
    # If the sweep, which is one call, held the lock, this loop would run only once or twice.
    assert counted > 50


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one child on Windows")
def test_an_interrupt_is_heard():
    script = (
        "import dapple, signal\n"
        # A process in the background of a shell inherits that interrupts are ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "print('ready', flush=True)\n"
        f"try:\n    {LONG}\nexcept KeyboardInterrupt:\n    print('heard', flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert rest == "heard\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_leaves_no_thread_behind():
    """A child has the parent's memory but none of its threads; its calls must not wait for them."""
    script = (
        "import dapple, os, sys\n"
        f"plan = dict({RECORDS!r})\n"
        "before = dapple.account(**plan).epsilon\n"
        "child = os.fork()\n"
        "same = dapple.account(**plan).epsilon == before\n"
        "if child == 0:\n"
        "    os._exit(0 if same else 1)\n"
        "sys.exit(os.waitpid(child, 0)[1] or not same)\n"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", script], timeout=60).returncode == 0
