"""Tests of the Python module. The Rust tests cover the library below it.

The environment names files: TALARIA_KEY a secret key, TALARIA_CERT its certificate, TALARIA_STORE a store
that has it.
"""

import mmap
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import talaria

KEY = pathlib.Path(os.environ["TALARIA_KEY"]).read_bytes()
CERT = pathlib.Path(os.environ["TALARIA_CERT"]).read_bytes()
STORE = os.environ["TALARIA_STORE"]


class Messages(unittest.TestCase):
    def test_a_message_to_two_secrets_opens_with_either(self):
        for profile in (None, "rfc9580", "rfc4880", "librepgp"):
            sealed = talaria.Sealer(passphrase="päss", certs=[CERT], profile=profile).seal(b"text")
            openers = [
                talaria.Opener(keys=[KEY]),
                talaria.Opener(passphrases=["päss"]),
                talaria.Opener(passphrases=["päss".encode()]),
            ]
            for opener in openers:
                self.assertEqual(opener.open(sealed), b"text")

    def test_every_kind_of_buffer_is_accepted(self):
        sealer = talaria.Sealer(passphrase="pass")
        opener = talaria.Opener(passphrases=["pass"])
        with tempfile.TemporaryFile() as file:
            file.write(b"some text")
            file.flush()
            with mmap.mmap(file.fileno(), 0) as mapped:
                view = memoryview(b"-some text-")[1:-1]
                for data in (b"some text", bytearray(b"some text"), view, mapped):
                    self.assertEqual(opener.open(sealer.seal(data)), b"some text")
        backwards = memoryview(b"txet emos")[::-1]
        self.assertEqual(opener.open(memoryview(sealer.seal(backwards))), b"some text")
        with self.assertRaises(TypeError):
            sealer.seal("text")

    def test_each_kind_of_error_has_its_exception(self):
        sealed = talaria.Sealer(passphrase="pass").seal(b"text")
        opener = talaria.Opener(passphrases=["pass"])
        expected = [
            (talaria.NoSecretError, lambda: talaria.Opener(passphrases=["other"]).open(sealed)),
            (talaria.TamperedError, lambda: opener.open(sealed[:-1] + bytes([sealed[-1] ^ 1]))),
            (talaria.MalformedError, lambda: opener.open(b"junk")),
            (talaria.MalformedError, lambda: talaria.Sealer(certs=[b"junk"])),
            (talaria.MalformedError, lambda: talaria.Opener(keys=[CERT])),
            (talaria.UsageError, lambda: talaria.Sealer()),
            (talaria.UsageError, lambda: talaria.Sealer(passphrase="p", profile="rfc1991")),
            (talaria.UsageError, lambda: talaria.Sealer(passphrase="p", policy="lax")),
            (talaria.UsageError, lambda: talaria.Verifier()),
            (
                talaria.UsageError,
                lambda: talaria.Verifier(store=talaria.Store(STORE), policy="strict"),
            ),
            (talaria.UnusableKeyError, lambda: talaria.Key.from_bytes(CERT)),
            (talaria.NotFoundError, lambda: talaria.Store(STORE + ".missing")),
            (talaria.NotFoundError, lambda: talaria.Store(STORE).lookup("<nobody@example.org>")),
        ]
        for kind, call in expected:
            with self.subTest(kind=kind), self.assertRaises(kind) as raised:
                call()
            self.assertIsInstance(raised.exception, talaria.Error)
            self.assertTrue(str(raised.exception))

    def test_other_threads_run_during_a_call(self):
        sealer = talaria.Sealer(passphrase="pass", profile="rfc4880")
        data = bytes(64 << 20)
        ended = threading.Event()
        turns = 0

        def seal():
            sealer.seal(data)
            ended.set()

        thread = threading.Thread(target=seal)
        thread.start()
        while not ended.is_set():
            turns += 1
            time.sleep(0.001)
        thread.join()
        self.assertGreater(turns, 5)


