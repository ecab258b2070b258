//! Requests for what a client does not have yet: by entity tag and by range (RFC 9110, sections 13
//! and 14).

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};

use crate::answer::{Answer, Content, with};
use crate::request::Request;

/// The parts that the client has already.
pub(crate) fn conditional(request: &Request, mut answer: Answer) -> Answer {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads || answer.status() != StatusCode::OK {
        return answer;
    }
    let tag = answer.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok());
    let Some(tag) = tag.map(str::to_owned) else { return answer };
    answer.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if request.header(header::IF_NONE_MATCH).is_some_and(|theirs| names(theirs, &tag)) {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        *answer.body_mut() = Content::from(Bytes::new());
        answer.headers_mut().remove(header::CONTENT_TYPE);
        return answer;
    }
    let Some(range) = request.header(header::RANGE) else { return answer };
    if request.header(header::IF_RANGE).is_some_and(|theirs| theirs != tag) {
        return answer;
    }
    // An answer with an `ETag` is one certificate, held whole in memory.
    let Content::Whole(body) = answer.body() else { return answer };
    let length = body.len();
    match parse_range(range, length) {
        None => answer,
        Some(Ok((from, to))) => {
            // A slice would keep all of the body in memory, which nobody counts.
            let part = Bytes::copy_from_slice(&body[from..to]);
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            *answer.body_mut() = Content::Whole(part);
            let range = format!("bytes {from}-{}/{length}", to - 1);
            with(answer, header::CONTENT_RANGE, &range)
        }
        Some(Err(())) => {
            *answer.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            *answer.body_mut() = Content::from(Bytes::new());
            with(answer, header::CONTENT_RANGE, &format!("bytes */{length}"))
        }
    }
}

/// Whether a list of entity tags has ours, or is `*` (RFC 9110, section 13.1.2). Our tags have no
/// commas, so that no part of another tag is one of them.
fn names(list: &str, tag: &str) -> bool {
    let mut theirs = list.split(',').map(str::trim);
    list.trim() == "*" || theirs.any(|theirs| theirs.strip_prefix("W/").unwrap_or(theirs) == tag)
}

/// One range of bytes (RFC 9110, section 14.1.2): `None` if it is to be ignored, an error if there
/// is no such part.
fn parse_range(text: &str, length: usize) -> Option<Result<(usize, usize), ()>> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (from, to) = (from.trim(), to.trim());
    let range = match (from.parse::<usize>(), to.parse::<usize>()) {
        (Ok(from), Ok(to)) if from <= to => (from, to.saturating_add(1).min(length)),
        (Ok(from), Err(_)) if to.is_empty() => (from, length),
        (Err(_), Ok(last)) if from.is_empty() => {
            if last == 0 {
                return Some(Err(()));
            }
            (length.saturating_sub(last), length)
        }
        _ => return None,
    };
    Some(if range.0 < range.1 { Ok(range) } else { Err(()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_a_tag_whole() {
        for list in ["\"1a\"", "W/\"1a\"", "\"x\", \"1a\"", "W/\"x\",W/\"1a\"", "*"] {
            assert!(names(list, "\"1a\""), "{list}");
        }
        for list in ["", "1a", "\"1a", "\"1A\"", "x\"1a\"", "\"x\"1a\"\"", "w/\"1a\"", "\"a,*,b\""]
        {
            assert!(!names(list, "\"1a\""), "{list}");
        }
    }

    #[test]
    fn a_part_does_not_keep_the_whole_in_memory() {
        let whole = Bytes::from(vec![7; 1 << 20]);
        let answer = with(crate::answer::ok("x/y", whole.clone()), header::ETAG, "\"1a\"");
        let mut request = http::Request::new(());
        request.headers_mut().insert(header::RANGE, HeaderValue::from_static("bytes=5-6"));
        let client = std::net::IpAddr::from([127, 0, 0, 1]);
        let via = crate::request::Via::Public;
        let request = Request::new(request.into_parts().0, via, false, client);
        let answer = conditional(&request, answer);
        let Content::Whole(part) = answer.body() else { panic!("{answer:?}") };
        assert_eq!((answer.status(), &part[..]), (StatusCode::PARTIAL_CONTENT, &[7, 7][..]));
        assert!(!whole.as_ptr_range().contains(&part.as_ptr()));
    }

    #[test]
    fn ranges_are_parsed_by_the_rfc() {
        assert_eq!(parse_range("bytes=0-9", 100), Some(Ok((0, 10))));
        assert_eq!(parse_range("bytes=90-", 100), Some(Ok((90, 100))));
        assert_eq!(parse_range("bytes=-10", 100), Some(Ok((90, 100))));
        assert_eq!(parse_range("bytes=-1000", 100), Some(Ok((0, 100))));
        assert_eq!(parse_range("bytes=50-1000", 100), Some(Ok((50, 100))));
        assert_eq!(parse_range("bytes=100-", 100), Some(Err(())));
        assert_eq!(parse_range("bytes=-0", 100), Some(Err(())));
        for ignored in ["bytes=9-1", "bytes=a-b", "lines=1-2", "bytes=1-2,4-5", "bytes=-"] {
            assert_eq!(parse_range(ignored, 100), None, "{ignored}");
        }
    }
}
