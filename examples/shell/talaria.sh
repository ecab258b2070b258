#!/bin/sh
# Encrypts, decrypts, signs and verifies. The arguments are the fingerprint of a certificate in the user's
# store, a file with a passphrase, and one with the secret key.
set -eu

echo text >document
talaria encrypt --to "$1" --overwrite --output document.pgp document
talaria decrypt --key-file "$3" --overwrite --output document.plain document.pgp
cmp document document.plain

talaria encrypt --symmetric --passphrase-file "$2" --overwrite --output document.pgp document
talaria decrypt --passphrase-file "$2" --overwrite --output document.plain document.pgp
cmp document document.plain

talaria sign --with "$1" --key-file "$3" --overwrite --output document.sig document
talaria verify --quiet --signature document.sig --status-fd 1 document |
    grep -q "^\[GNUPG:\] VALIDSIG .* $1\$"
echo "encrypted, decrypted, signed and verified"