class Signatures(unittest.TestCase):
    def setUp(self):
        self.key = talaria.Key.from_bytes(KEY)
        self.verifiers = [
            talaria.Verifier(certs=[CERT]),
            talaria.Verifier(certs=[CERT], policy="strict"),
            talaria.Verifier(store=talaria.Store(STORE)),
            talaria.Verifier(store=talaria.Store(STORE, policy="gnupg-2.2")),
        ]

    def test_a_result_has_the_outcome_the_signer_and_the_time(self):
        before = int(time.time())
        signature = self.key.sign(b"data")
        for verifier in self.verifiers:
            good = verifier.verify(signature, b"data")
            self.assertTrue(good)
            self.assertEqual(good.outcome, "good")
            self.assertEqual(good.certificate, self.key.certificate)
            self.assertEqual(len(good.key), 40)
            self.assertIn("alice@example.org", good.user_id)
            self.assertLessEqual(before, good.created)
            self.assertIsNone(good.why)
            self.assertIsNone(good.since)
            bad = verifier.verify(signature, b"other")
            self.assertFalse(bad)
            self.assertEqual(bad.outcome, "bad")

    def test_bad_signatures_raise_no_exception(self):
        junk = self.verifiers[0].verify(b"junk", b"data")
        self.assertFalse(junk)
        self.assertEqual(junk.outcome, "unchecked")
        self.assertTrue(junk.why)
        unknown = talaria.Verifier(certs=[]).verify(self.key.sign(b"data"), b"data")
        self.assertEqual(unknown.outcome, "no_key")
        self.assertIsNone(unknown.certificate)

    def test_verify_many_equals_single_calls(self):
        data = [str(number).encode() for number in range(500)]
        items = list(zip(self.key.sign_many(data), data))
        items[3] = (items[3][0], b"other")
        results = self.verifiers[1].verify_many(items)
        self.assertEqual([bool(result) for result in results], [at != 3 for at in range(500)])

    def test_a_verifier_checks_signed_messages(self):
        sealed = talaria.Sealer(passphrase="pass").seal(b"text")
        opener = talaria.Opener(passphrases=["pass"])
        self.assertEqual(opener.open_verified(sealed, self.verifiers[0]), (b"text", []))

    def test_a_message_without_its_expected_signer_is_refused(self):
        sealer = talaria.Sealer(passphrase="pass")
        opener = talaria.Opener(passphrases=["pass"])
        alice = self.key.certificate
        signed = sealer.seal(b"text", sign_with=self.key)
        for verifier in self.verifiers:
            plain, [good] = opener.open_verified(signed, verifier, signers=[alice])
            self.assertEqual((plain, bool(good), good.certificate), (b"text", True, alice))
            for message, signers in [(sealer.seal(b"text"), [alice]), (signed, ["0" * 40])]:
                with self.assertRaises(talaria.SignatureError):
                    opener.open_verified(message, verifier, signers=signers)
            with self.assertRaises(talaria.UsageError):
                opener.open_verified(signed, verifier, signers=["alice"])
        # Nobody has the certificate: unknown is not expected.
        with self.assertRaises(talaria.SignatureError):
            opener.open_verified(signed, talaria.Verifier(certs=[]), signers=[alice])

    def test_a_good_signature_by_another_signer_is_not_the_expected_one(self):
        signature = self.key.sign(b"data")
        verifier = self.verifiers[0]
        self.assertTrue(verifier.verify(signature, b"data", signers=[self.key.certificate]))
        other = verifier.verify(signature, b"data", signers=["0" * 40])
        self.assertFalse(other)
        self.assertEqual(other.outcome, "good")
        self.assertIn("0" * 40, other.refused)
        results = verifier.verify_many([(signature, b"data")], signers=["0" * 40])
        self.assertEqual([bool(result) for result in results], [False])


