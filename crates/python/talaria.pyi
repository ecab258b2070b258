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
    """Why something could not be done."""

class UsageError(Error):
    """What was asked for does not go together."""

class MalformedError(Error):
    """The bytes are not what they should be."""

class TamperedError(Error):
    """What protects the message from changes does not hold, or is missing."""

class NoSecretError(Error):
    """None of the keys and passphrases opens the message."""

class UnusableKeyError(Error):
    """A certificate cannot be encrypted to, or a key cannot sign or is locked."""

class UnsupportedError(Error):
    """Something in the message cannot be computed here."""

class TooLargeError(Error):
    """A part of the message is larger than what is read of it."""

class NotFoundError(Error):
    """There is no such store, or no such certificate in it."""

class AmbiguousError(Error):
    """More than one certificate is called that, or none exactly."""

class SignatureError(Error):
    """A signature of the message is bad, or one that it must have is missing."""

class InternalError(Error):
    """A bug in talaria, which was stopped."""

class StoreError(Error):
    """The store cannot be read."""

@final
class Sealer:
    """Encrypts many messages for the same recipients.

    The passphrase is stretched and one session key is wrapped here, once: 0.2 ms for each key; 40 ms for a
    passphrase, or by default three passes of Argon2 over 64 MiB. Each message has a salt of its own, is complete, and is read by any implementation.
    """

    def __init__(
        self,
        *,
        passphrase: Passphrase | None = None,
        certs: Sequence[Data] = (),
        profile: Literal["rfc9580", "rfc4880", "librepgp"] | None = None,
    ) -> None:
        """Takes a passphrase, certificates, or both. Without a profile messages are of the newest that all
        recipients have announced; everybody reads "rfc4880"."""

    def seal(self, data: Data, *, sign_with: Key | None = None) -> bytes:
        """The message that only the recipients can read, signed with a key if there is one."""

@final
class Opener:
    """Decrypts many messages with the same keys and passphrases.

    It remembers what it has computed for the latest thousand, so messages of one Sealer cost the first of
    them only. It opens one at a time: threads that are to open at once have one each.
    """

    def __init__(
        self,
        *,
        passphrases: Sequence[Passphrase] = (),
        keys: Sequence[Data] = (),
        key_passphrases: Sequence[Passphrase] = (),
    ) -> None:
        """Takes passphrases of messages, secret keys, and passphrases to unlock these with."""

    def open(self, data: Data) -> bytes:
        """The content of a message. Its signatures are not looked at.

        Raises an Error, and returns nothing, if any part of the message is not as it was made.
        """

    def open_verified(
        self, data: Data, verifier: Verifier, *, signers: Sequence[str] | None = None
    ) -> tuple[bytes, list[Verification]]:
        """The content of a message and what came out of checking its signatures: an empty list if it is not
        signed.

        Raises SignatureError, and returns nothing, if a signature is bad; with `signers`, which are
        fingerprints, unless each of them has made a good one.
        """

@final
class Key:
    """A secret key that signs."""

    @staticmethod
    def from_bytes(data: Data, passphrase: Passphrase | None = None) -> Key:
        """The newest key that may sign of the one certificate in `data`, unlocked."""

    @property
    def certificate(self) -> str:
        """The fingerprint of the certificate, in upper-case hexadecimal."""

    def sign(self, data: Data) -> bytes:
        """A detached signature."""

    def sign_many(self, data: Sequence[Data]) -> list[bytes]:
        """A detached signature on each."""

@final
class Store:
    """A store of certificates, or a keyring file. It sees at once what other programs write to it; a keyring
    file is read when it is opened."""

    def __init__(self, path: str | os.PathLike[str]) -> None: ...
    def lookup(self, query: str) -> list[bytes]:
        """All certificates that match, named as on the command line: fingerprint, key ID, =exact user ID,
        <mail@address>, part of a user ID. Raises NotFoundError if there is none.

        Anybody can make a certificate with any user ID. To encrypt, ask for a fingerprint, or use recipient.
        """

    def recipient(self, query: str) -> bytes:
        """The only certificate that is named exactly and can be encrypted to: by its fingerprint, a key ID, or the
        whole address or text of a user ID. Raises AmbiguousError if there are more, and for a part of a name."""

@final
class Verification:
    """What came out of checking a signature. True if it is good and counts, and, where signers were named, if
    each of them has made a good one."""

    @property
    def refused(self) -> str | None:
        """Why it is not true."""

    @property
    def outcome(self) -> Literal["good", "bad", "no_key", "not_counted", "unchecked"]:
        """
        * good: the key made the signature over this data, and it counts.
        * bad: it did not.
        * no_key: there is no certificate with the key.
        * not_counted: the key made it, but it does not count, and `why` says for which reason.
        * unchecked: it cannot be read or computed, and `why` says for which reason.
        """

    @property
    def certificate(self) -> str | None:
        """The fingerprint of the certificate, in upper-case hexadecimal."""

    @property
    def key(self) -> str | None:
        """The fingerprint of the key of the certificate that made the signature."""

    @property
    def user_id(self) -> str | None:
        """The primary user ID at the time of the signature. It is what the certificate says, not what anybody
        has checked."""

    @property
    def created(self) -> int:
        """When the signature says that it was made, in seconds since 1970; 0 if it cannot be read."""

    @property
    def why(self) -> str | None:
        """Why it does not count or cannot be checked."""

    @property
    def since(self) -> str | None:
        """What has become of the key since: it has expired, or was revoked."""

    def __bool__(self) -> bool: ...

@final
class Verifier:
    """Checks detached signatures, as of the time of each call."""

    def __init__(self, *, certs: Sequence[Data] | None = None, store: Store | None = None) -> None:
        """Takes either certificates or a store."""

    def verify(
        self, signature: Data, data: Data, *, signers: Sequence[str] | None = None
    ) -> Verification:
        """Checks a detached signature, or several one after the other. Whatever is wrong with them is in the
        result, and raises nothing.

        Without `signers`, at least one is good and none is bad. With `signers`, which are fingerprints, each
        of them has made a good one. The result shows the signature that decides it.
        """

    def verify_many(
        self, items: Sequence[tuple[Data, Data]], *, signers: Sequence[str] | None = None
    ) -> list[Verification]:
        """Checks many, each a signature and its data, on all cores; Ed25519 signatures in batches."""
