//! Files and listings of GnuPG, compared with the installed gpg.

mod common;
mod keybox;
mod listing;
mod tofudb;
