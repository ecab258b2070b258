//! The Python module `talaria`: arguments and results between Python and `talaria::embed`, which
//! does the work, while other threads of Python run. What the module offers is described in
//! `talaria.pyi`.

#![allow(clippy::needless_pass_by_value, reason = "Python gives values")]

mod data;
mod error;
mod keys;
mod log;
mod messages;
mod signatures;

use pyo3::pymodule;

/// OpenPGP messages without a gpg process: encrypt, decrypt, sign, verify; and signed logs.
#[pymodule]
#[pyo3(name = "talaria")]
mod module {
    #[pymodule_export]
    use crate::error::{
        AmbiguousError, Error, InternalError, MalformedError, NoSecretError, NotFoundError,
        RefusedError, SignatureError, StoreError, TamperedError, TooLargeError, UnsupportedError,
        UnusableKeyError, UsageError,
    };
    #[pymodule_export]
    use crate::keys::{Key, Store};
    #[pymodule_export]
    use crate::log::{
        Encrypted, Exchange, Import, Log, LogCheck, LogEntry, LogNode, LogSnapshot, LogWatcher,
        ObjectId, Witness,
    };
    #[pymodule_export]
    use crate::messages::{Opener, Sealer};
    #[pymodule_export]
    use crate::signatures::{Verification, Verifier};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
