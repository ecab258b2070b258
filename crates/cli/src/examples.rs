//! The examples in the help and manual page of every command. A test runs all examples with the
//! files and keys that `tests/cli/examples.rs` prepares.

/// The purpose of an example, and its command line.
pub(crate) type Example = (&'static str, &'static str);

/// The examples of the command with these words, such as `key generate`.
pub(crate) fn of(command: &str) -> &'static [Example] {
    let found = EXAMPLES.binary_search_by_key(&command, |(name, _)| name);
    found.map_or(&[], |at| EXAMPLES[at].1)
}

/// Folds the line of an example with backslashes, so that it fits into 80 columns and no other
/// program folds it.
pub(crate) fn folded(line: &str) -> String {
    const COLUMNS: usize = 72;
    let mut text = String::new();
    let mut column = 0;
    let mut quoted = false;
    for word in line.split(' ') {
        let before = quoted;
        quoted ^= word.matches('"').count() % 2 == 1;
        if before {
            text.push(' ');
            text.push_str(word);
            column += 1 + word.len();
            continue;
        }
        if column > 0 && column + 1 + word.len() > COLUMNS {
            text.push_str(" \\\n        ");
            column = 4;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text
}

/// All examples, sorted by the name of the command.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "admin",
        &[
            (
                "Delete a certificate for good",
                "talaria admin block 0123456789ABCDEF0123456789ABCDEF01234567",
            ),
            ("Back up the store of a running server", "talaria admin backup backup.db"),
        ],
    ),
    (
        "admin backup",
        &[
            ("Back up the store of a running server", "talaria admin backup backup.db"),
            ("The same for another store", "talaria --store certs.db admin backup backup.db"),
        ],
    ),
    (
        "admin block",
        &[
            (
                "Delete a certificate and refuse it from now on",
                "talaria admin block 0123456789ABCDEF0123456789ABCDEF01234567",
            ),
            ("Block a list of fingerprints", "xargs talaria admin block < fingerprints.txt"),
        ],
    ),
    (
        "admin delete",
        &[
            (
                "Delete a certificate",
                "talaria admin delete 0123456789ABCDEF0123456789ABCDEF01234567",
            ),
            ("Delete a list of fingerprints", "xargs talaria admin delete < fingerprints.txt"),
        ],
    ),
    (
        "admin list",
        &[
            ("List what a keyserver keeps out", "talaria admin list"),
            ("The same as JSON, one object per line", "talaria --json admin list"),
        ],
    ),
    (
        "admin log",
        &[
            ("List what operators of a keyserver ordered", "talaria admin log"),
            ("The same as JSON, one object per line", "talaria --json admin log"),
        ],
    ),
    (
        "admin redact",
        &[
            (
                "Remove the name and address of a person, and keep the keys",
                "talaria admin redact --all 0123456789ABCDEF0123456789ABCDEF01234567",
            ),
            (
                "Remove one user ID only",
                "talaria admin redact --user-id \"Bob <bob@example.net>\" 0123456789ABCDEF0123456789ABCDEF01234567",
            ),
        ],
    ),
    (
        "admin reindex",
        &[
            ("Rebuild all indexes while the server runs", "talaria admin reindex"),
            ("The same for another store", "talaria --store certs.db admin reindex"),
        ],
    ),
    (
        "admin restore",
        &[
            ("Make a store from a backup", "talaria --store restored.db admin restore backup.db"),
            (
                "Replace the store, which stays under another name",
                "talaria admin restore --overwrite backup.db",
            ),
        ],
    ),
    (
        "admin set-aside",
        &[
            ("List the damaged bytes that repairs set aside", "talaria admin set-aside"),
            ("Save all of them in one file", "talaria admin set-aside --output damaged.pgp"),
        ],
    ),
    (
        "admin unblock",
        &[
            (
                "Accept a blocked certificate again",
                "talaria admin unblock 0123456789ABCDEF0123456789ABCDEF01234567",
            ),
            (
                "The same for a list of fingerprints",
                "xargs talaria admin unblock < fingerprints.txt",
            ),
        ],
    ),
    (
        "admin unredact",
        &[
            (
                "Accept the user IDs of a certificate again",
                "talaria admin unredact 0123456789ABCDEF0123456789ABCDEF01234567",
            ),
            (
                "The same for a list of fingerprints",
                "xargs talaria admin unredact < fingerprints.txt",
            ),
        ],
    ),
    (
        "backup",
        &[
            (
                "Make a repository, and back up this folder",
                "talaria backup --repo /mnt/backup init && talaria backup --repo /mnt/backup create .",
            ),
            (
                "Restore the newest snapshot into a new folder",
                "talaria backup --repo /mnt/backup restore latest --target restored",
            ),
        ],
    ),
    (
        "backup attest",
        &[
            (
                "Attest the newest snapshot of each client",
                "talaria backup --repo /mnt/backup attest",
            ),
            (
                "Attest a snapshot and those before it",
                "talaria backup --repo /mnt/backup attest latest~1",
            ),
        ],
    ),
    (
        "backup check",
        &[
            (
                "Check a repository without reading the content of files",
                "talaria backup --repo /mnt/backup check",
            ),
            ("Check all content", "talaria backup --repo /mnt/backup check --read-data"),
            (
                "Confirm intact packs, so that other clients need not store the same content",
                "talaria backup --repo /mnt/backup check --promote",
            ),
        ],
    ),
    (
        "backup client",
        &[
            (
                "Let a machine back up without being able to read files",
                "talaria backup --repo /mnt/backup client add bob@example.net",
            ),
            (
                "The same, signed with another key of yours",
                "talaria backup --repo /mnt/backup client add bob@example.net -u alice@example.org",
            ),
        ],
    ),
    (
        "backup client add",
        &[
            (
                "Let a machine back up without being able to read files",
                "talaria backup --repo /mnt/backup client add bob@example.net",
            ),
            (
                "The same, signed with another key of yours",
                "talaria backup --repo /mnt/backup client add bob@example.net -u alice@example.org",
            ),
        ],
    ),
    (
        "backup client remove",
        &[
            (
                "Stop a machine from backing up",
                "talaria backup --repo /mnt/backup client add bob@example.net && talaria backup --repo /mnt/backup client remove bob@example.net",
            ),
            (
                "The same by fingerprint",
                "talaria backup --repo /mnt/backup client add bob@example.net && talaria backup --repo /mnt/backup client remove 0123456789ABCDEF0123456789ABCDEF01234567",
            ),
        ],
    ),
    (
        "backup copy",
        &[
            (
                "Make a second repository, and copy all snapshots to it",
                "talaria backup --repo /mnt/backup2 init && talaria backup --repo /mnt/backup2 copy --from /mnt/backup",
            ),
            (
                "Copy the newest snapshot, unless it is there",
                "talaria backup --repo /mnt/backup2 copy --from /mnt/backup latest",
            ),
        ],
    ),
    (
        "backup create",
        &[
            (
                "Back up this folder without object files",
                "talaria backup --repo /mnt/backup create . --exclude '*.o'",
            ),
            (
                "Back up two folders, with a label for the snapshot",
                "talaria backup --repo /mnt/backup create /etc/default /etc/apt --tag weekly",
            ),
            ("Show what would be stored", "talaria backup --repo /mnt/backup create . --dry-run"),
            (
                "Back up the output of a program",
                "tar c letter.txt | talaria backup --repo /mnt/backup create --stdin letters.tar",
            ),
        ],
    ),
    (
        "backup diff",
        &[
            (
                "Show what has changed since the snapshot before",
                "talaria backup --repo /mnt/backup diff latest~1",
            ),
            ("Show it as JSON", "talaria backup --repo /mnt/backup diff latest~1 latest --json"),
        ],
    ),
    (
        "backup drill",
        &[
            ("Test the newest snapshot", "talaria backup --repo /mnt/backup drill"),
            (
                "Read one file in ten, and write no record",
                "talaria backup --repo /mnt/backup drill latest --sample 10% --no-record",
            ),
        ],
    ),
    (
        "backup find",
        &[
            ("Find all versions of a file", "talaria backup --repo /mnt/backup find letter.txt"),
            (
                "Find all text files in the newest snapshot",
                "talaria backup --repo /mnt/backup find '*.txt' --snapshot latest",
            ),
        ],
    ),
    (
        "backup forget",
        &[
            (
                "Keep a snapshot for each of 7 days, 4 weeks and 12 months",
                "talaria backup --repo /mnt/backup forget --keep-daily 7 --keep-weekly 4 --keep-monthly 12",
            ),
            (
                "Show which snapshots a rule would forget",
                "talaria backup --repo /mnt/backup forget --keep-last 3 --dry-run",
            ),
        ],
    ),
    (
        "backup init",
        &[
            (
                "Make a repository that your own key can read",
                "talaria backup --repo /mnt/backup init",
            ),
            (
                "Make one that two people can read, with every OpenPGP program",
                "talaria backup --repo /mnt/backup init --to alice@example.org --to bob@example.net --profile rfc4880",
            ),
        ],
    ),
    (
        "backup key",
        &[
            ("Show the readers of a repository", "talaria backup --repo /mnt/backup key list"),
            (
                "Let somebody else read all snapshots",
                "talaria backup --repo /mnt/backup key add bob@example.net",
            ),
        ],
    ),
    (
        "backup key add",
        &[
            (
                "Let somebody else read all snapshots",
                "talaria backup --repo /mnt/backup key add bob@example.net",
            ),
            (
                "The same, signed with another key of yours",
                "talaria backup --repo /mnt/backup key add bob@example.net -u alice@example.org",
            ),
        ],
    ),
    (
        "backup key list",
        &[
            ("Show the readers of a repository", "talaria backup --repo /mnt/backup key list"),
            ("Show it as JSON", "talaria backup --repo /mnt/backup key list --json"),
        ],
    ),
    (
        "backup key remove",
        &[
            (
                "Stop somebody from reading new snapshots",
                "talaria backup --repo /mnt/backup key add bob@example.net && talaria backup --repo /mnt/backup key remove bob@example.net",
            ),
            (
                "The same by fingerprint",
                "talaria backup --repo /mnt/backup key add bob@example.net && talaria backup --repo /mnt/backup key remove 0123456789ABCDEF0123456789ABCDEF01234567",
            ),
        ],
    ),
    (
        "backup list",
        &[
            ("List all snapshots", "talaria backup --repo /mnt/backup list"),
            (
                "List the snapshots of one machine with a label",
                "talaria backup --repo /mnt/backup list --host alpha --tag weekly",
            ),
            (
                "Write metrics for Prometheus, and fail if a backup is too old",
                "talaria backup --repo /mnt/backup list --max-age 26h --metrics backup.prom",
            ),
        ],
    ),
    (
        "backup ls",
        &[
            ("List the files of the newest snapshot", "talaria backup --repo /mnt/backup ls"),
            (
                "List one folder of the snapshot before",
                "talaria backup --repo /mnt/backup ls latest~1 .",
            ),
        ],
    ),
    (
        "backup mount",
        &[
            ("Browse all snapshots", "talaria backup --repo /mnt/backup mount --target snapshots"),
            (
                "Browse the newest snapshot",
                "talaria backup --repo /mnt/backup mount latest --target snapshots",
            ),
        ],
    ),
    (
        "backup protect",
        &[
            ("Protect the newest snapshot", "talaria backup --repo /mnt/backup protect latest"),
            (
                "End the protection",
                "talaria backup --repo /mnt/backup protect latest && talaria backup --repo /mnt/backup protect latest --remove",
            ),
        ],
    ),
    (
        "backup prune",
        &[
            ("Delete content that no snapshot needs", "talaria backup --repo /mnt/backup prune"),
            ("Show how much would be deleted", "talaria backup --repo /mnt/backup prune --dry-run"),
        ],
    ),
    (
        "backup repair",
        &[
            (
                "Show what is damaged and what would be done",
                "talaria backup --repo /mnt/backup repair --read-data --dry-run",
            ),
            (
                "Rebuild indexes, and list damaged packs",
                "talaria backup --repo /mnt/backup repair --read-data",
            ),
            (
                "Also set damaged objects aside",
                "talaria backup --repo /mnt/backup repair --read-data --yes",
            ),
        ],
    ),
    (
        "backup restore",
        &[
            (
                "Restore the newest snapshot into a new folder",
                "talaria backup --repo /mnt/backup restore latest --target restored",
            ),
            (
                "Restore only text files",
                "talaria backup --repo /mnt/backup restore latest --target restored --include '*.txt'",
            ),
            (
                "Restore one folder under another name, and compare it with the snapshot",
                "talaria backup --repo /mnt/backup restore latest --target restored --map \"$PWD=here\" --verify",
            ),
        ],
    ),
    (
        "backup signer",
        &[
            (
                "Let a client forget snapshots",
                "talaria backup --repo /mnt/backup client add bob@example.net && talaria backup --repo /mnt/backup signer add bob@example.net --role forget",
            ),
            (
                "Let a reader forget and prune",
                "talaria backup --repo /mnt/backup key add bob@example.net && talaria backup --repo /mnt/backup signer add bob@example.net --role forget --role prune",
            ),
        ],
    ),
    (
        "backup signer add",
        &[
            (
                "Let a client forget snapshots",
                "talaria backup --repo /mnt/backup client add bob@example.net && talaria backup --repo /mnt/backup signer add bob@example.net --role forget",
            ),
            (
                "Let a reader forget and prune",
                "talaria backup --repo /mnt/backup key add bob@example.net && talaria backup --repo /mnt/backup signer add bob@example.net --role forget --role prune",
            ),
        ],
    ),
    (
        "backup signer remove",
        &[
            (
                "Remove the roles of a client",
                "talaria backup --repo /mnt/backup client add bob@example.net && talaria backup --repo /mnt/backup signer add bob@example.net --role forget && talaria backup --repo /mnt/backup signer remove bob@example.net",
            ),
            (
                "The same by fingerprint, signed by a named key",
                "talaria backup --repo /mnt/backup client add bob@example.net && talaria backup --repo /mnt/backup signer add bob@example.net --role forget && talaria backup --repo /mnt/backup signer remove 0123456789ABCDEF0123456789ABCDEF01234567 -u alice@example.org",
            ),
        ],
    ),
    (
        "backup stats",
        &[
            ("Show the sizes of a repository", "talaria backup --repo /mnt/backup stats"),
            ("Show them as JSON", "talaria backup --repo /mnt/backup stats --json"),
        ],
    ),
    (
        "bench",
        &[
            (
                "Generate 1,000 certificates to try something with",
                "talaria bench generate 1000 -o certs.pgp",
            ),
            ("List the benchmarks", "talaria bench --help"),
        ],
    ),
    (
        "build",
        &[
            ("Build a store from a keyserver dump", "talaria --store new.db build dump/"),
            (
                "Build from compressed files",
                "talaria --store new.db build dump/sks-dump-0000.pgp.gz",
            ),
            (
                "Build from standard input, with 1 GiB of memory for sorting",
                "talaria --store new.db build --memory 1024 - < keyring.gpg",
            ),
        ],
    ),
    (
        "certify",
        &[
            (
                "Certify all user IDs of a certificate after comparing its fingerprint",
                "talaria certify --yes 0123456789ABCDEF0123456789ABCDEF01234567",
            ),
            (
                "Certify one address, for your own store only",
                "talaria certify --yes --local bob@example.net",
            ),
        ],
    ),
    (
        "changes",
        &[
            ("Print the current token", "talaria changes"),
            (
                "Print what has changed since then",
                "talaria changes --since \"$(talaria changes | cut -d' ' -f2)\"",
            ),
        ],
    ),
    (
        "check",
        &[
            ("Verify the whole store", "talaria check"),
            ("Check structure and indexes only", "talaria check --quick"),
            ("Compare certificates with their checksums only", "talaria check --checksums"),
            ("Rebuild all indexes from the certificates", "talaria check --rebuild"),
            (
                "Repair damaged certificates with a keyring",
                "talaria check --repair-from keyring.gpg",
            ),
        ],
    ),
    (
        "compact",
        &[
            ("Return free space to the file system", "talaria compact"),
            ("Print the sizes as JSON", "talaria compact --json"),
        ],
    ),
    (
        "completions",
        &[
            ("Install completions for the shell you use", "talaria completions --install"),
            ("Print the script for bash", "talaria completions bash"),
        ],
    ),
    (
        "decrypt",
        &[
            ("Decrypt a message to a file", "talaria decrypt letter.txt.pgp -o letter.txt"),
            (
                "Decrypt only if Bob has signed it",
                "talaria decrypt --signer bob@example.net from-bob.pgp -o letter.txt",
            ),
            (
                "Decrypt with a passphrase from a file",
                "talaria decrypt --passphrase-file passphrase.txt symmetric.pgp",
            ),
        ],
    ),
    (
        "delete",
        &[
            ("Delete one certificate", "talaria delete bob@example.net"),
            ("Show what would be deleted", "talaria delete --all-matches --dry-run example.net"),
            (
                "Delete a certificate and never import it again",
                "talaria delete --block 0123456789ABCDEF0123456789ABCDEF01234567",
            ),
        ],
    ),
    (
        "dump",
        &[
            ("Dump all certificates for other keyservers", "talaria dump dump/"),
            (
                "Add what has changed since the last dump",
                "talaria dump new-dump/ && talaria dump new-dump/ --incremental",
            ),
        ],
    ),
    (
        "encrypt",
        &[
            (
                "Encrypt a file to a friend",
                "talaria encrypt -r bob@example.net letter.txt -o letter.txt.pgp",
            ),
            (
                "Encrypt and sign, in a form that can be pasted into a mail",
                "talaria encrypt -r bob@example.net -u alice@example.org -a letter.txt",
            ),
            (
                "Encrypt with a passphrase that GnuPG can read",
                "talaria encrypt -c --profile compatible --passphrase-file passphrase.txt letter.txt -o letter.txt.pgp",
            ),
        ],
    ),
    (
        "export",
        &[
            (
                "Export your certificate to give it to others",
                "talaria export -a alice@example.org -o alice.asc",
            ),
            (
                "Export everything, with local signatures",
                "talaria export --signatures all -o backup.pgp",
            ),
            ("Write into a GnuPG home directory", "talaria export --to-gnupg gnupg-home"),
        ],
    ),
    (
        "import",
        &[
            ("Import a file and everything that GnuPG has", "talaria import friend.asc ~/.gnupg"),
            (
                "Import from a keyserver",
                "talaria import --keyserver hkps://keys.openpgp.org bob@example.net",
            ),
            ("Import from a compressed file or a pipe", "gzip -c keyring.gpg | talaria import"),
        ],
    ),
    (
        "index",
        &[
            ("List the full-text indexes", "talaria index"),
            (
                "Remove the trigram index, and add it again",
                "talaria index drop trigrams && talaria index add trigrams",
            ),
        ],
    ),
    (
        "inspect",
        &[
            ("Show the recipients of an encrypted message", "talaria inspect letter.txt.pgp"),
            ("Show the packets of a signature as JSON", "talaria inspect --json letter.txt.sig"),
        ],
    ),
    (
        "key",
        &[
            (
                "Generate a key",
                "talaria key generate \"Carol <carol@example.org>\" --passphrase-file passphrase.txt",
            ),
            ("List your keys", "talaria key list"),
            ("Extend a key by two years", "talaria key expire alice@example.org 2y"),
        ],
    ),
    (
        "key add-subkey",
        &[
            ("Add a new encryption subkey", "talaria key add-subkey --encrypt alice@example.org"),
            (
                "Add a signing subkey that is valid for one year",
                "talaria key add-subkey --sign --expires 1y alice@example.org",
            ),
        ],
    ),
    (
        "key add-user-id",
        &[
            (
                "Add an e-mail address",
                "talaria key add-user-id alice@example.org \"Alice <alice@example.com>\"",
            ),
            (
                "Add an address and make it the primary one",
                "talaria key add-user-id --primary alice@example.org \"Alice <alice@example.com>\"",
            ),
        ],
    ),
    (
        "key check",
        &[
            ("Say what is old in your keys", "talaria key check"),
            ("The same of one key, for a program", "talaria --json key check alice@example.org"),
        ],
    ),
    (
        "key delete",
        &[
            ("Delete a secret key after a question", "talaria key delete --yes alice@example.org"),
            (
                "Make a copy first",
                "talaria key export alice@example.org -o alice-secret.pgp && talaria key delete --yes alice@example.org",
            ),
        ],
    ),
    (
        "key expire",
        &[
            ("Extend a key by two years", "talaria key expire alice@example.org 2y"),
            ("Let a key expire on a date", "talaria key expire alice@example.org 2035-12-31"),
            ("Remove the expiry date", "talaria key expire alice@example.org never"),
        ],
    ),
    (
        "key export",
        &[
            (
                "Copy a secret key for another computer",
                "talaria key export alice@example.org -o alice-secret.pgp",
            ),
            (
                "Move a secret key to GnuPG",
                "talaria key export alice@example.org | gpg --batch --import",
            ),
        ],
    ),
    (
        "key generate",
        &[
            (
                "Generate a key, and be asked for a passphrase",
                "talaria key generate \"Carol <carol@example.org>\"",
            ),
            (
                "Generate a key without a passphrase, for a service",
                "talaria key generate --no-passphrase --expires 1y \"Backup <backup@example.org>\"",
            ),
            (
                "Generate an RFC 9580 (version 6) key",
                "talaria key generate --profile rfc9580 \"Carol <carol@example.org>\" --passphrase-file passphrase.txt",
            ),
        ],
    ),
    (
        "key import",
        &[
            ("Import a secret key from a file", "talaria key import secret.asc"),
            (
                "Import a secret key from GnuPG",
                "gpg --export-secret-keys dave@example.org | talaria key import --passphrase-file passphrase.txt -",
            ),
        ],
    ),
    (
        "key list",
        &[
            ("List your keys", "talaria key list"),
            ("Print them as JSON", "talaria key list --json"),
        ],
    ),
    (
        "key passphrase",
        &[
            (
                "Change the passphrase of a key",
                "talaria key passphrase alice@example.org --new-passphrase-file passphrase.txt",
            ),
            ("Remove the passphrase", "talaria key passphrase --no-passphrase alice@example.org"),
        ],
    ),
    (
        "key renew",
        &[
            ("Renew what is old in a key", "talaria key renew alice@example.org"),
            (
                "Renew it every month, with the passphrase in a file",
                "talaria -q key renew alice@example.org --passphrase-file passphrase.txt",
            ),
        ],
    ),
    (
        "key revoke",
        &[
            (
                "Revoke a key whose secret has leaked",
                "talaria key revoke --yes --reason compromised alice@example.org",
            ),
            (
                "Write a revocation to a file without revoking",
                "talaria key revoke alice@example.org -o revocation.asc",
            ),
            (
                "Revoke one user ID only",
                "talaria key revoke --yes alice@example.org --user-id alice@old.example",
            ),
        ],
    ),
    (
        "list",
        &[
            ("List certificates by name or address", "talaria list bob@example.net"),
            ("List certificates with all of these words", "talaria list \"+bob example\""),
            ("Print gpg's machine format", "talaria list --with-colons bob@example.net"),
        ],
    ),
    (
        "log",
        &[
            (
                "Make a log, and put a value into it",
                "talaria log --log new init && talaria log --log new put server-1 color red",
            ),
            ("Take over what another node wrote", "talaria log --log fleet import from-bob.tlg"),
        ],
    ),
    (
        "log approve",
        &[
            (
                "Agree with a grant of another owner",
                "talaria log --log fleet approve 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            ),
            (
                "The same with one of several keys",
                "talaria log --log fleet approve 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef -u alice@example.org",
            ),
        ],
    ),
    (
        "log checkpoint",
        &[
            (
                "Make a checkpoint, and a request for its witnesses",
                "talaria log --log fleet checkpoint --key checkpoint.key --request new.txt",
            ),
            (
                "Write the request for a witness that has seen no checkpoint",
                "talaria log --log fleet checkpoint --old 0 --request again.txt",
            ),
        ],
    ),
    (
        "log choose",
        &[
            (
                "Let the branch with this entry count",
                "talaria log --log fleet choose 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            ),
            (
                "The same with one of several keys",
                "talaria log --log fleet choose 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef -u alice@example.org",
            ),
        ],
    ),
    (
        "log compact",
        &[
            ("Remove deleted values from this disk", "talaria log --log fleet compact"),
            ("The same as JSON", "talaria log --log fleet compact --json"),
        ],
    ),
    (
        "log cosign",
        &[
            ("Add the answer of a witness", "talaria log --log fleet cosign cosigned.txt"),
            (
                "Let a witness on this machine cosign",
                "talaria log witness cosign witness request.txt | talaria log --log fleet cosign",
            ),
        ],
    ),
    (
        "log delete",
        &[
            (
                "Delete the deletable values of a field for good",
                "talaria log --log fleet delete server-1 owner",
            ),
            (
                "Do so, and remove them from this disk, too",
                "talaria log --log fleet delete server-1 owner && talaria log --log fleet compact",
            ),
        ],
    ),
    (
        "log encrypt",
        &[
            (
                "Let only yourself and Bob read the salaries of an object",
                "talaria log --log fleet encrypt alice \"salary*\" --to alice@example.org --to bob@example.net",
            ),
            (
                "Remove Bob: he keeps what he could read, and gets no new values",
                "talaria log --log fleet encrypt alice \"salary*\" --to alice@example.org",
            ),
            (
                "Write new values for all to read",
                "talaria log --log fleet encrypt server-1 owner --stop",
            ),
        ],
    ),
    (
        "log export",
        &[
            ("Write everything for other nodes", "talaria log --log fleet export -o fleet.tlg"),
            (
                "Verify an entry with GnuPG",
                "talaria log --log fleet export --pgp proof && gpg -q --import proof/certs.pgp && gpg --verify proof/00000000.entry.sig proof/00000000.entry",
            ),
            (
                "Send everything to a node",
                "talaria log --log fleet export | talaria log --log copy import",
            ),
        ],
    ),
    (
        "log get",
        &[
            ("Print the fields of an object", "talaria log --log fleet get server-1"),
            ("Print one field", "talaria log --log fleet get server-1 color"),
        ],
    ),
    (
        "log grant",
        &[
            ("Allow Bob to change everything", "talaria log --log fleet grant bob@example.net"),
            (
                "Allow Bob to change one kind of field of one object, for a year",
                "talaria log --log fleet grant bob@example.net --object server-1 --fields \"note*\" --expires 1y",
            ),
        ],
    ),
    (
        "log history",
        &[
            ("List who changed an object", "talaria log --log fleet history server-1"),
            (
                "List the changes of a field as JSON",
                "talaria log --log fleet history server-1 color --json",
            ),
        ],
    ),
    (
        "log import",
        &[
            ("Take over what another node wrote", "talaria log --log fleet import from-bob.tlg"),
            ("Make a copy of a log", "talaria log --log copy import from-bob.tlg"),
        ],
    ),
    (
        "log init",
        &[
            ("Make a log with your key as its owner", "talaria log --log new init"),
            (
                "Make a log with a set and a counter",
                "talaria log --log new init --rule \"tags*=set\" --rule visits=counter",
            ),
            (
                "Make a log with two owners who must agree",
                "talaria log --log new init --owner bob@example.net --threshold 2",
            ),
        ],
    ),
    (
        "log list",
        &[
            ("List the objects", "talaria log --log fleet list"),
            ("List who may change what", "talaria log --log fleet list --grants"),
            ("List who can read encrypted fields", "talaria log --log fleet list --readers"),
        ],
    ),
    (
        "log node",
        &[
            ("Let a node connect", "talaria log --log fleet node publish --name node-1"),
            ("List the nodes", "talaria log --log fleet node list"),
        ],
    ),
    (
        "log node end",
        &[
            (
                "Keep a node out",
                "talaria log --log fleet node end fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",
            ),
            (
                "The same with one of several keys",
                "talaria log --log fleet node end fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210 -u alice@example.org",
            ),
        ],
    ),
    (
        "log node key",
        &[
            ("Print the key of this node", "talaria log --log fleet node key"),
            ("Make the key of a node that has no log yet", "talaria log --log new node key"),
        ],
    ),
    (
        "log node list",
        &[
            ("List the keys of nodes", "talaria log --log fleet node list"),
            ("The same as JSON", "talaria log --log fleet node list --json"),
        ],
    ),
    (
        "log node publish",
        &[
            ("Let this node connect", "talaria log --log fleet node publish --name node-1"),
            (
                "Let another node connect, by the key that it has printed",
                "talaria log --log fleet node publish 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef --name node-3",
            ),
        ],
    ),
    (
        "log put",
        &[
            ("Set a field", "talaria log --log fleet put server-1 color red"),
            (
                "Store many updates with one sync and one signature",
                "talaria log --log fleet put --from updates.jsonl --batch",
            ),
            ("Remove a field", "talaria log --log fleet put --remove server-1 color"),
        ],
    ),
    (
        "log revoke",
        &[
            (
                "End an author; everything known so far still counts",
                "talaria log --log fleet revoke bob@example.net",
            ),
            (
                "End a grant",
                "talaria log --log fleet revoke 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef --reason retired",
            ),
        ],
    ),
    (
        "log serve",
        &[
            (
                "Listen, and stay connected with a peer",
                "talaria log --log fleet serve --listen 0.0.0.0:7711 --peer node-2.example.net:7711",
            ),
            (
                "Stay connected with a peer, from a machine that nobody can reach",
                "talaria log --log fleet serve --peer node-2.example.net:7711",
            ),
            (
                "Exchange entries with many nodes through a NATS server",
                "talaria log --log fleet serve --nats nats://nats.example.net:4222",
            ),
        ],
    ),
    (
        "log snapshot",
        &[
            (
                "Sign what the log is, and write a file that shows it",
                "talaria log --log fleet snapshot make && talaria log --log fleet snapshot export -o new.snapshot",
            ),
            (
                "Read a field without the log",
                "talaria log snapshot read fleet.snapshot --expect $(cat fleet.id) server-1 color",
            ),
        ],
    ),
    (
        "log snapshot check",
        &[
            (
                "Check a file with the identity that an owner told you",
                "talaria log snapshot check fleet.snapshot --expect $(cat fleet.id)",
            ),
            (
                "Print who has signed what, as JSON",
                "talaria log snapshot check fleet.snapshot --expect $(cat fleet.id) --json",
            ),
        ],
    ),
    (
        "log snapshot export",
        &[
            (
                "Write the last snapshot that is in force",
                "talaria log --log fleet snapshot export -o new.snapshot",
            ),
            (
                "Check it on another machine",
                "talaria log --log fleet snapshot export | talaria log snapshot check /dev/stdin --expect $(cat fleet.id)",
            ),
        ],
    ),
    (
        "log snapshot make",
        &[
            ("Sign what the log is now", "talaria log --log fleet snapshot make"),
            (
                "Sign with one of several keys, and list all snapshots",
                "talaria log --log fleet snapshot make -u alice@example.org && talaria log --log fleet list --snapshots",
            ),
        ],
    ),
    (
        "log snapshot read",
        &[
            (
                "List the objects",
                "talaria log snapshot read fleet.snapshot --expect $(cat fleet.id)",
            ),
            (
                "Print one field",
                "talaria log snapshot read fleet.snapshot --expect $(cat fleet.id) server-1 color",
            ),
        ],
    ),
    (
        "log stats",
        &[
            ("Print figures of a log", "talaria log --log fleet stats"),
            (
                "Print the state as JSON, to compare two nodes",
                "talaria log --log fleet stats --json",
            ),
        ],
    ),
    (
        "log sync",
        &[
            (
                "Exchange entries with a node",
                "talaria log --log fleet sync node-2.example.net:7711",
            ),
            (
                "Make a copy of a log",
                "talaria log --log copy sync node-2.example.net:7711 --expect 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef --peer-key fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",
            ),
        ],
    ),
    (
        "log verify",
        &[
            ("Check every signature again", "talaria log --log fleet verify"),
            ("The same as JSON", "talaria log --log fleet verify --json"),
        ],
    ),
    (
        "log watch",
        &[
            ("Print all changes as they come", "talaria log --log fleet watch"),
            (
                "Print those of one field, with the ones that are there",
                "talaria log --log fleet watch server-1 color --all",
            ),
        ],
    ),
    (
        "log witness",
        &[
            ("Make a witness", "talaria log witness init notary notary.example.net"),
            ("Cosign a checkpoint", "talaria log witness cosign witness request.txt -o answer.txt"),
        ],
    ),
    (
        "log witness cosign",
        &[
            ("Cosign a checkpoint", "talaria log witness cosign witness request.txt -o answer.txt"),
            ("Print the cosignature", "talaria log witness cosign witness < request.txt"),
        ],
    ),
    (
        "log witness init",
        &[
            ("Make a witness", "talaria log witness init notary notary.example.net"),
            (
                "Make a log whose checkpoints it cosigns",
                "talaria log witness init notary notary.example.net && talaria log --log new init --checkpointer new.key --witness notary/key.pub",
            ),
        ],
    ),
    (
        "log witness trust",
        &[
            ("Let a witness cosign a log", "talaria log witness trust witness checkpoint.key.pub"),
            (
                "Do so for a new witness",
                "talaria log witness init notary notary.example.net && talaria log witness trust notary checkpoint.key.pub",
            ),
        ],
    ),
    (
        "man",
        &[
            ("Read a manual page", "talaria man key generate | man -l -"),
            ("Write all manual pages into a folder", "talaria man --dir man1"),
        ],
    ),
    (
        "pack",
        &[
            ("Write a file as an OpenPGP message", "talaria pack letter.txt -o letter.pgp"),
            ("The same, compressed", "talaria pack --compress zlib -o letter.pgp letter.txt"),
        ],
    ),
    (
        "peer",
        &[
            ("Add a gossip peer", "talaria peer add sks.example.net"),
            ("List the peers", "talaria peer list"),
        ],
    ),
    (
        "peer add",
        &[
            ("Add an SKS keyserver", "talaria peer add sks.example.net"),
            (
                "Add a Hockeypuck keyserver on another port",
                "talaria peer add --view hockeypuck-2.3 keys.example.net:11370",
            ),
        ],
    ),
    (
        "peer again",
        &[
            (
                "Ask a peer again for certificates that it failed to deliver",
                "talaria peer again sks.example.org",
            ),
            ("The same for a peer on another port", "talaria peer again keys.example.org:11372"),
        ],
    ),
    (
        "peer list",
        &[
            ("List the peers in the store", "talaria peer list"),
            ("List the certificates that they failed to deliver", "talaria peer list --given-up"),
            ("Print the peers as JSON", "talaria peer list --json"),
        ],
    ),
    (
        "peer probe",
        &[
            ("Ask a peer for its data set and version", "talaria peer probe 127.0.0.1:11370"),
            ("The same as JSON", "talaria peer probe --json 127.0.0.1:11370"),
        ],
    ),
    (
        "peer remove",
        &[
            ("Remove a peer", "talaria peer remove sks.example.org"),
            ("Remove a peer on another port", "talaria peer remove keys.example.org:11372"),
        ],
    ),
    (
        "peer sync",
        &[
            ("Fetch the certificates of a peer now", "talaria peer sync 127.0.0.1:11370"),
            (
                "Retry the certificates that the peer failed to deliver",
                "talaria peer sync --again 127.0.0.1:11370",
            ),
        ],
    ),
    (
        "serve",
        &[
            ("Serve the store on this computer", "talaria serve"),
            ("Serve it to the network", "talaria serve --listen 0.0.0.0:11371"),
            ("Show the configuration", "talaria serve --show-config"),
        ],
    ),
    (
        "show",
        &[
            ("Show keys, user IDs and signatures of a certificate", "talaria show bob@example.net"),
            ("The same as JSON", "talaria show --json bob@example.net"),
        ],
    ),
    (
        "sign",
        &[
            (
                "Sign a file; the signature is a file of its own",
                "talaria sign letter.txt -o letter.txt.sig",
            ),
            (
                "Sign with a certain key, in ASCII",
                "talaria sign -u alice@example.org -a letter.txt -o letter.txt.asc",
            ),
            ("Sign a text that stays readable", "talaria sign --cleartext letter.txt"),
        ],
    ),
    (
        "stats",
        &[
            ("Print statistics of the store", "talaria stats"),
            ("Draw them", "talaria stats --svg stats.svg"),
            ("Write a page with drawings and all numbers", "talaria stats --html stats.html"),
        ],
    ),
    (
        "tofu",
        &[
            ("List conflicts", "talaria tofu conflicts"),
            ("Accept a certificate for its addresses", "talaria tofu policy bob@example.net good"),
        ],
    ),
    (
        "tofu conflicts",
        &[
            ("List addresses with several certificates", "talaria tofu conflicts"),
            ("Print them as JSON", "talaria tofu conflicts --json"),
        ],
    ),
    (
        "tofu export",
        &[
            ("Export TOFU data for GnuPG", "talaria tofu export tofu.db"),
            (
                "Replace a file",
                "talaria tofu export tofu.db && talaria tofu export --overwrite tofu.db",
            ),
        ],
    ),
    (
        "tofu import",
        &[
            ("Import what GnuPG has seen", "talaria tofu import ~/.gnupg/tofu.db"),
            ("Import into another store", "talaria --store other.db tofu import ~/.gnupg/tofu.db"),
        ],
    ),
    (
        "tofu info",
        &[
            ("Show what was seen of an address", "talaria tofu info bob@example.net"),
            ("Print it as JSON", "talaria tofu info --json bob@example.net"),
        ],
    ),
    (
        "tofu policy",
        &[
            (
                "Accept a certificate for all of its addresses",
                "talaria tofu policy bob@example.net good",
            ),
            (
                "Reject it for one address",
                "talaria tofu policy 0123456789ABCDEF0123456789ABCDEF01234567 bad --email bob@example.net",
            ),
        ],
    ),
    (
        "trust",
        &[
            ("Trust a friend to certify others", "talaria trust set bob@example.net full"),
            ("Show why a certificate is valid", "talaria trust path alice@example.org"),
        ],
    ),
    (
        "trust check",
        &[
            ("Recompute the web of trust and compare", "talaria trust check"),
            ("Print the result as JSON", "talaria trust check --json"),
        ],
    ),
    (
        "trust export-ownertrust",
        &[
            (
                "Write owner trust for gpg --import-ownertrust",
                "talaria trust export-ownertrust > ownertrust.txt",
            ),
            (
                "Give it to GnuPG",
                "talaria trust export-ownertrust | gpg --batch --import-ownertrust",
            ),
        ],
    ),
    (
        "trust import-ownertrust",
        &[
            (
                "Import owner trust from GnuPG",
                "gpg --export-ownertrust | talaria trust import-ownertrust",
            ),
            ("Import it from a file", "talaria trust import-ownertrust otrust.txt"),
        ],
    ),
    (
        "trust path",
        &[
            (
                "Show the certifications that make a certificate valid",
                "talaria trust path alice@example.org",
            ),
            ("Print them as JSON", "talaria trust path --json alice@example.org"),
        ],
    ),
    (
        "trust rules",
        &[
            ("Show the rules", "talaria trust rules"),
            (
                "Ask for two marginal certifications instead of three",
                "talaria trust rules --marginals 2",
            ),
        ],
    ),
    (
        "trust set",
        &[
            ("Trust a friend to certify others", "talaria trust set bob@example.net full"),
            ("Mark a certificate as your own", "talaria trust set alice@example.org ultimate"),
        ],
    ),
    (
        "trust show",
        &[
            (
                "Show owner trust and validity of a certificate",
                "talaria trust show bob@example.net",
            ),
            ("Print it as JSON", "talaria trust show --json bob@example.net"),
        ],
    ),
    (
        "tune",
        &[
            ("Measure which page size suits this machine", "talaria tune"),
            ("Print the measurements as JSON", "talaria tune --json"),
        ],
    ),
    (
        "unpack",
        &[
            (
                "Write the content of a message that is not encrypted",
                "talaria unpack packed.pgp -o letter.txt",
            ),
            ("The same through a pipe", "talaria unpack < packed.pgp > letter.txt"),
        ],
    ),
    (
        "verify",
        &[
            ("Verify a download with its signature", "talaria verify letter.txt.sig letter.txt"),
            (
                "Accept only a signature from Bob",
                "talaria verify --signer bob@example.net from-bob.sig letter.txt",
            ),
            (
                "Verify with a keyring file, without importing it",
                "talaria verify --signer-file keyring.gpg letter.txt.sig letter.txt",
            ),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(EXAMPLES.windows(2).all(|two| two[0].0 < two[1].0));
    }
}
