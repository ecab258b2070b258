"""All that gpgme asks of gpg, by one program. The arguments are the program and its home directory."""

import sys

import gpg

program, home = sys.argv[1:]
context = gpg.Context(armor=True)
context.set_engine_info(gpg.constants.PROTOCOL_OpenPGP, program, home)
keys = list(context.keylist())
assert len(list(context.keylist(secret=True))) == len(keys) == 1, keys
for signs in [False, True]:
    sealed, _, _ = context.encrypt(b"attack", recipients=keys, sign=signs, always_trust=True)
    opened, _, verified = context.decrypt(sealed, verify=signs)
    assert opened == b"attack", opened
    assert not signs or verified.signatures[0].status == 0, verified
mode = gpg.constants.sig.mode
for how in [mode.NORMAL, mode.DETACH, mode.CLEAR]:
    signed, made = context.sign(b"attack\n", mode=how)
    assert made.signatures[0].type == how, made
    if how == mode.DETACH:
        _, verified = context.verify(b"attack\n", signed)
    else:
        content, verified = context.verify(signed)
        assert content == b"attack\n", content
    assert verified.signatures[0].status == 0, verified
print("all is well")
