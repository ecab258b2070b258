//! Usage errors: the texts of clap, with tips for users of gpg.

use clap::ValueEnum as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::terminal::ColorWhen;

/// Options of gpg that talaria does not have, and the replacement for each.
const FROM_GPG: [(&[&str], &str); 32] = [
    (&["-e", "--encrypt"], "talaria encrypt -r CERT FILE"),
    (&["-c", "--symmetric"], "talaria encrypt -c FILE"),
    (&["-d", "--decrypt"], "talaria decrypt FILE"),
    (&["-s", "--sign"], "talaria sign --inline FILE"),
    (&["-b", "--detach-sign", "--detach-sig"], "talaria sign FILE"),
    (&["--clear-sign", "--clearsign"], "talaria sign --cleartext FILE"),
    (&["--verify"], "talaria verify SIGNATURE FILE"),
    (&["-k", "--list-keys", "--list-public-keys", "--fingerprint"], "talaria list"),
    (
        &["--list-sigs", "--list-signatures", "--check-sigs", "--check-signatures"],
        "talaria list --with-sigs",
    ),
    (&["-K", "--list-secret-keys"], "talaria key list"),
    (&["--import", "--fast-import"], "talaria import FILE"),
    (&["--export"], "talaria export CERT"),
    (&["--export-secret-keys", "--export-secret-subkeys"], "talaria key export KEY"),
    (
        &[
            "--gen-key",
            "--generate-key",
            "--full-gen-key",
            "--full-generate-key",
            "--quick-gen-key",
            "--quick-generate-key",
        ],
        "talaria key generate \"NAME <ADDRESS>\"",
    ),
    (&["--edit-key"], "talaria key --help (passphrase, expire, add-user-id, add-subkey, revoke)"),
    (&["--sign-key", "--quick-sign-key"], "talaria certify CERT"),
    (&["--lsign-key", "--quick-lsign-key"], "talaria certify --local CERT"),
    (&["--delete-keys", "--delete-key"], "talaria delete CERT"),
    (&["--delete-secret-keys", "--delete-secret-key"], "talaria key delete KEY"),
    (&["--gen-revoke", "--generate-revocation"], "talaria key revoke KEY --output FILE"),
    (
        &["--recv-keys", "--receive-keys", "--search-keys", "--refresh-keys", "--locate-keys"],
        "talaria import --keyserver hkps://keys.openpgp.org CERT",
    ),
    (
        &["--keyring", "--primary-keyring", "--homedir"],
        "talaria --store FILE (a keyring file can be used as it is)",
    ),
    (
        &["--no-default-keyring", "--batch", "--no-tty"],
        "nothing: talaria never asks without a terminal",
    ),
    (&["--list-packets"], "talaria inspect FILE"),
    (
        &["--passphrase"],
        "--passphrase-file, --passphrase-fd or --passphrase-env (other users can read command lines)",
    ),
    (&["--always-trust"], "--trust-model always"),
    (
        &["--send-keys"],
        "talaria export --armor CERT --output FILE, and upload FILE on the page of the keyserver",
    ),
    (&["--check-trustdb", "--update-trustdb"], "talaria trust check"),
    (&["--export-ownertrust"], "talaria trust export-ownertrust"),
    (&["--import-ownertrust"], "talaria trust import-ownertrust FILE"),
    (&["--quick-set-expire"], "talaria key expire KEY WHEN"),
    (&["--change-passphrase", "--passwd"], "talaria key passphrase KEY"),
];

