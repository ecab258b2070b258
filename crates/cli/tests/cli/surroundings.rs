//! The environment of a store: a full or read-only disk, concurrent processes, a
//! file of a newer version.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::program::{Contents, Disk, Mount, Program, Serving, corpus, half, joined};
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
            talaria_needs::left_out("strace that may trace");
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

/// A pool of so many threads would stop the machine. With its own stack for each, it does not fit
/// into the memory here.
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

#[test]
fn a_server_on_a_symbolic_link_keeps_every_upload() {
    let all = corpus(12);
    let real = Program::new();
    let ring = real.ring("ring.pgp", &all[..2]);
    real.ok(&["import", text(&ring)]);
    let program = Program::new();
    std::os::unix::fs::symlink(real.store(), program.store()).unwrap();
    let mut server = Serving::start(&program, &[]);
    for (at, cert) in all[2..].iter().enumerate() {
        if at % 2 == 0 {
            assert_eq!(server.add(cert).0, 200, "{}", server.log());
        } else {
            let one = program.ring("one.pgp", std::slice::from_ref(cert));
            program.ok(&["import", text(&one)]);
        }
        assert!(server.finds(cert));
    }
    server.signal("KILL");
    server.wait();
    assert!(!program.path("certs.db-wal").exists(), "nothing is beside the link");
    assert_eq!(program.contents().len(), all.len());
    program.assert_clean();
    // A backup replaces the store, and not the link.
    let copy = program.path("copy.db");
    program.ok(&["admin", "backup", text(&copy)]);
    program.ok(&["admin", "restore", "--overwrite", text(&copy)]);
    assert!(program.store().is_symlink());
    assert_eq!(real.contents().len(), all.len());
}

