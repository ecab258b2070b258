//! Searches: the one way from a request to certificates.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use talaria_cert::merge::bytes_digest;
use talaria_cert::{
    Address, Cert, Fingerprint, Key, NUMBER_BITS_MAX, Serving, Summary, ThirdParty,
    USER_ID_BYTES_MAX, UserIdContent, kind, user_id,
};

use crate::answer::{Pieces, Refusal};
use crate::config::{Config, Policy};
use crate::engine::{
    Bounds, Engine, EngineError, Judging, Page, Query, Reading, Row, Sole, Stored,
};

/// A certificate that was found, as it is given out.
pub(crate) struct Found {
    pub(crate) cert: Cert,
    pub(crate) row: Row,
}

/// Signatures beyond which a certificate is not filtered on a thread that answers requests.
const HEAVY_SIGNATURES: u32 = 400;

/// The same for a certificate whose signatures by other keys may have to be verified.
const UNVERIFIED_SIGNATURES: u32 = 16;

/// Bytes up to which a certificate is read before anything is known about it, on a thread that
/// answers requests.
const LIGHT_BYTES: u32 = 64 << 10;

/// The most certificates that a search may find on a thread that answers requests, and the bytes of
/// the summary of each.
const FEW_ROWS: usize = 16;
const FEW_ROW_BYTES: u32 = 4 << 10;

/// Whether filtering the certificates may take milliseconds.
fn is_heavy(rows: &[Row], policy: &Policy) -> bool {
    let signatures: u32 = rows.iter().map(|row| row.summary.signatures).sum();
    let verifies = policy.third_party == ThirdParty::Verified
        && signatures > UNVERIFIED_SIGNATURES
        && rows.iter().any(|row| !row.is_judged());
    verifies || signatures > HEAVY_SIGNATURES
}

/// What an answer needs of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// The bytes of the certificates, and nothing else.
    pub(crate) bytes: bool,
    /// The rows, and nothing else.
    pub(crate) rows: bool,
    /// What programs can read, which may be older ones.
    pub(crate) for_programs: bool,
}

/// The way from a search to its answer.
pub(crate) enum Way {
    /// There is one certificate, a usual one, as it is given out; and the digest of its bytes.
    Sole(Cert, [u8; 16]),
    /// The rows are answered from on this thread: that takes no time.
    Here(Page),
    /// The certificates of these rows take long enough for a turn of their own.
    Apart(Page),
    /// Nothing has the name: its words are searched for, in a turn of its own.
    Words,
}

/// The text of a search.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Search {
    /// A fingerprint, key ID, address or whole user ID: looked up in an index.
    Exact(Query),
    /// An address, or else the words of the text that it stands in.
    Address(Address, String),
    Words(String),
}

impl Search {
    /// Reads the `search` parameter of HKP (draft-ietf-openpgp-hkp).
    pub(crate) fn parse(text: &str, exact: bool, policy: &Policy) -> Result<Self, Refusal> {
        let text = bounded(text.trim())?;
        if text.starts_with("0x") || text.starts_with("0X") {
            return match without_blanks(text).parse() {
                Ok(Query::ShortKeyId(_)) if !policy.short_key_ids => {
                    Err(Refusal::BadRequest(format!(
                        "{}: this server does not answer key IDs of 32 bits, which are easily \
                         forged; search for the fingerprint",
                        shortened(text)
                    )))
                }
                Ok(query @ (Query::Fingerprint(_) | Query::KeyId(_) | Query::ShortKeyId(_))) => {
                    Ok(Self::Exact(query))
                }
                _ => Err(Refusal::BadRequest(format!(
                    "{}: a key ID has 8 or 16 hexadecimal digits, a fingerprint 32, 40 or 64",
                    shortened(text)
                ))),
            };
        }
        if text.is_empty() {
            return Err(Refusal::BadRequest("the parameter search is missing or empty".into()));
        }
        if let (false, Some(query)) = (exact, typed_digits(text)) {
            return Ok(Self::Exact(query));
        }
        if exact {
            let query = match text.parse() {
                Ok(email) => Query::Email(email),
                Err(_) => Query::Exact(text.to_owned()),
            };
            return Ok(Self::Exact(query));
        }
        Ok(match Address::of_user_id(text.as_bytes()) {
            Some(email) => Self::Address(email, text.to_owned()),
            None => Self::Words(text.to_owned()),
        })
    }

