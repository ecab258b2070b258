//! `talaria index`

use std::io::Write as _;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::store::{Access, TextIndex};

use crate::context::Context;
use crate::error::CliError;

/// Add or remove a full-text index
///
/// The word index speeds up +word searches, the trigram index searches for any part of a user ID. Without them,
/// these searches read the summary of every certificate.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Action [default: list the indexes]
    #[arg(value_enum, requires = "index")]
    action: Option<Action>,
    /// Index to add or remove
    #[arg(value_enum)]
    index: Option<Name>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    /// Build the index
    Add,
    /// Remove the index
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
            Action::Add => cx.step("indexing", || store.operator_mut().add_index(index))?,
            Action::Drop => {
                cx.step("dropping the index", || store.operator_mut().drop_index(index))?;
            }
        }
    }
    let mut out = cx.stdout();
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
