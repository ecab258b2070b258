//! Fingerprints as QR codes, which OpenPGP applications read.

use maud::{Markup, html};
use qrcode::{Color, EcLevel, QrCode};
use talaria_cert::Fingerprint;

/// Modules around the code that stay light.
const QUIET: usize = 4;

/// The code of a fingerprint, one rectangle per run of dark modules. Dark on light in any theme,
/// since cameras expect it.
pub(crate) fn code(fingerprint: Fingerprint, title: &str) -> Markup {
    let text = format!("openpgp4fpr:{fingerprint}");
    let Ok(code) = QrCode::with_error_correction_level(text, EcLevel::M) else { return html! {} };
    let width = code.width();
    let mut path = String::new();
    for (y, row) in code.to_colors().chunks(width).enumerate() {
        let mut x = 0;
        for run in row.chunk_by(|a, b| a == b) {
            if run[0] == Color::Dark {
                let (x, y, w) = (x + QUIET, y + QUIET, run.len());
                path.push_str(&format!("M{x} {y}h{w}v1h-{w}z"));
            }
            x += run.len();
        }
    }
    let size = width + 2 * QUIET;
    html! {
        svg.qr viewBox={ "0 0 " (size) " " (size) } role="img" aria-label=(title)
            shape-rendering="crispEdges" {
            rect width=(size) height=(size) fill="#fff" {}
            path d=(path) fill="#000" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_a_quiet_zone_and_dark_corners() {
        let markup = code(Fingerprint::V4([0xab; 20]), "title").into_string();
        let size = markup.split_once("viewBox=\"0 0 ").unwrap().1.split(' ').next().unwrap();
        let size: usize = size.parse().unwrap();
        // Sizes of codes are 17 modules and four for each version.
        assert_eq!((size - 2 * QUIET - 17) % 4, 0, "{markup}");
        // The finder patterns at the upper left and right.
        assert!(markup.contains("d=\"M4 4h7v1h-7z"), "{markup}");
        assert!(markup.contains(&format!("M{} 4h7v1h-7z", size - QUIET - 7)), "{markup}");
    }
}
