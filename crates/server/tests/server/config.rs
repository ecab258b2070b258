//! `docs/server.toml` must agree with the types of the configuration, and errors name the line.

use std::fs;
use std::path::{Path, PathBuf};

use talaria_server::{Config, GossipPeer};

fn documented() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/server.toml")
}

/// All settings, with values for those without a default.
fn filled() -> Config {
    let mut config = Config::default();
    config.server.logo = Some("l".into());
    config.http.tls_certificate = Some("a".into());
    config.http.tls_key = Some("b".into());
    config.http.operator_token_file = Some("t".into());
    config.gossip.membership = Some("c".into());
    config.gossip.http_port = Some(1);
    config.gossip.peers = vec![GossipPeer {
        host: "d".into(),
        port: 1,
        http_port: Some(1),
        view: "sks".into(),
        filters: Some("f".into()),
    }];
    config.vks.smtp_password_file = Some("e".into());
    config
}

/// The names of all settings, with their tables.
fn keys(prefix: &str, value: &toml::Value, out: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let name =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                keys(&name, value, out);
            }
        }
        toml::Value::Array(values) if values.iter().any(toml::Value::is_table) => {
            values.iter().for_each(|value| keys(prefix, value, out));
        }
        _ => out.push(prefix.to_owned()),
    }
}

fn keys_of(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    keys("", &toml::Value::Table(text.parse().unwrap()), &mut out);
    out.sort();
    out.dedup();
    out
}

#[test]
fn the_documented_settings_are_the_defaults() {
    assert_eq!(Config::read(&documented()).unwrap(), Config::default());
}

#[test]
fn every_setting_is_documented_and_no_other() {
    let text = fs::read_to_string(documented()).unwrap();
    // Settings without a default follow a `#` without a space.
    let all: String = text
        .lines()
        .filter(|line| *line != "peers = []")
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => rest,
            _ => line,
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let read: Config = toml::from_str(&all).unwrap();
    read.validate().unwrap();
    assert_eq!(keys_of(&all), keys_of(&filled().to_toml()));
    // Each setting has a comment above it, or above its group.
    let mut commented = false;
    for line in text.lines() {
        match line {
            "" => commented = false,
            _ if line.starts_with("# ") => commented = true,
            _ if line.starts_with('[') => {}
            _ => assert!(commented, "{line}"),
        }
    }
}

#[test]
fn configuration_errors_give_the_line_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.toml");
    let cases = [
        ("[http]\nlisten = [\"0.0.0.0:80\"]\n[policy]\nresutls = 5\n", "line 4", "resutls"),
        ("[http]\nlisten = [\"nowhere\"]\n", "line 2", "listen"),
        ("[policy]\nuploads = \"yes\"\n", "line 2", "uploads"),
        ("[policy]\nphotos = true\nresults = 0\n", "line 3", "policy.results"),
        ("[policy]\nthird_party = \"some\"\n", "line 2", "\"verified\", or \"all\""),
        ("[gossip]\n\ninterval_s = 0.01", "line 3", "gossip.interval_s"),
        ("\n[rates.uploads]\nper_second = 0.0\nburst = 5.0", "line 2", "rates.uploads"),
        ("[http]\n# TLS\ntls_key = \"k.pem\"", "line 3", "http.tls_key"),
        ("[http]\n# TLS\ntls_certificate = \"k.pem\"", "line 1", "http.tls_key"),
        ("log.level = \"inof\"", "line 1", "log.level"),
        ("log.level = \"info\"\nlog.format = \"xml\"", "line 2", "log.format"),
        (
            "[[gossip.peers]]\nhost = \"a\"\n[[gossip.peers]]\nhost = \"b\"\nview = \"hagrid\"\n",
            "line 5",
            "hagrid",
        ),
        ("[http\n", "line 1", "in `[http`"),
        ("[server]\nhostname = \"http://x\"", "line 2", "server.hostname"),
        ("[server]\nhostname = \"a b\"", "line 2", "server.hostname"),
        ("[server]\nhostname = \"\"", "line 2", "server.hostname"),
        ("[http]\n\nlisten = []", "line 3", "http.listen"),
        ("[http]\nconnections = 0", "line 2", "http.connections: it must be at least 1"),
        ("[http]\nconnections_per_network = 0", "line 2", "http.connections_per_network: it must"),
        ("[http]\ntimeout_s = 0", "line 2", "http.timeout_s: it must be at least 1"),
        ("[http]\nidle_s = 0", "line 2", "http.idle_s: it must be at least 1"),
        ("[http]\nbody_bytes = 0", "line 2", "http.body_bytes: it must be at least 1024"),
        ("[policy]\nupload_domains = [\"@test.example\"]", "line 2", "policy.upload_domains"),
        ("[policy]\nupload_domains = [\".example\"]", "line 2", "policy.upload_domains"),
        ("[policy]\nupload_domains = [\"a.example\", \"\"]", "line 2", "policy.upload_domains"),
        ("[gossip]\ntimeout_s = 0", "line 2", "gossip.timeout_s: it must be at least 1"),
        (
            "[[gossip.peers]]\nhost = \"a\"\n[[gossip.peers]]\nhost = \"x:11370\"\n",
            "line 4",
            "\"x:11370\" is not a host name or an IP address",
        ),
        ("[[gossip.peers]]\nhost = \"http://x\"\n", "line 2", "is not a host name"),
        ("[[gossip.peers]]\nhost = \"[::1]\"\n", "line 2", "is not a host name"),
        ("[push]\ntargets = [\"keys.example.org\"]", "line 2", "push.targets"),
        ("[push]\ntargets = [\"hkps://keys.example.org\"]", "line 2", "push.targets"),
        ("[push]\ntargets = [\"https://a\", \"http://b:port\"]", "line 2", "push.targets"),
        ("[vks]\nbase_url = \"keys.example.org\"", "line 2", "vks.base_url"),
        ("[vks]\nbase_url = \"https://\"", "line 2", "vks.base_url"),
        ("[vks]\nenabled = true\nfrom = \"not an address\"", "line 3", "vks.from"),
        ("[vks]\nenabled = true\nsmtp = \"localhost\"", "line 3", "vks.smtp"),
        ("[vks]\nenabled = true\nsmtp = \"localhost:0\"", "line 3", "vks.smtp"),
        ("[wkd]\ndomains = [\"https://example.org\"]", "line 2", "wkd.domains"),
    ];
    for (text, line, what) in cases {
        fs::write(&path, text).unwrap();
        let error = Config::read(&path).unwrap_err();
        let said = talaria::describe(&error);
        assert!(said.contains(path.to_str().unwrap()), "{said}");
        assert!(said.contains(line) && said.contains(what), "{text}: {said}");
    }
    fs::remove_file(&path).unwrap();
    let missing = talaria::describe(&Config::read(&path).unwrap_err());
    assert!(missing.contains("cannot read") && missing.contains("No such file"), "{missing}");
}

