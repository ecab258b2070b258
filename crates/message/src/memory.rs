//! Protection of secrets in memory: no page of the process reaches a swap device or a core dump.

use std::sync::OnceLock;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Locks all current and future pages of the process, and disables core dumps. A program should
/// call this before it reads secret keys or passphrases; a library should leave the call to its
/// program.
///
/// All pages are locked, because a secret in use is in many places: in buffers, on stacks, and in
/// the libraries that compute with it. Locking needs an unlimited `RLIMIT_MEMLOCK` (`ulimit -l
/// unlimited`, `LimitMEMLOCK=infinity`) or the right to raise it: with a limit, memory allocation
/// would fail at the limit. Returns whether pages are locked. The result of the first call is
/// final.
pub fn keep_secrets_in_memory() -> bool {
    static KEPT: OnceLock<bool> = OnceLock::new();
    *KEPT.get_or_init(|| {
        let dumps = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
        // Every process may lower a limit.
        let _ = setrlimit(Resource::Core, dumps);
        let unlimited = Rlimit { current: None, maximum: None };
        let may = getrlimit(Resource::Memlock).current.is_none()
            || setrlimit(Resource::Memlock, unlimited).is_ok();
        let pages = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
        may && mlockall(pages).is_ok()
    })
}
