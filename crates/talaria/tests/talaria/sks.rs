//! The SKS digest of certificates, compared with a running SKS.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use talaria::cert::{BATCH_BYTES, Cert, Splitter};
use talaria::store::{Access, Store};
use talaria::{ImportOptions, Input, InputKind, Monitor, import};

/// Keyrings with certificates that SKS stores unchanged.
const RINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-nonupload.gpg", "/usr/share/keyrings/debian-maintainers.gpg"];

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn digests_equal_those_of_sks() {
    if !RINGS.iter().all(|ring| Path::new(ring).exists()) || Command::new("sks").output().is_err() {
        talaria_needs::left_out("sks or debian-keyring");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    for part in [
        "etc/sks",
        "var/lib/sks/dump",
        "var/lib/sks/www",
        "var/log/sks",
        "var/run/sks",
        "var/spool/sks/messages",
        "var/spool/sks/failed_messages",
    ] {
        fs::create_dir_all(base.join(part)).unwrap();
    }
    let port = talaria_needs::free_port();
    let configuration = format!(
        "hostname: localhost\nnodename: test\nhkp_address: 127.0.0.1\nhkp_port: {port}\n\
         pagesize: 16\nptree_pagesize: 16\ndisable_mailsync:\n"
    );
    fs::write(base.join("etc/sks/sksconf"), configuration).unwrap();
    fs::write(base.join("etc/sks/membership"), "").unwrap();
    let built = Command::new("sks")
        .arg("build")
        .args(RINGS)
        .args(["-n", "10", "-cache", "50", "-basedir"])
        .arg(base)
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
    let server = Command::new("sks")
        .args(["db", "-basedir"])
        .arg(base)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Server(server.unwrap());
    let mut compared = 0;
    for ring in RINGS {
        let mut splitter = Splitter::new(fs::File::open(ring).unwrap(), BATCH_BYTES);
        while let Some(batch) = splitter.next_batch().unwrap() {
            for (_, raw) in batch.certs() {
                let cert = Cert::parse(raw).unwrap();
                let ours: String = cert.sks_digest().iter().map(|b| format!("{b:02X}")).collect();
                let path = format!("/pks/lookup?op=index&hash=on&search=0x{}", cert.fingerprint());
                let answer = get(port, &path);
                assert!(
                    answer.contains(&format!("op=hget&amp;search={ours}")),
                    "{}: {ours} is not in {answer}",
                    cert.fingerprint()
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
    import_from_the_server(base, port);
}

/// The same server as a source of certificates, by fingerprint and by address.
fn import_from_the_server(base: &Path, port: u16) {
    let mut store = Store::open(&base.join("store.db"), Access::Create).unwrap();
    let server = format!("hkp://127.0.0.1:{port}");
    let stop = AtomicBool::new(false);
    let mut import_one = |search: &str| {
        let mut monitor = Monitor { report: &mut |_| {}, stop: &stop };
        let options = ImportOptions::new(1_740_000_000);
        let inputs = [Input::keyserver(&server, search)];
        import(&mut store, &inputs, options, &mut monitor).unwrap().remove(0)
    };
    let report = import_one("F6258DF2BFF9A73F5B1E15C306456DD791E95791");
    assert_eq!((report.new, report.kind, report.error), (1, Some(InputKind::Armor), None));
    let report = import_one("manu@debian.org");
    assert_eq!((report.unchanged, report.error), (1, None));
    let report = import_one("nobody@nowhere.invalid");
    assert!(report.error.is_some_and(|error| error.contains("404")), "{:?}", report.kind);
}

fn get(port: u16, path: &str) -> String {
    for _ in 0..100 {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            return String::from_utf8_lossy(&answer).into_owned();
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("the server does not answer");
}