#[test]
fn settings_with_unusual_names_are_valid() {
    let cases = [
        "server.hostname = \"127.0.0.1:11371\"",
        "server.hostname = \"2001:db8::1\"",
        "server.hostname = \"b\u{fc}cher.example\"",
        "[http]\nlisten = []\nonion_listen = [\"127.0.0.1:11371\"]",
        "policy.upload_domains = [\"Example.org\", \"b\u{fc}cher.example\", \"localhost\"]",
        "wkd.domains = [\"XN--bcher-kva.example\"]",
        "gossip.peers = [{ host = \"2001:db8::1\" }, { host = \"192.0.2.1\" }]",
        "push.targets = [\"https://user:password@keys.example.org/\", \"http://[::1]:11371\"]",
        "vks.enabled = true",
        "[vks]\nenabled = true\nsmtp = \"[2001:db8::1]:25\"\nfrom = \"Keys <keys@example.org>\"",
        // Without verification by mail, the settings for mail do not count.
        "[vks]\nsmtp = \"\"\nfrom = \"\"",
    ];
    for text in cases {
        let config: Config = toml::from_str(text).unwrap();
        config.validate().unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn an_unreadable_file_is_named_with_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let name = path.to_str().unwrap();
    let mut token = Config::default();
    token.http.operator_token_file = Some(path.clone());
    let mut membership = Config::default();
    membership.gossip.membership = Some(path.clone());
    let mut password = Config::default();
    password.vks.smtp_password_file = Some(path.clone());
    // The password is for a user.
    password.check_files().unwrap();
    (password.vks.enabled, password.vks.smtp_user) = (true, "keys".into());
    let cases = [
        ("http.operator_token_file", token),
        ("gossip.membership", membership),
        ("vks.smtp_password_file", password),
    ];
    for (key, config) in &cases {
        let said = talaria::describe(&config.check_files().unwrap_err());
        assert!(said.starts_with(&format!("{key}: cannot read {name}: ")), "{said}");
    }
    fs::write(&path, "\n").unwrap();
    let said = talaria::describe(&cases[0].1.check_files().unwrap_err());
    assert_eq!(said, format!("http.operator_token_file: {name} is empty"));
    fs::write(&path, "secret 1\n").unwrap();
    for (_, config) in cases {
        config.check_files().unwrap();
    }
}

/// Each with the setting that the error names.
#[test]
fn texts_pictures_and_colours_of_the_operator_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let (file, logo) = (folder.path().join("server.toml"), folder.path().join("logo"));
    let read = |setting: &str| {
        fs::write(&file, format!("[server]\n{setting}\n")).unwrap();
        Config::read(&file)
    };
    let named = format!("logo = {:?}", logo.to_str().unwrap());
    assert!(read(&named).unwrap_err().to_string().contains("server.logo"));
    for (bytes, is_picture) in [
        (&b"\x89PNG\r\n\x1a\n..."[..], true),
        (b"\xff\xd8\xff\xe0...", true),
        (b"RIFF\0\0\0\0WEBPVP8 ", true),
        (b"<svg onload='alert(1)'/>", false),
        (b"", false),
        (&[&b"\x89PNG"[..], &vec![0; 256 << 10]].concat(), false),
    ] {
        fs::write(&logo, bytes).unwrap();
        let config = read(&named);
        assert_eq!(config.is_ok(), is_picture, "{:?}", bytes.get(..4));
        assert!(config.is_err() || config.unwrap().server.picture.is_some());
    }
    assert!(read("colour = \"#7A1f5c\"\nimprint = \"\"\"\nA\n\nB\"\"\"").is_ok());
    for wrong in ["colour = \"red;} body{\"", "colour = \"#12345\"", "privacy = \"\\u001b[31m\""] {
        let error = read(wrong).unwrap_err().to_string();
        assert!(error.contains("line 2: server."), "{error}");
    }
}

#[test]
fn a_server_that_is_told_to_stop_before_it_runs_stops() {
    let site = crate::site::Site::start(crate::site::config());
    let folder = site.stop();
    let path = folder.path().join("certs.db");
    let mut config = crate::site::config();
    config.http.operator_listen.clone_from(&config.http.listen);
    let server = talaria_server::Server::start(&path, config, None).unwrap();
    server.handle().shut_down();
    let (ended, ends) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(server.run().is_ok()));
    assert_eq!(ends.recv_timeout(std::time::Duration::from_secs(30)), Ok(true));
}
