//! `talaria inspect`

use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::cert::KeySummary;
use talaria::message::{Message, MessageKind, PacketInfo, inspect, split_cleartext};
use talaria::store::{Access, Order, Query};
use talaria::{Stores, algorithm, day};

use crate::context::Context;
use crate::error::CliError;
use crate::files::{Source, watched};
use crate::output::Unfinished;
use crate::progress::size;
use crate::render::printable;
use crate::terminal::Paint;

/// Show recipients, encryption and signatures of a message
///
/// Needs no key: shows the recipients, the encryption, and who claims to have signed. Names are
/// those of certificates in the store. Nothing is decrypted or verified.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Message to inspect [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
    /// List the outermost packets with their fields as they are
    #[arg(long)]
    packets: bool,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    print(args, cx).map_err(|error| error.of_input(args.input.as_deref()))
}

fn print(args: &Args, cx: &Context) -> Result<ExitCode, CliError> {
    let source = Source::open(args.input.as_deref())?;
    let bytes = source.size;
    let (kind, packets, cleartext) = watched(cx, bytes, &Unfinished::default(), |watch| {
        let message = Message::new(source.buffered(watch))?;
        let kind = message.kind();
        if kind == MessageKind::SignedText {
            let signed = split_cleartext(&mut message.into_text())?;
            return Ok((kind, inspect(&mut &signed.signatures[..])?, Some(signed.text.len())));
        }
        Ok((kind, inspect(&mut message.into_packets()?)?, None))
    })?;
    let mut out = cx.stdout();
    if cx.json {
        if let Some(bytes) = cleartext {
            writeln!(out, "{}", serde_json::json!({ "name": "signed text", "bytes": bytes }))?;
        }
        for packet in &packets {
            writeln!(out, "{}", json(packet))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.packets {
        if let Some(bytes) = cleartext {
            writeln!(out, "signed text, {bytes} bytes")?;
        }
        for packet in &packets {
            write_packet(&mut out, packet)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let paint = Paint::stdout();
    let kind = kind.to_string();
    writeln!(out, "This is {}.", paint.strong(kind))?;
    if let Some(bytes) = cleartext {
        writeln!(out, "  {}: {}", paint.strong("signed text"), size(bytes as u64))?;
    }
    // The store only adds names. Without a store, key IDs are shown.
    let stores = cx.stores(Access::Read).ok();
    for packet in &packets {
        if let Some((what, text)) = words(packet, stores.as_ref(), cx.now) {
            let line = format!("  {}: {text}", paint.strong(what));
            writeln!(out, "{line}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a packet with its fields.
fn write_packet(out: &mut impl io::Write, packet: &PacketInfo) -> io::Result<()> {
    let parts = if packet.partial { ", in parts" } else { "" };
    writeln!(out, "{} (type {}), {} bytes{parts}", packet.name, packet.tag, packet.bytes)?;
    for (name, value) in &packet.fields {
        writeln!(out, "    {name}: {}", printable(value.as_bytes()))?;
    }
    Ok(())
}

/// A packet in words: a label and its text. `None` for packets that only frame others.
fn words(packet: &PacketInfo, stores: Option<&Stores>, now: u32) -> Option<(&'static str, String)> {
    let field = |name: &str| {
        let found = packet.fields.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| value.as_str())
    };
    let number = |name: &str| field(name).and_then(|value| value.parse::<u32>().ok());
    let public_key = || number("algorithm").map_or("unknown algorithm", public_key_algorithm);
    let protection = || match (field("cipher"), field("aead")) {
        (Some(cipher), Some(aead)) => format!("{cipher} with {aead}"),
        (Some(cipher), None) => cipher.to_owned(),
        _ => "cipher unknown until it is opened".to_owned(),
    };
    Some(match packet.tag {
        1 => {
            let id = field("recipient").unwrap_or_default();
            let text = match id.trim_start_matches('0') {
                "" => format!("hidden by the sender ({} key)", public_key()),
                _ => key_in_words(id, &format!("{} key", public_key()), stores, now),
            };
            ("recipient", text)
        }
        3 => ("passphrase", format!("whoever knows it can decrypt ({})", protection())),
        2 => {
            let who = match field("issuer") {
                Some(id) => key_in_words(id, &format!("{} key", public_key()), stores, now),
                None => "unnamed".to_owned(),
            };
            let made = number("created").map(|made| format!(", made on {}", day(made)));
            let hash = field("hash").unwrap_or("unknown digest");
            let over = field("type").map_or("", signature_type);
            let text = format!("{who}{}; {hash}{over}; not checked", made.unwrap_or_default());
            ("signature by", text)
        }
        // One-pass packets only repeat the signature packet at the end.
        4 => return None,
        18 if field("version") == Some("1") => {
            let text = format!("{}, protected by a digest (MDC, version 1)", size(packet.bytes));
            ("encrypted data", text)
        }
        18 | 20 => {
            let chunks = number("chunk_bytes").map(|bytes| size(bytes.into()));
            let chunks = chunks.map_or_else(String::new, |bytes| format!(" in chunks of {bytes}"));
            ("encrypted data", format!("{}, {}{chunks}", size(packet.bytes), protection()))
        }
        9 => ("encrypted data", format!("{}, NOT protected against changes", size(packet.bytes))),
        8 => {
            let with = field("algorithm").unwrap_or("an unknown algorithm");
            ("compressed data", format!("{} with {with}", size(packet.bytes)))
        }
        11 => {
            let name = field("name").filter(|name| !name.is_empty());
            let name = name.map(|name| format!(", file name {:?}", printable(name.as_bytes())));
            let date =
                number("date").filter(|date| *date > 0).map(|date| format!(", {}", day(date)));
            let (name, date) = (name.unwrap_or_default(), date.unwrap_or_default());
            ("content", format!("{}{name}{date}", size(packet.bytes)))
        }
        10 | 21 => return None,
        _ => (packet.name, format!("{} (packet type {})", size(packet.bytes), packet.tag)),
    })
}

/// A key with the name of its owner, if the store has its certificate. `kind` describes a key that
/// is not known.
pub(super) fn key_in_words(id: &str, kind: &str, stores: Option<&Stores>, now: u32) -> String {
    match stores.and_then(|stores| holder(id, stores, now)) {
        Some((name, key, what)) => {
            format!("{name} ({} {what} {})", algorithm(&key), key.fingerprint.key_id())
        }
        None => format!("{id} ({kind}, whose certificate is not in the store)"),
    }
}

/// The name of the certificate with this key, the key, and a label: primary key or subkey.
fn holder(id: &str, stores: &Stores, now: u32) -> Option<(String, KeySummary, &'static str)> {
    let query: Query = format!("0x{id}").parse().ok()?;
    let mut found = None;
    let visited = stores.visit(&[query], Order::Insertion, now, |_, row| {
        let summary = &row.summary;
        let is_it = |key: &&KeySummary| {
            let fingerprint = key.fingerprint.to_string();
            fingerprint == id || key.fingerprint.key_id().to_string() == id
        };
        let key = std::iter::once(&summary.primary).chain(&summary.subkeys).find(is_it);
        if let Some(key) = key {
            let name = summary.primary_user_id().map(printable);
            let name = name.unwrap_or_else(|| summary.fingerprint().to_string());
            let is_primary = key.fingerprint == summary.fingerprint();
            let what = if is_primary { "primary key" } else { "subkey" };
            found = Some((name, key.clone(), what));
        }
        Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    visited.ok().and(found)
}

/// The name of a public-key algorithm (RFC 9580, section 9.1).
fn public_key_algorithm(number: u32) -> &'static str {
    match number {
        1..=3 => "RSA",
        16 | 20 => "ElGamal",
        17 => "DSA",
        18 => "ECDH",
        19 => "ECDSA",
        22 => "EdDSA",
        25 => "X25519",
        26 => "X448",
        27 => "Ed25519",
        28 => "Ed448",
        _ => "unknown",
    }
}

/// The kind of data that a signature covers (RFC 9580, section 5.2.1), if it is not the usual one.
fn signature_type(hex: &str) -> &'static str {
    match hex {
        "00" => "",
        "01" => " over text",
        "10" | "11" | "12" | "13" => " (certification of a user ID)",
        "18" => " (binding of a subkey)",
        "1f" => " (on a key)",
        "20" | "28" | "30" => " (revocation)",
        _ => " (neither on a document nor on a certificate)",
    }
}

/// Fields whose values are numbers.
const NUMBERS: [&str; 5] = ["version", "algorithm", "created", "date", "chunk_bytes"];

fn json(packet: &PacketInfo) -> serde_json::Value {
    let value = |name: &str, text: &str| match text.parse::<u64>() {
        Ok(number) if NUMBERS.contains(&name) => number.into(),
        _ => serde_json::Value::from(text),
    };
    let fields: serde_json::Map<String, serde_json::Value> =
        packet.fields.iter().map(|(name, text)| ((*name).to_owned(), value(name, text))).collect();
    serde_json::json!({
        "type": packet.tag,
        "name": packet.name,
        "bytes": packet.bytes,
        "partial": packet.partial,
        "fields": fields,
    })
}
