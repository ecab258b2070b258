//! `talaria backup diff`

use std::cmp::Ordering;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use talaria::backup::{Entry, Node, Reader, Tree, path_order};

use super::access::AccessArgs;
use super::chosen::ClientArgs;
use super::notices::teller;
use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;
use crate::terminal::Paint;

/// Show the differences between two snapshots
///
/// A line has `+` for a path that only the second snapshot has, `-` for one that only the first
/// has, `M` for changed content, and `U` for other changes: permissions, owner, time or attributes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Older snapshot: `latest~1` for the one before the newest, or the start of its identifier
    #[arg(value_name = "OLD")]
    old: String,
    /// Newer snapshot: `latest`, or the start of its identifier
    #[arg(value_name = "NEW", default_value = "latest")]
    new: String,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let client = args.client.client.as_ref();
    let mut session = args.access.open(place, cx)?;
    let (old, reader) = session.read(&args.old, client, cx.now, &mut teller(cx))?;
    let (new, _) = session.read(&args.new, client, cx.now, &mut teller(cx))?;
    let mut olds = Tree::new(&reader, old.snapshot.root).entries();
    let mut news = Tree::new(&reader, new.snapshot.root).entries();
    let (mut before, mut after) = (olds.next().transpose()?, news.next().transpose()?);
    let mut out = std::io::BufWriter::new(cx.stdout());
    let paint = Paint::stdout();
    loop {
        let order = match (&before, &after) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(after)) => path_order(&before.path, &after.path),
        };
        let changed = match (order, &before, &after) {
            (Ordering::Less, Some(before), _) => Some(('-', &before.path)),
            (Ordering::Greater, _, Some(after)) => Some(('+', &after.path)),
            (_, Some(before), Some(after)) => {
                change(before, after, &reader)?.map(|mark| (mark, &after.path))
            }
            _ => None,
        };
        if let Some((mark, path)) = changed {
            if cx.json {
                let path = String::from_utf8_lossy(path);
                writeln!(
                    out,
                    "{}",
                    serde_json::json!({ "change": mark.to_string(), "path": path })
                )?;
            } else {
                let mark = match mark {
                    '+' => paint.good(mark),
                    '-' => paint.bad(mark),
                    _ => paint.doubtful(mark),
                };
                writeln!(out, "{mark} {}", printable(path))?;
            }
        }
        if order != Ordering::Greater {
            before = olds.next().transpose()?;
        }
        if order != Ordering::Less {
            after = news.next().transpose()?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// How an entry has changed.
fn change(before: &Entry, after: &Entry, reader: &Reader) -> Result<Option<char>, CliError> {
    if before.node == after.node {
        return Ok(None);
    }
    if let (
        Node::File { meta, size, content },
        Node::File { meta: new_meta, size: new_size, content: new_content },
    ) = (&before.node, &after.node)
    {
        let is_same = size == new_size && reader.same_content(content, new_content)?;
        return Ok(if !is_same {
            Some('M')
        } else if meta == new_meta {
            None
        } else {
            Some('U')
        });
    }
    let same_kind = std::mem::discriminant(&before.node) == std::mem::discriminant(&after.node);
    let leads_elsewhere = matches!(
        (&before.node, &after.node),
        (Node::Symlink { target: old, .. }, Node::Symlink { target: new, .. }) if old != new
    );
    Ok(Some(if same_kind && !leads_elsewhere { 'U' } else { 'M' }))
}
