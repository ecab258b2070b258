"""OpenPGP messages without a gpg process: encrypt, decrypt, sign, verify; and signed logs.

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
# The rules by which certificates count, see docs/trust.md.
Policy = Literal["standard", "strict", "gnupg-2.2", "gnupg-2.4"]

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
    """The store, the certificate, the log or the object does not exist."""

class AmbiguousError(Error):
    """Several certificates match the name, or none matches it exactly."""

class SignatureError(Error):
    """A signature of the message is bad, or a required signature is missing."""

class RefusedError(Error):
    """The log does not allow the change, or is another log than expected."""

class InternalError(Error):
    """A bug in talaria (a panic)."""

class StoreError(Error):
    """The store or the log cannot be read or written."""

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
        policy: Policy = "standard",
    ) -> None:
        """Takes a passphrase, certificates, or both. An empty passphrase is refused. Without a profile, messages have
        the newest format that all recipients have announced; all programs read "rfc4880"."""

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
    def from_bytes(
        data: Data, passphrase: Passphrase | None = None, *, policy: Policy = "standard"
    ) -> Key:
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

    def __init__(
        self, path: str | os.PathLike[str], *, policy: Policy = "standard"
    ) -> None: ...
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
    def outcome(self) -> Literal["good", "bad", "no_key", "not_counted", "unchecked", "distrusted"]:
        """
        * good: the key made the signature over this data, and it counts.
        * bad: the key did not make the signature over this data.
        * no_key: no certificate with the key was found.
        * not_counted: the key made the signature, but it does not count; `why` has the reason.
        * unchecked: the signature cannot be read or verified; `why` has the reason.
        * distrusted: the key made the signature, and the user has called its certificate bad.
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

    def __init__(
        self,
        *,
        certs: Sequence[Data] | None = None,
        store: Store | None = None,
        policy: Policy | None = None,
    ) -> None:
        """Takes certificates or a store. A store has its own policy."""

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