    /// The text of a search for words, and their spellings. `None` if it has no words, or if the
    /// policy allows no such searches.
    fn words(&self, config: &Config) -> Option<(&str, Vec<Vec<String>>)> {
        let (Self::Address(_, text) | Self::Words(text)) = self else { return None };
        let spellings = user_id::spellings(text);
        (config.policy.word_search && !spellings.is_empty()).then_some((text, spellings))
    }

    /// The rows that have its words in their user IDs, in any spelling. If there are too many,
    /// those with the words as they were typed come first.
    async fn rows_with_words(&self, store: &mut Reading, config: &Config) -> Result<Page, Refusal> {
        let Some((text, spellings)) = self.words(config) else { return Ok(Page::default()) };
        let bounds = Bounds { results: config.policy.results, looks: LOOKS_MAX };
        let is_spelled_once = spellings.iter().all(|word| word.len() == 1);
        let all = store.find(&Query::Spelled(spellings), bounds).await?;
        if !all.more || is_spelled_once {
            return Ok(all);
        }
        let typed = Query::Words(user_id::words(text).collect());
        let mut rows = store.find(&typed, bounds).await?.rows;
        let first: HashSet<Fingerprint> = rows.iter().map(Row::fingerprint).collect();
        rows.extend(all.rows.into_iter().filter(|row| !first.contains(&row.fingerprint())));
        rows.truncate(bounds.results);
        Ok(Page { rows, more: true })
    }

    /// The rows of [`Self::rows_with_words`], if the search is known to be short and finds few
    /// certificates of usual size.
    async fn few_rows_with_words(
        &self,
        store: &mut Reading,
        config: &Config,
    ) -> Result<Option<Vec<Row>>, Refusal> {
        let Some((_, spellings)) = self.words(config) else { return Ok(None) };
        let count = FEW_ROWS.min(config.policy.results);
        Ok(store.few(&Query::Spelled(spellings), count, FEW_ROW_BYTES).await?)
    }

    /// The way to an answer that needs this of the search.
    pub(crate) async fn way(
        &self,
        store: &mut Reading,
        wants: Wants,
        config: &Config,
    ) -> Result<Way, Refusal> {
        if wants.bytes
            && let Some((cert, digest)) = self.sole(store, config).await?
        {
            return Ok(Way::Sole(cert, digest));
        }
        let page = self.rows_of_name(store, config).await?;
        if !self.is_wide(!page.rows.is_empty()) {
            let page = self.for_programs(store, page, wants, config).await?;
            let is_light = page.rows.len() < 2 && !is_heavy(&page.rows, &config.policy);
            return Ok(if is_light { Way::Here(page) } else { Way::Apart(page) });
        }
        if wants.rows
            && let Some(rows) = self.few_rows_with_words(store, config).await?
            && are_decided(&rows, config)
        {
            let page = Page { rows, more: false };
            return Ok(Way::Here(self.for_programs(store, page, wants, config).await?));
        }
        Ok(Way::Words)
    }

    /// The rows with its words, for [`Way::Words`].
    pub(crate) async fn page_with_words(
        &self,
        store: &mut Reading,
        wants: Wants,
        config: &Config,
    ) -> Result<Page, Refusal> {
        let page = self.rows_with_words(store, config).await?;
        self.for_programs(store, page, wants, config).await
    }

    async fn for_programs(
        &self,
        store: &mut Reading,
        page: Page,
        wants: Wants,
        config: &Config,
    ) -> Result<Page, Refusal> {
        if wants.for_programs {
            self.for_older_programs(store, page, config).await
        } else {
            Ok(page)
        }
    }

    /// Whether it may look at many certificates, at once or after it has found none of the name.
    pub(crate) fn is_wide(&self, has_found: bool) -> bool {
        match self {
            Self::Words(_) => true,
            Self::Address(..) => !has_found,
            Self::Exact(_) => false,
        }
    }

