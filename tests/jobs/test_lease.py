"""Leases: one holder at a time, and the next one when that is dead."""

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from astra_kernels.errors import MachineFault
from astra_kernels.jobs.lease import Holder, Leases

FOR_EVER = 1e9


def elsewhere():
    return dataclasses.replace(Holder.here(), machine="another")


def test_one_holder_at_a_time(tmp_path):
    first, second = Leases(tmp_path, Holder.here()), Leases(tmp_path, Holder.here())
    assert first.take("job")
    assert not second.take("job")
    second.release("job")
    assert not second.take("job"), "only its holder gives a lease back"
    first.release("job")
    assert second.take("job")


def test_a_process_of_this_machine_that_has_ended_holds_nothing(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    here = Holder.here()
    started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    holder = dataclasses.replace(here, id="child", pid=child.pid, started=started)
    assert Leases(tmp_path, holder).take("job")
    mine = Leases(tmp_path, here, lease_s=FOR_EVER)
    assert not mine.take("job")
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # its remains still have the number
    assert mine.take("job")
    child.communicate()


def test_a_number_that_another_process_has_now_holds_nothing(tmp_path):
    holder = dataclasses.replace(Holder.here(), id="before", started="1")
    assert Leases(tmp_path, holder).take("job")
    assert Leases(tmp_path, Holder.here(), lease_s=FOR_EVER).take("job")


def test_a_lease_elsewhere_counts_until_nobody_renews_it(tmp_path):
    theirs = Leases(tmp_path, elsewhere())
    assert theirs.take("job")
    assert not Leases(tmp_path, Holder.here(), lease_s=FOR_EVER).take("job")
    mine = Leases(tmp_path, Holder.here(), lease_s=0.2)
    assert not mine.take("job")
    time.sleep(0.3)
    theirs.renew("job")
    assert not mine.take("job"), "renewed since the last look"
    time.sleep(0.3)
    assert mine.take("job")
    theirs.release("job")
    assert not Leases(tmp_path, Holder.here(), lease_s=FOR_EVER).take("job"), "it is mine now"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_lease_that_cannot_be_read_counts_until_it_is_old(tmp_path, text):
    (tmp_path / "job.json").write_text(text)
    mine = Leases(tmp_path, Holder.here(), lease_s=FOR_EVER)
    assert not mine.take("job")
    assert Leases(tmp_path, Holder.here(), lease_s=0.0).take("job")


def test_a_directory_that_cannot_be_written_is_a_machine_fault(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineFault, match="cannot be written"):
        Leases(tmp_path / "file" / "leases", Holder.here()).take("job")
