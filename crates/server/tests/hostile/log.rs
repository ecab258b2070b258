//! What clients can make the server write into its log.

use std::io::{Read as _, Write as _};

use crate::http2;
use crate::site::{Site, config, connect};

/// The libraries say something of each odd frame.
#[test]
fn odd_frames_of_http_2_leave_nothing_in_the_log() {
    let mut settings = config();
    settings.log.level = "info".into();
    let server = Site::apart(&[], settings);
    let mut stream = connect(server.http);
    stream.write_all(&http2::opening(None)).unwrap();
    // The answer to a ping that the server has not sent.
    let pong = http2::frame(6, 1, 0, &[1; 8]);
    // As many as a client may send without a request.
    stream.write_all(&pong.repeat(400)).unwrap();
    stream.write_all(&http2::get(1, "/health")).unwrap();
    // The server has read all of it when it answers.
    let mut frames = Vec::new();
    let is_answered = |mut frames: &[u8]| {
        while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
            if *kind == 1 {
                return true;
            }
            let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap();
            frames = rest.get(length..).unwrap_or_default();
        }
        false
    };
    while !is_answered(&frames) {
        let mut more = [0; 4096];
        let count = stream.read(&mut more).unwrap();
        assert!(count > 0, "no answer");
        frames.extend_from_slice(&more[..count]);
    }
    drop(stream);
    let log = server.whole_log();
    assert!(!log.contains("h2::") && log.lines().count() < 20, "{} lines", log.lines().count());
}