    /// The rows that it names, none of which is hidden: the first ones, if there are more than the
    /// policy allows.
    ///
    /// A certificate whose address was confirmed comes first, and so does the one whose primary key
    /// has the fingerprint or key ID.
    pub(crate) async fn rows(&self, store: &mut Reading, config: &Config) -> Result<Page, Refusal> {
        let found = self.rows_of_name(store, config).await?;
        if found.rows.is_empty() { self.rows_with_words(store, config).await } else { Ok(found) }
    }

    /// The rows without a search for words.
    async fn rows_of_name(&self, store: &mut Reading, config: &Config) -> Result<Page, Refusal> {
        let limit = config.policy.results;
        let bounds = Bounds { results: limit, looks: LOOKS_MAX };
        let mut found = match self {
            Self::Exact(query) => store.find(query, bounds).await?,
            Self::Address(email, _) => store.find(&Query::Email(email.clone()), bounds).await?,
            Self::Words(_) => Page::default(),
        };
        if let Some(first) = self.confirmed(store, config).await? {
            found.rows.retain(|row| row.fingerprint() != first.fingerprint());
            found.rows.insert(0, first);
            found.more |= found.rows.len() > limit;
            found.rows.truncate(limit.max(1));
        }
        Ok(found)
    }

    /// The certificate that it names, as it is given out, and the digest of its bytes, if it is
    /// the only one and a usual one. `None` if there is more to say: [`Self::rows_of_name`] and
    /// [`served`] find it.
    async fn sole(
        &self,
        store: &mut Reading,
        config: &Config,
    ) -> Result<Option<(Cert, [u8; 16])>, Refusal> {
        let by_address;
        let query = match self {
            _ if config.vks.only_confirmed => return Ok(None),
            Self::Exact(query) => query,
            Self::Address(email, _) => {
                by_address = Query::Email(email.clone());
                &by_address
            }
            Self::Words(_) => return Ok(None),
        };
        if let Query::Email(email) = query
            && confirmed_holder(store, email, config).await?.is_some()
        {
            return Ok(None);
        }
        let serving = config.policy.serving();
        let sole = store.sole(query, judging(serving), LIGHT_BYTES).await?;
        let Some(Sole { stored: Stored { cert, verdicts }, digest }) = sole else {
            return Ok(None);
        };
        let primary = cert.packets().next().and_then(|packet| Key::parse(packet).ok());
        if verdicts.len() > HEAVY_SIGNATURES as usize
            || !primary.is_some_and(|key| key.is_known_to_gnupg())
            || !cert.has_readable_key()
        {
            return Ok(None);
        }
        let (cert, digest) = match cert.served(&verdicts, serving) {
            Some(part) => (part, None),
            None => (cert, digest),
        };
        let digest = digest.unwrap_or_else(|| bytes_digest(cert.as_bytes()));
        // Of one without a user ID, its summary says more.
        let has_name = cert.user_ids().next().is_some();
        Ok(has_name.then_some((cert, digest)))
    }

    /// The certificate whose owner confirmed the address or user ID that the search is for.
    async fn confirmed(
        &self,
        store: &mut Reading,
        config: &Config,
    ) -> Result<Option<Row>, Refusal> {
        match self {
            Self::Exact(Query::Email(email)) | Self::Address(email, _) => {
                confirmed_holder(store, email, config).await
            }
            Self::Exact(query @ Query::Exact(text)) => {
                let Some(email) = Address::of_user_id(text.as_bytes()) else { return Ok(None) };
                let holder = confirmed_holder(store, &email, config).await?;
                let matcher = query.matcher();
                Ok(holder.filter(|row| row.summary.texts().any(|text| matcher.names_text(text))))
            }
            Self::Exact(_) | Self::Words(_) => Ok(None),
        }
    }

