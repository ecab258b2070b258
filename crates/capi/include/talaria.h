/*
 * libtalaria: OpenPGP messages without a gpg process: encrypt, decrypt, sign, verify.
 *
 * Keys, certificates, messages and signatures are bytes. What comes in may be armored, what is made is not.
 *
 * A function that returns a talaria_status has written its outputs if that is TALARIA_STATUS_OK, and has not
 * touched them if it is anything else; then talaria_error_message says why, to people.
 *
 * A handle is made by a function whose name has `new` or `open` in it and is freed with its own `free`, once,
 * when nobody uses it any more. Until then any number of threads may use it at the same time. Everything that
 * is given to a function stays the caller's, may be freed when the function returns, and must not be changed
 * before that.
 */

#ifndef TALARIA_H
#define TALARIA_H

/* Made by cbindgen from crates/capi/src; changes belong there. */

#include <stddef.h>
#include <stdint.h>

/**
 * The result of a call.
 */
typedef enum {
    /**
     * It was done.
     */
    TALARIA_STATUS_OK = 0,
    /**
     * The arguments contradict each other, or a required pointer is null.
     */
    TALARIA_STATUS_USAGE = 1,
    /**
     * The bytes are not what they should be.
     */
    TALARIA_STATUS_MALFORMED = 2,
    /**
     * The integrity check of the message fails or is missing.
     */
    TALARIA_STATUS_TAMPERED = 3,
    /**
     * None of the keys and passphrases opens the message.
     */
    TALARIA_STATUS_NO_SECRET = 4,
    /**
     * A certificate cannot be encrypted to, or a key cannot sign or is locked.
     */
    TALARIA_STATUS_UNUSABLE_KEY = 5,
    /**
     * Something in the message cannot be computed here.
     */
    TALARIA_STATUS_UNSUPPORTED = 6,
    /**
     * A part of the message is larger than what is read of it.
     */
    TALARIA_STATUS_TOO_LARGE = 7,
    /**
     * There is no such store, or no such certificate in it.
     */
    TALARIA_STATUS_NOT_FOUND = 8,
    /**
     * More than one certificate is called that, or none exactly.
     */
    TALARIA_STATUS_AMBIGUOUS = 9,
    /**
     * The store cannot be read.
     */
    TALARIA_STATUS_STORE = 10,
    /**
     * Anything else.
     */
    TALARIA_STATUS_OTHER = 11,
    /**
     * A bug in talaria. What the call worked on can be freed, and nothing else.
     */
    TALARIA_STATUS_BUG = 12,
    /**
     * A signature of the message is bad, or one that it must have is missing.
     */
    TALARIA_STATUS_NOT_ACCEPTED = 13,
} talaria_status;

/**
 * The result of checking a signature.
 */
typedef enum {
    /**
     * The key made the signature over this data, and it counts.
     */
    TALARIA_OUTCOME_GOOD = 0,
    /**
     * The key did not make it over this data.
     */
    TALARIA_OUTCOME_BAD = 1,
    /**
     * There is no certificate with the key.
     */
    TALARIA_OUTCOME_NO_KEY = 2,
    /**
     * The key made it, but it does not count, and `why` says for which reason.
     */
    TALARIA_OUTCOME_NOT_COUNTED = 3,
    /**
     * It cannot be read or computed, and `why` says for which reason.
     */
    TALARIA_OUTCOME_UNCHECKED = 4,
} talaria_outcome;

/**
 * Which specification messages follow.
 */
typedef enum {
    /**
     * The newest that all recipients have announced; RFC 9580 for a passphrase alone.
     */
    TALARIA_PROFILE_AUTO = 0,
    /**
     * AEAD in version 2 packets.
     */
    TALARIA_PROFILE_RFC9580 = 1,
    /**
     * CFB with a digest, which everybody reads.
     */
    TALARIA_PROFILE_RFC4880 = 2,
    /**
     * The AEAD packet of GnuPG.
     */
    TALARIA_PROFILE_LIBREPGP = 3,
} talaria_profile;

/**
 * A secret key that signs.
 */
typedef struct talaria_key talaria_key;

/**
 * Decrypts many messages with the same keys and passphrases. It remembers what it has computed for the
 * latest thousand, so messages of one sealer cost the first of them only. It opens one at a time: threads
 * that are to open at once have one each.
 */
typedef struct talaria_opener talaria_opener;

/**
 * Encrypts many messages for the same recipients.
 */
typedef struct talaria_sealer talaria_sealer;

/**
 * A store of certificates, or a keyring file. It sees at once what other programs write to it; a keyring file
 * is read when it is opened.
 */
