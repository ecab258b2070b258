// Signs updates and checks them. The arguments are files with a secret key and with the certificate.
#include <talaria.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

static void check(talaria_status status) {
    if (status != TALARIA_STATUS_OK) throw std::runtime_error(talaria_error_message());
}

static talaria_bytes bytes(const std::string &text) {
    return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

static std::string take(talaria_buffer buffer) {
    std::string text(reinterpret_cast<char *>(buffer.data), buffer.len);
    talaria_buffer_free(&buffer);
    return text;
}

static std::string read(const char *path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

int main(int, char **argv) try {
    // Make these objects when the program starts, and keep them. All threads may share them.
    const std::string secret = read(argv[1]), cert = read(argv[2]);
    talaria_key *made_key;
    check(talaria_key_new(bytes(secret), {nullptr, 0}, TALARIA_POLICY_STANDARD, &made_key));
    std::unique_ptr<talaria_key, decltype(&talaria_key_free)> key(made_key, talaria_key_free);
    const talaria_bytes certs[] = {bytes(cert)};
    talaria_verifier *made_verifier;
    check(talaria_verifier_new_certs(certs, 1, TALARIA_POLICY_STANDARD, &made_verifier));
    std::unique_ptr<talaria_verifier, decltype(&talaria_verifier_free)> verifier(
        made_verifier, talaria_verifier_free);

    std::vector<std::string> updates = {"update 0", "update 1", "update 2"}, signatures;
    for (const auto &update : updates) {
        talaria_buffer signature;
        check(talaria_sign(key.get(), bytes(update), &signature));
        signatures.push_back(take(signature));
    }

    // Many signatures in one call are verified on all cores; talaria_verify verifies one.
    std::vector<talaria_signed> items;
    for (size_t at = 0; at < updates.size(); at++)
        items.push_back({bytes(signatures[at]), bytes(updates[at])});
    items.push_back({bytes(signatures[0]), bytes(updates[1])});
    std::vector<talaria_verification> results(items.size());
    check(talaria_verify_many(verifier.get(), items.data(), items.size(), results.data()));
    bool right = results.back().outcome == TALARIA_OUTCOME_BAD;
    for (size_t at = 0; at < updates.size(); at++)
        right &= results[at].outcome == TALARIA_OUTCOME_GOOD &&
                 !strcmp(results[at].certificate, talaria_key_certificate(key.get()));
    talaria_verifications_free(results.data(), results.size());
    if (!right) return 1;
    std::cout << updates.size() << " updates signed and checked\n";
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