#[test]
fn a_second_name_of_a_store_is_not_written_beside_a_server() {
    let all = corpus(12);
    let program = Program::new();
    let ring = program.ring("ring.pgp", &all[..4]);
    let more = program.ring("more.pgp", &all[4..6]);
    program.ok(&["import", text(&ring)]);
    let mut server = Serving::start(&program, &[]);
    let second = program.path("second.db");
    let other = |path: &Path| Program::new().with_store(path.to_owned());
    let refused = |program: &Program, why: &str, remedy: &str| {
        let said = program.fails(&["import", text(&more)], 4);
        assert!(said.contains(why) && said.contains(remedy), "{said}");
        let output = program.run(&["list", "--with-colons"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && said.contains(why), "{said}");
        assert!(said.contains("by programs that use another name are not seen here"), "{said}");
    };
    fs::hard_link(program.store(), &second).unwrap();
    let links = "certs.db has 2 names (hard links)";
    server.says(links);
    for program in [&program, &other(&second)] {
        refused(program, "has 2 names (hard links)", "find / -xdev -samefile");
    }
    // It goes on.
    assert_eq!(server.add(&all[6]).0, 200);
    assert!(server.finds(&all[6]));
    fs::remove_file(&second).unwrap();
    program.ok(&["import", text(&more)]);
    assert!(server.finds(&all[5]));
    fs::write(&second, "").unwrap();
    if let Some(_mount) = Mount::bind(program.store(), &second) {
        refused(&other(&second), "is mounted as a single file", "Mount the folder");
        // The first name is the only one that anybody can write.
        assert_eq!(server.add(&all[7]).0, 200);
    }
    let folder = Program::new();
    if let Some(_mount) = Mount::bind(&program.path(""), &folder.path("")) {
        assert!(folder.store().exists());
        let rest = program.ring("rest.pgp", &all[8..]);
        folder.ok(&["import", text(&rest)]);
        assert!(server.finds(&all[11]));
    }
    server.signal("KILL");
    server.wait();
    program.assert_clean();
    let count = program.contents().len();
    assert!([7, 12].contains(&count), "{count}");
}

/// The program without the right of root to pass over permissions.
fn as_any_user(program: &Program, args: &[&str]) -> Command {
    if rustix::process::geteuid().is_root() {
        let without = ["--bounding-set=-dac_override,-dac_read_search"];
        program.command_under("setpriv", &without, args)
    } else {
        program.command(args)
    }
}

fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_store_in_a_folder_that_is_not_writable_is_read_and_misses_nothing() {
    let program = Program::new();
    let folder = program.path("theirs");
    fs::create_dir(&folder).unwrap();
    let program = program.with_store(folder.join("certs.db"));
    let all = corpus(60);
    let ring = program.ring("ring.pgp", &all[..50]);
    let more = program.ring("more.pgp", &all[50..52]);
    program.ok(&["import", text(&ring)]);
    let files = || fs::read_dir(&folder).unwrap().count();
    let read = || {
        let output = as_any_user(&program, &["list", "--with-colons"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let listing = String::from_utf8(output.stdout).unwrap();
        let count = listing.lines().filter(|line| line.starts_with("pub:")).count();
        (output.status.code(), count, said)
    };
    let permit_all = |mode| {
        let entries = fs::read_dir(&folder).unwrap();
        entries.for_each(|entry| permit(&entry.unwrap().path(), mode));
    };
    let close = || {
        permit_all(0o444);
        permit(&folder, 0o555);
    };
    let open = || {
        permit(&folder, 0o755);
        permit_all(0o644);
    };
    close();
    let (status, count, said) = read();
    assert_eq!((status, count), (Some(0), 50), "{said}");
    assert!(as_any_user(&program, &["check"]).status().unwrap().success());
    assert_eq!(files(), 1);
    // A writer says why it cannot.
    let output = as_any_user(&program, &["import", text(&more)]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("certs.db is read-only"), "{said}");
    permit(program.store(), 0o644);
    let output = as_any_user(&program, &["import", text(&more)]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(files(), 1);

    // A server of the owner: its index serves.
    open();
    let mut server = Serving::start(&program, &[]);
    assert_eq!(server.add(&all[52]).0, 200);
    close();
    assert_eq!(read().1, 51);
    assert_eq!(server.add(&all[53]).0, 200);
    assert_eq!(read().1, 52);
    server.signal("KILL");
    server.wait();
    assert_eq!(read().1, 52, "the log of a killed server counts");
    // Without the index, the log cannot be read.
    permit(&folder, 0o755);
    fs::remove_file(folder.join("certs.db-shm")).unwrap();
    close();
    let (status, _, said) = read();
    assert_eq!(status, Some(5), "{said}");
    assert!(said.contains("certs.db-wal has changes that are not in"), "{said}");
    open();
    program.ok(&["import", text(&more)]);
    close();
    assert_eq!(read().1, 54);

    // The cause is named.
    permit(program.store(), 0o000);
    let (status, _, said) = read();
    assert_eq!(status, Some(5), "{said}");
    assert!(said.contains("Permission denied") && !said.contains("index"), "{said}");
    permit(program.store(), 0o444);
    permit(&folder, 0o000);
    let (status, _, said) = read();
    assert_eq!(status, Some(5), "{said}");
    assert!(said.contains("Permission denied") && !said.contains("no store at"), "{said}");
    open();
}

/// A reader that cannot lock the store notices that somebody has changed it meanwhile.
#[test]
fn a_store_that_changes_under_a_reader_without_locks_is_an_error() {
    let program = Program::new();
    let folder = program.path("theirs");
    fs::create_dir(&folder).unwrap();
    let program = program.with_store(folder.join("certs.db"));
    let all = corpus(2000);
    let ring = program.ring("ring.pgp", &all[..1999]);
    let last = program.ring("last.pgp", &all[1999..]);
    program.ok(&["import", text(&ring)]);
    for is_changed in [false, true] {
        permit(&folder, 0o555);
        let mut reader = as_any_user(&program, &["export", "--signatures", "all"]).spawn().unwrap();
        // It waits with most of its output until somebody reads it.
        let mut out = reader.stdout.take().unwrap();
        let mut begin = [0; 1];
        out.read_exact(&mut begin).unwrap();
        permit(&folder, 0o755);
        if is_changed {
            program.ok(&["import", text(&last)]);
        }
        let mut rest = Vec::new();
        out.read_to_end(&mut rest).unwrap();
        let output = reader.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        if is_changed {
            assert_eq!(output.status.code(), Some(5), "{said}");
            assert!(said.contains("certs.db was changed while it was read"), "{said}");
        } else {
            assert!(output.status.success(), "{said}");
            assert!(rest.len() > 1 << 18, "{}: no longer than a pipe and a buffer", rest.len());
        }
    }
}
