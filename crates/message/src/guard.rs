//! Panics of libraries on foreign bytes.
//!
//! Sequoia panics on some malformed packets, keys and certificates. Anybody can send these, so a
//! panic must have the same effect as an error: the program refuses the packet, and prints nothing.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether this thread is in a guarded call.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a call of a library with foreign bytes; `None` if the library panics.
///
/// The call must not change anything that is used after a panic.
#[must_use]
pub fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    silence();
    let outer = IS_GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(outer);
    result.ok()
}

/// Puts a hook in front of the present panic hook that prints nothing for guarded calls. A sender
/// of messages to a service must not see in its log whether a wrapped session key made a library
/// panic.
fn silence() {
    static ONCE: Once = Once::new();
    // A thread that panics must not change the hook.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let outer = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                outer(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_guarded_call_ends_the_call_only() {
        assert_eq!(guarded(|| 7), Some(7));
        assert_eq!(guarded(|| Vec::<u8>::new()[0]), None);
        let nested = guarded(|| (guarded(|| -> u8 { panic!("inner") }), IS_GUARDED.get()));
        assert_eq!(nested, Some((None, true)));
        assert!(!IS_GUARDED.get());
    }
}