class Stores(unittest.TestCase):
    def test_certificates_can_be_looked_up_and_used(self):
        store = talaria.Store(pathlib.Path(STORE))
        key = talaria.Key.from_bytes(KEY)
        self.assertEqual(store.lookup(key.certificate), store.lookup("<alice@example.org>"))
        recipient = store.recipient("<alice@example.org>")
        self.assertEqual([recipient], store.lookup("<alice@example.org>"))
        sealed = talaria.Sealer(certs=[recipient]).seal(b"text")
        self.assertEqual(talaria.Opener(keys=[KEY]).open(sealed), b"text")

    def test_a_store_stays_locked_while_others_open_and_close_it(self):
        def is_locked():
            # While other processes lock and unlock, a list can miss some.
            inode = f":{os.stat(STORE).st_ino}"
            for _ in range(50):
                with open("/proc/locks") as lines:
                    fields = [line.split() for line in lines]
                if any(str(os.getpid()) in line and line[-3].endswith(inode) for line in fields):
                    return True
            return False

        store = talaria.Store(STORE)
        store.lookup("<alice@example.org>")
        self.assertTrue(is_locked())
        # A process that closes any descriptor of the file loses all its locks on it.
        for _ in range(3):
            other = talaria.Store(STORE)
            other.lookup("<alice@example.org>")
            talaria.Verifier(store=other)
            del other
            with self.assertRaises(talaria.NotFoundError):
                talaria.Store(STORE + ".missing")
            self.assertTrue(is_locked())


def key_of_gpg(user_id, algorithm=("ed25519", "sign")):
    """A new key of gpg: the secret key, and the certificate."""
    gpg = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
    subprocess.run([*gpg, "--quick-gen-key", user_id, *algorithm], check=True, stderr=subprocess.PIPE)
    secret = subprocess.run([*gpg, "--export-secret-keys", user_id], check=True, stdout=subprocess.PIPE)
    public = subprocess.run([*gpg, "--export", user_id], check=True, stdout=subprocess.PIPE)
    return secret.stdout, public.stdout


