//! `talaria backup ls`

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria::backup::{BackupError, Entry, Meta, Node, Tree, is_beneath};

use super::access::AccessArgs;
use super::chosen::ClientArgs;
use super::notices::teller;
use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;
use crate::terminal::Paint;

/// List the files of a snapshot
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Snapshot: `latest`, or the start of its identifier
    #[arg(value_name = "SNAPSHOT", default_value = "latest")]
    snapshot: String,
    /// List only this file, or only this folder and its content
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut session = args.access.open(place, cx)?;
    let (listed, reader) =
        session.read(&args.snapshot, args.client.client.as_ref(), cx.now, &mut teller(cx))?;
    let path = args.path.as_deref().map(tree_path).unwrap_or_default();
    let tree = Tree::new(&reader, listed.snapshot.root);
    if !path.is_empty() && tree.get(&path)?.is_none() {
        let path = printable(&path);
        return Err(BackupError::NotFound(format!("the snapshot has no path \"{path}\"")).into());
    }
    let mut out = std::io::BufWriter::new(cx.stdout());
    let paint = Paint::stdout();
    for entry in tree.entries_from(&path) {
        let entry = entry?;
        if entry.path != path && !is_beneath(&entry.path, &path) {
            break;
        }
        if cx.json {
            writeln!(out, "{}", json(&entry))?;
        } else {
            writeln!(out, "{}", line(&entry, paint))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The letter of a kind of entry, and its meta data.
fn kind(node: &Node) -> (char, Option<&Meta>) {
    match node {
        Node::File { meta, .. } => ('-', Some(meta)),
        Node::Directory(meta) => ('d', Some(meta)),
        Node::Symlink { meta, .. } => ('l', Some(meta)),
        Node::HardLink { .. } => ('h', None),
        Node::Device { meta, block, .. } => (if *block { 'b' } else { 'c' }, Some(meta)),
        Node::Fifo(meta) => ('p', Some(meta)),
    }
}

/// An entry as a line.
pub(super) fn line(entry: &Entry, paint: Paint) -> String {
    let (letter, meta) = kind(&entry.node);
    let size = match &entry.node {
        Node::File { size, .. } => size.to_string(),
        _ => "-".into(),
    };
    let target = match &entry.node {
        Node::Symlink { target, .. } => format!(" -> {}", printable(target)),
        Node::HardLink { first } => format!(" = {}", printable(first)),
        _ => String::new(),
    };
    let (mode, owner, time) = meta.map_or_else(
        || ("---------".to_owned(), "-".to_owned(), "-".to_owned()),
        |meta| {
            let seconds = u32::try_from(meta.mtime.seconds).unwrap_or_default();
            (mode(meta.mode), format!("{}:{}", meta.uid, meta.gid), talaria::timestamp(seconds))
        },
    );
    let path = paint.strong(printable(&entry.path));
    format!("{letter}{mode}  {owner:<11}  {size:>12}  {time:<20}  {path}{target}")
}

/// Permissions as `ls` shows them.
fn mode(mode: u16) -> String {
    let mut text: Vec<u8> = b"rwxrwxrwx".to_vec();
    for (at, letter) in text.iter_mut().enumerate() {
        if mode & (0o400 >> at) == 0 {
            *letter = b'-';
        }
    }
    for (bit, at, set, unset) in
        [(0o4000, 2, b's', b'S'), (0o2000, 5, b's', b'S'), (0o1000, 8, b't', b'T')]
    {
        if mode & bit != 0 {
            text[at] = if text[at] == b'x' { set } else { unset };
        }
    }
    String::from_utf8(text).expect("ASCII")
}

/// An entry as JSON.
pub(super) fn json(entry: &Entry) -> serde_json::Value {
    let (letter, meta) = kind(&entry.node);
    let kind = match letter {
        '-' => "file",
        'd' => "directory",
        'l' => "symlink",
        'h' => "hard_link",
        'p' => "fifo",
        _ => "device",
    };
    let (size, target) = match &entry.node {
        Node::File { size, .. } => (Some(*size), None),
        Node::Symlink { target, .. } => (None, Some(target)),
        Node::HardLink { first } => (None, Some(first)),
        _ => (None, None),
    };
    serde_json::json!({
        "path": String::from_utf8_lossy(&entry.path), "kind": kind, "size": size,
        "mode": meta.map(|meta| format!("{:04o}", meta.mode)),
        "uid": meta.map(|meta| meta.uid), "gid": meta.map(|meta| meta.gid),
        "mtime": meta.map(|meta| meta.mtime.seconds),
        "target": target.map(|target| String::from_utf8_lossy(target)),
    })
}

/// A path as trees have it: absolute, without the leading slash.
pub(super) fn tree_path(path: &Path) -> Vec<u8> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let bytes = absolute.as_os_str().as_bytes();
    let bytes = bytes.strip_prefix(b"/").unwrap_or(bytes);
    bytes.strip_suffix(b"/").unwrap_or(bytes).to_vec()
}

#[cfg(test)]
mod tests {
    #[test]
    fn permissions_look_like_those_of_ls() {
        for (bits, text) in [
            (0o755, "rwxr-xr-x"),
            (0o4755, "rwsr-xr-x"),
            (0o2644, "rw-r-Sr--"),
            (0o1777, "rwxrwxrwt"),
            (0, "---------"),
        ] {
            assert_eq!(super::mode(bits), text);
        }
    }
}
