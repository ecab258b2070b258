//! Retention: rules over time for the snapshots to keep, for each client alone.
//!
//! Times and order are claims of a client. A thief of the key of a client can write snapshots with
//! any time, so that rules would forget good ones. Clients do not count for each other, and a
//! snapshot with an odd time takes no place of another: it stays until somebody names it.

use std::collections::{BTreeMap, BTreeSet};

use talaria_cert::timestamp;
use talaria_message::openpgp::Fingerprint;

use crate::document::DocumentStanding;
use crate::error::{BackupError, Result};
use crate::forgotten::Forgotten;
use crate::id::Id;
use crate::listed::Listed;
use crate::snapshot::Lineage;

/// Seconds of a day.
const DAY: u32 = 86_400;

/// The numbers of snapshots to keep.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Retention {
    /// The newest.
    pub last: u32,
    /// The newest of each of this many hours that have one.
    pub hourly: u32,
    /// The newest of each of this many days, in UTC.
    pub daily: u32,
    /// The newest of each of this many weeks, from Monday on.
    pub weekly: u32,
    /// The newest of each of this many months.
    pub monthly: u32,
    /// The newest of each of this many years.
    pub yearly: u32,
    /// All within this many seconds before the newest.
    pub within: Option<u32>,
    /// All with one of these labels.
    pub tags: BTreeSet<Vec<u8>>,
}

impl Retention {
    /// Whether no rule is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The grouping of a client's snapshots, to each group of which the rules apply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grouping {
    /// Group by host.
    pub host: bool,
    /// Group by paths.
    pub paths: bool,
    /// Group by labels.
    pub tags: bool,
}

impl Default for Grouping {
    fn default() -> Self {
        Self { host: true, paths: true, tags: false }
    }
}

/// The fate of a snapshot under the rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It stays, for these reasons.
    Keep(Vec<&'static str>),
    /// No rule keeps it.
    Forget,
}

type Group<'a> =
    (Lineage, Option<&'a [u8]>, Option<&'a BTreeSet<Vec<u8>>>, Option<&'a BTreeSet<Vec<u8>>>);

/// The fate of each snapshot at `now`, in seconds since 1970. The newest of each group always
/// stays.
///
/// # Errors
///
/// [`BackupError::Refused`] if no rule is given.
pub fn decide(
    snapshots: &[Listed],
    forgotten: &Forgotten,
    policy: &Retention,
    grouping: Grouping,
    now: u32,
) -> Result<BTreeMap<Id, Fate>> {
    if policy.is_empty() {
        return Err(BackupError::Refused("no rule says which snapshots to keep".into()));
    }
    let mut fates = BTreeMap::new();
    let mut groups: BTreeMap<Group<'_>, Vec<&Listed>> = BTreeMap::new();
    for (listed, odd) in odd_times(snapshots, now) {
        let reason = match listed.standing {
            DocumentStanding::Foreign(_) => Some("does not count: name it to forget it"),
            _ if forgotten.is_protected(&listed.id) => Some("protected"),
            _ => odd,
        };
        if let Some(reason) = reason {
            fates.insert(listed.id, Fate::Keep(vec![reason]));
        }
        // A protected snapshot takes its place, since it is one of those to keep.
        if reason.is_none() || reason == Some("protected") {
            let snapshot = &listed.snapshot;
            let group = (
                snapshot.lineage(),
                grouping.host.then_some(&*snapshot.host),
                grouping.paths.then_some(&snapshot.paths),
                grouping.tags.then_some(&snapshot.tags),
            );
            groups.entry(group).or_default().push(listed);
        }
    }
    for (_, mut group) in groups {
        group.sort_by_key(|listed| {
            std::cmp::Reverse((listed.snapshot.made(), listed.snapshot.number))
        });
        for (listed, reasons) in group.iter().zip(reasons(&group, policy)) {
            let fate = if reasons.is_empty() { Fate::Forget } else { Fate::Keep(reasons) };
            fates.entry(listed.id).or_insert(fate);
        }
    }
    Ok(fates)
}

/// The snapshots, each with the reason why its time is not believed.
fn odd_times(snapshots: &[Listed], now: u32) -> Vec<(&Listed, Option<&'static str>)> {
    let mut sorted: Vec<&Listed> = snapshots.iter().collect();
    sorted.sort_by_key(|listed| (&listed.snapshot.client, listed.snapshot.number));
    let mut newest: BTreeMap<Lineage, u32> = BTreeMap::new();
    let odd = |listed: &'_ Listed, newest: Option<u32>| {
        let time = listed.snapshot.made();
        if time > now {
            Some("its time is in the future")
        } else if newest.is_some_and(|newest| time < newest) {
            Some("its time is before that of the snapshot before it")
        } else {
            None
        }
    };
    let mut out = Vec::new();
    for listed in sorted {
        let lineage = listed.snapshot.lineage();
        let why = if listed.standing.counts() {
            let why = odd(listed, newest.get(&lineage).copied());
            if why.is_none() {
                newest.insert(lineage, listed.snapshot.made());
            }
            why
        } else {
            None
        };
        out.push((listed, why));
    }
    out
}

