//! `talaria admin restore`

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria::Progress;
use talaria::store::{Access, Depth, Store, StoreError};
use talaria_disk::beside;

use crate::context::Context;
use crate::error::CliError;
use crate::output::check_distinct;
use crate::progress::grouped;

/// Put a backup of the store in place
///
/// Checks the backup first, and restores nothing if it is damaged. Stop the server first: a store
/// that is in use is not replaced. With --overwrite, the present store and its log are renamed,
/// damaged or not; nothing is deleted.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Store that `talaria admin backup` wrote
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Rename an existing store and put the backup in its place
    #[arg(long)]
    overwrite: bool,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let failed = CliError::StoreBackup;
    // A symbolic link stays, and leads to the restored store.
    let named = cx.path()?;
    let target = if named.is_symlink() { named.canonicalize().ok() } else { None };
    let target = target.unwrap_or_else(|| named.clone());
    check_distinct(&args.backup, &target)?;
    let replaces = target.exists();
    if replaces && !args.overwrite {
        return Err(CliError::Exists { path: target });
    }
    let backup = Store::open(&args.backup, Access::Read).map_err(failed)?;
    let checked = cx.step("checking the backup", || backup.check(Depth::Structure, |_| {}));
    let findings = checked.map_err(failed)?.findings;
    if let Some(first) = findings.first() {
        return Err(failed(StoreError::Damaged {
            path: args.backup.clone(),
            what: format!("{}: {}; nothing was restored", first.object, first.what),
        }));
    }
    let count = backup.count().map_err(failed)?;
    let page_bytes = backup.pages().map_err(failed)?.page_bytes;
    let aside = free_name(&target);
    cx.make_folder()?;
    cx.shown(|report| {
        backup.restore(&target, &aside, |done, all| {
            report(Progress {
                bytes: done * page_bytes,
                bytes_total: all * page_bytes,
                step: Some("copying"),
                ..Progress::default()
            });
        })
    })?;
    let mut out = cx.stdout();
    let replaced = replaces.then(|| aside.display().to_string());
    if cx.json {
        let json = serde_json::json!({
            "store": target.display().to_string(), "certificates": count, "replaced": replaced,
        });
        writeln!(out, "{json}")?;
    } else {
        writeln!(out, "{}: {} certificates", target.display(), grouped(count))?;
        if let Some(replaced) = replaced {
            cx.status(format_args!("The former store is now {replaced}."));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A name beside `path` that no file has.
fn free_name(path: &Path) -> PathBuf {
    let name = |number: u32| beside(path, &format!(".replaced-{number}"));
    (1..u32::MAX).map(name).find(|name| !name.exists()).expect("there are fewer files")
}
