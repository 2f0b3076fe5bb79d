"""A Kerberos realm on loopback: Debian's KDC with a database in a temporary directory."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from scripts.apache_kafka import free_ports

REALM: Final = "EXAMPLE.COM"
_START_S: Final = 20.0
_POLL_S: Final = 0.05
_PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing_kdc() -> str | None:
    """Why there is no KDC here; None if there is one."""
    absent = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    return f"{', '.join(absent)} missing: apt-get install krb5-kdc krb5-admin-server krb5-user" if absent else None


class Realm:
    """A running KDC. Programs that use it need `environment`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "krb5.conf"
        self.environment = {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{directory / 'tickets'}",
        }
        self.port = free_ports(1)[0]
        self.config.write_text(
            f"""[libdefaults]
default_realm = {REALM}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
[realms]
{REALM} = {{
  kdc = 127.0.0.1:{self.port}
}}
NOWHERE.COM = {{
  kdc = 127.0.0.1:{free_ports(1)[0]}
}}
[domain_realm]
localhost = {REALM}
"""
        )
        (directory / "kdc.conf").write_text(
            f"""[kdcdefaults]
kdc_listen = 127.0.0.1:{self.port}
kdc_tcp_listen = 127.0.0.1:{self.port}
[realms]
{REALM} = {{
  database_name = {directory}/principal
  key_stash_file = {directory}/stash
  max_life = 1h
}}
[logging]
kdc = FILE:{directory}/kdc.log
"""
        )

    def run(self, *command: str, text: str = "", check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run one of Kerberos' programs."""
        program = shutil.which(command[0], path=_PATH)
        assert program is not None
        return subprocess.run(
            [program, *command[1:]],
            input=text,
            capture_output=True,
            text=True,
            timeout=_START_S,
            env={**os.environ, **self.environment},
            check=check,
        )

    def add(self, principal: str) -> Path:
        """Add a principal with a random key; return its keytab."""
        keytab = self.directory / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-q", f"ktadd -k {keytab} {principal}")
        return keytab

    def responds(self) -> bool:
        """Whether the KDC accepts connections."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


@contextmanager
def kerberos_realm(directory: Path) -> Iterator[Realm]:
    """A realm without principals."""
    directory.mkdir(parents=True, exist_ok=True)
    realm = Realm(directory)
    realm.run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
    program = shutil.which("krb5kdc", path=_PATH)
    assert program is not None
    with (
        (directory / "output.txt").open("wb") as output,
        subprocess.Popen(
            [program, "-n", "-r", REALM], stdout=output, stderr=output, env={**os.environ, **realm.environment}
        ) as process,
    ):
        try:
            deadline = time.monotonic() + _START_S
            while not realm.responds():
                assert process.poll() is None, (directory / "output.txt").read_text()
                assert time.monotonic() < deadline, "the KDC did not start"
                time.sleep(_POLL_S)
            yield realm
        finally:
            process.kill()