class Logs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.alice = talaria.Key.from_bytes(KEY)
        rules = [("strict", "strict"), ("tags", "set"), ("visits", "counter"), ("steps", "list")]
        self.log = talaria.Log.create(self.path / "log", self.alice, rules=rules)

    def test_every_type_and_merge_rule_comes_back(self):
        other = talaria.ObjectId("0f" * 32)
        values = ["text", -(2**63), 1.5, True, False, b"\x00\xff", other, 0, 1]
        for value in values:
            self.log.put(self.alice, "server", "name", value)
            found = self.log.get("server", "name")
            self.assertEqual((found, type(found)), (value, type(value)))
        updates = [("server", "tags", "a"), ("server", "tags", "b"), ("server", "tags", "a")]
        updates += [("server", "visits", 2), ("server", "visits", -5)]
        updates += [("server", "steps", "one"), ("server", "steps", "two")]
        before = self.log.stats()["syncs"]
        self.assertEqual(len(self.log.put_many(self.alice, updates)), len(updates))
        self.assertEqual(self.log.stats()["syncs"], before + 1)
        fields = self.log.fields("server")
        self.assertEqual(fields, {"name": 1, "tags": ["a", "b"], "visits": -3, "steps": ["one", "two"]})
        self.log.put(self.alice, "server", "strict", b"old")
        self.log.put(self.alice, "server", "strict", memoryview(b"new"))
        self.assertEqual(self.log.get("server", "strict"), [b"new"])
        self.log.remove(self.alice, "server", "tags", "a")
        self.log.remove(self.alice, "server", "name")
        self.assertEqual(self.log.get("server", "tags"), ["b"])
        self.assertIsNone(self.log.get("server", "name"))
        self.assertEqual([name for name, _ in self.log.objects()], ["server"])
        _, identity = self.log.objects()[0]
        self.assertEqual(self.log.get(str(identity), "visits"), -3)
        self.log.remove(self.alice, "server")
        self.assertEqual(self.log.objects(), [])

    def test_a_deletable_value_is_deleted_for_good(self):
        self.log.put(self.alice, "server", "note", "secret", deletable=True)
        self.log.put(self.alice, "server", "name", "kept", deletable=True)
        self.assertEqual(self.log.get("server", "note"), "secret")
        self.assertEqual(len(self.log.delete_values(self.alice, "server", "note")), 1)
        self.assertIsNone(self.log.get("server", "note"))
        self.assertIsNone(self.log.history("server", "note")[0].value)
        self.assertEqual((self.log.compact(), self.log.compact()), (1, 0))
        segment = (self.path / "log/segments/00000000").read_bytes()
        self.assertEqual((b"secret" in segment, b"kept" in segment), (False, True))
        self.assertTrue(self.log.verify())
        with self.assertRaises(talaria.NotFoundError):
            self.log.delete_values(self.alice, "server", "color")

    def test_encrypted_fields_are_for_their_readers(self):
        secret, cert = key_of_gpg("Carol <carol@log.example>", ("default", "default"))
        with self.assertRaises(talaria.UsageError):
            self.log.encrypt(self.alice, "server", "pin*", to=[])
        epoch = self.log.encrypt(self.alice, "server", "pin*", to=[CERT, cert])
        with self.assertRaises(talaria.NoSecretError):
            self.log.put(self.alice, "server", "pin", "1234")
        self.assertIsNone(self.log.get("server", "pin"))
        self.log.unlock([KEY])
        self.log.put(self.alice, "server", "pin", "1234")
        self.assertEqual(self.log.get("server", "pin"), "1234")
        reader = talaria.LogWatcher(self.path / "log", keys=[secret])
        stranger = talaria.LogWatcher(self.path / "log")
        self.log.put(self.alice, "server", "pin", "1234")
        self.assertEqual([change.value for change in reader.changes(60)], ["1234"])
        self.assertEqual([change.value.reason for change in stranger.changes(60)], ["no-key"])
        self.log.unlock([])
        hidden = self.log.get("server", "pin")
        self.assertIsInstance(hidden, talaria.Encrypted)
        self.assertEqual((hidden.reason, hidden.readers, hidden.epoch), ("no-key", 2, epoch))
        self.assertIn("none of the 2 keys", str(hidden))
        self.assertEqual(self.log.history("server", "pin")[-1].value, hidden)
        with self.assertRaises(TypeError):
            self.log.put(self.alice, "server", "copy", hidden)
        # The key of gpg opens it, too, until its owner is no reader any more.
        self.log.unlock([secret])
        self.assertEqual(self.log.fields("server"), {"pin": "1234"})
        self.log.encrypt(self.alice, "server", "pin*", to=[CERT])
        self.log.unlock([KEY])
        self.log.put(self.alice, "server", "pin", "5678", deletable=True)
        self.log.unlock([secret])
        self.assertEqual(self.log.get("server", "pin").reason, "no-key")
        self.assertEqual(self.log.history("server", "pin")[0].value, "1234")
        self.log.stop_encrypting(self.alice, "server", "pin*")
        self.log.unlock([])
        self.log.put(self.alice, "server", "pin", "open")
        self.assertEqual(self.log.get("server", "pin"), "open")
        self.assertTrue(self.log.verify())

    def test_a_snapshot_shows_the_log_without_entries(self):
        self.log.put(self.alice, "server", "color", "red")
        with self.assertRaises(talaria.NotFoundError):
            self.log.export_snapshot(self.path / "none")
        made = self.log.snapshot(self.alice)
        state = self.log.stats()["state"]
        self.log.put(self.alice, "server", "color", "blue")
        file = self.path / "log.snapshot"
        self.assertEqual(self.log.export_snapshot(file), made)
        snapshot = talaria.LogSnapshot(file, self.log.id)
        self.assertEqual((snapshot.id, snapshot.state), (made, state))
        self.assertEqual(snapshot.get("server", "color"), "red")
        self.assertEqual(snapshot.fields("server"), {"color": "red"})
        self.assertEqual([name for name, _ in snapshot.objects()], ["server"])
        self.assertEqual(len(snapshot.signers), 1)
        with self.assertRaises(talaria.NotFoundError):
            snapshot.get("other", "color")
        with self.assertRaises(talaria.RefusedError):
            talaria.LogSnapshot(file, made)
        changed = self.path / "changed"
        changed.write_bytes(file.read_bytes().replace(b"red", b"sad"))
        with self.assertRaises(talaria.RefusedError):
            talaria.LogSnapshot(changed, self.log.id)

    def test_a_batch_is_one_signature_for_many(self):
        updates = [("server", f"field-{number}", number) for number in range(20)]
        entries = self.log.put_many(self.alice, updates, batch=True)
        self.assertEqual(len(entries), 21)
        # Genesis has its own.
        self.assertEqual(self.log.export_pgp(self.path / "files"), 2)
        with self.assertRaisesRegex(talaria.UsageError, "update 2:"):
            self.log.put_many(self.alice, [("server", "a", 1), ("server", "visits", "text")])

    def test_two_nodes_exchange_entries_and_refuse_what_is_not_granted(self):
        secret, cert = key_of_gpg("Bob <bob@log.example>")
        bob = talaria.Key.from_bytes(secret)
        self.log.put(self.alice, "server", "color", "red")
        self.log.grant(self.alice, cert, object="server", fields="note*", operations="fields")
        self.log.export_file(self.path / "one")
        with self.assertRaises(talaria.RefusedError):
            talaria.Log.receive(self.path / "bob", self.path / "one", expect="00" * 32)
        self.assertFalse((self.path / "bob").exists())
        copy, imported = talaria.Log.receive(self.path / "bob", self.path / "one", expect=self.log.id)
        self.assertTrue(imported)
        self.assertEqual((imported.added, imported.refused), (4, []))
        copy.put(bob, "server", "note-1", "new disk")
        for object, field in [("server", "color"), ("other", "note-1")]:
            with self.assertRaises(talaria.RefusedError):
                copy.put(bob, object, field, "blue")
        # A log whose memory is ahead of the disk is opened again.
        del copy
        copy = talaria.Log.open(self.path / "bob")
        copy.export_file(self.path / "two")
        imported = self.log.import_file(self.path / "two")
        self.assertEqual((imported.added, imported.known, imported.waiting), (1, 4, 0))
        self.assertEqual(self.log.stats()["state"], copy.stats()["state"])
        history = self.log.history("server")
        self.assertEqual(
            [(change.author, change.operation, change.field, change.value) for change in history],
            [
                (self.alice.certificate, "create", None, "server"),
                (self.alice.certificate, "set", "color", "red"),
                (bob.certificate, "set", "note-1", "new disk"),
            ],
        )
        self.assertEqual({change.standing for change in history}, {"counts"})
        self.assertGreater(history[0].time_ms, 1_700_000_000_000)
        self.assertEqual(self.log.history("server", "color")[0].id, history[1].id)

    def test_nodes_exchange_entries_over_tls(self):
        self.log.put(self.alice, "server", "color", "red")
        key = self.log.node_key()
        self.log.publish_node(self.alice, key, name="first")
        with self.log.serve("127.0.0.1:0") as node:
            other = "0f" * 32
            with self.assertRaises(talaria.RefusedError):
                talaria.Log.fetch(self.path / "copy", node.address, expect=self.log.id, peer_key=other)
            # The key of the copy is not published yet.
            with self.assertRaises(talaria.RefusedError):
                talaria.Log.fetch(self.path / "copy", node.address, expect=self.log.id, peer_key=key)
            self.log.export_file(self.path / "one")
            copy, _ = talaria.Log.receive(self.path / "bob", self.path / "one", expect=self.log.id)
            self.log.publish_node(self.alice, copy.node_key())
            watcher = talaria.LogWatcher(self.path / "bob")
            self.assertEqual(watcher.changes(), [])
            exchange = copy.sync(node.address, peer_key=key)
            self.assertTrue(exchange)
            self.assertEqual((exchange.added, exchange.sent, exchange.waiting), (1, 0, 0))
            self.assertEqual(copy.stats()["state"], self.log.stats()["state"])
            # What one node writes, the other one has soon.
            with copy.serve(peers=[node.address]):
                self.log.put(self.alice, "server", "color", "blue")
                [change] = watcher.changes(60)
                self.assertEqual((change.field, change.value), ("color", "blue"))
            self.log.end_node(self.alice, copy.node_key())
            self.assertEqual(self.log.end_node(self.alice, copy.node_key()), [])
            with self.assertRaises(talaria.RefusedError):
                copy.sync(node.address)
        with self.assertRaises(talaria.UsageError):
            self.log.serve()

    def test_a_revoked_author_writes_no_more(self):
        secret, cert = key_of_gpg("Erin <erin@log.example>")
        erin = talaria.Key.from_bytes(secret)
        self.log.put(self.alice, "server", "color", "red")
        self.log.grant(self.alice, cert)
        self.log.put(erin, "server", "color", "green")
        [last] = self.log.put(erin, "server", "color", "blue")
        before = self.log.history("server", "color")[-2].id
        with self.assertRaises(talaria.UsageError):
            self.log.revoke(self.alice, erin.certificate, last=[last], all=True)
        with self.assertRaises(talaria.UsageError):
            self.log.revoke(self.alice, erin.certificate, reason="whim")
        with self.assertRaises(talaria.NotFoundError):
            self.log.revoke(self.alice, erin.certificate, last=["00" * 32])
        self.log.revoke(self.alice, erin.certificate, last=[before], reason="compromised")
        self.assertEqual(self.log.get("server", "color"), "green")
        self.assertEqual(self.log.history("server", "color")[-1].standing, "revoked")
        with self.assertRaises(talaria.RefusedError):
            self.log.put(erin, "server", "color", "black")

    def test_witnesses_cosign_checkpoints(self):
        witness = talaria.Witness.create(self.path / "witness", "witness.example.org")
        key, public = self.path / "notary", self.path / "notary.pub"
        witnesses = [self.path / "witness/key.pub"]
        with self.assertRaises(talaria.UsageError):
            talaria.Log.create(self.path / "noted", self.alice, witnesses=witnesses)
        with self.assertRaises(talaria.UsageError):
            talaria.Log.create(
                self.path / "noted", self.alice, checkpointer=key, witnesses=witnesses, cosigners=2
            )
        self.assertFalse(key.exists())
        log = talaria.Log.create(
            self.path / "noted", self.alice, checkpointer=key, witnesses=witnesses, grace=3600
        )
        with self.assertRaises(talaria.UsageError):
            log.witness_request()
        log.put(self.alice, "server", "color", "red")
        log.checkpoint(self.alice, key)
        request = log.witness_request()
        with self.assertRaises(talaria.RefusedError):
            witness.cosign(request)
        self.assertIn(log.id, witness.trust(public))
        self.assertEqual(log.stats()["covered"], 0)
        answer = witness.cosign(request)
        self.assertIn("witness.example.org", witness.key)
        log.cosign(self.alice, answer)
        self.assertEqual(log.stats()["covered"], 3)
        with self.assertRaises(talaria.UsageError):
            self.log.cosign(self.alice, answer)

    def test_owners_approve_together(self):
        secret, cert = key_of_gpg("Frank <frank@log.example>")
        _, guest = key_of_gpg("Grace <grace@log.example>")
        frank = talaria.Key.from_bytes(secret)
        log = talaria.Log.create(self.path / "both", self.alice, owners=[cert], threshold=2)
        grant = log.grant(self.alice, guest)
        self.assertEqual(log.stats()["grants"], 0)
        log.approve(frank, grant)
        self.assertEqual(log.stats()["grants"], 1)
        with self.assertRaises(talaria.Error):
            log.approve(frank, "00" * 32)

    def test_an_owner_chooses_a_branch(self):
        secret, cert = key_of_gpg("Heidi <heidi@log.example>")
        heidi = talaria.Key.from_bytes(secret)
        self.log.grant(self.alice, cert)
        self.log.export_file(self.path / "one")
        copy, _ = talaria.Log.receive(self.path / "copy", self.path / "one", expect=self.log.id)
        copy.put(heidi, "server", "color", "red")
        del copy
        # The entries are set back to an earlier state, and the file of the instance is not.
        segment = self.path / "copy/segments/00000000"
        before = segment.read_bytes()
        branches = []
        for color in ["green", "blue"]:
            segment.write_bytes(before)
            (self.path / "copy/index").unlink(missing_ok=True)
            copy = talaria.Log.open(self.path / "copy")
            branches.append(copy.put(heidi, "server", "color", color)[-1])
            copy.export_file(self.path / color)
            del copy
            self.assertTrue(self.log.import_file(self.path / color))
        self.assertEqual(self.log.forks(), [sorted(branches)])
        self.assertEqual(self.log.get("server", "color"), "red")
        self.log.choose(self.alice, branches[1])
        self.assertEqual(self.log.get("server", "color"), "blue")

    def test_gpg_verifies_an_exported_entry(self):
        self.log.put(self.alice, "server", "color", "red")
        files = self.path / "files"
        self.assertEqual(self.log.export_pgp(files), 3)

        def verify(entry):
            return subprocess.run(
                ["gpg", "--batch", "--status-fd", "1", "--verify", f"{files}/00000002.entry.sig", entry],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

        subprocess.run(["gpg", "--batch", "--quiet", "--import", files / "certs.pgp"], check=True)
        good = verify(files / "00000002.entry")
        self.assertEqual(good.returncode, 0, good.stderr)
        # gpg prints the notation as it is, which is no text.
        [valid] = [line for line in good.stdout.splitlines() if b" VALIDSIG " in line]
        self.assertTrue(valid.endswith(self.alice.certificate.encode()))
        self.assertIn(b"color", (files / "00000002.entry").read_bytes())
        self.assertNotEqual(verify(files / "00000001.entry").returncode, 0)

    def test_a_changed_byte_on_disk_is_found(self):
        self.log.put(self.alice, "server", "color", "red")
        check = self.log.verify()
        self.assertTrue(check)
        self.assertEqual((check.entries, check.failed), (3, []))
        self.assertEqual(check.state, self.log.stats()["state"])
        # A crash can only tear the last group: everything before it is damage.
        self.log.put(self.alice, "server", "color", "blue")
        segment = self.path / "log/segments/00000000"
        bytes = bytearray(segment.read_bytes())
        bytes[bytes.index(b"server")] ^= 1
        segment.write_bytes(bytes)
        with self.assertRaises(talaria.StoreError):
            self.log.verify()

    def test_errors_have_a_kind(self):
        missing = self.path / "missing"
        cases = [
            (talaria.NotFoundError, lambda: talaria.Log.open(missing)),
            (talaria.StoreError, lambda: talaria.Log.open(self.path / "log")),
            (talaria.StoreError, lambda: talaria.Log.create(self.path / "log", self.alice)),
            (talaria.NotFoundError, lambda: self.log.get("server", "color")),
            (talaria.UsageError, lambda: self.log.put(self.alice, "server", "visits", "text")),
            (talaria.UsageError, lambda: self.log.put(self.alice, "server", "name", 2**63)),
            (talaria.UsageError, lambda: self.log.put(self.alice, "bad\nname", "name", 1)),
            (talaria.UsageError, lambda: talaria.ObjectId("00")),
            (talaria.UsageError, lambda: talaria.Log.create(missing, self.alice, threshold=2)),
            (talaria.UsageError, lambda: talaria.Log.create(missing, self.alice, rules=[("a", "b")])),
            (talaria.MalformedError, lambda: self.log.import_file(__file__)),
            (talaria.MalformedError, lambda: self.log.grant(self.alice, b"no certificate")),
            (talaria.Error, lambda: self.log.import_file(missing)),
            (TypeError, lambda: self.log.put(self.alice, "server", "name", None)),
        ]
        for error, call in cases:
            with self.assertRaises(error):
                call()
        self.assertFalse(missing.exists())


class Stubs(unittest.TestCase):
    def test_the_stubs_list_the_names_of_the_module(self):
        import ast

        stub = pathlib.Path(talaria.__file__).with_name("__init__.pyi")
        classes = {
            node.name: {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            for node in ast.parse(stub.read_text()).body
            if isinstance(node, ast.ClassDef)
        }
        own = {name for name, value in vars(talaria).items() if isinstance(value, type)}
        self.assertEqual(set(classes), own)
        for name, methods in classes.items():
            actual = {attribute for attribute in vars(getattr(talaria, name)) if attribute[0] != "_"}
            self.assertEqual({method for method in methods if method[0] != "_"}, actual, name)


if __name__ == "__main__":
    print(sys.version)
    unittest.main()