    /// The rows of `page` for programs that may be older ones. GnuPG gives a whole answer up at the
    /// first primary key that it does not know, so anybody could hide a certificate by another one
    /// beside it. Programs that know more ask for the fingerprint, or speak version 2 of HKP.
    ///
    /// A certificate that GnuPG does not know is in the answer if its own fingerprint was asked
    /// for, or alone if its owner confirmed the address.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`] if no other certificates were found.
    async fn for_older_programs(
        &self,
        store: &mut Reading,
        mut page: Page,
        config: &Config,
    ) -> Result<Page, Refusal> {
        let Some(first_unknown) = page.rows.iter().position(|row| !is_for_all(row)) else {
            return Ok(page);
        };
        if let Self::Exact(Query::Fingerprint(asked)) = self {
            page.rows.retain(|row| is_for_all(row) || is_asked_for(row, asked));
        } else if first_unknown == 0
            && let Some(confirmed) = self.confirmed(store, config).await?
            && confirmed.fingerprint() == page.rows[0].fingerprint()
        {
            page.rows.truncate(1);
            page.more = false;
        } else {
            page.rows.retain(is_for_all);
        }
        if page.rows.is_empty() && !page.more {
            return Err(Refusal::NotFound(
                "older programs cannot read the certificates that match, because of their version or algorithm: ask for a whole \
                 fingerprint, or at /pks/v2/certs/by-identity/"
                    .into(),
            ));
        }
        Ok(page)
    }
}

/// Whether a certificate may stand beside others in answers to older programs.
pub(crate) fn is_for_all(row: &Row) -> bool {
    row.summary.primary.is_known_to_gnupg()
}

/// Whether the fingerprint of a certificate was asked for, or that of a subkey which no older
/// program can have.
fn is_asked_for(row: &Row, fingerprint: &[u8]) -> bool {
    let is_later = |key: &Fingerprint| key.version() > 4;
    let subkeys = row.summary.subkeys.iter().map(|key| key.fingerprint).filter(is_later);
    std::iter::once(row.fingerprint()).chain(subkeys).any(|key| key.as_bytes() == fingerprint)
}

/// The certificate whose owner confirmed an address here.
async fn confirmed_holder(
    store: &mut Reading,
    email: &Address,
    config: &Config,
) -> Result<Option<Row>, Refusal> {
    if !config.vks.enabled {
        return Ok(None);
    }
    Ok(store.confirmed(email).await?)
}

/// A fingerprint or key ID as people copy it: without `0x`, in groups. No name is so many digits.
fn typed_digits(text: &str) -> Option<Query> {
    let digits = without_blanks(text);
    let is_long = matches!(digits.len(), 16 | 40 | 64);
    if !is_long || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    digits.parse().ok()
}

fn without_blanks(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_whitespace) {
        text.chars().filter(|c| !c.is_whitespace()).collect()
    } else {
        text.into()
    }
}

/// Certificates that one search looks at: some ten milliseconds.
pub(crate) const LOOKS_MAX: usize = 5000;

/// Bytes of a search in any protocol: as many as GnuPG allows in a user ID.
pub(crate) const SEARCH_BYTES_MAX: usize = 2048;

/// The text of a search, unless it is too long for one.
pub(crate) fn bounded(text: &str) -> Result<&str, Refusal> {
    if text.len() > SEARCH_BYTES_MAX {
        return Err(Refusal::BadRequest(format!(
            "a search may have at most {SEARCH_BYTES_MAX} bytes"
        )));
    }
    Ok(text)
}

/// A text of a client, quoted in an error, without control characters for terminals: somebody else
/// may have written the link that led there.
fn shortened(text: &str) -> String {
    let shown = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    text.chars().take(80).map(shown).collect()
}

/// The certificates of `rows` as they are given out. What has nothing to give is left out.
pub(crate) async fn found(
    store: &mut Reading,
    rows: &[Row],
    config: &Config,
) -> Result<Vec<Cert>, Refusal> {
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        all.extend(served(store, row, config).await?);
    }
    Ok(all)
}

/// The verdicts that serving needs.
fn judging(serving: Serving) -> Judging {
    match serving.third_party {
        ThirdParty::Verified => Judging::All { unranked: serving.foreign_signatures },
        ThirdParty::Revocations => Judging::All { unranked: usize::MAX },
        ThirdParty::All => Judging::Own,
    }
}

/// The bytes of stored certificates up to which an answer is made whole.
pub(crate) const WHOLE_BYTES: u64 = 256 << 10;

/// The bytes of the stored certificates together, and of the largest one.
pub(crate) async fn lengths(store: &mut Reading, rows: &[Row]) -> Result<(u64, u64), Refusal> {
    let lengths = store.lengths(rows).await?;
    Ok((lengths.iter().sum(), lengths.into_iter().max().unwrap_or(0)))
}

