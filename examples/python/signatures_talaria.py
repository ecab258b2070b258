"""Signs updates and checks them. The arguments are files with a secret key and with the certificate."""

import pathlib
import sys

import talaria

key = talaria.Key.from_bytes(pathlib.Path(sys.argv[1]).read_bytes())
# Or all certificates of a store: talaria.Verifier(store=talaria.Store("certs.db")).
verifier = talaria.Verifier(certs=[pathlib.Path(sys.argv[2]).read_bytes()])


def is_good(signature: bytes, data: bytes) -> bool:
    result = verifier.verify(signature, data)
    # A result is true if the signature is good. The certificate tells whose it is.
    return bool(result) and result.certificate == key.certificate


updates = [f"update {number}".encode() for number in range(3)]
signatures = key.sign_many(updates)
assert all(is_good(signature, update) for signature, update in zip(signatures, updates))
assert not is_good(signatures[0], updates[1])
# Many signatures in one call are verified on all cores.
assert all(verifier.verify_many(list(zip(signatures, updates))))
print(f"{len(updates)} updates signed and checked")