/// Words that users type as commands, and the replacement for each.
const COMMANDS: [(&str, &str); 15] = [
    ("remove", "talaria delete CERT"),
    ("renew", "talaria key expire KEY 2y"),
    ("extend", "talaria key expire KEY 2y"),
    ("init", "talaria backup init"),
    ("snapshots", "talaria backup list"),
    ("restore", "talaria backup restore latest --target FOLDER"),
    ("gossip", "talaria peer add HOST"),
    ("version", "talaria --version"),
    ("search", "talaria list WORDS"),
    ("gen-key", "talaria key generate \"NAME <ADDRESS>\""),
    ("generate", "talaria key generate \"NAME <ADDRESS>\""),
    ("keygen", "talaria key generate \"NAME <ADDRESS>\""),
    ("revoke", "talaria key revoke KEY"),
    ("recv", "talaria import --keyserver hkps://keys.openpgp.org CERT"),
    ("fetch", "talaria import --keyserver hkps://keys.openpgp.org CERT"),
];

/// Adds a tip for users of gpg, and removes misleading tips.
pub(crate) fn improved(mut error: clap::Error) -> clap::Error {
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => {
            let named = text(&error, ContextKind::InvalidArg).unwrap_or_default();
            let named = named.split(['=', ' ']).next().unwrap_or_default();
            // The tip to pass an option as a value is rarely useful.
            error.remove(ContextKind::Suggested);
            let found = FROM_GPG.iter().find(|(names, _)| names.contains(&named));
            if let Some((_, instead)) = found {
                error.remove(ContextKind::SuggestedArg);
                Some(format!("instead of gpg's {named}, use: {instead}"))
            } else {
                let usage = error.get(ContextKind::Usage).map(ToString::to_string);
                instead_of(named, &usage.unwrap_or_default())
            }
        }
        ErrorKind::InvalidSubcommand => {
            let named = text(&error, ContextKind::InvalidSubcommand).unwrap_or_default();
            COMMANDS.iter().find(|(name, _)| *name == named).map(|(_, instead)| {
                error.remove(ContextKind::SuggestedSubcommand);
                format!("use: {instead}")
            })
        }
        _ => None,
    };
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The tip for an argument that a command with this usage does not take.
fn instead_of(named: &str, usage: &str) -> Option<String> {
    let of = |command: &str| usage.contains(command);
    if named.starts_with('-') {
        // The options of restic and borg.
        let is_repository = ["-r", "--repository"].contains(&named) && of("talaria backup");
        return is_repository.then(|| "use: --repo REPO".to_owned());
    }
    Some(if of("talaria encrypt") && named.contains('@') {
        format!("name each recipient with --to: talaria encrypt --to {named} FILE")
    } else if of("talaria encrypt") || of("talaria decrypt") || of("talaria sign") {
        format!(
            "`{named}` is one argument too many: name one input file, and the output with --output; quote names with spaces"
        )
    } else if of("talaria backup restore") {
        format!("name a path of the snapshot after a colon: SNAPSHOT:{named}")
    } else {
        format!("quote names with spaces as one argument, and put options before `{named}`")
    })
}

/// Whether the arguments ask for JSON, for arguments that could not be parsed.
pub(crate) fn wants_json() -> bool {
    std::env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json")
}

/// The colour that the arguments ask for. It is read before them, because help and usage errors have colour, too.
pub(crate) fn wanted_color() -> ColorWhen {
    color_in(std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()))
}

fn color_in(args: impl Iterator<Item = String>) -> ColorWhen {
    let mut args = args.take_while(|arg| arg != "--");
    let mut wanted = ColorWhen::default();
    while let Some(arg) = args.next() {
        let when = match arg.strip_prefix("--color") {
            Some("") => args.next(),
            Some(when) => when.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        // clap reports a wrong value.
        if let Some(when) = when.and_then(|when| ColorWhen::from_str(&when, false).ok()) {
            wanted = when;
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_found_among_arguments() {
        let color = |line: &str| color_in(line.split(' ').map(str::to_owned));
        assert_eq!(color("list --color never --help"), ColorWhen::Never);
        assert_eq!(color("--color=always lst"), ColorWhen::Always);
        assert_eq!(color("list --color sometimes"), ColorWhen::Auto);
        assert_eq!(color("list -- --color never"), ColorWhen::Auto);
        assert_eq!(color("list --colors=never --color"), ColorWhen::Auto);
    }
}
