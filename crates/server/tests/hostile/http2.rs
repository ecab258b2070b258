//! Frames of HTTP/2, for clients that do what no library does.

/// The largest window.
pub(crate) const WIDE: u32 = (1 << 31) - 1;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The start of a connection. With a window, the client says how many bytes of each answer it
/// takes.
pub(crate) fn opening(window: Option<u32>) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let setting = window.map(|bytes| [&[0, 4][..], &bytes.to_be_bytes()].concat());
    bytes.extend(frame(4, 0, 0, &setting.unwrap_or_default()));
    if window == Some(WIDE) {
        bytes.extend(frame(8, 0, 0, &(WIDE - 65_535).to_be_bytes()));
    }
    bytes
}

/// The headers of a request: its method, http, a path and an authority, without compression.
fn head(method: u8, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    assert!(length < 127, "{path} is too long for one byte of length");
    [&[method, 0x86, 0x04, length][..], path.as_bytes(), &[0x01, 1], b"x"].concat()
}

/// A request for a path.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(1, 5, stream, &head(0x82, path))
}

/// An upload of which so many bytes come, and not the end.
pub(crate) fn unfinished(stream: u32, path: &str, bytes: usize) -> Vec<u8> {
    [frame(1, 4, stream, &head(0x83, path)), frame(0, 0, stream, &vec![b'a'; bytes])].concat()
}
