//! The pages in a real browser: nothing is blocked or broken, suggestions appear during typing,
//! and the tests keep screenshots of the pages.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use super::visitor::{self, Visitor, ring};
use super::with_user_ids;

/// A browser, controlled with the `WebDriver` protocol.
struct Browser {
    driver: Child,
    session: String,
    agent: ureq::Agent,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// `None` if no browser is installed.
    fn start() -> Option<Self> {
        Command::new("chromium").arg("--version").output().ok()?;
        let folder = tempfile::tempdir().unwrap();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            Some(line.split_once("successfully on port ")?.1.trim_end_matches('.').to_owned())
        });
        let address = format!("http://127.0.0.1:{}/session", port.expect("a port"));
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--lang=en",
            &format!("--user-data-dir={}", folder.path().display()),
        ];
        let asked = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let answer = post(&agent, &address, &asked);
        let session = answer["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}"));
        let session = format!("{address}/{session}");
        Some(Self { driver, session, agent, _folder: folder })
    }

    fn post(&self, what: &str, body: &Value) -> Value {
        post(&self.agent, &format!("{}/{what}", self.session), body)
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.post("goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    fn open(&self, address: &str) {
        self.post("url", &json!({ "url": address }));
    }

    fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until a script returns true.
    fn wait(&self, script: &str) -> Value {
        let start = Instant::now();
        loop {
            let value = self.run(script);
            if !value.is_null() && value != json!(false) {
                return value;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "waited for {script}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types into the element of a selector.
    fn press(&self, selector: &str, text: &str) {
        let found = self.post("element", &json!({ "using": "css selector", "value": selector }));
        let (_, id) = found.as_object().and_then(|found| found.iter().next()).unwrap();
        let id = id.as_str().unwrap();
        self.post(&format!("element/{id}/value"), &json!({ "text": text }));
    }

    /// The messages on the console, without those of the browser itself.
    fn complaints(&self) -> Vec<String> {
        let log = self.post("se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().cloned().unwrap_or_default();
        entries.iter().map(ToString::to_string).collect()
    }

    fn look(&self, scheme: &str, width: u32) {
        let metrics = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    fn picture(&self, path: &Path) {
        let asked = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.devtools("Page.captureScreenshot", &asked);
        let png = answer["data"].as_str().expect("a picture");
        let png = base64::engine::general_purpose::STANDARD.decode(png).unwrap();
        std::fs::write(path, png).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn post(agent: &ureq::Agent, address: &str, body: &Value) -> Value {
    let request = agent.post(address).header("Content-Type", "application/json");
    let mut answer = request.send(body.to_string()).unwrap();
    let answer = answer.body_mut().with_config().limit(100 << 20).read_to_string().unwrap();
    let mut answer: Value = serde_json::from_str(&answer).unwrap();
    let value = answer["value"].take();
    assert!(value.get("error").is_none(), "{body}: {value}");
    value
}

#[test]
fn a_browser_shows_every_page_without_errors() {
    let Some(browser) = Browser::start() else {
        talaria_needs::left_out("chromium or chromium-driver");
        return;
    };
    let hostile: Vec<&[u8]> = super::HOSTILE.iter().map(|text| text.as_bytes()).collect();
    let (hostile, hostile_bytes) = with_user_ids(&hostile);
    let long = format!("{} <long@example.org>", "A very long name ".repeat(600));
    let word = format!("{}@example.org", "w".repeat(300));
    let (long, long_bytes) = with_user_ids(&[long.as_bytes(), word.as_bytes()]);
    let mut ring = ring(200);
    ring.extend(hostile_bytes);
    ring.extend(long_bytes);
    let revoked = super::revoked();
    ring.extend(sequoia_openpgp::serialize::MarshalInto::to_vec(&revoked).unwrap());
    let mut config = visitor::config();
    config.policy.user_id_bytes = 64 << 10;
    config.vks.enabled = true;
    let real = std::fs::read("/usr/share/keyrings/debian-keyring.gpg").unwrap_or_default();
    ring.extend(real);
    let offered =
        crate::site::armored(&crate::site::make(&["Olga <olga@example.org>", "<o@work.example>"]));
    let site = Visitor::with(&ring, config);
    // A certificate with many third-party signatures, if a real keyring is installed.
    let signed = site.fingerprints.last().unwrap();
    let pages = [
        ("home", "/".to_owned()),
        ("results", "/pks/lookup?op=index&search=martin".to_owned()),
        ("certificate", format!("/certificate/{}", site.fingerprints[7])),
        ("signed", format!("/certificate/{signed}")),
        ("hostile", format!("/certificate/{hostile}")),
        ("long", format!("/certificate/{long}")),
        ("revoked", format!("/certificate/{}", revoked.fingerprint().to_hex())),
        ("manage", "/vks/manage".into()),
        ("uploaded", "/pks/add".into()),
        ("upload", "/upload".into()),
        ("statistics", "/statistics".into()),
        ("peers", "/peers".into()),
        ("operator", "/operator".into()),
        ("nothing", "/pks/lookup?op=index&search=nobody-has-this".into()),
    ];
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, path) in pages {
        for (scheme, width) in [("light", 1200), ("light", 360), ("dark", 1200), ("dark", 360)] {
            browser.look(scheme, width);
            if name == "uploaded" {
                browser.open(&site.url("/upload"));
                let text = serde_json::to_string(&offered).unwrap();
                browser.run(&format!(
                    "document.querySelector('#keytext').value = {text}; \
                     document.querySelector('form[action=\"/pks/add\"]').submit();"
                ));
                browser.wait("return !!document.querySelector('form[action=\"/vks/request\"]');");
            } else {
                browser.open(&site.url(&path));
            }
            // Nothing is wider than the screen.
            let wide = browser.run("return document.documentElement.scrollWidth - innerWidth;");
            assert!(wide.as_i64().unwrap() <= 0, "{name} at {width}: {wide} too wide");
            if width == 360 && ["certificate", "signed", "revoked"].contains(&name) {
                let high = browser.run("return document.documentElement.scrollHeight / 800;");
                assert!(high.as_f64().unwrap() <= 4.0, "{name} has {high} screens of a phone");
            }
            browser.picture(&folder.join(format!("{name}-{scheme}-{width}.png")));
        }
        let complaints = browser.complaints();
        // The browser itself reports a status other than 200.
        let complaints: Vec<_> =
            complaints.iter().filter(|line| !line.contains("status of 404")).collect();
        assert!(complaints.is_empty(), "{name}: {complaints:?}");
    }
}

#[test]
fn suggestions_appear_during_typing() {
    let Some(browser) = Browser::start() else {
        talaria_needs::left_out("chromium or chromium-driver");
        return;
    };
    let name = "<img src=x onerror=alert(1)> \u{202e}evil <suggested@example.org>";
    let (fingerprint, bytes) = with_user_ids(&[name.as_bytes()]);
    let site = Visitor::of(&[ring(50), bytes].concat());
    browser.look("light", 800);
    browser.open(&site.url("/"));
    browser.press("#search", "sug");
    let options = "return document.querySelectorAll('[role=option]').length;";
    browser.press("#search", "gested");
    browser.wait("return document.querySelectorAll('[role=option]').length === 1;");
    let text = browser.run("return document.querySelector('[role=option]').textContent;");
    assert!(
        text.as_str().unwrap().contains("<img src=x") && text.as_str().unwrap().contains("U+202E")
    );
    assert_eq!(browser.run("return document.images.length;"), 0);
    // Escape closes the list, typing opens it again, the keyboard chooses.
    browser.press("#search", "\u{e00c}");
    assert_eq!(browser.run("return document.querySelector('.suggestions').hidden;"), true);
    browser.press("#search", "@");
    browser.wait("return !document.querySelector('.suggestions').hidden;");
    assert_eq!(browser.run(options), 1);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&folder).unwrap();
    browser.picture(&folder.join("suggestions.png"));
    browser.press("#search", "\u{e015}\u{e007}");
    let path =
        browser.wait("return location.pathname.startsWith('/certificate/') && location.pathname;");
    assert_eq!(path, format!("/certificate/{fingerprint}"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