typedef struct talaria_store talaria_store;

/**
 * Checks detached signatures, as of the time of each call.
 */
typedef struct talaria_verifier talaria_verifier;

/**
 * Bytes that the library has made. They belong to the caller, who frees them with talaria_buffer_free and
 * changes none of the fields.
 */
typedef struct {
    /**
     * The first of them; never null, also if there are none.
     */
    uint8_t *data;
    /**
     * How many there are.
     */
    size_t len;
    /**
     * How many there is room for.
     */
    size_t capacity;
} talaria_buffer;

/**
 * Bytes of the caller's, which stay his.
 */
typedef struct {
    /**
     * The first of them; may be null if there are none.
     */
    const uint8_t *data;
    /**
     * How many there are.
     */
    size_t len;
} talaria_bytes;

/**
 * A signature, checked. Strings are UTF-8, or null if there is nothing to say, and are freed with
 * talaria_verifications_free.
 */
typedef struct {
    /**
     * The result.
     */
    talaria_outcome outcome;
    /**
     * When the signature says that it was made, in seconds since 1970; 0 if it cannot be read.
     */
    uint32_t created;
    /**
     * The fingerprint of the certificate, in upper-case hexadecimal.
     */
    char *certificate;
    /**
     * The fingerprint of the key of the certificate that made the signature.
     */
    char *key;
    /**
     * The primary user ID at the time of the signature. It is what the certificate says, not what anybody
     * has checked.
     */
    char *user_id;
    /**
     * Why it does not count or cannot be checked.
     */
    char *why;
    /**
     * The state of the key since then: expired or revoked.
     */
    char *since;
} talaria_verification;

/**
 * A detached signature, armored or not, and its data.
 */
typedef struct {
    /**
     * The signature.
     */
    talaria_bytes signature;
    /**
     * The signed object.
     */
    talaria_bytes data;
} talaria_signed;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Why the latest call on this thread that failed did so, in UTF-8. Never null; good until the next call on
 * this thread fails.
 */
const char *talaria_error_message(void);

/**
 * Frees the bytes and makes the buffer empty; one that is empty with a null pointer, or null itself, is left
 * alone.
 */
void talaria_buffer_free(talaria_buffer *buffer);

/**
 * Makes ready the newest key that may sign of the one certificate in `key`, armored or not. A passphrase
 * whose pointer is null is none.
 */
talaria_status talaria_key_new(talaria_bytes bytes,
                               talaria_bytes passphrase,
                               talaria_key **key);

/**
 * Frees a key. Null is left alone.
 */
void talaria_key_free(talaria_key *key);

/**
 * The fingerprint of the certificate of a key, in upper-case hexadecimal; good as long as the key. Null for
 * null.
 */
const char *talaria_key_certificate(const talaria_key *key);

/**
 * Makes a detached signature.
 */
talaria_status talaria_sign(const talaria_key *key,
                            talaria_bytes data,
                            talaria_buffer *signature);

/**
 * Makes a detached signature on each of `count` data; `signatures` has room for as many. All are made, or
 * none.
 */
talaria_status talaria_sign_many(const talaria_key *key,
                                 const talaria_bytes *data,
                                 size_t count,
                                 talaria_buffer *signatures);

/**
 * Opens a store, to read.
 */
talaria_status talaria_store_open(const char *path,
                                  talaria_store **store);

/**
 * Closes a store. Null is left alone. A verifier that was made of it has it still.
 */
void talaria_store_free(talaria_store *store);

/**
 * Writes all certificates that match `query` to `certs`, one behind the other, and how many to `count`, which
 * may be null. `query` is UTF-8, as on the command line: fingerprint, key ID, =exact user ID,
 * <mail@address>, part of a user ID.
 *
 * Anybody can make a certificate with any user ID. To encrypt, ask for a fingerprint, or use
 * talaria_store_recipient.
 */
talaria_status talaria_store_lookup(const talaria_store *store,
                                    const char *query,
                                    talaria_buffer *certs,
                                    size_t *count);

/**
 * Writes the only certificate that `query` names exactly and that can be encrypted to: by its fingerprint, a key
 * ID, or the whole address or text of a user ID. A part of a name chooses none.
 */
talaria_status talaria_store_recipient(const talaria_store *store,
                                       const char *query,
                                       talaria_buffer *cert);

/**
 * Makes a sealer for passphrases and certificates. Each of `certs` has one certificate or more, armored or
 * not; `profile` is one of talaria_profile. Passphrases are stretched and keys are wrapped here, once: 0.2 ms
 * for each key; 40 ms for a passphrase, or by default three passes of Argon2 over 64 MiB.
 */
