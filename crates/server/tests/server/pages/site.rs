//! A server in a folder of its own.

use std::io::Read as _;
use std::thread::JoinHandle;

use talaria_bench::Generate;
use talaria_cert::{BATCH_BYTES, Cert, Splitter, Verification};
use talaria_server::{Config, Server, ServerHandle};
use talaria_store::{Access, Store};

use super::html::Page;

pub(crate) struct Site {
    pub(crate) address: String,
    /// The address for operators.
    operator: String,
    /// The certificates at the start of the server.
    pub(crate) fingerprints: Vec<String>,
    agent: ureq::Agent,
    handle: Option<ServerHandle>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

/// Generated certificates, one after the other.
pub(crate) fn generated(count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    talaria_bench::generate(&Generate { count, ..Generate::default() }, &mut bytes).unwrap();
    bytes
}

/// The settings of a test.
pub(crate) fn config() -> Config {
    let mut config = Config::default();
    config.http.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config.http.operator_listen = vec!["127.0.0.1:0".parse().unwrap()];
    config.server.hostname = "keys.example.org".into();
    config.server.contact = "operator@example.org".into();
    config
}

impl Site {
    pub(crate) fn start(ring: &[u8]) -> Self {
        Self::start_with(ring, config())
    }

    /// Starts a server on a store with the certificates of a keyring.
    pub(crate) fn start_with(ring: &[u8], config: Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.db");
        let mut store = Store::open(&path, Access::Create).unwrap();
        let mut fingerprints = Vec::new();
        let mut splitter = Splitter::new(ring, BATCH_BYTES);
        while let Some(batch) = splitter.next_batch().unwrap() {
            let certs: Vec<Cert> =
                batch.certs().map(|(_, raw)| Cert::parse(raw).unwrap()).collect();
            fingerprints.extend(certs.iter().map(|cert| cert.fingerprint().to_string()));
            store.ingest(certs, Verification::Full, now().into()).unwrap();
        }
        drop(store);
        let server = Server::start(&path, config, None).unwrap();
        let address = format!("http://{}", server.addresses()[0]);
        let operator = format!("http://{}", server.operator_addresses()[0]);
        let handle = Some(server.handle());
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        Self { address, operator, fingerprints, agent, handle, thread, _folder: folder }
    }

    /// The scheme and the address of the listener that answers a path.
    pub(crate) fn base(&self, path: &str) -> &str {
        if path == "/operator" { &self.operator } else { &self.address }
    }

    /// The page for a browser.
    pub(crate) fn page(&self, path: &str, language: &str) -> Page {
        self.get(path, language)
    }

    pub(crate) fn get(&self, path: &str, language: &str) -> Page {
        let base = self.base(path);
        let request = self
            .agent
            .get(format!("{base}{path}"))
            .header("Accept", "text/html,*/*;q=0.8")
            .header("Accept-Language", language);
        answer(request.call().unwrap())
    }

    pub(crate) fn get_bytes(&self, path: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let answer = self.agent.get(format!("{}{path}", self.address)).call().unwrap();
        answer.into_body().into_reader().read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// Sends the form with the text.
    pub(crate) fn upload_text(&self, text: &str) -> Page {
        let request =
            self.agent.post(format!("{}/pks/add", self.address)).header("Accept", "text/html");
        answer(request.send_form([("keytext", text)]).unwrap())
    }

    /// Sends the form with the file.
    pub(crate) fn upload_file(&self, bytes: &[u8]) -> Page {
        let mut body = b"--limit\r\nContent-Disposition: form-data; name=\"keyfile\"; \
            filename=\"key.pgp\"\r\nContent-Type: application/octet-stream\r\n\r\n"
            .to_vec();
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n--limit--\r\n");
        let request = self
            .agent
            .post(format!("{}/pks/add", self.address))
            .header("Accept", "text/html")
            .header("Content-Type", "multipart/form-data; boundary=limit");
        answer(request.send(&body[..]).unwrap())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // The handle must be dropped so that the server ends.
        if let Some(handle) = self.handle.take() {
            handle.shut_down();
        }
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(answer: ureq::http::Response<ureq::Body>) -> Page {
    let status = answer.status().as_u16();
    let headers = answer
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
        .collect();
    let mut body = String::new();
    answer.into_body().into_reader().read_to_string(&mut body).unwrap();
    Page::new(status, headers, body)
}

fn now() -> u32 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    u32::try_from(now).unwrap()
}
