//! Programs that take the place of GnuPG's: the same options, status lines, texts and exit
//! statuses, over the certificates and verdicts of [`talaria_cert`].
//!
//! This is all but the `main` functions of the programs. A program starts no thread and sets
//! nothing up that its task does not need, since scripts start one for each signature.
//!
//! ```
//! // As `gpgv --keyring /nonexistent/keys.gpg /nonexistent/file.sig`.
//! let arguments = ["--keyring", "/nonexistent/keys.gpg", "/nonexistent/file.sig"];
//! assert_eq!(talaria_gpg::gpgv(arguments.map(Into::into).to_vec()), 2);
//!
//! // As `gpg --no-options --dump-options`.
//! let arguments = ["--no-options", "--dump-options"];
//! assert_eq!(talaria_gpg::gpg(&arguments.map(std::ffi::OsString::from)), 0);
//! ```

mod algorithm;
mod armor;
mod catalog;
mod check;
mod code;
mod compressed;
mod data;
mod descriptor;
mod digests;
mod framing;
mod gpg;
mod gpgv;
mod input;
mod keyblock;
mod keyid;
mod keyring;
mod log;
mod options;
mod output;
mod pass;
mod process;
mod progress;
mod session;
mod signature;
mod status;
mod text;
mod time;

pub use gpg::gpg;
pub use gpgv::gpgv;
