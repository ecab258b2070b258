"""Encrypts records with a passphrase, one gpg process per call. The argument is the file with the passphrase."""

import subprocess
import sys


def gpg(*args: str, data: bytes) -> bytes:
    command = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback"]
    command += ["--passphrase-file", sys.argv[1], "--output", "-", *args]
    done = subprocess.run(command, input=data, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode())
    return done.stdout


records = [b"first", b"second", b"third"]
kept = [gpg("--symmetric", data=record) for record in records]
assert [gpg("--decrypt", data=message) for message in kept] == records
print(f"{len(records)} records kept")