/// The served certificates of `rows`, one for each piece, as `write` writes it. `write` gets `None`
/// at the end. The first one is read here, so there must be room for it. Each other one is read
/// when its turn comes; certificates deleted meanwhile are left out.
///
/// # Errors
///
/// [`Refusal::NotFound`] if none is served.
pub(crate) async fn pieces(
    engine: &Engine,
    rows: &[Row],
    largest: usize,
    config: &Arc<Config>,
    mut write: impl FnMut(Option<&Cert>) -> Bytes + Send + 'static,
) -> Result<Pieces, Refusal> {
    let names = rows.iter().rev().map(Row::fingerprint).collect();
    let mut left = Left { engine: engine.clone(), config: Arc::clone(config), names };
    let first = left.next().await?;
    let first = first.ok_or_else(|| Refusal::NotFound("no certificate was found".into()))?;
    let first = write(Some(&first));
    let rest = stream::try_unfold(Some((left, write)), async |rest| -> Result<_, Refusal> {
        let Some((mut left, mut write)) = rest else { return Ok(None) };
        Ok(Some(match left.next().await? {
            Some(cert) => (write(Some(&cert)), Some((left, write))),
            None => (write(None), None),
        }))
    });
    Ok(Pieces::new(largest, stream::iter([Ok(first)]).chain(rest)))
}

/// The certificates of an answer that are yet to be read.
struct Left {
    engine: Engine,
    config: Arc<Config>,
    /// The next one is the last of them.
    names: Vec<Fingerprint>,
}

impl Left {
    /// The next certificate that is served.
    async fn next(&mut self) -> Result<Option<Cert>, Refusal> {
        while let Some(name) = self.names.pop() {
            let mut store = self.engine.reading().await?;
            let Some(row) = store.row(name).await? else { continue };
            if let Some(cert) = served(&mut store, &row, &self.config).await? {
                return Ok(Some(cert));
            }
        }
        Ok(None)
    }
}

/// A certificate as it is given out: `None` if it has no name that may be shown and does not say
/// that it is revoked either, unless an operator or its owner removed the names.
pub(crate) async fn served(
    store: &mut Reading,
    row: &Row,
    config: &Config,
) -> Result<Option<Cert>, Refusal> {
    let cert = if config.vks.only_confirmed {
        confirmed(store, row).await?
    } else {
        selected(store, row, config.policy.serving()).await?
    };
    let Some(cert) = cert else { return Ok(None) };
    // Whoever has a certificate whose user IDs were removed still gets its subkeys and revocations.
    if is_useful(&cert, &row.summary) {
        return Ok(Some(cert));
    }
    let is_redacted = store.facts_of(row.fingerprint()).await?.is_redacted;
    Ok(is_redacted.then_some(cert))
}

/// The rows whose certificate is given out. Lists have no others, so that a client can fetch all
/// that a search finds.
///
/// The summaries decide on usual certificates. Others are read, which costs as much as to give them
/// out.
pub(crate) async fn given(
    store: &mut Reading,
    rows: Vec<Row>,
    config: &Config,
) -> Result<Vec<Row>, Refusal> {
    let mut given = Vec::with_capacity(rows.len());
    for row in rows {
        let facts = if config.vks.only_confirmed {
            Some(store.facts_of(row.fingerprint()).await?)
        } else {
            None
        };
        let confirmed = facts.as_ref().map(|facts| &facts.published[..]);
        let is_given = match by_summary(&row.summary, confirmed) {
            Known::Given => true,
            Known::NothingToGive => facts.is_some_and(|facts| facts.is_redacted),
            Known::InCertificate => match served(store, &row, config).await {
                // Nobody knows what a damaged one has. It does not keep the others from a list.
                Err(Refusal::Store(EngineError::Failed(_))) => true,
                served => served?.is_some(),
            },
        };
        if is_given {
            given.push(row);
        }
    }
    Ok(given)
}

/// Whether [`given`] reads no certificate of these rows, or hardly any.
fn are_decided(rows: &[Row], config: &Config) -> bool {
    let confirmed = config.vks.only_confirmed.then_some(&[][..]);
    rows.iter().all(|row| by_summary(&row.summary, confirmed) != Known::InCertificate)
}

