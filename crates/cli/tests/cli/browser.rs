//! Pages that commands write, in a real browser.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::{Program, corpus};

/// Opens a copy of the page in a window of this width with a light or dark scheme, and returns what
/// `script` returns. `None` if there is no browser.
fn seen(page: &Path, width: u32, scheme: &str, script: &str) -> Option<serde_json::Value> {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("page.html");
    let html = fs::read_to_string(page).unwrap();
    let script = format!(
        "<script>document.title = 'found:' + JSON.stringify((() => {{ {script} }})())</script></html>"
    );
    fs::write(&copy, html.replace("</html>", &script)).unwrap();
    let scheme = i32::from(scheme != "dark");
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("file://{}", copy.display()))
        .output()
        .ok()?;
    let dom = String::from_utf8(output.stdout).unwrap();
    let found = dom.split_once("<title>found:").and_then(|(_, rest)| rest.split_once("</title>"));
    let (found, _) = found.unwrap_or_else(|| panic!("{dom}"));
    Some(serde_json::from_str(&found.replace("&amp;", "&").replace("&lt;", "<")).unwrap())
}

#[test]
fn a_browser_shows_statistics_in_any_width_and_scheme() {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(200));
    program.ok(&["import", ring.to_str().unwrap()]);
    let page = program.path("stats.html");
    program.ok(&["stats", "--html", page.to_str().unwrap()]);
    let script = "
        const wide = [...document.querySelectorAll('svg, h1, .pair')]
            .filter(part => part.getBoundingClientRect().right > innerWidth).length;
        const pair = document.querySelector('.pair').getBoundingClientRect();
        const figure = document.querySelector('.pair figure').getBoundingClientRect();
        const table = document.querySelector('.pair .table').getBoundingClientRect();
        return {
            wide, scroll: document.documentElement.scrollWidth - innerWidth,
            drawings: document.querySelectorAll('svg').length,
            first: document.querySelector('td:nth-child(2)').textContent,
            beside: table.left >= figure.right, below: table.top >= figure.bottom,
            ground: getComputedStyle(document.body).backgroundColor,
            text: getComputedStyle(document.body).color,
            resources: performance.getEntriesByType('resource').length,
        };";
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (500, "light")] {
        let Some(seen) = seen(&page, width, scheme, script) else { return };
        assert_eq!((&seen["wide"], &seen["resources"]), (&0.into(), &0.into()), "{width}: {seen}");
        assert!(seen["scroll"].as_i64().unwrap() <= 0, "{width}: {seen}");
        assert!(seen["drawings"].as_u64().unwrap() >= 6, "{seen}");
        assert_eq!(seen["first"], "200");
        assert_eq!(seen[if width > 900 { "beside" } else { "below" }], true, "{width}: {seen}");
        let wanted = if scheme == "dark" { "rgb(13, 17, 23)" } else { "rgb(255, 255, 255)" };
        assert_eq!(seen["ground"], wanted, "{seen}");
        assert_ne!(seen["text"], seen["ground"], "{seen}");
    }
}
