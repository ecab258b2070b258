//! The rules of the web of trust, as an entry of `meta`.

use rusqlite::Connection;
use talaria_cert::Gnupg;
use talaria_trust::Rules;

use crate::meta::{self, Entry};

/// The entry of `meta` with the rules.
const RULES: &str = "trust";

/// The name of GnuPG's 2.2 rules in the entry.
const GNUPG_2_2: &str = "2.2";

/// The rules of a store. `None` if it has no web of trust.
pub(crate) fn get(connection: &Connection) -> rusqlite::Result<Option<Rules>> {
    let text: String = match meta::get(connection, RULES)? {
        Entry::Good(text) => text,
        Entry::Missing => return Ok(None),
        Entry::Damaged => return Ok(Some(strictest_rules())),
    };
    let mut words = text.split(' ');
    let mut next = |default| words.next().and_then(|word| word.parse().ok()).unwrap_or(default);
    let mut rules = Rules::default();
    for rule in [&mut rules.completes, &mut rules.marginals, &mut rules.depth] {
        *rule = next(*rule);
    }
    rules.gnupg = if words.next() == Some(GNUPG_2_2) { Gnupg::V2_2 } else { Gnupg::V2_4 };
    Ok(Some(rules))
}

/// The rules as long as nobody knows which ones the user has set: nobody is an introducer but the
/// user, and no number of marginal certifications suffices.
fn strictest_rules() -> Rules {
    let mut rules = Rules::default();
    (rules.completes, rules.marginals, rules.depth) = (u8::MAX, u8::MAX, 1);
    rules.gnupg = Gnupg::V2_4;
    rules
}

/// Sets the rules.
pub(crate) fn set(connection: &Connection, rules: Rules) -> rusqlite::Result<()> {
    let Rules { completes, marginals, depth, gnupg, .. } = rules;
    let gnupg = match gnupg {
        Gnupg::V2_2 => GNUPG_2_2,
        Gnupg::V2_4 => "2.4",
    };
    meta::set(connection, RULES, format!("{completes} {marginals} {depth} {gnupg}"))
}
