// Cases that the examples do not show: errors, null pointers, double free. The arguments are
// files with a secret key and with the certificate.
#include <talaria.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#define EXPECT(holds)                                                       \
    do {                                                                    \
        if (!(holds)) {                                                     \
            printf("line %d: %s: %s\n", __LINE__, #holds, talaria_error_message()); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static talaria_bytes bytes(const std::string &text) {
    return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

static std::string read(const char *path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Whether this process has a lock on a file, as the system lists them. While others lock and unlock, a list can
// miss some.
static bool is_locked(const char *path) {
    struct stat file;
    EXPECT(!stat(path, &file));
    const std::string inode = ":" + std::to_string(file.st_ino) + " ";
    const std::string process = " " + std::to_string(getpid()) + " ";
    for (int n = 0; n < 50; n++) {
        std::ifstream locks("/proc/locks");
        for (std::string line; std::getline(locks, line);)
            if (line.find(inode) != line.npos && line.find(process) != line.npos) return true;
    }
    return false;
}

int main(int, char **argv) {
    const std::string secret = read(argv[1]), cert = read(argv[2]), pass = "pass", junk = "junk";
    const talaria_bytes none = {nullptr, 0}, text = {reinterpret_cast<const uint8_t *>("text"), 4};
    EXPECT(!strcmp(talaria_error_message(), ""));

    // Null pointers are reported as errors.
    talaria_sealer *sealer = nullptr;
    talaria_buffer buffer = {nullptr, 7, 7};
    EXPECT(talaria_sealer_new_passphrase(bytes(pass), 0, nullptr) == TALARIA_STATUS_USAGE);
    EXPECT(talaria_sealer_new(nullptr, 1, nullptr, 0, 0, 0, &sealer) == TALARIA_STATUS_USAGE);
    EXPECT(talaria_sealer_new(nullptr, 0, nullptr, 0, 0, 0, &sealer) == TALARIA_STATUS_USAGE);
    EXPECT(talaria_sealer_new_passphrase(bytes(pass), 4711, &sealer) == TALARIA_STATUS_USAGE);
    EXPECT(sealer == nullptr);
    EXPECT(talaria_seal(nullptr, text, &buffer) == TALARIA_STATUS_USAGE);
    EXPECT(strstr(talaria_error_message(), "null"));
    EXPECT(talaria_seal(nullptr, {nullptr, 4}, &buffer) == TALARIA_STATUS_USAGE);
    EXPECT(buffer.data == nullptr && buffer.len == 7);
    talaria_sealer_free(nullptr);
    talaria_opener_free(nullptr);
    talaria_key_free(nullptr);
    talaria_verifier_free(nullptr);
    talaria_store_free(nullptr);
    talaria_buffer_free(nullptr);
    talaria_verifications_free(nullptr, 0);

    // Empty data are data.
    const talaria_bytes certs[] = {bytes(cert)}, keys[] = {bytes(secret)}, wrong[] = {bytes(junk)};
    talaria_opener *opener;
    EXPECT(!talaria_sealer_new(nullptr, 0, certs, 1, TALARIA_PROFILE_RFC4880, TALARIA_POLICY_STANDARD, &sealer));
    EXPECT(!talaria_opener_new(nullptr, 0, keys, 1, nullptr, 0, &opener));
    talaria_buffer sealed, plain;
    EXPECT(!talaria_seal(sealer, none, &sealed));
    EXPECT(!talaria_open(opener, {sealed.data, sealed.len}, &plain));
    EXPECT(plain.len == 0 && plain.data != nullptr);
    talaria_buffer_free(&plain);
    EXPECT(plain.data == nullptr);
    talaria_buffer_free(&plain);

    // Kinds of errors.
    EXPECT(talaria_open(opener, bytes(junk), &plain) == TALARIA_STATUS_MALFORMED);
    EXPECT(talaria_opener_new(nullptr, 0, wrong, 1, nullptr, 0, &opener) == TALARIA_STATUS_MALFORMED);
    talaria_opener *stranger;
    const talaria_bytes passphrases[] = {bytes(pass)};
    EXPECT(!talaria_opener_new(passphrases, 1, nullptr, 0, nullptr, 0, &stranger));
    EXPECT(talaria_open(stranger, {sealed.data, sealed.len}, &plain) == TALARIA_STATUS_NO_SECRET);
    talaria_opener_free(stranger);
    talaria_key *key;
    EXPECT(talaria_key_new(bytes(cert), none, 0, &key) == TALARIA_STATUS_UNUSABLE_KEY);
    EXPECT(!talaria_key_new(bytes(secret), none, TALARIA_POLICY_STRICT, &key));

    EXPECT(talaria_key_new(bytes(secret), none, 4, &key) == TALARIA_STATUS_USAGE);
    EXPECT(strstr(talaria_error_message(), "unknown policy"));

    // Stores.
    talaria_store *store;
    EXPECT(talaria_store_open("there is no such store", 0, &store) == TALARIA_STATUS_NOT_FOUND);
    EXPECT(!is_locked(getenv("TALARIA_STORE")));
    EXPECT(!talaria_store_open(getenv("TALARIA_STORE"), 0, &store));
    // A process that closes any descriptor of the file loses all its locks on it.
    talaria_store *second;
    EXPECT(!talaria_store_open(getenv("TALARIA_STORE"), 0, &second));
    talaria_store_free(second);
    EXPECT(talaria_store_open("there is no such store", 0, &second) == TALARIA_STATUS_NOT_FOUND);
    EXPECT(is_locked(getenv("TALARIA_STORE")));
    size_t count = 0;
    talaria_buffer found;
    EXPECT(!talaria_store_lookup(store, talaria_key_certificate(key), &found, &count));
    EXPECT(count == 1);
    talaria_buffer_free(&found);
    EXPECT(!talaria_store_recipient(store, "<alice@example.org>", &found));
    talaria_buffer_free(&found);
    EXPECT(talaria_store_lookup(store, "\xff", &found, nullptr) == TALARIA_STATUS_USAGE);
    EXPECT(talaria_store_lookup(store, "nobody", &found, nullptr) == TALARIA_STATUS_NOT_FOUND);

    // A verifier outlives the handle of its store. Threads share the verifier, and each has its own error.
    talaria_verifier *verifier;
    EXPECT(!talaria_verifier_new_store(store, &verifier));
    talaria_store_free(store);
    const std::string told = talaria_error_message();
    std::vector<std::thread> threads;
    for (int at = 0; at < 4; at++)
        threads.emplace_back([=] {
            EXPECT(!strcmp(talaria_error_message(), ""));
            talaria_bytes data[] = {text, none};
            talaria_buffer signatures[2];
            EXPECT(!talaria_sign_many(key, data, 2, signatures));
            for (int n = 0; n < 2; n++) {
                talaria_verification result;
                EXPECT(!talaria_verify(
                    verifier, {signatures[n].data, signatures[n].len}, data[n], &result));
                EXPECT(result.outcome == TALARIA_OUTCOME_GOOD);
                EXPECT(strstr(result.user_id, "alice@example.org") && !result.why);
                talaria_verifications_free(&result, 1);
                talaria_verifications_free(&result, 1);
                talaria_buffer_free(&signatures[n]);
            }
            talaria_verification result;
            EXPECT(!talaria_verify(verifier, bytes(junk), text, &result));
            EXPECT(result.outcome == TALARIA_OUTCOME_UNCHECKED && result.why);
            talaria_verifications_free(&result, 1);
            EXPECT(talaria_seal(nullptr, text, nullptr) == TALARIA_STATUS_USAGE);
        });
    for (auto &thread : threads) thread.join();
    EXPECT(told == talaria_error_message());

    // Signatures within messages.
    talaria_verification results[1];
    const auto open = [&](const talaria_bytes *signers, size_t signers_count) {
        return talaria_open_verified(opener, {sealed.data, sealed.len}, verifier, signers,
                                     signers_count, &plain, results, 1, &count);
    };
    EXPECT(!open(nullptr, 0));
    EXPECT(count == 0);
    talaria_buffer_free(&plain);
    // An unsigned message has no expected signer.
    const std::string alice = talaria_key_certificate(key), nobody(40, '0'), name = "alice";
    const talaria_bytes signer = bytes(alice), other = bytes(nobody), vague = bytes(name);
    EXPECT(open(&signer, 1) == TALARIA_STATUS_NOT_ACCEPTED);
    talaria_buffer_free(&sealed);
    EXPECT(!talaria_seal_signed(sealer, key, text, &sealed));
    EXPECT(!open(&signer, 1));
    EXPECT(count == 1 && results[0].outcome == TALARIA_OUTCOME_GOOD);
    talaria_verifications_free(results, 1);
    talaria_buffer_free(&plain);
    EXPECT(open(&other, 1) == TALARIA_STATUS_NOT_ACCEPTED);
    EXPECT(open(&vague, 1) == TALARIA_STATUS_USAGE);
    // An empty array does not mean any signer.
    EXPECT(open(&signer, 0) == TALARIA_STATUS_NOT_ACCEPTED);

    talaria_buffer_free(&sealed);
    talaria_verifier_free(verifier);
    talaria_key_free(key);
    talaria_opener_free(opener);
    talaria_sealer_free(sealer);
}
