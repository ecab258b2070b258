//! `talaria trust import-ownertrust`

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::gnupg::{is_trustdb, read_ownertrust, read_trustdb};
use talaria::store::Access;

use crate::context::{Content, Context};
use crate::error::CliError;
use crate::render::counted;

/// Import owner trust from `gpg --export-ownertrust` or a trustdb.gpg
///
/// If any entry is invalid, nothing is changed. The certificates need not be in the store yet.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File to import [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
}

/// The maximum length of a list in bytes: ten million entries.
const LIST_BYTES_MAX: u64 = 512 << 20;

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let (name, mut input): (String, Box<dyn std::io::Read>) = match &args.input {
        Some(path) if path.as_os_str() != "-" => {
            let name = path.display().to_string();
            let file = std::fs::File::open(path).map_err(|source| talaria::Error::Io {
                action: "read",
                name: name.clone(),
                source,
            })?;
            (name, Box::new(file))
        }
        _ => ("standard input".to_owned(), Box::new(std::io::stdin())),
    };
    let mut bytes = Vec::new();
    (&mut input).take(LIST_BYTES_MAX).read_to_end(&mut bytes)?;
    let read = if is_trustdb(&bytes) {
        read_trustdb(&bytes)
    } else {
        read_ownertrust(&String::from_utf8_lossy(&bytes))
    };
    let entries = read.map_err(|source| talaria::Error::Foreign { name, source })?;
    let mut stores = cx.stores(Access::Create)?;
    let report = stores
        .writable()?
        .web_mut()
        .set_ownertrust(&entries, cx.now.into())
        .map_err(talaria::Error::from)?;
    cx.status(format_args!(
        "Imported {}; {} changed.",
        counted(entries.len(), "owner trust value"),
        counted(report.changed, "validity")
    ));
    let json = serde_json::json!({
        "action": "import_ownertrust", "entries": entries.len(), "changed": report.changed,
    });
    cx.report(Content::Elsewhere, &json)?;
    Ok(ExitCode::SUCCESS)
}