/// What a summary says about whether [`served`] gives out the certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Known {
    Given,
    /// No user ID may be shown, and there is no revocation. A certificate of which parts were
    /// removed is given out nevertheless.
    NothingToGive,
    /// Only its packets say it.
    InCertificate,
}

/// What the summary of a certificate says about [`served`]. `confirmed` has the confirmed addresses
/// if no others are shown.
fn by_summary(summary: &Summary, confirmed: Option<&[Address]>) -> Known {
    let may_be_shown = |text: &[u8]| {
        confirmed.is_none_or(|confirmed| {
            Address::of_user_id(text).is_some_and(|email| confirmed.contains(&email))
        })
    };
    let (mut has_bound, mut has_any) = (false, false);
    for user_id in &summary.user_ids {
        let UserIdContent::Text(text) = &user_id.content else { continue };
        if may_be_shown(text) {
            // Other programs do not read a longer one.
            let is_bound = user_id.created > 0 || user_id.expires > 0 || user_id.revoked;
            has_bound |= is_bound && text.len() <= USER_ID_BYTES_MAX;
            has_any = true;
        }
    }
    if usize::from(summary.primary.bits) > NUMBER_BITS_MAX {
        Known::InCertificate
    } else if has_bound || summary.primary.revoked || summary.fingerprint().version() > 4 {
        Known::Given
    } else if !has_any
        && confirmed.is_some()
        && summary.checked
        && summary.revokers.is_empty()
        && summary.holds.until == u32::MAX
    {
        // There is no signature that is dated ahead, and nobody else may revoke the key.
        Known::NothingToGive
    } else {
        Known::InCertificate
    }
}

/// The part of a stored certificate that `serving` chooses. `None` if other programs cannot read
/// its primary key.
async fn selected(
    store: &mut Reading,
    row: &Row,
    serving: Serving,
) -> Result<Option<Cert>, Refusal> {
    let Some(Stored { cert, verdicts }) = readable(store, row, judging(serving)).await? else {
        return Ok(None);
    };
    let served = cert.served(&verdicts, serving);
    Ok(Some(served.unwrap_or(cert)))
}

/// A stored certificate, if other programs can read its primary key.
async fn readable(
    store: &mut Reading,
    row: &Row,
    judging: Judging,
) -> Result<Option<Stored>, Refusal> {
    let stored = store.stored(row, judging).await?;
    Ok(stored.filter(|stored| stored.cert.has_readable_key()))
}

/// Serves only parts that the owner has signed, and revocations by revokers whom the owner named.
const OWN: Serving =
    Serving { third_party: ThirdParty::Revocations, foreign_signatures: 64, attributes: false };

/// A stored certificate, as far as its owner has signed it, with only the user IDs whose address
/// was confirmed.
pub(crate) async fn confirmed(store: &mut Reading, row: &Row) -> Result<Option<Cert>, Refusal> {
    // Which revocations in the name of a revoker are genuine decides which are given out.
    let Some(Stored { cert, verdicts }) = readable(store, row, judging(OWN)).await? else {
        return Ok(None);
    };
    let cert = cert.served(&verdicts, OWN).unwrap_or(cert);
    let published = store.facts_of(cert.fingerprint()).await?.published;
    Ok(Some(cert.retain(|_, packet| match packet.tag {
        talaria_cert::Tag::USER_ID => {
            Address::of_user_id(packet.body).is_some_and(|email| published.contains(&email))
        }
        talaria_cert::Tag::USER_ATTRIBUTE => false,
        _ => true,
    })))
}

/// Whether a client can do something with it. GnuPG refuses certificates of version 4 without a
/// user ID, but takes the revocation of one it knows.
fn is_useful(cert: &Cert, summary: &Summary) -> bool {
    cert.user_ids().next().is_some()
        || cert.fingerprint().version() > 4
        || summary.primary.revoked
        || cert
            .packets()
            .skip(1)
            .take_while(|packet| packet.tag == talaria_cert::Tag::SIGNATURE)
            .any(|packet| {
                talaria_cert::Signature::parse(packet.body)
                    .is_some_and(|signature| signature.kind == kind::KEY_REVOCATION)
            })
}