talaria_status talaria_sealer_new(const talaria_bytes *passphrases,
                                  size_t passphrases_count,
                                  const talaria_bytes *certs,
                                  size_t certs_count,
                                  uint32_t profile,
                                  talaria_sealer **sealer);

/**
 * Makes a sealer for one passphrase.
 */
talaria_status talaria_sealer_new_passphrase(talaria_bytes passphrase,
                                             uint32_t profile,
                                             talaria_sealer **sealer);

/**
 * Frees a sealer. Null is left alone.
 */
void talaria_sealer_free(talaria_sealer *sealer);

/**
 * Encrypts one message.
 */
talaria_status talaria_seal(const talaria_sealer *sealer,
                            talaria_bytes plain,
                            talaria_buffer *sealed);

/**
 * Encrypts one message, signed with a key.
 */
talaria_status talaria_seal_signed(const talaria_sealer *sealer,
                                   const talaria_key *key,
                                   talaria_bytes plain,
                                   talaria_buffer *sealed);

/**
 * Makes an opener. Each of `keys` has one secret key or more, armored or not; those that are locked are
 * unlocked with one of `key_passphrases` when a message is for them.
 */
talaria_status talaria_opener_new(const talaria_bytes *passphrases,
                                  size_t passphrases_count,
                                  const talaria_bytes *keys,
                                  size_t keys_count,
                                  const talaria_bytes *key_passphrases,
                                  size_t key_passphrases_count,
                                  talaria_opener **opener);

/**
 * Frees an opener. Null is left alone.
 */
void talaria_opener_free(talaria_opener *opener);

/**
 * Decrypts one message, armored or not. Its signatures are not looked at. `plain` is made only if no part of
 * the message was changed.
 */
talaria_status talaria_open(const talaria_opener *opener,
                            talaria_bytes sealed,
                            talaria_buffer *plain);

/**
 * Decrypts one message and checks its signatures. `count` is how many it has, of which the first `room` are
 * written to `verifications`; 0 if it is not signed. A message has at most 128. A bad signature is
 * TALARIA_STATUS_NOT_ACCEPTED, and nothing is written. With `signers`, which are fingerprints in hexadecimal,
 * it is so unless each of them has made a good signature; null and 0 if anybody may have signed, or nobody.
 */
talaria_status talaria_open_verified(const talaria_opener *opener,
                                     talaria_bytes sealed,
                                     const talaria_verifier *verifier,
                                     const talaria_bytes *signers,
                                     size_t signers_count,
                                     talaria_buffer *plain,
                                     talaria_verification *verifications,
                                     size_t room,
                                     size_t *count);

/**
 * Makes a verifier of certificates. Each of `certs` has one or more, armored or not.
 */
talaria_status talaria_verifier_new_certs(const talaria_bytes *certs,
                                          size_t certs_count,
                                          talaria_verifier **verifier);

/**
 * Makes a verifier with the certificates of a store, whatever is added to it later.
 */
talaria_status talaria_verifier_new_store(const talaria_store *store,
                                          talaria_verifier **verifier);

/**
 * Frees a verifier. Null is left alone.
 */
void talaria_verifier_free(talaria_verifier *verifier);

/**
 * Checks a detached signature, armored or not, or several one after the other. Whatever is wrong with it is in
 * `verification`, and is no error. Of several signatures the one that decides is shown: the first that is bad,
 * else the first that is good, else the first.
 */
talaria_status talaria_verify(const talaria_verifier *verifier,
                              talaria_bytes signature,
                              talaria_bytes data,
                              talaria_verification *verification);

/**
 * Insists on signers: TALARIA_STATUS_OK only if each of `signers`, which are fingerprints in hexadecimal, has
 * made a good signature on the data; TALARIA_STATUS_NOT_ACCEPTED otherwise.
 */
talaria_status talaria_verify_signers(const talaria_verifier *verifier,
                                      talaria_bytes signature,
                                      talaria_bytes data,
                                      const talaria_bytes *signers,
                                      size_t signers_count);

/**
 * Checks `count` signatures, on all cores; Ed25519 signatures in batches. `verifications` has room for as
 * many.
 */
talaria_status talaria_verify_many(const talaria_verifier *verifier,
                                   const talaria_signed *items,
                                   size_t count,
                                   talaria_verification *verifications);

/**
 * Frees the strings of `count` verifications; the array is the caller's. Strings that are null are left
 * alone, and all are null afterwards.
 */
void talaria_verifications_free(talaria_verification *verifications,
                                size_t count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TALARIA_H */
