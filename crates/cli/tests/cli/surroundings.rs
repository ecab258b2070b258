//! The environment of a store: a full or read-only disk, concurrent processes, a
//! file of a newer version.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::program::{Contents, Disk, Program, corpus, half, joined};
use rusqlite::Connection;
use talaria::cert::Cert;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The number of certificates in a listing.
fn listed(program: &Program) -> usize {
    let listing = program.ok(&["list", "--with-colons"]);
    listing.lines().filter(|line| line.starts_with("pub:")).count()
}

#[test]
fn a_single_change_has_four_syncs() {
    let program = Program::new();
    let all = corpus(3);
    let trace = program.path("trace");
    let before = ["-f", "-o", text(&trace), "-e", "trace=fsync,fdatasync"];
    for (at, cert) in all.iter().enumerate() {
        let ring = program.ring("one.pgp", std::slice::from_ref(cert));
        let args = ["import", text(&ring)];
        let output = program.command_under("strace", &before, &args).output().unwrap();
        if !trace.exists() {
            eprintln!("strace may not trace here: the syncs were not counted");
            return;
        }
        assert!(output.status.success(), "{output:?}");
        let calls = fs::read_to_string(&trace).unwrap();
        let count = calls.lines().filter(|call| call.ends_with("= 0")).count();
        // The first command makes the store and its log.
        assert!(at == 0 || count == 4, "{calls}");
    }
    let before = ["-f", "-o", text(&trace), "-e", "trace=fsync,fdatasync"];
    let name = all[0].fingerprint().to_string();
    for args in [&["trust", "set", &name, "full"][..], &["delete", "--yes", &name]] {
        let output = program.command_under("strace", &before, args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let calls = fs::read_to_string(&trace).unwrap();
        assert_eq!(
            calls.lines().filter(|call| call.ends_with("= 0")).count(),
            4,
            "{args:?}: {calls}"
        );
    }
}

#[test]
fn a_full_disk_is_reported_and_damages_nothing() {
    let program = Program::new();
    let Some(disk) = Disk::mount(program.path("disk"), 3 << 20) else { return };
    let program = program.with_store(disk.at.join("certs.db"));
    let all = corpus(3000);
    let old = program.ring("old.pgp", &all[..100]);
    let new = program.ring("new.pgp", &all);
    program.ok(&["import", text(&old)]);
    let before = program.contents();
    assert_eq!(before.len(), 100);
    let full = format!("talaria: no space left on the disk of {}", text(program.store()));
    // Too much for the disk at first; then less and less free space.
    for left in [None, Some(300_000), Some(100_000), Some(20_000), Some(0)] {
        if let Some(left) = left {
            disk.fill(left);
        }
        let said = program.fails(&["import", text(&new)], 5);
        assert!(said.contains(&full), "{left:?} left: {said}");
        assert!(said.lines().count() <= 2, "{said}");
        disk.free();
        program.assert_clean();
        assert!(program.contents() == before, "{left:?} left");
    }
    // A full disk, and reading only.
    disk.fill(0);
    assert_eq!(listed(&program), 100);
    let some = before.keys().next().unwrap().to_string();
    let said = program.fails(&["compact"], 5);
    assert!(said.contains(&full), "{said}");
    let said = program.fails(&["delete", &some], 5);
    assert!(said.contains(&full), "{said}");
    disk.free();
    program.assert_clean();
    assert!(program.contents() == before);
    // A build does not fit either, and leaves no store.
    let built = program.with_store(disk.at.join("built.db"));
    let said = built.fails(&["build", text(&new)], 5);
    assert!(said.contains("no space left on the disk of"), "{said}");
    assert!(!built.store().exists());
    // With free space again, everything works.
    drop(fs::remove_file(disk.at.join("built.db.building")));
    let built = built.with_store(disk.at.join("certs.db"));
    let more = built.ring("more.pgp", &all[100..200]);
    built.ok(&["import", text(&more)]);
    assert!(built.contents() == joined(before, &all[100..200]));
}

#[test]
fn output_to_a_full_disk_keeps_the_old_file_and_no_partial_one() {
    let program = Program::new();
    let Some(disk) = Disk::mount(program.path("disk"), 3 << 20) else { return };
    let at = |name: &str| text(&program.path(name)).to_owned();
    fs::write(program.path("pw"), "correct horse\n").unwrap();
    let document: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(program.path("document"), &document).unwrap();
    let encrypt = ["encrypt", "--symmetric", "--passphrase-file", &at("pw")];
    program.ok(&[&encrypt[..], &["-o", &at("sealed"), &at("document")]].concat());
    let decrypt = ["decrypt", "--passphrase-file", &at("pw")];
    let out = disk.at.join("out");
    for (command, input) in
        [(&encrypt[..], "document"), (&decrypt, "sealed"), (&["pack"], "sealed")]
    {
        for before in [None, Some("what was there")] {
            let _ = fs::remove_file(&out);
            before.iter().for_each(|before| fs::write(&out, before).unwrap());
            let input = at(input);
            let args = [command, &["--overwrite", "-o", text(&out), &input]].concat();
            let said = program.fails(&args, 5);
            assert!(said.contains("No space left"), "{args:?}: {said}");
            assert_eq!(fs::read_to_string(&out).ok().as_deref(), before);
            let left = fs::read_dir(&disk.at).unwrap().count();
            assert_eq!(left, usize::from(before.is_some()), "{args:?}");
        }
    }
}

#[test]
fn a_read_only_file_system_can_be_read_and_writes_are_refused() {
    let program = Program::new();
    let Some(disk) = Disk::mount(program.path("disk"), 8 << 20) else { return };
    let program = program.with_store(disk.at.join("certs.db"));
    let all = corpus(60);
    let old = program.ring("old.pgp", &all[..50]);
    let new = program.ring("new.pgp", &all);
    program.ok(&["import", text(&old)]);
    let listing = program.ok(&["list", "--with-colons"]);
    let before = fs::read(program.store()).unwrap();
    disk.read_only();
    assert_eq!(program.ok(&["list", "--with-colons"]), listing);
    program.assert_clean();
    let some = all[3].fingerprint().to_string();
    assert!(program.ok(&["show", &some]).contains(&some[some.len() - 16..]));
    for args in [&["import", text(&new)][..], &["delete", &some], &["compact"]] {
        let said = program.fails(args, 4);
        assert!(said.contains(&format!("{} is read-only", text(program.store()))), "{said}");
    }
    let elsewhere = program.with_store(disk.at.join("new.db"));
    let said = elsewhere.fails(&["import", text(&new)], 4);
    assert!(said.contains(text(elsewhere.store())), "{said}");
    let output = elsewhere.run(&["build", text(&new)]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(4 | 5)), "{said}");
    assert!(said.contains(text(elsewhere.store())) && said.contains("ead-only"), "{said}");
    disk.writable();
    let program = elsewhere.with_store(disk.at.join("certs.db"));
    assert_eq!(fs::read(program.store()).unwrap(), before);
    program.ok(&["import", text(&new)]);
    assert_eq!(program.contents().len(), 60);
}

