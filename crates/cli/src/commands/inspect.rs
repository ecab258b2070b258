//! `talaria inspect`

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::message::{Message, MessageKind, PacketInfo, inspect, split_cleartext};

use crate::context::Context;
use crate::error::CliError;
use crate::files::{Source, watched};
use crate::render::printable;

/// Say what a message is made of
///
/// Its outermost packets, without any key: whom it is for, how it is encrypted, who says to have signed
/// it. Nothing of that is checked.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The message [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let source = Source::open(args.input.as_deref())?;
    let size = source.size;
    let (packets, cleartext) = watched(cx, size, None, |watch| {
        let message = Message::new(source.buffered(watch))?;
        if message.kind() == MessageKind::SignedText {
            let signed = split_cleartext(&mut message.into_text())?;
            return Ok((inspect(&mut &signed.signatures[..])?, Some(signed.text.len())));
        }
        Ok((inspect(&mut message.into_packets()?)?, None))
    })?;
    let mut out = io::stdout().lock();
    if let Some(bytes) = cleartext {
        if cx.json {
            writeln!(out, "{}", serde_json::json!({ "name": "signed text", "bytes": bytes }))?;
        } else {
            writeln!(out, "signed text, {bytes} bytes")?;
        }
    }
    for packet in &packets {
        if cx.json {
            writeln!(out, "{}", json(packet))?;
        } else {
            let parts = if packet.partial { ", in parts" } else { "" };
            writeln!(out, "{} (type {}), {} bytes{parts}", packet.name, packet.tag, packet.bytes)?;
            for (name, value) in &packet.fields {
                writeln!(out, "    {name}: {}", printable(value.as_bytes()))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn json(packet: &PacketInfo) -> serde_json::Value {
    let fields: serde_json::Map<String, serde_json::Value> = packet
        .fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
        .collect();
    serde_json::json!({
        "type": packet.tag,
        "name": packet.name,
        "bytes": packet.bytes,
        "partial": packet.partial,
        "fields": fields,
    })
}
