// Encrypts records with a passphrase. The argument is the passphrase.
#include <talaria.h>

#include <cstring>
#include <iostream>

static talaria_bytes bytes(const char *text) {
    return {reinterpret_cast<const uint8_t *>(text), strlen(text)};
}

int main(int, char **argv) {
    // The passphrase is stretched here, once.
    const talaria_bytes passphrase = bytes(argv[1]);
    talaria_sealer *sealer;
    talaria_opener *opener;
    if (talaria_sealer_new_passphrase(passphrase, TALARIA_PROFILE_AUTO, &sealer) ||
        talaria_opener_new(&passphrase, 1, nullptr, 0, nullptr, 0, &opener)) {
        std::cerr << talaria_error_message() << '\n';
        return 1;
    }
    for (const char *record : {"first", "second", "third"}) {
        talaria_buffer sealed, opened;
        if (talaria_seal(sealer, bytes(record), &sealed)) return 1;
        if (talaria_open(opener, {sealed.data, sealed.len}, &opened)) return 1;
        if (opened.len != strlen(record) || memcmp(opened.data, record, opened.len)) return 1;
        talaria_buffer_free(&opened);

        sealed.data[sealed.len - 1] ^= 1;
        if (talaria_open(opener, {sealed.data, sealed.len}, &opened) != TALARIA_STATUS_TAMPERED)
            return 1;
        std::cout << "refused: " << talaria_error_message() << '\n';
        talaria_buffer_free(&sealed);
    }
    talaria_opener_free(opener);
    talaria_sealer_free(sealer);
    std::cout << "3 records kept\n";
}
