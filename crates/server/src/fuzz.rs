//! The pure functions that parse input from strangers, for fuzzing. Not for use.

use bytes::Bytes;
use http::header;
use talaria_cert::{Summary, Verification, verdicts};

use crate::answer::{Content, media, ok, with};
use crate::config::Policy;
use crate::hkp::{keytext, machine};
use crate::request::{Request, Via};
use crate::search::Search;
use crate::{clock, conditional, gossip, submission};

/// Within the life of the certificates that seeds are made of.
const NOW: u32 = 1_740_000_000;

/// Parses any bytes. The first one chooses the kind: a search, a query, a form, a submission, a
/// range, or a membership file.
pub fn read(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match choice % 6 {
        0 => search(&text),
        1 => query(rest),
        2 => form(rest),
        3 => submitted(rest),
        4 => range(&text),
        _ => {
            gossip::peers::parse_membership(&text);
            if let Some(day) = talaria::parse_day(&text) {
                assert_eq!(clock::day_text(day), text);
            }
        }
    }
}

fn search(text: &str) {
    for exact in [false, true] {
        for short_key_ids in [false, true] {
            let policy = Policy { short_key_ids, ..Policy::default() };
            match Search::parse(text, exact, &policy) {
                Ok(search) => drop(search.is_wide(true)),
                // A refusal quotes a bounded part of the text.
                Err(refusal) => assert!(refusal.to_string().len() < 1000, "{refusal}"),
            }
        }
    }
}

fn request(target: &str, media: &str, body: &[u8]) -> Option<Request> {
    let request = http::Request::builder().uri(target).header(header::CONTENT_TYPE, media);
    let (parts, ()) = request.body(()).ok()?.into_parts();
    let client = std::net::Ipv4Addr::LOCALHOST.into();
    let mut request = Request::new(parts, Via::Public, false, client);
    request.body = Bytes::copy_from_slice(body);
    Some(request)
}

fn query(bytes: &[u8]) {
    let target = [b"/pks/lookup?", bytes].concat();
    let Ok(target) = String::from_utf8(target) else { return };
    let Some(request) = request(&target, "", b"") else { return };
    let query = request.query();
    query.option("mr");
    query.is_on("exact");
    search(query.get("search").unwrap_or_default());
}

/// The first line is the media type.
fn form(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (media, body) = bytes.split_at(end);
    let media = String::from_utf8_lossy(media);
    let Some(request) = request("/pks/add", &media, body.get(1..).unwrap_or_default()) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    if let Ok((text, options)) = runtime.block_on(keytext::keytext(&request)) {
        options.option("mr");
        submitted(&text);
    }
}

fn submitted(bytes: &[u8]) {
    let Ok(submission) = submission::read(bytes) else { return };
    assert!(!submission.certs.is_empty() || !submission.rejected.is_empty());
    let certs: Vec<_> = submission.certs.iter().take(10).collect();
    let summaries: Vec<Summary> = certs
        .iter()
        .zip(verdicts(&certs, Verification::Full))
        .map(|(cert, verdicts)| Summary::evaluate(cert, &verdicts, NOW))
        .collect();
    let index = machine::index(summaries.iter(), NOW, |_, _| true);
    assert!(index.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')), "{index:?}");
    let mut lines = index.lines();
    assert_eq!(lines.next(), Some(format!("info:1:{}", summaries.len()).as_str()));
    let keys = lines.filter(|line| match line.split(':').collect::<Vec<_>>()[..] {
        ["pub", _, _, _, _, _, _] => true,
        ["uid", _, _, _, _] => false,
        _ => panic!("{line:?}"),
    });
    assert_eq!(keys.count(), summaries.len());
}

fn range(text: &str) {
    let request = http::Request::builder().header(header::RANGE, text).body(());
    let Ok((parts, ())) = request.map(http::Request::into_parts) else { return };
    let client = std::net::Ipv4Addr::LOCALHOST.into();
    let request = Request::new(parts, Via::Public, false, client);
    let body: Vec<u8> = (0..100).collect();
    let answer = with(ok(media::BYTES, body.clone()), header::ETAG, "\"1\"");
    let answer = conditional::conditional(&request, answer);
    let Content::Whole(part) = answer.body() else { unreachable!("it was whole before") };
    assert!(part.is_empty() || body.windows(part.len()).any(|window| window == &part[..]));
}

#[cfg(test)]
mod tests {
    use talaria_corpus::{CorpusProfile, Generate, certs};

    /// A short run of the fuzzing code.
    #[test]
    fn damaged_requests_cause_no_panic() {
        let cert =
            certs(&Generate { seed: 3, first: 0, count: 1, profile: CorpusProfile::small() });
        let cert = cert[0].as_bytes();
        let armored = talaria_cert::enarmor(cert);
        let part = "Content-Disposition: form-data; name=\"keytext\"";
        let parts =
            format!("multipart/form-data; boundary=x\n--x\r\n{part}\r\n\r\n{armored}\r\n--x--\r\n");
        let whole: [&[u8]; 8] = [
            b"\x000x 0123 4567 89ab cdef 0123 4567 89ab cdef 0123 4567",
            b"\x01op=index&options=mr,json&exact=on&search=%3Ca@b.example%3E",
            &[b"\x02", parts.as_bytes()].concat(),
            &[b"\x03", cert].concat(),
            &[b"\x03", armored.as_bytes()].concat(),
            b"\x04bytes=10-19",
            b"\x05# ours\nkeys.example.org 11370\n",
            b"\x052026-02-28",
        ];
        let mut random = fastrand::Rng::with_seed(1);
        for round in 0..4000 {
            let mut bytes = whole[round % whole.len()].to_vec();
            for _ in 0..random.usize(..4) {
                let at = 1 + random.usize(..(bytes.len() - 1).max(1));
                match random.usize(..4) {
                    0 => bytes.truncate(at.max(2)),
                    1 => bytes.insert(at, random.u8(..)),
                    2 => bytes.extend_from_within(at..),
                    _ => bytes[at] = random.u8(..),
                }
            }
            super::read(&bytes);
        }
    }
}
