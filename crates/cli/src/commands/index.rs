//! `talaria index`

use std::io::Write as _;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::store::{Access, TextIndex};

use crate::context::Context;
use crate::error::CliError;

/// Add or leave out a full-text index
///
/// The index of words makes +word searches fast, that of trigrams searches for any part of a user ID.
/// Without them the same searches read every certificate's summary.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to do [default: tell which indexes there are]
    #[arg(value_enum, requires = "index")]
    action: Option<Action>,
    /// The index
    #[arg(value_enum)]
    index: Option<Name>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    /// Make it from the certificates
    Add,
    /// Leave it out
    Drop,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// Whole words
    Words,
    /// Runs of three characters
    Trigrams,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let access = if args.action.is_some() { Access::Write } else { Access::Read };
    let mut stores = cx.stores(access)?;
    if let (Some(action), Some(name)) = (args.action, args.index) {
        let index = match name {
            Name::Words => TextIndex::Words,
            Name::Trigrams => TextIndex::Trigrams,
        };
        let store = stores.writable()?;
        match action {
            Action::Add => cx.step("indexing", || store.add_index(index))?,
            Action::Drop => cx.step("dropping the index", || store.drop_index(index))?,
        }
    }
    let mut out = std::io::stdout().lock();
    for opened in stores.iter() {
        let [words, trigrams] = TextIndex::ALL.map(|index| opened.store.has_index(index));
        let (words, trigrams) = (words?, trigrams?);
        let path = opened.path.display().to_string();
        if cx.json {
            let json = serde_json::json!({ "store": path, "words": words, "trigrams": trigrams });
            writeln!(out, "{json}")?;
        } else {
            let is = |there| if there { "yes" } else { "no" };
            writeln!(out, "{path}: words {}, trigrams {}", is(words), is(trigrams))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
