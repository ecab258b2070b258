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
     * Success.
     */
    TALARIA_STATUS_OK = 0,
    /**
     * The arguments contradict each other, or a required pointer is null.
     */
    TALARIA_STATUS_USAGE = 1,
    /**
     * The data are malformed, or of another kind.
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
     * The message uses an unsupported algorithm or format.
     */
    TALARIA_STATUS_UNSUPPORTED = 6,
    /**
     * A part of the message exceeds a limit.
     */
    TALARIA_STATUS_TOO_LARGE = 7,
    /**
     * The store or the certificate does not exist.
     */
    TALARIA_STATUS_NOT_FOUND = 8,
    /**
     * Several certificates match the name, or none matches it exactly.
     */
    TALARIA_STATUS_AMBIGUOUS = 9,
    /**
     * The store cannot be read.
     */
    TALARIA_STATUS_STORE = 10,
    /**
     * Another error.
     */
    TALARIA_STATUS_OTHER = 11,
    /**
     * A bug in talaria. The objects of the call can only be freed.
     */
    TALARIA_STATUS_BUG = 12,
    /**
     * A signature of the message is bad, or a required signature is missing.
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
     * The key did not make the signature over this data.
     */
    TALARIA_OUTCOME_BAD = 1,
    /**
     * No certificate with the key was found.
     */
    TALARIA_OUTCOME_NO_KEY = 2,
    /**
     * The key made the signature, but it does not count; `why` has the reason.
     */
    TALARIA_OUTCOME_NOT_COUNTED = 3,
    /**
     * The signature cannot be read or verified; `why` has the reason.
     */
    TALARIA_OUTCOME_UNCHECKED = 4,
    /**
     * The user has called the certificate bad.
     */
    TALARIA_OUTCOME_DISTRUSTED = 5,
} talaria_outcome;

/**
 * The rules by which certificates count, as described in docs/trust.md.
 */
typedef enum {
    /**
     * SHA-1 counts in self-signatures of before 2023-02-01 without a better one beside them.
     */
    TALARIA_POLICY_STANDARD = 0,
    /**
     * No self-signature with SHA-1 counts.
     */
    TALARIA_POLICY_STRICT = 1,
    /**
     * The rules of GnuPG 2.2.
     */
    TALARIA_POLICY_GNUPG22 = 2,
    /**
     * The rules of GnuPG 2.4.
     */
    TALARIA_POLICY_GNUPG24 = 3,
} talaria_policy;

/**
 * The specification of messages.
 */
typedef enum {
    /**
     * The newest format that all recipients have announced; RFC 9580 if there is only a
     * passphrase.
     */
    TALARIA_PROFILE_AUTO = 0,
    /**
     * AEAD in version 2 packets.
     */
    TALARIA_PROFILE_RFC9580 = 1,
    /**
     * CFB with a digest (MDC), which all programs read.
     */
    TALARIA_PROFILE_RFC4880 = 2,
    /**
     * The AEAD packet of GnuPG.
     */
    TALARIA_PROFILE_LIBREPGP = 3,
} talaria_profile;

/**
 * A secret key for signing.
 */
typedef struct talaria_key talaria_key;

/**
 * Decrypts many messages with the same keys and passphrases. It caches the session keys of the
 * latest thousand, so only the first message of a sealer costs time. It opens one message at a
 * time: use one opener per thread.
 */
typedef struct talaria_opener talaria_opener;

/**
 * Encrypts many messages for the same recipients.
 */
typedef struct talaria_sealer talaria_sealer;

/**
 * A store of certificates, or a keyring file. Changes by other programs are visible at once; a
 * keyring file is read once, when it is opened.
 */
typedef struct talaria_store talaria_store;

/**
 * Verifies detached signatures at the time of each call.
 */
typedef struct talaria_verifier talaria_verifier;

/**
 * Bytes returned by the library. They belong to the caller, who frees them with
 * talaria_buffer_free and does not change the fields.
 */
