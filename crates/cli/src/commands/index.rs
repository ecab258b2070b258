//! `talaria index`

use std::io::Write as _;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::store::{Access, TextIndex};

use crate::context::Context;
use crate::error::CliError;

/// Add or remove an optional index
///
/// The word index speeds up +word searches, the trigram index searches for any part of a user ID.
/// Without them, these searches read the summary of every certificate. The index of keygrips speeds
/// up &KEYGRIP searches, and commands that use the keys of gpg-agent. Without it, these read every
/// certificate.
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
    /// Keygrips, the names of keys in gpg-agent
    Keygrips,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let access = if args.action.is_some() { Access::Write } else { Access::Read };
    let mut stores = cx.stores(access)?;
    if let (Some(action), Some(name)) = (args.action, args.index) {
        let text = match name {
            Name::Words => Some(TextIndex::Words),
            Name::Trigrams => Some(TextIndex::Trigrams),
            Name::Keygrips => None,
        };
        let mut operator = stores.writable()?.operator_mut();
        match (action, text) {
            (Action::Add, Some(text)) => cx.step("indexing", || operator.add_index(text)),
            (Action::Add, None) => cx.step("indexing", || operator.add_keygrips()),
            (Action::Drop, Some(text)) => {
                cx.step("dropping the index", || operator.drop_index(text))
            }
            (Action::Drop, None) => cx.step("dropping the index", || operator.drop_keygrips()),
        }?;
    }
    let mut out = cx.stdout();
    for opened in stores.iter() {
        let [words, trigrams] = TextIndex::ALL.map(|index| opened.store.has_index(index));
        let (words, trigrams, keygrips) = (words?, trigrams?, opened.store.has_keygrips()?);
        let path = opened.path.display().to_string();
        if cx.json {
            let json = serde_json::json!({
                "store": path, "words": words, "trigrams": trigrams, "keygrips": keygrips,
            });
            writeln!(out, "{json}")?;
        } else {
            let is = |there| if there { "yes" } else { "no" };
            let [words, trigrams, keygrips] = [words, trigrams, keygrips].map(is);
            writeln!(out, "{path}: words {words}, trigrams {trigrams}, keygrips {keygrips}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
