"""Signs updates and checks them. The argument is the fingerprint of a key in the user's keyring."""

import pathlib
import subprocess
import sys
import tempfile

signer = sys.argv[1]


def sign(data: bytes) -> bytes:
    command = ["gpg", "--batch", "--quiet", "--local-user", signer, "--detach-sign"]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def is_good(signature: bytes, data: bytes) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "signature")
        path.write_bytes(signature)
        command = ["gpg", "--batch", "--status-fd", "1", "--verify", str(path), "-"]
        done = subprocess.run(command, input=data, capture_output=True)
    lines = done.stdout.decode().splitlines()
    valid = [line.split() for line in lines if line.startswith("[GNUPG:] VALIDSIG ")]
    return done.returncode == 0 and [fields[-1] for fields in valid] == [signer]


updates = [f"update {number}".encode() for number in range(3)]
signatures = [sign(update) for update in updates]
assert all(is_good(signature, update) for signature, update in zip(signatures, updates))
assert not is_good(signatures[0], updates[1])
print(f"{len(updates)} updates signed and checked")
