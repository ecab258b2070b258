//! The header in the repository must equal the one generated from the sources.

use std::path::Path;

/// After a change: `TALARIA_WRITE=1 cargo test -p talaria-capi --test header`.
#[test]
fn the_header_agrees_with_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::generate_with_config(root, config).unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let path = root.join("include/talaria.h");
    if std::env::var_os("TALARIA_WRITE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let there = std::fs::read(&path).unwrap_or_default();
    assert!(there == made, "include/talaria.h is not up to date");
}