typedef struct {
    /**
     * Pointer to the first byte; never null, also if there are none.
     */
    uint8_t *data;
    /**
     * Number of bytes.
     */
    size_t len;
    /**
     * Capacity in bytes.
     */
    size_t capacity;
} talaria_buffer;

/**
 * Bytes that belong to the caller.
 */
typedef struct {
    /**
     * Pointer to the first byte; may be null if there are none.
     */
    const uint8_t *data;
    /**
     * Number of bytes.
     */
    size_t len;
} talaria_bytes;

/**
 * The verification of a signature. Strings are UTF-8, or null if there is no text, and are freed
 * with talaria_verifications_free.
 */
typedef struct {
    /**
     * The result.
     */
    talaria_outcome outcome;
    /**
     * The claimed creation time of the signature, in seconds since 1970; 0 if it cannot be read.
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
     * The primary user ID at the time of the signature. It is a claim of the certificate, not
     * a confirmed identity.
     */
    char *user_id;
    /**
     * The reason why the signature does not count or cannot be checked.
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
 * The error of the latest failed call on this thread, in UTF-8. Never null; valid until the next
 * call on this thread fails.
 */
const char *talaria_error_message(void);

/**
 * Frees the bytes and empties the buffer. A buffer with a null pointer, and null itself, are
 * ignored.
 */
void talaria_buffer_free(talaria_buffer *buffer);

/**
 * Reads and unlocks the newest signing key of the single certificate in `key`, armored or not. A
 * passphrase with a null pointer means no passphrase; `policy` is one of talaria_policy.
 */
talaria_status talaria_key_new(talaria_bytes bytes,
                               talaria_bytes passphrase,
                               uint32_t policy,
                               talaria_key **key);

/**
 * Frees a key. Null is ignored.
 */
void talaria_key_free(talaria_key *key);

/**
 * The fingerprint of the certificate of a key, in upper-case hexadecimal; valid as long as the
 * key. Null for null.
 */
const char *talaria_key_certificate(const talaria_key *key);

/**
 * Makes a detached signature.
 */
talaria_status talaria_sign(const talaria_key *key,
                            talaria_bytes data,
                            talaria_buffer *signature);

/**
 * Makes a detached signature on each of `count` data; `signatures` has the same length. All are
 * made, or none.
 */
talaria_status talaria_sign_many(const talaria_key *key,
                                 const talaria_bytes *data,
                                 size_t count,
                                 talaria_buffer *signatures);

/**
 * Opens a store for reading. Its certificates count by `policy`, one of talaria_policy.
 */
talaria_status talaria_store_open(const char *path,
                                  uint32_t policy,
                                  talaria_store **store);

/**
 * Closes a store. Null is ignored. A verifier made from the store keeps it open.
 */
void talaria_store_free(talaria_store *store);

/**
 * Writes all certificates that match `query` to `certs`, concatenated, and their number to
 * `count`, which may be null. `query` is UTF-8, as on the command line: fingerprint, key ID,
 * =exact user ID,
 * <mail@address>, part of a user ID.
 *
 * Anybody can make a certificate with any user ID. For encryption, use a fingerprint or
 * talaria_store_recipient.
 */
talaria_status talaria_store_lookup(const talaria_store *store,
                                    const char *query,
                                    talaria_buffer *certs,
                                    size_t *count);

/**
 * Writes the single certificate with the exact name `query` and an encryption key: a fingerprint,
 * a key ID, or the whole address or text of a user ID. A part of a name selects none.
 */
talaria_status talaria_store_recipient(const talaria_store *store,
                                       const char *query,
                                       talaria_buffer *cert);

/**
 * Makes a sealer for passphrases and certificates. Each of `certs` has one certificate or more,
 * armored or not; `profile` is one of talaria_profile, and `policy`, by which the certificates
 * count, one of talaria_policy. The call derives keys from passphrases and encrypts session keys,
 * once: 0.2 ms per key, 40 ms for a passphrase, or by default three passes of Argon2 over 64 MiB.
 */
talaria_status talaria_sealer_new(const talaria_bytes *passphrases,
                                  size_t passphrases_count,
                                  const talaria_bytes *certs,
                                  size_t certs_count,
                                  uint32_t profile,
                                  uint32_t policy,
                                  talaria_sealer **sealer);

/**
 * Makes a sealer for one passphrase, which is not empty.
 */
talaria_status talaria_sealer_new_passphrase(talaria_bytes passphrase,
                                             uint32_t profile,
                                             talaria_sealer **sealer);

/**
 * Frees a sealer. Null is ignored.
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
 * Makes an opener. Each of `keys` has one secret key or more, armored or not. Protected keys are
 * unlocked with one of `key_passphrases` when a message needs them.
 */
talaria_status talaria_opener_new(const talaria_bytes *passphrases,
                                  size_t passphrases_count,
                                  const talaria_bytes *keys,
                                  size_t keys_count,
                                  const talaria_bytes *key_passphrases,
                                  size_t key_passphrases_count,
                                  talaria_opener **opener);

/**
 * Frees an opener. Null is ignored.
 */
void talaria_opener_free(talaria_opener *opener);

/**
 * Decrypts one message, armored or not, without checking its signatures. `plain` is written only
 * if no part of the message was changed.
 */
talaria_status talaria_open(const talaria_opener *opener,
                            talaria_bytes sealed,
                            talaria_buffer *plain);

/**
 * Decrypts one message and checks its signatures. `count` gets their number, and the first `room`
 * of them are written to `verifications`; 0 if the message is not signed. A message has at
 * most 128. A bad signature gives TALARIA_STATUS_NOT_ACCEPTED, and nothing is written. With `signers`
 * (fingerprints in hexadecimal), each of them must have made a good signature. Pass null and 0 to
 * accept any signer or none.
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
 * Makes a verifier from certificates. Each of `certs` has one certificate or more, armored or not.
 * They count by `policy`, one of talaria_policy.
 */
talaria_status talaria_verifier_new_certs(const talaria_bytes *certs,
                                          size_t certs_count,
                                          uint32_t policy,
                                          talaria_verifier **verifier);

/**
 * Makes a verifier with the certificates of a store, including certificates added later.
 */
talaria_status talaria_verifier_new_store(const talaria_store *store,
                                          talaria_verifier **verifier);

/**
 * Frees a verifier. Null is ignored.
 */
void talaria_verifier_free(talaria_verifier *verifier);

/**
 * Verifies a detached signature, armored or not, or several concatenated ones. Faults of
 * signatures are in `verification`, and are not errors of the call. The result has the deciding
 * signature: the first bad one, else the first good one, else the first.
 */
talaria_status talaria_verify(const talaria_verifier *verifier,
                              talaria_bytes signature,
                              talaria_bytes data,
                              talaria_verification *verification);

/**
 * Requires signers: TALARIA_STATUS_OK only if each of `signers` (fingerprints in hexadecimal) has
 * made a good signature on the data; TALARIA_STATUS_NOT_ACCEPTED otherwise.
 */
talaria_status talaria_verify_signers(const talaria_verifier *verifier,
                                      talaria_bytes signature,
                                      talaria_bytes data,
                                      const talaria_bytes *signers,
                                      size_t signers_count);

/**
 * Verifies `count` signatures on all cores, and Ed25519 signatures in batches. `verifications` has
 * the same length.
 */
talaria_status talaria_verify_many(const talaria_verifier *verifier,
                                   const talaria_signed *items,
                                   size_t count,
                                   talaria_verification *verifications);

/**
 * Frees the strings of `count` verifications; the array belongs to the caller. Null strings are
 * ignored, and all strings are null afterwards.
 */
void talaria_verifications_free(talaria_verification *verifications,
                                size_t count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TALARIA_H */