/// Why the rules keep each snapshot of a group, newest first.
fn reasons(group: &[&Listed], policy: &Retention) -> Vec<Vec<&'static str>> {
    type Bucket = fn(u32) -> String;
    let rules: [(&'static str, u32, Bucket); 5] = [
        ("hourly", policy.hourly, |time| timestamp(time)[..13].to_owned()),
        ("daily", policy.daily, |time| timestamp(time)[..10].to_owned()),
        // 1970 began on a Thursday.
        ("weekly", policy.weekly, |time| ((time / DAY + 3) / 7).to_string()),
        ("monthly", policy.monthly, |time| timestamp(time)[..7].to_owned()),
        ("yearly", policy.yearly, |time| timestamp(time)[..4].to_owned()),
    ];
    let mut state = rules.map(|(_, left, _)| (left, String::new()));
    let newest = group.first().map_or(0, |listed| listed.snapshot.made());
    let mut out = Vec::new();
    for (place, listed) in group.iter().enumerate() {
        let snapshot = &listed.snapshot;
        let mut why = Vec::new();
        if place < policy.last as usize {
            why.push("last");
        }
        for ((name, _, bucket), (left, before)) in rules.iter().zip(&mut state) {
            let bucket = bucket(snapshot.made());
            if *left > 0 && *before != bucket {
                *left -= 1;
                *before = bucket;
                why.push(*name);
            }
        }
        if policy.within.is_some_and(|within| newest - snapshot.made() <= within) {
            why.push("within");
        }
        if !policy.tags.is_disjoint(&snapshot.tags) {
            why.push("tag");
        }
        if place == 0 && why.is_empty() {
            why.push("the newest");
        }
        out.push(why);
    }
    out
}

