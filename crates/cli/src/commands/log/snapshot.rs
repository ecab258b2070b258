//! `talaria log snapshot`

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use talaria::timestamp;
use talaria_log::{
    Certificate, Content as FieldContent, EntryId, KeyName, LogError, SnapshotFile, SnapshotInfo,
    UpdateError,
};

use super::author::SignArgs;
use super::folder::open;
use super::get::print_fields;
use super::identity::parse_entry;
use super::list::object_line;
use super::people::person;
use crate::context::{Content, Context};
use crate::error::{CliError, failed};
use crate::output::OutputArgs;
use crate::render::{counted, printable};
use crate::terminal::{PagerArgs, Paint};

/// Sign what the log is, for those who have no copy of it
///
/// Owners say with a snapshot what all objects and fields are at one moment. `make` signs one, and
/// other owners agree with `talaria log approve`, if the log demands several. `export` writes a
/// file that shows the snapshot to people who know nothing but the identity of the log: `check` and
/// `read` need neither the log nor its entries.
///
/// The file shows that as many owners as the log demands have signed this state. It does not show
/// whether there is a newer one, whether an owner was removed since or a key was stolen, or which
/// values were deleted since. A node cannot begin with it: for that, it needs the entries.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Sign what the log is now
    ///
    /// Only owners do this. The snapshot is about all that this node has, and takes effect with as
    /// many owners as the log demands: they look at `talaria log list --snapshots`, and agree with
    /// `talaria log approve`.
    Make(MakeArgs),
    /// Write a file that shows a snapshot
    ///
    /// The snapshot must be in force. The file has the objects and fields, the deletable values
    /// that are here and not deleted now, and the entries that show who has signed.
    Export(ExportArgs),
    /// Check the file of a snapshot
    ///
    /// Checks the signatures of the owners and the hash of the state, and prints who has signed
    /// what. If something does not hold, the exit status is 4.
    Check(CheckArgs),
    /// Print objects and fields from the file of a snapshot
    ///
    /// Checks the file first, as `check` does. Lists the objects, or prints the fields of OBJECT,
    /// or the value of FIELD.
    Read(ReadArgs),
}

#[derive(Debug, clap::Args)]
struct MakeArgs {
    #[command(flatten)]
    sign: SignArgs,
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// Snapshot: the identity of its entry [default: the last one that is in force]
    #[arg(value_name = "ENTRY", value_parser = parse_entry)]
    entry: Option<EntryId>,
    #[command(flatten)]
    output: OutputArgs,
}

/// The file of a snapshot, and the log that it must be of.
#[derive(Debug, clap::Args)]
struct FileArgs {
    /// File of a snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Identity of the log, from somebody whom you trust: talaria log stats
    #[arg(long, value_name = "LOG", value_parser = parse_entry)]
    expect: EntryId,
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    #[command(flatten)]
    file: FileArgs,
}

#[derive(Debug, clap::Args)]
struct ReadArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Object: its name, or its identity [default: list all]
    #[arg(value_name = "OBJECT")]
    object: Option<String>,
    /// Field [default: all]
    #[arg(value_name = "FIELD")]
    field: Option<String>,
    #[command(flatten)]
    pager: PagerArgs,
}

/// The commands that need a log take its folder from `folder`.
pub(crate) fn run<'a>(
    args: &Args,
    folder: impl FnOnce() -> Result<&'a Path, CliError>,
    cx: &mut Context,
) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Make(args) => make(args, folder()?, cx),
        Command::Export(args) => export(args, folder()?, cx),
        Command::Check(args) => check(args, cx),
        Command::Read(args) => read(args, cx),
    }
}

