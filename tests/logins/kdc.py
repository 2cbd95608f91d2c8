"""A Kerberos realm on this machine: Debian's KDC, its principals and their keytabs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from streaming.lab.processes import free_base_port
from tests.logins import kerberos_setup
from tests.waiting import until

REALM: Final = "TWIN.TEST"
HOST: Final = "localhost"
"""Of brokers, as the KDC knows it; 127.0.0.1 is no name."""

_KRB5: Final = """\
[libdefaults]
default_realm = {realm}
dns_lookup_realm = false
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
[domain_realm]
{host} = {realm}
"""

_KDC: Final = """\
[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  max_life = 1d
}}
[logging]
kdc = FILE:{folder}/kdc.log
"""


def require() -> None:
    """Skip where the KDC or the package gssapi is missing, and fail there in CI."""
    if lacks := kerberos_setup.lacking():
        if os.environ.get("CI"):
            pytest.fail(lacks)
        pytest.skip(lacks)


class Kdc:
    """The realm, while its KDC runs.

    Attributes:
        krb5_conf: what clients of the realm read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.krb5_conf = folder / "krb5.conf"
        names = {"realm": REALM, "port": free_base_port(span=1), "folder": folder, "host": HOST}
        self.krb5_conf.write_text(_KRB5.format(**names))
        (folder / "kdc.conf").write_text(_KDC.format(**names))
        self._run("kdb5_util", "create", "-s", "-P", "a master password", "-r", REALM)

    @property
    def environment(self) -> Mapping[str, str]:
        """What programs need beside their own environment."""
        return {"KRB5_CONFIG": str(self.krb5_conf)}

    def _env(self) -> dict[str, str]:
        profile = str(self._folder / "kdc.conf")
        return {**os.environ, **self.environment, "KRB5_KDC_PROFILE": profile}

    def _run(self, program: str, *words: str) -> None:
        command = [kerberos_setup.program(program), *words]
        done = subprocess.run(command, env=self._env(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "while" not in done.stderr, done.stderr  # kadmin.local ends with 0 in any case

    def keytab(self, principal: str, life_s: int = 3_600) -> Path:
        """A new principal, and the file with its key.

        Args:
            principal: its name, without the realm.
            life_s: of its tickets.
        """
        path = self._folder / f"{principal.replace('/', '-')}.keytab"
        kadmin = ("kadmin.local", "-r", REALM, "-q")
        self._run(*kadmin, f'addprinc -randkey -maxlife "{life_s} seconds" {principal}')
        self._run(*kadmin, f"ktadd -k {path} -norandkey {principal}")
        return path

    def change_key(self, principal: str) -> None:
        """Its keytab then has a key that is none any more."""
        self._run("kadmin.local", "-r", REALM, "-q", f"cpw -randkey {principal}")

    def remove(self, principal: str) -> None:
        """The realm knows it no more; its keytab stays."""
        self._run("kadmin.local", "-r", REALM, "-q", f"delprinc -force {principal}")

    def tickets(self, principal: str) -> int:
        """How many tickets that begin a login were given to it."""
        log = (self._folder / "kdc.log").read_text()
        return len(re.findall(rf"AS_REQ .* ISSUE: .* {re.escape(principal)}@{REALM} for", log))

    @contextmanager
    def serving(self) -> Iterator[Kdc]:
        """Run the KDC."""
        command = [kerberos_setup.program("krb5kdc"), "-n", "-r", REALM]
        log = self._folder / "kdc.log"
        with (self._folder / "stdout.log").open("wb") as out:
            process = subprocess.Popen(command, env=self._env(), stdout=out, stderr=out)
        try:
            until(lambda: log.exists() and "commencing" in log.read_text(), 10, "no KDC")
            yield self
        finally:
            process.terminate()
            process.wait(10)
