//! Keeping secrets in memory: nothing of the process goes to a swap device or into a core dump.

use std::sync::OnceLock;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Locks all pages of the process, those to come as well, and lets it leave no core dump. For programs that
/// are about to read secret keys or passphrases; a library leaves this to the program that it is part of.
///
/// All pages, since a secret is in many places while it is used: in buffers, on stacks, in the libraries
/// that compute with it. That needs an unlimited `RLIMIT_MEMLOCK` (`ulimit -l unlimited`,
/// `LimitMEMLOCK=infinity`) or the right to raise it: under a limit, memory would run out where it ends.
/// Returns whether pages are locked; the first call decides.
pub fn keep_secrets_in_memory() -> bool {
    static KEPT: OnceLock<bool> = OnceLock::new();
    *KEPT.get_or_init(|| {
        let dumps = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
        // Lowering a limit is allowed to all.
        let _ = setrlimit(Resource::Core, dumps);
        let unlimited = Rlimit { current: None, maximum: None };
        let may = getrlimit(Resource::Memlock).current.is_none()
            || setrlimit(Resource::Memlock, unlimited).is_ok();
        let pages = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
        may && mlockall(pages).is_ok()
    })
}
