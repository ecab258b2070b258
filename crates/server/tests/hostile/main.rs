//! Hostile clients, uploads and peers: they use few resources, other clients are served meanwhile,
//! and GnuPG imports the certificates that they attack.

mod answers;
mod attacks;
mod clients;
mod http2;
mod log;
mod others;
mod peers;
#[path = "../server/site/mod.rs"]
mod site;
mod stalled;
mod statistics;
mod thousand;
mod tls;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use site::Site;
use talaria_cert::Cert;

/// Memory is measured with the allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MIB: u64 = 1 << 20;

/// The longest delay of an upload by uploads of others.
const DELAY: Duration = Duration::from_millis(200);

/// A lock for tests that measure time or memory, or use up file descriptors.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that the server answers.
fn assert_serves(server: &Site, cert: &Cert) {
    let path = format!("/pks/lookup?op=get&options=mr&search=0x{}", cert.fingerprint());
    let reply = server.get(&path);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.text().contains("BEGIN PGP PUBLIC KEY BLOCK"));
}

/// The number of files that may be open, as many as the system allows.
fn open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The time that an upload takes.
fn upload_time(server: &Site, cert: &Cert) -> Duration {
    let began = Instant::now();
    let reply = server.put(cert);
    assert_eq!(reply.status, 200, "{}", reply.text());
    began.elapsed()
}

/// Runs an attack, and uploads certificates of others one by one meanwhile, and looks one up. Both
/// take no longer than before, apart from [`DELAY`].
fn beside_others<T: Send>(server: &Site, others: &[Cert], attack: impl FnOnce() -> T + Send) -> T {
    let (before, during) = others.split_at(20);
    let usual = before.iter().map(|cert| upload_time(server, cert)).max().unwrap();
    thread::scope(|scope| {
        let attacking = scope.spawn(attack);
        let (mut number, mut slowest) = (0, [Duration::ZERO; 2]);
        for cert in during.iter().cycle() {
            number += 1;
            let uploaded = upload_time(server, cert);
            let began = Instant::now();
            assert_serves(server, &before[0]);
            slowest = [slowest[0].max(uploaded), slowest[1].max(began.elapsed())];
            if attacking.is_finished() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let result = attacking.join().unwrap();
        let [upload, look_up] = slowest;
        eprintln!(
            "{number} uploads of others: {upload:?} at most, look-ups {look_up:?}; {usual:?} before"
        );
        assert!(upload < usual + DELAY, "{upload:?}, {usual:?} before");
        assert!(look_up < DELAY, "{look_up:?}");
        result
    })
}
