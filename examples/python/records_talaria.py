"""Encrypts records with a passphrase, one call each. The argument is the file with the passphrase."""

import pathlib
import sys

import talaria

passphrase = pathlib.Path(sys.argv[1]).read_text().rstrip("\n")
# The passphrase is stretched here, once. Make these objects when the program starts, and keep them.
sealer = talaria.Sealer(passphrase=passphrase)
opener = talaria.Opener(passphrases=[passphrase])

records = [b"first", b"second", b"third"]
kept = [sealer.seal(record) for record in records]
assert [opener.open(message) for message in kept] == records

damaged = bytearray(kept[0])
damaged[-1] ^= 1
try:
    opener.open(damaged)
    raise SystemExit("a damaged record was opened")
except talaria.TamperedError as error:
    print(f"refused: {error}")
print(f"{len(records)} records kept")