#[test]
fn concurrent_importers_and_readers_lose_nothing() {
    let program = Program::new();
    let all = corpus(400);
    let (first, second) = (&all[..300], &all[100..]);
    // Several files with different signatures, so that there are many transactions.
    let rings = |certs: &[Cert], odd: usize| -> Vec<PathBuf> {
        let parts = certs.chunks(10).enumerate();
        let ring = |(number, part): (usize, &[Cert])| {
            program.ring(&format!("ring-{odd}-{number}.pgp"), &half(part, odd))
        };
        parts.map(ring).collect()
    };
    let rings = [rings(first, 0), rings(second, 1)];
    program.ok(&["import", text(&rings[0][0])]);
    let program = &program;
    let largest = thread::scope(|scope| {
        let importers: Vec<_> = rings
            .iter()
            .map(|rings| {
                scope.spawn(move || {
                    for ring in rings {
                        let said = program.ok(&["import", text(ring)]);
                        assert!(said.contains(" 0 rejected"), "{said}");
                    }
                })
            })
            .collect();
        let running = || importers.iter().any(|importer| !importer.is_finished());
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let mut sizes = Vec::new();
                    for _ in 0..30 {
                        sizes.push(listed(program));
                    }
                    // No certificate disappears.
                    assert!(sizes.is_sorted(), "{sizes:?}");
                    sizes.last().copied().unwrap_or_default()
                })
            })
            .collect();
        let largest = readers.into_iter().map(|reader| reader.join().unwrap()).max();
        while running() {
            thread::yield_now();
        }
        importers.into_iter().for_each(|importer| importer.join().unwrap());
        largest
    });
    assert!(largest.is_some_and(|largest| (10..=400).contains(&largest)));
    let expected = joined(joined(Contents::new(), &half(first, 0)), &half(second, 1));
    assert!(program.contents() == expected);
    program.assert_clean();
}

/// A pool of so many threads would stop the machine. With its own stack for each, it does not fit into the memory here.
#[test]
fn the_environment_cannot_ask_for_thousands_of_threads() {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(20));
    let limit = ["-c", "ulimit -v 6000000 && exec \"$@\"", "bash"];
    let mut command = program.command_under("bash", &limit, &["import", text(&ring)]);
    let output = command.env("RAYON_NUM_THREADS", "20000").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(listed(&program), 20);
}

#[test]
fn a_store_of_a_newer_format_is_reported_and_unchanged() {
    let program = Program::new();
    let all = corpus(20);
    let ring = program.ring("ring.pgp", &all);
    program.ok(&["import", text(&ring)]);
    Connection::open(program.store()).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let before = fs::read(program.store()).unwrap();
    let some = all[0].fingerprint().to_string();
    for args in [
        &["import", text(&ring)][..],
        &["list"],
        &["show", &some],
        &["export"],
        &["delete", &some],
        &["check"],
        &["check", "--rebuild"],
        &["compact"],
        &["stats"],
        &["build", text(&ring)],
    ] {
        let said = if args[0] == "build" {
            // The file blocks a build, whatever it is.
            program.fails(args, 5)
        } else {
            let said = program.fails(args, 4);
            assert!(said.contains("store format 99"), "{args:?}: {said}");
            said
        };
        assert!(said.contains(text(program.store())), "{args:?}: {said}");
        assert_eq!(fs::read(program.store()).unwrap(), before, "{args:?}");
    }
    // Readers may leave an empty log, without any writes.
    for suffix in ["-wal", "-journal", ".building"] {
        let beside = format!("{}{suffix}", text(program.store()));
        assert_eq!(fs::metadata(&beside).map_or(0, |meta| meta.len()), 0, "{beside}");
    }
}
