"""Tests of the Python module. The Rust tests cover the library below it.

The environment names files: TALARIA_KEY a secret key, TALARIA_CERT its certificate, TALARIA_STORE a store
that has it.
"""

import mmap
import os
import pathlib
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
            (talaria.UsageError, lambda: talaria.Verifier()),
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
            talaria.Verifier(store=talaria.Store(STORE)),
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
