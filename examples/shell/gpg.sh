#!/bin/sh
# Encrypts, decrypts, signs and verifies. The arguments are the fingerprint of a key in the user's keyring and
# a file with a passphrase.
set -eu

echo text >document
gpg --batch --quiet --yes --trust-model always --recipient "$1" --output document.pgp --encrypt document
gpg --batch --quiet --yes --output document.plain --decrypt document.pgp
cmp document document.plain

gpg --batch --quiet --yes --pinentry-mode loopback --passphrase-file "$2" \
    --output document.pgp --symmetric document
gpg --batch --quiet --yes --pinentry-mode loopback --passphrase-file "$2" \
    --output document.plain --decrypt document.pgp
cmp document document.plain

gpg --batch --quiet --yes --local-user "$1" --output document.sig --detach-sign document
gpg --batch --quiet --status-fd 1 --verify document.sig document 2>/dev/null |
    grep -q "^\[GNUPG:\] VALIDSIG .* $1\$"
echo "encrypted, decrypted, signed and verified"
