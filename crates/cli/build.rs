//! Keeps the tables of addresses of the programs small.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if packs_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the programs run where they are built, on a C library that reads packed tables (glibc
/// 2.36). Each start reads the whole table, and packed it is a hundredth as large.
fn packs_relocations() -> bool {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if !is("CARGO_CFG_TARGET_ENV", "gnu") || std::env::var("HOST") != std::env::var("TARGET") {
        return false;
    }
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let version = said.ok().and_then(|said| {
        let text = String::from_utf8(said.stdout).ok()?;
        let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    version.is_some_and(|version| version >= (2, 36))
}
