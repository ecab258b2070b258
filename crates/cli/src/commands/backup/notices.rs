//! What the library tells about a repository, on standard error.

use talaria::backup::Notice;

use crate::context::Context;
use crate::terminal::Paint;

/// A function that prints what the library tells.
pub(super) fn teller(cx: &Context) -> impl FnMut(Notice) {
    |notice| match notice {
        Notice::FirstUse { .. } => cx.status(format_args!(
            "{notice}\n  If that is not the owner you expect, somebody has replaced the repository."
        )),
        _ => cx.status(format_args!("{}: {notice}", Paint::stderr().doubtful("Warning"))),
    }
}
