//! Somebody who looks at the pages of a server with a browser.

use std::io::Read as _;

use talaria_cert::{BATCH_BYTES, Cert, Splitter};
use talaria_corpus::Generate;
use talaria_server::Config;

use super::html::Page;
use crate::site::{self, Site};

pub(crate) struct Visitor {
    /// Closes its connections before the server ends.
    agent: ureq::Agent,
    site: Site,
    /// The certificates at the start of the server.
    pub(crate) fingerprints: Vec<String>,
}

/// A keyring of generated certificates.
pub(crate) fn ring(count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    talaria_corpus::generate(&Generate { count, ..Generate::default() }, &mut bytes).unwrap();
    bytes
}

/// The settings of a test.
pub(crate) fn config() -> Config {
    let mut config = Config::default();
    config.server.hostname = "keys.example.org".into();
    config.server.contact = "operator@example.org".into();
    config
}

impl Visitor {
    /// Visits a server with the certificates of a keyring.
    pub(crate) fn of(ring: &[u8]) -> Self {
        Self::with(ring, config())
    }

    pub(crate) fn with(ring: &[u8], config: Config) -> Self {
        let mut certs = Vec::new();
        let mut splitter = Splitter::new(ring, BATCH_BYTES);
        while let Some(batch) = splitter.next_batch().unwrap() {
            certs.extend(batch.certs().map(|(_, raw)| Cert::parse(raw).unwrap()));
        }
        let fingerprints = certs.iter().map(|cert| cert.fingerprint().to_string()).collect();
        let site = Site::start_at(tempfile::tempdir().unwrap(), &certs, now(), config);
        Self { site, fingerprints, agent: site::agent() }
    }

    /// The address of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        self.site.url(path)
    }

    /// The page for a browser.
    pub(crate) fn page(&self, path: &str, language: &str) -> Page {
        self.get(path, language)
    }

    pub(crate) fn get(&self, path: &str, language: &str) -> Page {
        let request = self
            .agent
            .get(self.url(path))
            .header("Accept", "text/html,*/*;q=0.8")
            .header("Accept-Language", language);
        answer(request.call().unwrap())
    }

    pub(crate) fn get_bytes(&self, path: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let answer = self.agent.get(self.url(path)).call().unwrap();
        answer.into_body().into_reader().read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// Sends the form with the text.
    pub(crate) fn upload_text(&self, text: &str) -> Page {
        let request = self.agent.post(self.url("/pks/add")).header("Accept", "text/html");
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
            .post(self.url("/pks/add"))
            .header("Accept", "text/html")
            .header("Content-Type", "multipart/form-data; boundary=limit");
        answer(request.send(&body[..]).unwrap())
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
