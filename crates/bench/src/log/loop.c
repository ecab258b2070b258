/* The peer of the benchmark of the log: a loop over libsodium that signs, appends and syncs, and a second one that
   verifies, stores and reads back.

       loop sign FILE COUNT each|once
       loop verify FILE COPY COUNT once

   A record is: hash of the record before, 32; sequence, 8; time in milliseconds, 8; length of the text, 4; text;
   signature of all this, 64. Each record has the hash of the one before, and so the records are a chain. Prints the
   seconds on the clock, the seconds of CPU, and the number of syncs of the loop, without the start of the process and
   the making of the key. */

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OBJECTS = 10, FIELDS = 100, VALUE = 64, HEAD = 32 + 8 + 8 + 4, TEXT = 256 };

static char state[OBJECTS][FIELDS][TEXT];
static unsigned long syncs;

static void fail(const char *what) {
    fprintf(stderr, "loop: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double seconds(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time) != 0)
        fail("clock_gettime");
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void put(unsigned char *at, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(number >> (8 * (bytes - 1 - i)));
}

static uint64_t get(const unsigned char *at, int bytes) {
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++)
        number = number << 8 | at[i];
    return number;
}

static void append(int file, const unsigned char *bytes, size_t length, int sync) {
    while (length > 0) {
        ssize_t written = write(file, bytes, length);
        if (written < 0)
            fail("write");
        bytes += written;
        length -= (size_t)written;
    }
    if (sync) {
        if (fdatasync(file) != 0)
            fail("fdatasync");
        syncs++;
    }
}

/* The value of an update: the same 64 characters that talaria gets. */
static void value_of(uint64_t number, char *out) {
    snprintf(out, VALUE + 1, "%064llu", (unsigned long long)number);
}

static void sign(const char *path, uint64_t count, int each, const unsigned char *secret) {
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0600);
    if (file < 0)
        fail(path);
    unsigned char before[32] = {0}, record[HEAD + TEXT + crypto_sign_BYTES];
    for (uint64_t number = 0; number < count; number++) {
        char value[VALUE + 1], *text = (char *)record + HEAD;
        value_of(number, value);
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        int length = snprintf(text, TEXT, "object-%llu field-%llu %s", (unsigned long long)(number % OBJECTS),
                              (unsigned long long)(number / OBJECTS % FIELDS), value);
        memcpy(record, before, 32);
        put(record + 32, number, 8);
        put(record + 40, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000, 8);
        put(record + 48, (uint64_t)length, 4);
        size_t end = HEAD + (size_t)length;
        crypto_sign_detached(record + end, NULL, record, end, secret);
        end += crypto_sign_BYTES;
        crypto_hash_sha256(before, record, end);
        append(file, record, end, each || number + 1 == count);
    }
    close(file);
}

static void verify(const char *path, const char *copy, uint64_t count, int each, const unsigned char *key) {
    int file = open(path, O_RDONLY), out = open(copy, O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0600);
    struct stat status;
    if (file < 0 || out < 0 || fstat(file, &status) != 0)
        fail(path);
    size_t length = (size_t)status.st_size;
    unsigned char *bytes = malloc(length), before[32] = {0};
    if (bytes == NULL || read(file, bytes, length) != (ssize_t)length)
        fail(path);
    size_t at = 0;
    for (uint64_t number = 0; number < count; number++) {
        if (length - at < HEAD)
            fail("a record is cut off");
        unsigned char *record = bytes + at;
        size_t text = get(record + 48, 4);
        if (text >= TEXT || length - at < HEAD + text + crypto_sign_BYTES)
            fail("a record is cut off");
        size_t end = HEAD + text;
        if (memcmp(record, before, 32) != 0 || get(record + 32, 8) != number ||
            crypto_sign_verify_detached(record + end, record, end, key) != 0)
            fail("a record is not the next one, or is not signed");
        end += crypto_sign_BYTES;
        crypto_hash_sha256(before, record, end);
        append(out, record, end, each || number + 1 == count);
        char line[TEXT], value[TEXT];
        unsigned object, field;
        memcpy(line, record + HEAD, text);
        line[text] = 0;
        if (sscanf(line, "object-%u field-%u %255s", &object, &field, value) != 3 || object >= OBJECTS || field >= FIELDS)
            fail("a text is no update");
        strcpy(state[object][field], value);
        at += end;
    }
    for (uint64_t number = 0; number < count; number++) {
        char value[VALUE + 1];
        /* The last update of a field counts. */
        uint64_t last = number;
        while (last + OBJECTS * FIELDS < count)
            last += OBJECTS * FIELDS;
        value_of(last, value);
        if (strcmp(state[number % OBJECTS][number / OBJECTS % FIELDS], value) != 0)
            fail("a value came back changed");
    }
    close(file);
    close(out);
    free(bytes);
}

int main(int argc, char **argv) {
    unsigned char key[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES];
    unsigned char seed[crypto_sign_SEEDBYTES] = "the benchmark of the log";
    if (argc < 5 || sodium_init() < 0 || crypto_sign_seed_keypair(key, secret, seed) != 0) {
        fprintf(stderr, "usage: loop sign FILE COUNT each|once | loop verify FILE COPY COUNT each|once\n");
        return 2;
    }
    int each = strcmp(argv[argc - 1], "each") == 0;
    uint64_t count = strtoull(argv[argc - 2], NULL, 10);
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (strcmp(argv[1], "sign") == 0)
        sign(argv[2], count, each, secret);
    else
        verify(argv[2], argv[3], count, each, key);
    printf("%.9f %.9f %lu\n", seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, syncs);
    return 0;
}
