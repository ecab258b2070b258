//! What the program says about itself: for people, and for programs that ask for GnuPG's version
//! and algorithms.

use std::path::Path;

use crate::algorithm::{CIPHERS, COMPRESSIONS};

/// The first lines of `--version`: programs look there for the version of GnuPG that they have to
/// do with.
const VERSION: &str = concat!(
    "gpg (GnuPG) 2.2.40\nlibgcrypt 1.10.1\n",
    "talaria-gpg ",
    env!("CARGO_PKG_VERSION"),
    ", in place of GnuPG's gpg; it is not GnuPG\n",
    "License LGPL-2.0-or-later\n",
    "This is free software: you are free to change and redistribute it.\n",
    "There is NO WARRANTY, to the extent permitted by law.\n",
);

const PUBLIC: [(u8, &str); 6] =
    [(1, "RSA"), (16, "ELG"), (17, "DSA"), (18, "ECDH"), (19, "ECDSA"), (22, "EDDSA")];
const DIGESTS: [(u8, &str); 6] =
    [(2, "SHA1"), (3, "RIPEMD160"), (8, "SHA256"), (9, "SHA384"), (10, "SHA512"), (11, "SHA224")];
const CURVES: &str = "cv25519;ed25519;nistp256;nistp384;nistp521;brainpoolP256r1;brainpoolP384r1;\
                      brainpoolP512r1;secp256k1";

/// The number of bytes after which a list goes on in the next line.
const LINE_BYTES: usize = 60;

/// The answer to `--version`.
pub(crate) fn version(home: &Path, is_verbose: bool) -> String {
    let mut out = format!("{VERSION}\nHome: {}\nSupported algorithms:\n", home.display());
    for (head, letter, all) in [
        ("Pubkey: ", "", &PUBLIC[..]),
        ("Cipher: ", "S", &CIPHERS[..]),
        ("Hash: ", "H", &DIGESTS[..]),
        ("Compression: ", "Z", &COMPRESSIONS[..]),
    ] {
        let mut line = head.to_owned();
        for (at, (number, name)) in all.iter().enumerate() {
            if at > 0 && line.len() > LINE_BYTES {
                out += &format!("{line},\n");
                line = " ".repeat(head.len());
            } else if at > 0 {
                line += ", ";
            }
            line += name;
            if is_verbose {
                line += &format!(" ({letter}{number})");
            }
        }
        out += &format!("{line}\n");
    }
    out
}

/// The answer to `--list-config --with-colons`, for these items or for all. The error is an item
/// that does not exist.
pub(crate) fn config(items: Option<&str>) -> (String, Vec<String>) {
    let numbers = |all: &[(u8, &str)]| {
        let numbers: Vec<String> = all.iter().map(|(number, _)| number.to_string()).collect();
        numbers.join(";")
    };
    let names = |all: &[(u8, &str)]| {
        let names: Vec<&str> = all.iter().map(|(_, name)| *name).collect();
        names.join(";")
    };
    let all = [
        (&["version"][..], "version", "2.2.40".to_owned()),
        (&["pubkey"], "pubkey", numbers(&PUBLIC)),
        (&["pubkeyname"], "pubkeyname", names(&PUBLIC)),
        (&["cipher"], "cipher", numbers(&CIPHERS)),
        (&["ciphername"], "ciphername", names(&CIPHERS)),
        (&["digest", "hash"], "digest", numbers(&DIGESTS)),
        (&["digestname", "hashname"], "digestname", names(&DIGESTS)),
        (&["compress"], "compress", numbers(&COMPRESSIONS)),
        (&["compressname"], "compressname", names(&COMPRESSIONS)),
        (&["curve"], "curve", CURVES.to_owned()),
    ];
    let (mut out, mut unknown) = (String::new(), Vec::new());
    match items {
        None => all.iter().for_each(|(_, name, value)| out += &format!("cfg:{name}:{value}\n")),
        Some(items) => {
            for item in items.split(' ') {
                let lower = item.to_ascii_lowercase();
                let found = all.iter().find(|(names, ..)| names.contains(&lower.as_str()));
                match found {
                    Some((_, name, value)) => out += &format!("cfg:{name}:{value}\n"),
                    None if matches!(lower.as_str(), "group" | "ccid-reader-id") => {}
                    None => unknown.push(item.to_owned()),
                }
            }
        }
    }
    (out, unknown)
}

/// The answer to `--help`, in short.
pub(crate) fn help(home: &Path) -> String {
    format!(
        "{}\n\
         Usage: gpg [options] [files]\n\
         Verifies signatures, lists and exports keys as gpg does. All other commands, and what an\n\
         option asks for that is not implemented, are handed over to the gpg of GnuPG.\n\
         \n\
         Commands:\n \
         \x20    --verify [SIGNATURE [FILE...]]   verify signatures\n \
         -d, --decrypt [FILE]                 write the content of a signed message\n \
         -k, --list-keys [NAME...]            list keys, with --with-colons\n \
         \x20    --export [NAME...]               write certificates\n \
         \x20    --list-config --with-colons      list algorithms for programs\n\
         \n\
         (--dump-options lists all options; the manual page gpg(1) of GnuPG describes them.)\n\
         \n\
         Please report bugs to <https://github.com/talaria/talaria/issues>.\n",
        version(home, false)
    )
}
