//! The bodies of `/pks/hashquery`, by which servers fetch certificates from each other.

use crate::digest::Digest;
use crate::message::{DecodeError, Reader, put_int, put_string};

/// Maximum number of digests in a query. SKS asks for 100 at once.
pub const HASHQUERY_DIGESTS_MAX: usize = 10_000;

/// The body of a query for these digests.
#[must_use]
pub fn encode_hashquery(digests: &[Digest]) -> Vec<u8> {
    let mut body = Vec::with_capacity(4 + 20 * digests.len());
    put_int(&mut body, digests.len());
    digests.iter().for_each(|digest| put_string(&mut body, &digest.0));
    body
}

/// The digests that a query asks for.
///
/// # Errors
///
/// [`DecodeError`], also if they are more than [`HASHQUERY_DIGESTS_MAX`].
pub fn decode_hashquery(body: &[u8]) -> Result<Vec<Digest>, DecodeError> {
    let mut body = Reader::new(body);
    let count = body.int()? as usize;
    if count > HASHQUERY_DIGESTS_MAX {
        let announced = count as u64;
        return Err(DecodeError::TooMany { announced, max: HASHQUERY_DIGESTS_MAX });
    }
    let digest = |_| match body.string()?.try_into() {
        Ok(digest) => Ok(Digest(digest)),
        Err(_) => Err(DecodeError::Malformed("digest")),
    };
    let digests = (0..count).map(digest).collect::<Result<_, _>>()?;
    end(&body, "end of a query")?;
    Ok(digests)
}

/// The body of the reply: the certificates that were asked for and found.
///
/// All known servers put an empty line behind it, and so do we.
#[must_use]
pub fn encode_hashreply<T: AsRef<[u8]>>(certs: &[T]) -> Vec<u8> {
    let len: usize = certs.iter().map(|cert| 4 + cert.as_ref().len()).sum();
    let mut body = Vec::with_capacity(4 + len + 2);
    put_int(&mut body, certs.len());
    certs.iter().for_each(|cert| put_string(&mut body, cert.as_ref()));
    body.extend(b"\r\n");
    body
}

/// The certificates in a reply to a query for `max` of them, unread.
///
/// # Errors
///
/// [`DecodeError`].
pub fn decode_hashreply(body: &[u8], max: usize) -> Result<Vec<&[u8]>, DecodeError> {
    let mut body = Reader::new(body);
    let count = body.int()?;
    if count as usize > max {
        return Err(DecodeError::TooMany { announced: u64::from(count), max });
    }
    let certs = (0..count).map(|_| body.string()).collect::<Result<_, _>>()?;
    end(&body, "end of a reply")?;
    Ok(certs)
}

/// Nothing is left but an empty line.
fn end(body: &Reader<'_>, what: &'static str) -> Result<(), DecodeError> {
    if matches!(body.rest(), b"" | b"\n" | b"\r\n") {
        Ok(())
    } else {
        Err(DecodeError::Malformed(what))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_query_is_a_count_and_strings() {
        let query = encode_hashquery(&[Digest([0xab; 16])]);
        assert_eq!(query[..8], [0, 0, 0, 1, 0, 0, 0, 16]);
        assert_eq!(query[8..], [0xab; 16]);
        let mut short = query.clone();
        short[7] = 15;
        assert!(decode_hashquery(&short).is_err());
        let many = encode_hashquery(&vec![Digest([1; 16]); HASHQUERY_DIGESTS_MAX + 1]);
        let refusal = DecodeError::TooMany { announced: 10_001, max: HASHQUERY_DIGESTS_MAX };
        assert_eq!(decode_hashquery(&many), Err(refusal));
    }

    #[test]
    fn a_reply_may_end_with_an_empty_line() {
        let reply = b"\0\0\0\x02\0\0\0\x01a\0\0\0\x02\r\n";
        let certs: [&[u8]; 2] = [b"a", b"\r\n"];
        assert_eq!(decode_hashreply(reply, 2), Ok(certs.to_vec()));
        let refusal = DecodeError::TooMany { announced: 2, max: 1 };
        assert_eq!(decode_hashreply(reply, 1), Err(refusal));
        assert_eq!(encode_hashreply(&certs), [&reply[..], b"\r\n"].concat());
        assert_eq!(decode_hashreply(b"\0\0\0\0\r\n", 0), Ok(vec![]));
        assert!(decode_hashreply(b"\0\0\0\0\r\n\r\n", 9).is_err());
        assert!(decode_hashreply(b"\xff\xff\xff\xff\0\0\0\0", usize::MAX).is_err());
    }

    proptest! {
        #[test]
        fn bodies_read_back(
            digests in prop::collection::vec(any::<[u8; 16]>().prop_map(Digest), 0..9),
            certs in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9),
        ) {
            prop_assert_eq!(decode_hashquery(&encode_hashquery(&digests)), Ok(digests));
            let reply = encode_hashreply(&certs);
            let read: Vec<_> = decode_hashreply(&reply, certs.len()).unwrap().iter().map(|c| c.to_vec()).collect();
            prop_assert_eq!(read, certs);
        }

        #[test]
        fn any_bytes_are_a_body_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            let _ = (decode_hashquery(&bytes), decode_hashreply(&bytes, usize::MAX));
        }
    }
}
