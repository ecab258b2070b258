"""OpenPGP messages without a gpg process: encrypt, decrypt, sign, verify.

Keys, certificates, messages and signatures come as bytes, armored or not; what is made is not armored.
All values can be kept as long as the program runs and be used by several threads, and other threads run
while one of them works. `bytes` are not copied on the way in; other buffers are, once.
"""

import os
from collections.abc import Sequence
from typing import Literal, Union, final

# Anything with the buffer protocol; collections.abc.Buffer has existed since Python 3.12 only.
Data = Union[bytes, bytearray, memoryview]
Passphrase = Union[str, bytes]

__version__: str

class Error(Exception):
    """The base class of all errors of talaria."""

class UsageError(Error):
    """The arguments contradict each other."""

class MalformedError(Error):
    """The data are malformed, or of another kind."""

class TamperedError(Error):
    """The integrity check of the message fails or is missing."""

class NoSecretError(Error):
    """None of the keys and passphrases opens the message."""

class UnusableKeyError(Error):
    """A certificate cannot be encrypted to, or a key cannot sign or is locked."""

class UnsupportedError(Error):
    """The message uses an unsupported algorithm or format."""

class TooLargeError(Error):
    """A part of the message exceeds a limit."""

class NotFoundError(Error):
    """The store or the certificate does not exist."""

class AmbiguousError(Error):
    """Several certificates match the name, or none matches it exactly."""

class SignatureError(Error):
    """A signature of the message is bad, or a required signature is missing."""

class InternalError(Error):
    """A bug in talaria (a panic)."""

class StoreError(Error):
    """The store cannot be read."""

@final
class Sealer:
    """Encrypts many messages for the same recipients.

    The constructor derives the key from the passphrase and encrypts one session key, once: 0.2 ms per key, 40 ms
    for a passphrase, or by default three passes of Argon2 over 64 MiB. Each message has its own salt, is complete,
    and can be read by any implementation.
    """

    def __init__(
        self,
        *,
        passphrase: Passphrase | None = None,
        certs: Sequence[Data] = (),
        profile: Literal["rfc9580", "rfc4880", "librepgp"] | None = None,
    ) -> None:
        """Takes a passphrase, certificates, or both. Without a profile, messages have the newest format that all
        recipients have announced; all programs read "rfc4880"."""

    def seal(self, data: Data, *, sign_with: Key | None = None) -> bytes:
        """Encrypts a message, and signs it if a key is given."""

@final
class Opener:
    """Decrypts many messages with the same keys and passphrases.

    It caches the session keys of the latest thousand, so only the first message of a Sealer costs
    time. It opens one message at a time: use one Opener per thread.
    """

    def __init__(
        self,
        *,
        passphrases: Sequence[Passphrase] = (),
        keys: Sequence[Data] = (),
        key_passphrases: Sequence[Passphrase] = (),
    ) -> None:
        """Takes passphrases of messages, secret keys, and the passphrases of these keys."""

    def open(self, data: Data) -> bytes:
        """Returns the content of a message without checking its signatures.

        Raises an Error, and returns nothing, if any part of the message was changed.
        """

    def open_verified(
        self, data: Data, verifier: Verifier, *, signers: Sequence[str] | None = None
    ) -> tuple[bytes, list[Verification]]:
        """Returns the content of a message and the results of checking its signatures: an empty list if it is not
        signed.

        Raises SignatureError, and returns nothing, if a signature is bad. With `signers` (fingerprints),
        each of them must have made a good signature.
        """

@final
class Key:
    """A secret key for signing."""

    @staticmethod
    def from_bytes(data: Data, passphrase: Passphrase | None = None) -> Key:
        """Reads and unlocks the newest signing key of the single certificate in `data`."""

    @property
    def certificate(self) -> str:
        """The fingerprint of the certificate, in upper-case hexadecimal."""

    def sign(self, data: Data) -> bytes:
        """Makes a detached signature."""

    def sign_many(self, data: Sequence[Data]) -> list[bytes]:
        """Makes a detached signature on each item."""

@final
class Store:
    """A store of certificates, or a keyring file. Changes by other programs are visible at once; a keyring
    file is read once, when it is opened."""

    def __init__(self, path: str | os.PathLike[str]) -> None: ...
    def lookup(self, query: str) -> list[bytes]:
        """Returns all certificates that match a search as on the command line: fingerprint, key ID, =exact user ID,
        <mail@address>, part of a user ID. Raises NotFoundError if there is none.

        Anybody can make a certificate with any user ID. For encryption, use a fingerprint or `recipient`.
        """

    def recipient(self, query: str) -> bytes:
        """Returns the single certificate with this exact name and an encryption key: a fingerprint, a key ID, or the
        whole address or text of a user ID. Raises AmbiguousError if several match, and for a part of a name."""

@final
class Verification:
    """The result of checking a signature. True if the signature is good and counts, and, if signers were
    named, if each of them has made a good one."""

    @property
    def refused(self) -> str | None:
        """The reason, if the result is false."""

    @property
    def outcome(self) -> Literal["good", "bad", "no_key", "not_counted", "unchecked"]:
        """
        * good: the key made the signature over this data, and it counts.
        * bad: the key did not make the signature over this data.
        * no_key: no certificate with the key was found.
        * not_counted: the key made the signature, but it does not count; `why` has the reason.
        * unchecked: the signature cannot be read or verified; `why` has the reason.
        """

    @property
    def certificate(self) -> str | None:
        """The fingerprint of the certificate, in upper-case hexadecimal."""

    @property
    def key(self) -> str | None:
        """The fingerprint of the key of the certificate that made the signature."""

    @property
    def user_id(self) -> str | None:
        """The primary user ID at the time of the signature. It is a claim of the certificate, not
        a confirmed identity."""

    @property
    def created(self) -> int:
        """The claimed creation time of the signature, in seconds since 1970; 0 if it cannot be read."""

    @property
    def why(self) -> str | None:
        """The reason why the signature does not count or cannot be checked."""

    @property
    def since(self) -> str | None:
        """The later state of the key: expired or revoked."""

    def __bool__(self) -> bool: ...

@final
class Verifier:
    """Verifies detached signatures at the time of each call."""

    def __init__(self, *, certs: Sequence[Data] | None = None, store: Store | None = None) -> None:
        """Takes certificates or a store."""

    def verify(
        self, signature: Data, data: Data, *, signers: Sequence[str] | None = None
    ) -> Verification:
        """Verifies a detached signature, or several concatenated ones. Faults of signatures are in the
        result and raise no exception.

        Without `signers`, at least one signature must be good and none bad. With `signers` (fingerprints), each
        of them must have made a good one. The result has the deciding signature.
        """

    def verify_many(
        self, items: Sequence[tuple[Data, Data]], *, signers: Sequence[str] | None = None
    ) -> list[Verification]:
        """Verifies many pairs of a signature and its data on all cores, and Ed25519 signatures in batches."""