fn make(args: &MakeArgs, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut author = args.sign.author(cx)?;
    let log = open(folder, cx)?;
    let id =
        cx.step("Computing the state", || log.put_snapshot(&mut author.maker(), cx.now_ms()))?;
    let (info, needed) = log.read(|log| (log.snapshot(&id), log.genesis().threshold))?;
    let Some(SnapshotInfo { snapshot, is_in_force, agreed, .. }) = info else {
        return Err(LogError::NoSnapshot { id }.into());
    };
    let more = usize::from(needed).saturating_sub(agreed.len());
    if cx.json {
        let json = serde_json::json!({
            "action": "log snapshot make", "entry": id.to_string(), "entries": snapshot.entries,
            "state": EntryId(snapshot.state).to_string(), "in_force": is_in_force, "needed": more,
        });
        cx.report(Content::Elsewhere, &json)?;
        return Ok(ExitCode::SUCCESS);
    }
    cx.status(format_args!(
        "Signed a snapshot of {}.\n  Entry: {id}\n  State: {}",
        counted(snapshot.entries, "entry"),
        EntryId(snapshot.state)
    ));
    if more > 0 {
        cx.status(format_args!(
            "{} must agree: talaria log approve {id}",
            counted(more, "other owner")
        ));
    } else {
        cx.status(format_args!(
            "To write a file that shows it: talaria log snapshot export -o FILE"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn export(args: &ExportArgs, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    args.output.check(None)?;
    let log = open(folder, cx)?;
    let last = || {
        let found = log.read(talaria_log::Log::snapshots)?;
        let in_force = found.into_iter().rev().find(|snapshot| snapshot.is_in_force);
        in_force.map(|snapshot| snapshot.entry).ok_or_else(|| {
            CliError::Missing(
                "no snapshot of this log is in force; an owner signs one: talaria log snapshot make"
                    .into(),
            )
        })
    };
    let id = match args.entry {
        Some(id) => id,
        None => last()?,
    };
    let mut target = args.output.open(true)?;
    let name = args.output.path.clone().unwrap_or_else(|| "standard output".into());
    let written = cx.step("Writing the snapshot", || {
        log.write_snapshot(&id, &mut BufWriter::new(&mut target), &name)
    })?;
    target.keep(false)?;
    let (values, absent) = written.values;
    if cx.json {
        let json = serde_json::json!({
            "action": "log snapshot export", "log": log.id().to_string(), "entry": id.to_string(),
            "entries": written.snapshot.entries,
            "state": EntryId(written.snapshot.state).to_string(), "objects": written.objects,
            "values": values, "missing_values": absent, "output": args.output.path,
        });
        cx.report(args.output.content(), &json)?;
        return Ok(ExitCode::SUCCESS);
    }
    cx.status(format_args!(
        "Wrote {} of the snapshot {id}.\nThose who read it need the identity of the log: {}",
        counted(written.objects, "object"),
        log.id()
    ));
    if absent > 0 {
        cx.status(format_args!(
            "Without {} that is not here, or deleted.",
            counted(absent, "deletable value")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn load(args: &FileArgs) -> Result<SnapshotFile, CliError> {
    let name = args.file.display().to_string();
    let file = File::open(&args.file).map_err(|error| failed("read", &name, error))?;
    let read = SnapshotFile::read(&mut BufReader::new(file), args.expect);
    Ok(read.map_err(|source| LogError::Snapshot { name, source })?)
}

/// The people in the genesis entry.
fn owners(file: &SnapshotFile) -> std::collections::HashMap<KeyName, String> {
    let named = |owner: &Certificate| {
        (owner.name(), printable(owner.user_id().unwrap_or_default().as_bytes()))
    };
    file.genesis().owners.iter().map(named).collect()
}

fn check(args: &CheckArgs, cx: &mut Context) -> Result<ExitCode, CliError> {
    let file = load(&args.file)?;
    let (snapshot, time) = (file.snapshot(), file.clock().ms() / 1000);
    let objects = file.objects().count();
    if cx.json {
        let signers: Vec<String> = file.signers().iter().map(ToString::to_string).collect();
        let json = serde_json::json!({
            "action": "log snapshot check", "log": file.log().to_string(),
            "entry": file.entry().to_string(), "entries": snapshot.entries,
            "state": EntryId(snapshot.state).to_string(), "objects": objects, "signers": signers,
            "threshold": file.genesis().threshold, "time": time,
            "missing_values": file.missing_values(),
        });
        cx.report(Content::Elsewhere, &json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (people, paint) = (owners(&file), Paint::stdout());
    let mut out = cx.report_stdout();
    writeln!(
        out,
        "{}: {} from {}, state {}",
        paint.good("Good"),
        counted(objects, "object"),
        counted(snapshot.entries, "entry"),
        EntryId(snapshot.state)
    )?;
    for signer in file.signers() {
        writeln!(out, "  Signed by {} ({signer})", person(signer, &people))?;
    }
    let time = timestamp(u32::try_from(time).unwrap_or(u32::MAX));
    writeln!(out, "  They say that it was made on {time}. What came later is not in it.")?;
    if file.missing_values() > 0 {
        writeln!(out, "{} not here", counted(file.missing_values(), "deletable value"))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn read(args: &ReadArgs, cx: &mut Context) -> Result<ExitCode, CliError> {
    let file = load(&args.file)?;
    let Some(object) = &args.object else {
        let people = owners(&file);
        let mut found: Vec<_> = file.objects().collect();
        found.sort_by(|a, b| (&a.named, a.id).cmp(&(&b.named, b.id)));
        let mut out = args.pager.open(cx.form());
        for object in found {
            writeln!(out, "{}", object_line(object, &people, cx))?;
        }
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    let wrong = |error: UpdateError| LogError::from(error);
    let id = file.find_object(object).map_err(wrong)?;
    let info = file.object(id).ok_or_else(|| wrong(UpdateError::NoObject(object.clone())))?;
    let fields: Vec<(String, FieldContent)> = match &args.field {
        None => file.fields(id).map(|(name, content)| (name.to_owned(), content.clone())).collect(),
        Some(field) => {
            let absent = || UpdateError::Absent { field: field.clone(), value: String::new() };
            let content = file.field(id, field).ok_or_else(|| wrong(absent()))?;
            vec![(field.clone(), content.clone())]
        }
    };
    let name = info.named.map(|(name, _)| name);
    print_fields((id, name), &fields, args.field.is_none(), args.pager, cx)
}