/// The clients that would lose more than half of their snapshots that count.
#[must_use]
pub fn halved(snapshots: &[Listed], forget: &BTreeSet<Id>) -> Vec<Option<Fingerprint>> {
    let mut counts: BTreeMap<&Option<Fingerprint>, (usize, usize)> = BTreeMap::new();
    for listed in snapshots.iter().filter(|listed| listed.standing.counts()) {
        let (all, lost) = counts.entry(&listed.snapshot.client).or_default();
        *all += 1;
        *lost += usize::from(forget.contains(&listed.id));
    }
    let halved = counts.into_iter().filter(|(_, (all, lost))| 2 * lost > *all);
    halved.map(|(client, _)| client.clone()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{self, key};

    const NOW: u32 = 1_795_381_506;

    fn listed(client: u8, number: u8, time: u32) -> Listed {
        let id = Id(std::array::from_fn(|at| if at % 2 == 0 { client } else { number }));
        let mut listed = testing::listed(client, number.into(), id);
        listed.snapshot.time = time;
        listed
    }

    /// The numbers of the snapshots of a client that stay.
    fn kept(snapshots: &[Listed], policy: &Retention, client: u8) -> Vec<u64> {
        let fates =
            decide(snapshots, &Forgotten::default(), policy, Grouping::default(), NOW).unwrap();
        let of_client = snapshots.iter().filter(|l| l.snapshot.client == Some(key(client)));
        let stays = of_client.filter(|l| matches!(fates[&l.id], Fate::Keep(_)));
        stays.map(|l| l.snapshot.number).collect()
    }

    #[test]
    fn rules_keep_the_newest_of_each_span() {
        // Four a day, for 50 days.
        let all: Vec<Listed> =
            (0..200).map(|n| listed(1, n, NOW - (200 - u32::from(n)) * (DAY / 4))).collect();
        let keep = |policy| kept(&all, &policy, 1);
        assert_eq!(keep(Retention { last: 3, ..Retention::default() }), [197, 198, 199]);
        assert_eq!(keep(Retention { hourly: 2, ..Retention::default() }), [198, 199]);
        let daily = keep(Retention { daily: 7, ..Retention::default() });
        assert_eq!(daily.len(), 7);
        assert!(daily.windows(2).all(|pair| pair[1] - pair[0] <= 4), "{daily:?}");
        let weekly = keep(Retention { weekly: 5, ..Retention::default() });
        assert!(weekly.len() == 5 && weekly[0] < 200 - 4 * 28 + 28, "{weekly:?}");
        assert_eq!(keep(Retention { monthly: 12, ..Retention::default() }).len(), 2);
        assert_eq!(keep(Retention { yearly: 12, ..Retention::default() }), [199]);
        assert_eq!(keep(Retention { within: Some(DAY), ..Retention::default() }).len(), 5);
        let mut tagged = all.clone();
        tagged[7].snapshot.tags.insert(b"first".to_vec());
        let policy = Retention { tags: [b"first".to_vec()].into(), ..Retention::default() };
        assert_eq!(kept(&tagged, &policy, 1), [7, 199], "the newest stays in any case");
        let none =
            decide(&all, &Forgotten::default(), &Retention::default(), Grouping::default(), NOW);
        assert!(matches!(none, Err(BackupError::Refused(_))));
    }

    #[test]
    fn weeks_begin_on_monday() {
        // 2026-11-22 is a Sunday.
        let sunday = 1_795_305_600 + 43_200;
        let all =
            [listed(1, 1, sunday - 6 * DAY), listed(1, 2, sunday), listed(1, 3, sunday + DAY)];
        let policy = Retention { weekly: 5, ..Retention::default() };
        let fates =
            decide(&all, &Forgotten::default(), &policy, Grouping::default(), sunday + 2 * DAY);
        let fates = fates.unwrap();
        assert_eq!(fates[&all[0].id], Fate::Forget);
        assert!(all[1..].iter().all(|l| fates[&l.id] == Fate::Keep(vec!["weekly"])));
    }

    #[test]
    fn a_stolen_client_displaces_no_snapshot_of_others_and_none_by_odd_times() {
        let policy = Retention { last: 2, ..Retention::default() };
        let mut all =
            vec![listed(1, 1, NOW - 300), listed(1, 2, NOW - 200), listed(1, 3, NOW - 100)];
        all.extend((1..100).map(|n| listed(2, n, NOW - 1)));
        assert_eq!(kept(&all, &policy, 1), [2, 3]);
        // Dated after now: they stay, and the honest ones do, too.
        all.push(listed(1, 4, NOW + 1000));
        all.push(listed(1, 5, NOW + 2000));
        assert_eq!(kept(&all, &policy, 1), [2, 3, 4, 5]);
        // Dated back.
        all.push(listed(1, 6, NOW - 10_000));
        assert_eq!(kept(&all, &policy, 1), [2, 3, 4, 5, 6]);
        // Signed by nobody who may.
        let mut foreign = listed(1, 7, NOW);
        foreign.standing = DocumentStanding::Foreign("no signature".into());
        all.push(foreign);
        assert_eq!(kept(&all, &policy, 1), [2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn copies_count_by_the_times_of_their_originals_and_apart_from_other_snapshots() {
        let original = |client: u8, number: u8, time: u32| {
            let mut copy = listed(1, number, NOW - 10);
            let (repository, id) = (crate::RepositoryId([9; 16]), Id([number; 32]));
            let client = Some(key(client));
            copy.snapshot.original =
                Some(crate::Original { repository, id, client, number: number.into(), time });
            copy
        };
        // Three days of two clients, copied on one day, and a snapshot of the copying client before
        // and after.
        let mut all = vec![listed(1, 1, NOW - DAY)];
        for day in 0..3_u8 {
            let time = NOW - (3 - u32::from(day)) * DAY;
            all.push(original(5, 2 + 2 * day, time));
            all.push(original(6, 3 + 2 * day, time));
        }
        all.push(listed(1, 8, NOW - 5));
        assert_eq!(
            kept(&all, &Retention { daily: 2, ..Retention::default() }, 1),
            [1, 4, 5, 6, 7, 8]
        );
        assert_eq!(kept(&all, &Retention { last: 1, ..Retention::default() }, 1), [6, 7, 8]);
    }

    #[test]
    fn groups_count_alone() {
        let mut all =
            vec![listed(1, 1, NOW - 300), listed(1, 2, NOW - 200), listed(1, 3, NOW - 100)];
        all[0].snapshot.host = b"beta".to_vec();
        let policy = Retention { last: 1, ..Retention::default() };
        assert_eq!(kept(&all, &policy, 1), [1, 3]);
        let grouping = Grouping { host: false, ..Grouping::default() };
        let fates = decide(&all, &Forgotten::default(), &policy, grouping, NOW).unwrap();
        assert_eq!(fates[&all[0].id], Fate::Forget);
    }

    #[test]
    fn more_than_half_of_a_client_is_noticed() {
        let all = [listed(1, 1, NOW), listed(1, 2, NOW), listed(2, 1, NOW), listed(2, 2, NOW)];
        let halved =
            |places: &[usize]| super::halved(&all, &places.iter().map(|at| all[*at].id).collect());
        assert!(halved(&[0, 2]).is_empty());
        assert_eq!(halved(&[0, 1]), [Some(key(1))]);
    }

    proptest! {
        /// More rules never forget more, every group keeps one, and protected ones stay.
        #[test]
        fn rules_only_add(
            times in proptest::collection::vec((1..4_u8, 0..400 * DAY), 1..40),
            a in 0..4_u32, b in 0..4_u32, protected in any::<proptest::sample::Index>(),
        ) {
            let all: Vec<Listed> = times.iter().zip(1..).map(|((client, ago), n)| listed(*client, n, NOW - ago)).collect();
            let small = Retention { last: 1, daily: a, ..Retention::default() };
            let large = Retention { last: 1 + b, daily: a + b, weekly: b, ..Retention::default() };
            for client in 1..4 {
                let (few, many) = (kept(&all, &small, client), kept(&all, &large, client));
                prop_assert!(few.iter().all(|one| many.contains(one)));
                prop_assert_eq!(few.is_empty(), !times.iter().any(|(one, _)| *one == client));
            }
            let chosen = &all[protected.index(all.len())];
            let mut forgotten = Forgotten::default();
            forgotten.protect_for_test(chosen.id);
            let fates = decide(&all, &forgotten, &small, Grouping::default(), NOW).unwrap();
            prop_assert!(matches!(fates[&chosen.id], Fate::Keep(_)));
            prop_assert_eq!(fates.len(), all.len());
        }
    }
}