@final
class ObjectId:
    """The identity of an object of a log, as the value of a field: 64 hexadecimal digits."""

    def __init__(self, id: str) -> None: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Encrypted:
    """A value that is encrypted, and that no key here opens. `str` says why."""

    @property
    def epoch(self) -> str:
        """The identity of the entry whose key it is encrypted with."""

    @property
    def readers(self) -> Union[int, None]:
        """The number of keys of readers, if the reason is "no-key"."""

    @property
    def reason(self) -> Union[str, None]:
        """One word, such as "no-key", or "moved" for a value that somebody copied to another place."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

# What a field of a log holds. Integers have 64 bits.
Value = Union[str, int, float, bool, Data, ObjectId]
# What is read from it: a list for strict fields, sets and lists; None for nothing.
One = Union[str, int, float, bool, bytes, ObjectId, Encrypted]
Content = Union[One, list[One], None]

@final
class Log:
    """A signed log in a folder: a small database in which every change carries an OpenPGP signature.

    One process has a log open at a time; its threads share it. An entry is on disk when the call that writes it returns. An
    object is named by its name or its identity; the merge rules of fields are fixed when the log is made. See docs/log.md.
    """

    @staticmethod
    def create(
        path: Union[str, os.PathLike[str]],
        key: Key,
        *,
        owners: Sequence[Data] = ...,
        threshold: int = 1,
        rules: Sequence[tuple[str, str]] = ...,
        checkpointer: Union[str, os.PathLike[str], None] = None,
        witnesses: Sequence[Union[str, os.PathLike[str]]] = ...,
        cosigners: Union[int, None] = None,
        grace: Union[int, None] = None,
    ) -> Log:
        """Makes a log in a folder that is empty or does not exist.

        The owner of `key` owns the log, with those of the certificates in `owners`; `threshold` of them must agree on a grant. `rules`
        are patterns of fields with "last-writer" (for all others), "strict", "set", "counter" or "list", the first match counts.

        `checkpointer` is a new file for the secret key of the checkpointer; the public one is beside it, with the end .pub. `witnesses`
        are files with the public keys of witnesses, a majority of whom must cosign a checkpoint, or `cosigners` of them. `grace` is
        the time in seconds within which a checkpoint must cover the entries of a key that has expired (a week).
        """

    @staticmethod
    def open(path: Union[str, os.PathLike[str]]) -> Log:
        """Opens the log in a folder. Raises StoreError if another process has it open."""

    @staticmethod
    def receive(
        path: Union[str, os.PathLike[str]],
        file: Union[str, os.PathLike[str]],
        *,
        expect: Union[str, None] = None,
    ) -> tuple[Log, Import]:
        """Makes a log in a folder from the export of another node.

        A file can be the export of any log. With `expect`, which is the identity that its owner told you, only that log is made.
        """

    @property
    def id(self) -> str:
        """The identity of the log."""

    def unlock(self, keys: Sequence[Data], *, key_passphrases: Sequence[Passphrase] = ()) -> None:
        """Opens encrypted values from now on with the secret keys in `keys`. A locked one is unlocked with one of `key_passphrases`."""

    def encrypt(self, key: Key, object: str, fields: str, *, to: Sequence[Data]) -> str:
        """Encrypts values of fields of an object from now on to the certificates `to`, and to nobody else.

        `fields` is the name of a field, or a start with * behind it. To remove a reader, call this again with those who stay: values
        that are there stay readable for the readers they were encrypted to. Writers need the key of a reader, see `unlock`. Returns
        the identity of the new epoch.
        """

    def stop_encrypting(self, key: Key, object: str, fields: str) -> str:
        """Writes new values of fields as they are."""

    def put(
        self, key: Key, object: str, field: str, value: Value, *, deletable: bool = False
    ) -> list[str]:
        """Sets a field, or adds to a set, counter or list, as the merge rule says. Returns the identities of the new entries.

        An object that does not exist is created. A `deletable` value can be deleted for good. Raises RefusedError if the log does not
        allow it.
        """

    def put_many(
        self, key: Key, updates: Sequence[tuple[str, str, Value]], *, batch: bool = False
    ) -> list[str]:
        """Puts many values, each with its object and field, with one sync: all or none.

        With `batch`, one signature stands for all of them.
        """

    def remove(
        self, key: Key, object: str, field: Union[str, None] = None, value: Union[Value, None] = None
    ) -> list[str]:
        """Removes the value of a field, with `value` that element of a set or a list, and without a field the object."""

    def delete_values(self, key: Key, object: str, field: str) -> list[str]:
        """Deletes the deletable values of a field for good, earlier ones included."""

    def compact(self) -> int:
        """Removes deleted values from disk, and returns their number."""

    def get(self, object: str, field: str) -> Content:
        """The content of a field. A strict field has a list of values: more than one is a conflict. None if there is none."""

    def fields(self, object: str) -> dict[str, Content]:
        """The fields of an object with their contents."""

    def objects(self) -> list[tuple[Union[str, None], ObjectId]]:
        """The objects that are not deleted: names and identities."""

    def history(self, object: str, field: Union[str, None] = None) -> list[LogEntry]:
        """The changes of an object, or of one field, in the order of the merge rules; also those that do not count."""

    def grant(
        self,
        key: Key,
        cert: Data,
        *,
        object: Union[str, None] = None,
        fields: str = "*",
        operations: Literal["all", "changes", "fields", "objects", "readers"] = "changes",
    ) -> str:
        """Lets the owner of a certificate change an object, or all, and the fields that match. Returns the identity of the grant."""

    def revoke(
        self,
        key: Key,
        what: str,
        *,
        last: Sequence[str] = ...,
        all: bool = False,
        stolen: Union[int, None] = None,
        reason: Literal["none", "superseded", "compromised", "retired"] = "none",
    ) -> str:
        """Ends a grant, by its identity, or an author, by the fingerprint. Returns the identity of the revocation.

        What is here of the author counts. With `last`, what is up to these entries, the last one of each device; with `all`, nothing; with
        `stolen`, what a valid checkpoint covered before that time, in seconds since 1970.
        """

    def checkpoint(self, key: Key, checkpointer: Union[str, os.PathLike[str]]) -> str:
        """Makes a checkpoint over all entries with the key of the checkpointer in a file. Returns the identity of its entry."""

    def witness_request(self, *, old: Union[int, None] = None) -> str:
        """The request to witnesses for the last checkpoint.

        `old` is the number of entries in the checkpoint that the witness cosigned last: by default, that of the last valid one.
        """

    def cosign(self, key: Key, answer: str) -> str:
        """Adds the cosignatures in the answer of a witness to the checkpoint for which they hold. Returns the identity of the entry."""

    def approve(self, key: Key, entry: str) -> str:
        """Agrees with a grant, a revocation, a choice or a snapshot of another owner, by the identity of its entry."""

    def forks(self) -> list[list[str]]:
        """The forks: different entries of one author at one place, by their identities. Nothing of this author counts behind them."""

    def choose(self, key: Key, entry: str) -> str:
        """Chooses the branch that counts after a fork, by the identity of an entry in it."""

    def node_key(self) -> str:
        """The public key of this node. If there is none, it is made."""

    def publish_node(self, key: Key, node: str, *, name: str = "") -> str:
        """Lets the node with a public key exchange entries. Returns the identity of the entry."""

    def end_node(self, key: Key, node: str) -> list[str]:
        """Ends the key of a node. Returns the identities of the entries; none if no such key may connect."""

    def sync(self, address: str, *, peer_key: Union[str, None] = None) -> Exchange:
        """Exchanges entries with the node at HOST:PORT, once. `peer_key` need not be published."""

    @staticmethod
    def fetch(
        path: Union[str, os.PathLike[str]], address: str, *, expect: str, peer_key: str
    ) -> tuple[Log, Exchange]:
        """Makes a copy of the log with the identity `expect` from the node at HOST:PORT that has the key `peer_key`."""

    def serve(
        self,
        listen: Union[str, None] = None,
        *,
        peers: Sequence[str] = ...,
        nats: Union[str, None] = None,
    ) -> LogNode:
        """Serves the log by threads of this process, until the result is stopped or forgotten.

        Listens at HOST:PORT (port 0 is any), stays connected with `peers`, and shares the stream of a NATS server. Other processes can
        use the log meanwhile.
        """

    def export_file(self, file: Union[str, os.PathLike[str]]) -> int:
        """Writes all entries with their signatures to a new file, and returns their number."""

    def snapshot(self, key: Key) -> str:
        """Signs what all objects and fields are now, and returns the identity of the snapshot. Only owners do this."""

    def export_snapshot(self, file: Union[str, os.PathLike[str]]) -> str:
        """Writes the last snapshot that enough owners have signed to a new file, and returns its identity."""

    def import_file(self, file: Union[str, os.PathLike[str]]) -> Import:
        """Takes the entries of an export of another node. Each one is checked."""

    def export_pgp(self, folder: Union[str, os.PathLike[str]]) -> int:
        """Writes entries and signatures that `gpg --verify` and `sq verify` accept into a folder, and returns the number of signatures."""

    def verify(self) -> LogCheck:
        """Verifies the log again from its bytes on disk: signatures, and every rule."""

    def stats(self) -> dict[str, Union[int, str]]:
        """Figures. Two nodes with the same entries have the same "state"."""

@final
class LogNode:
    """A log that is served. In a `with` statement, it is stopped at the end."""

    @property
    def address(self) -> Union[str, None]:
        """Where the node listens, as IP:PORT."""

    def stop(self) -> None:
        """Stops the node, and waits until it has ended."""

    def __enter__(self) -> LogNode: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

@final
class Exchange:
    """What two nodes have exchanged. True if each has what the other one had."""

    @property
    def added(self) -> int:
        """Entries that are new here."""

    @property
    def sent(self) -> int:
        """Entries that the peer got."""

    @property
    def waiting(self) -> int:
        """Entries that were not taken, because their past is not here or their clock is ahead."""

    @property
    def lacking(self) -> int:
        """Heads that the peer announced and did not send."""

    def __bool__(self) -> bool: ...

@final
class LogWatcher:
    """The changes of a log that this or another process writes, as they come. It takes no lock."""

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        *,
        keys: Sequence[Data] = (),
        key_passphrases: Sequence[Passphrase] = (),
    ) -> None:
        """Begins behind what is in the log in a folder now. Encrypted values are opened with the secret keys in `keys`."""

    def changes(self, timeout: float = 0.0) -> list[LogEntry]:
        """The changes since the last call. If there are none, waits for some, for this number of seconds at most."""

@final
class Witness:
    """A witness in a folder, which cosigns checkpoints of logs of others. The folder must not be set back to an earlier state."""

    @staticmethod
    def create(path: Union[str, os.PathLike[str]], name: str) -> Witness:
        """Makes a witness with a new key in a folder that does not exist. Give the file key.pub in it to owners of logs."""

    @staticmethod
    def open(path: Union[str, os.PathLike[str]]) -> Witness:
        """Opens the witness in a folder, and waits until no other process has it open."""

    @property
    def key(self) -> str:
        """The public key, as the line in key.pub."""

    def trust(self, checkpointer: Union[str, os.PathLike[str]]) -> str:
        """Lets the witness cosign a log, by the file with the public key of its checkpointer. Returns the origin of the log."""

    def cosign(self, request: str) -> str:
        """Cosigns the checkpoint of a request, see `Log.witness_request`, and returns the answer for `Log.cosign`.

        Raises RefusedError if the checkpoint does not follow the one that the witness cosigned last.
        """

@final
class LogSnapshot:
    """A log as enough of its owners have signed it, from a file. It needs no log, and does not say what came later."""

    def __init__(self, file: Union[str, os.PathLike[str]], log: str) -> None:
        """Reads a file, which must be a snapshot of the log with the identity `log`, and checks who has signed it.

        Raises RefusedError if the file does not show it.
        """

    @property
    def id(self) -> str:
        """The identity of the snapshot."""

    @property
    def state(self) -> str:
        """The hash of the state."""

    @property
    def signers(self) -> list[str]:
        """The fingerprints of the owners who have signed."""

    def get(self, object: str, field: str) -> Content:
        """The content of a field, as that of a log."""

    def fields(self, object: str) -> dict[str, Content]:
        """The fields of an object with their contents."""

    def objects(self) -> list[tuple[Union[str, None], ObjectId]]:
        """The objects that are not deleted: names and identities."""

@final
class Import:
    """The result of importing entries. True if all of them are in the log."""

    @property
    def added(self) -> int:
        """Entries that are new here."""

    @property
    def known(self) -> int:
        """Entries that were here."""

    @property
    def waiting(self) -> int:
        """Entries whose past is not here, or whose clock is ahead. They are not kept: import them again later."""

    @property
    def refused(self) -> list[tuple[str, str]]:
        """Entries that are not admissible, with the reasons: the first thousand."""

    def __bool__(self) -> bool: ...

@final
class LogCheck:
    """The result of verifying a log. True if nothing fails."""

    @property
    def entries(self) -> int:
        """The number of entries whose signature holds and that are admissible."""

    @property
    def failed(self) -> list[tuple[str, str]]:
        """Entries that fail, with the reasons: the first thousand."""

    @property
    def state(self) -> str:
        """The hash of the state that the good entries give."""

    def __bool__(self) -> bool: ...

@final
class LogEntry:
    """A change in the history of an object."""

    @property
    def id(self) -> str:
        """The identity of the entry."""

    @property
    def author(self) -> str:
        """The fingerprint of the author's certificate."""

    @property
    def operation(self) -> str:
        """The operation, one word, such as "set"."""

    @property
    def field(self) -> Union[str, None]:
        """The field, if the change is about one."""

    @property
    def value(self) -> Content:
        """The new value, if there is one; for a creation, the name of the object."""

    @property
    def time_ms(self) -> int:
        """The time that the author claims, in milliseconds since 1970."""

    @property
    def standing(self) -> str:
        """"counts", or the reason why the change does not: "revoked", "forked" or "grant-ended"."""
